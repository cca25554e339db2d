"""LLVM at work in several threads at once."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

from rushlight.codegen.llvm import module as _emitters  # noqa: F401 - registers the routines
from rushlight.codegen.llvm.routines import _named, emitted
from rushlight.runtime.engine import engine
from rushlight.runtime.llvm_compiler import Compilers
from rushlight.runtime.objects import image_of

KINDS = (
    ("tile", "float", 6, 2, 0, "nothing"),
    ("tile", "double", 4, 2, 0, "nothing"),
    ("transpose", "float"),
    ("packing",),
    ("product",),
    ("clear",),
)
THREADS, ROUNDS = 4, 3


def test_threads_make_the_same_code() -> None:
    """Each with a context of its own: the code is that of one thread alone, to the byte."""
    target = engine().target
    texts = [emitted(_named(target, *kind), target) for kind in KINDS]
    compilers = Compilers(target)

    def compiled(quick: bool) -> list[bytes]:
        found = []
        for text in texts:
            with compilers.one() as compiler:
                found.append(compiler.object_code(text, {}, quick))
        return found

    alone = {quick: compiled(quick) for quick in (False, True)}
    with ThreadPoolExecutor(THREADS) as pool:
        for quick, codes in alone.items():
            together = [pool.submit(compiled, quick) for _ in range(THREADS * ROUNDS)]
            assert all(job.result() == codes for job in together)
    assert 1 <= len(compilers._idle) <= THREADS
    compilers._idle.clear()
    gc.collect()  # contexts and machines go while others of the process are in use
    code = alone[False][0]
    assert engine().compile(texts[0])[0] == (image_of(code) or code)

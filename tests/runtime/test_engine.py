"""The engine: compiled code runs, comes back from the cache, and missing symbols raise."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rushlight.runtime.cache import SUFFIX, ObjectCache
from rushlight.runtime.engine import Engine

ADD = "define i64 @plus(i64 %a, i64 %b) {\n  %c = add i64 %a, %b\n  ret i64 %c\n}\n"


def call(address: int, a: int, b: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)(a, b)


def test_compiles_and_caches(tmp_path: Path) -> None:
    engine = Engine(ObjectCache(tmp_path))
    first = engine.build(ADD, ["plus"])
    second = engine.build(ADD, ["plus"])
    assert call(first.addresses["plus"], 2, 3) == call(second.addresses["plus"], 2, 3) == 5
    assert "emit" in first.seconds
    assert "cache" in second.seconds
    assert first.object_code == second.object_code


def test_a_damaged_object_is_compiled_again(tmp_path: Path) -> None:
    engine = Engine(ObjectCache(tmp_path))
    engine.build(ADD, ["plus"])
    for path in tmp_path.glob("*" + SUFFIX):
        path.write_bytes(path.read_bytes()[:-4] + b"gone")
    again = engine.build(ADD, ["plus"])
    assert "emit" in again.seconds
    assert call(again.addresses["plus"], 40, 2) == 42


def test_unresolved_symbols_raise(tmp_path: Path) -> None:
    engine = Engine(ObjectCache(tmp_path))
    text = (
        "declare i64 @nowhere(i64)\n"
        "define i64 @f(i64 %a) {\n  %c = call i64 @nowhere(i64 %a)\n  ret i64 %c\n}\n"
    )
    with pytest.raises(RuntimeError, match="nowhere"):
        engine.build(text, ["f"])


def test_invalid_ir_raises(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="parsing error"):
        Engine(ObjectCache(tmp_path)).build("define i64 @f(i64 %a) {\n  ret i32 0\n}\n", ["f"])


def test_assembly_can_be_read(tmp_path: Path) -> None:
    assert "plus" in Engine(ObjectCache(tmp_path)).assembly(ADD)


FAR = """
import ctypes
import rushlight as rl
x = rl.randn(64, 64)
rl.compile(lambda x: x.exp() + x.sin())(x)
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
reserve = lambda size: libc.mmap(None, size, 0, 0x4022, -1, 0)  # private, anonymous, backed by nothing
wall = reserve(6 << 30)
for size in (1 << 20, 1 << 14):  # no room above the wall but for single pages
    for _ in range(100_000):
        if reserve(size) < wall:
            break
for i in range(2, 8):
    program = lambda x: (x * float(i)).sin().exp().softmax(-1) + (x * 0.1 * i).tanh() * x.erf() @ x
    assert rl.compile(program)(x).allclose(program(x), atol=1e-4)
print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reserves memory as Linux does")
def test_sections_stay_near_each_other() -> None:
    """Code and constants that were placed apart, with gigabytes between them, could not be linked."""
    done = subprocess.run(
        [sys.executable, "-c", FAR],
        capture_output=True,
        text=True,
        env={**os.environ, "RUSHLIGHT_CACHE_DIR": ""},
    )
    assert done.stdout == "done\n", done.stderr

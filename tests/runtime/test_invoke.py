"""Native callables: what they refer to lives as long as they do, and threads do not disturb each other."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.runtime.invoke import available

pytestmark = pytest.mark.skipif(not available(), reason="no native calls on this interpreter")


def with_workspace(x: Any) -> Any:
    """A program with temporaries in its workspace."""
    return (x.cumsum(0).flip(0) @ x.t()).cumsum(1).flip(1)


def native_of(compiled: Any) -> Any:
    assert compiled._fast is not None
    return compiled._fast[0]


def test_a_callable_outlives_its_function() -> None:
    """The workspace and the code belonged to objects that the callable did not hold."""
    x = rl.randn(40, 40)
    compiled = rl.compile(with_workspace, fullgraph=True)
    wanted = compiled(x).numpy()
    native = native_of(compiled)
    del compiled
    gc.collect()
    filler = [np.full(40 * 40 * 4 + 64 * i, 7, np.uint8) for i in range(50)]  # whoever takes freed memory
    np.testing.assert_array_equal(native(x).numpy(), wanted)
    assert all((array == 7).all() for array in filler)


LAST_OF_ALL = """
import gc
import rushlight as rl
from rushlight.runtime import invoke

compiled = rl.compile(lambda x: x + 1, fullgraph=True)
x = rl.zeros(3)
compiled(x)
native = compiled._fast[0]
invoke._native.forget()  # as the end of the process does, before it frees callables
gc.collect()
print(native(x).tolist())
"""


def test_a_callable_outlives_all_modules() -> None:
    """The end of the process freed what callables are described by before the callables, which crashed now
    and then; here freed memory is overwritten at once."""
    done = subprocess.run(
        [sys.executable, "-c", LAST_OF_ALL],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONMALLOC": "debug"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[1.0,", "1.0,", "1.0]"]


def test_an_entry_that_is_dropped_leaves_no_callable_behind() -> None:
    """Callables were kept by the identity of their entry, which the next entry may have again."""
    scale = 0.0
    compiled = rl.compile(lambda x: x + scale)
    x = rl.zeros(3)
    for i in range(80):  # more entries than are kept
        scale = float(i)
        for _ in range(2):
            assert compiled(x).tolist() == [float(i)] * 3


def test_references_are_given_back() -> None:
    x, y = rl.randn(8, 8), rl.randn(8, 8)
    compiled = rl.compile(lambda a, b: (a @ b, a + b), fullgraph=True)
    compiled(x, y)
    native = native_of(compiled)

    def counts() -> list[int]:
        return [
            sys.getrefcount(o)
            for o in (
                x,
                y,
                x._array,
                y._array,
                x._array.dtype,
                x.dtype,
                native,
                None,
                NotImplemented,
                rl.Tensor,
            )
        ]

    refused = (x, rl.randn(8, 9))
    for call in (lambda: native(x, y), lambda: native(x), lambda: native(*refused), lambda: native(x, 3)):
        call()
        before = counts()
        for _ in range(1000):
            call()
        after = counts()
        assert all(abs(a - b) < 50 for a, b in zip(before, after, strict=True)), (before, after)


@pytest.mark.parametrize("size", [8, 300])
def test_calls_from_many_threads(size: int) -> None:
    """From the first call on: an Executable and a CompiledFunction are made ready by whoever comes first."""
    x = rl.randn(size, size)
    wanted = with_workspace(x).numpy()
    for _ in range(3):
        compiled = rl.compile(with_workspace, fullgraph=True)
        problems: list[BaseException] = []
        start = threading.Barrier(6)

        def work(compiled: Any = compiled, start: Any = start, problems: Any = problems) -> None:
            try:
                start.wait()
                for _ in range(20):
                    np.testing.assert_allclose(compiled(x).numpy(), wanted, rtol=1e-3, atol=1e-3 * size)
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems

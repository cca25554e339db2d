"""Programs run on addresses alone, with library calls between native segments or without."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import rushlight as rl
from rushlight.capture.trace import Capture
from rushlight.compiler.pipeline import compile_graph
from rushlight.core.dtypes import DTYPES
from rushlight.core.shapes import Spec
from rushlight.runtime.addressed import AddressedCall


def program(function: object, *shapes: tuple[int, ...], dtype: str = "float32") -> AddressedCall:
    capture = Capture()
    with rl.no_grad(), capture:
        inputs = [capture.new_input(Spec(shape, DTYPES[dtype]), "arg") for shape in shapes]
        capture.graph.outputs = [capture.value_of(function(*inputs))]
    capture.numbers.symbols.capturing = False
    capture.close()
    return AddressedCall(compile_graph(capture.graph).fixed, [DTYPES[dtype].numpy] * len(shapes))


def test_addresses_in_nothing_out() -> None:
    call = program(lambda x, y: (x + y).exp(), (4, 3), (3,))
    x, y = (np.arange(n, dtype=np.float32).reshape(s) / n for n, s in ((12, (4, 3)), (3, (3,))))
    result = np.empty((4, 3), np.float32)
    call([a.ctypes.data for a in (x, y, result)])
    np.testing.assert_allclose(result, np.exp(x + y), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_library_calls_between_segments(dtype: str) -> None:
    call = program(lambda x: rl.linalg.det(x * 2) + 1, (3, 3), dtype=dtype)
    assert not call._executable.native
    x = np.random.default_rng(0).normal(size=(3, 3)).astype(dtype)
    result = np.empty((), dtype)
    call([x.ctypes.data, result.ctypes.data])
    np.testing.assert_allclose(result, np.linalg.det(2 * x) + 1, rtol=1e-4)


def test_several_threads_at_a_time() -> None:
    call = program(lambda x: (x @ x).softmax(1), (48, 48))
    inputs = [np.random.default_rng(i).normal(size=(48, 48)).astype(np.float32) for i in range(4)]
    results = [np.empty((48, 48), np.float32) for _ in inputs]

    def work(i: int) -> None:
        for _ in range(50):
            call([inputs[i].ctypes.data, results[i].ctypes.data])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, result in zip(inputs, results, strict=True):
        expected = rl.tensor(x @ x).softmax(1).numpy()
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-5)


def test_an_error_in_the_data_is_reported_once() -> None:
    call = program(lambda x: rl.ones(4)[x], (2,), dtype="int64")
    result = np.empty(2, np.float32)
    bad, good = np.array([0, 9]), np.array([0, 3])
    with pytest.raises(IndexError):
        call([bad.ctypes.data, result.ctypes.data])
    call([good.ctypes.data, result.ctypes.data])
    assert result.tolist() == [1.0, 1.0]

"""Small matrices take one thread of BLAS, and the setting is put back."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.kernels import linalg_threads
from rushlight.kernels.linalg_threads import SMALL, in_one_thread


@pytest.fixture
def libraries() -> Iterator[list[Any]]:
    rl.linalg.solve_triangular(rl.eye(3), rl.ones(3, 2), upper=True)  # which loads them
    rl.linalg.inv(rl.eye(3))
    found = list(itertools.chain.from_iterable(linalg_threads._found.values()))
    if not found:
        pytest.skip("the BLAS is no OpenBLAS")
    before = [get() for get, _ in found]
    for _, put in found:
        put(2)
    yield found
    for (_, put), count in zip(found, before, strict=True):
        put(count)


def test_small_matrices_take_one_thread(libraries: Any) -> None:
    threads = in_one_thread(lambda args: [get() for get, _ in libraries])
    assert set(threads((np.zeros((5, SMALL, SMALL)), "not an array"))) == {1}
    assert set(threads((np.zeros((2, SMALL + 1)),))) == {2}
    assert [get() for get, _ in libraries] == [2] * len(libraries)


def test_an_error_puts_it_back(libraries: Any) -> None:
    with pytest.raises(rl.linalg.LinAlgError):
        rl.linalg.inv(rl.zeros(3, 3))
    assert [get() for get, _ in libraries] == [2] * len(libraries)


def test_calls_of_several_threads_put_it_back(libraries: Any) -> None:
    matrix, found = rl.eye(40) * 2, []

    def work() -> None:
        for _ in range(50):
            found.append(rl.linalg.inv(matrix)[0, 0].item())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0.5] * 200
    assert [get() for get, _ in libraries] == [2] * len(libraries)

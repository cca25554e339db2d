"""The steps of random programs with NumPy's arrays and scalars as operands (see programs.py).

A program has arrays among its arguments: an operator of a tensor and an array goes through NumPy, which reads
the tensor, and gives a tensor. PyTorch refuses most operators with an array on the left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.tensor import Tensor

from .program_operands import (
    Operation,
    a_number,
    broadcasts,
    is_float,
    is_number,
    library,
    multiplies,
    one,
    undifferentiated,
)
from .program_writes import target

if TYPE_CHECKING:
    from .programs import Drawing


def make_array(shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Small numbers, with halves among them where the dtype has such."""
    values = np.arange(int(np.prod(shape))) * 5 % 9 - 4
    return (values / (2 if kind.startswith("float") else 1)).astype(kind).reshape(shape)


def with_array(
    wanted: Callable[[Tensor], bool] = is_number,
    fits: Callable[[Tensor, np.ndarray], bool] = lambda t, a: broadcasts(t.shape, a.shape),
    exact: bool = False,
) -> Any:
    """A tensor and an array that fits it."""

    def draw(drawing: Drawing) -> Any:
        arrays = drawing.arrays()
        at = arrays[drawing.choose(len(arrays))]
        array = drawing.values[at]
        first = drawing.pick(lambda t: wanted(t) and fits(t, array), exact)
        return None if first is None else ((first, at), ())

    return undifferentiated(draw)


def multiplies_array(t: Tensor, a: np.ndarray) -> bool:
    return 1 <= t.ndim <= 3 and t.numel() <= 400 and a.ndim >= 1 and multiplies(t.shape, a.shape)


def refused(t: Any, a: np.ndarray) -> Any:
    """An operator of an array and a tensor that is an error, which the program handles."""
    try:
        return a * t
    except TypeError:
        return -t


def written_by_numpy(t: Any) -> Any:
    array = t.numpy()
    array += 1
    return t


ARRAY_STEPS: dict[str, Operation] = {
    "add_array": Operation(lambda t, a: t + a, with_array(), breaks=True),
    "sub_array": Operation(lambda t, a: t - a, with_array(), breaks=True),
    "mul_array": Operation(lambda t, a: (t * a).clamp(-8, 8), with_array(), breaks=True),
    "div_array": Operation(lambda t, a: t / (np.abs(a) + 1), with_array(), breaks=True),
    "array_div": Operation(lambda t, a: a / (t.abs() + 1), with_array(), breaks=True),
    "mod_array": Operation(lambda t, a: t % (np.abs(a) + 1), with_array(exact=True), exact=True, breaks=True),
    "equal_array": Operation(lambda t, a: t == a, with_array(exact=True), exact=True, breaks=True),
    "array_equal": Operation(lambda t, a: a == t, with_array(exact=True), exact=True, breaks=True),
    "matmul_array": Operation(
        lambda t, a: (t @ a).tanh(), with_array(is_float, multiplies_array), breaks=True
    ),
    "array_mul_refused": Operation(refused, with_array(), exact=True, breaks=True),
    # Tensors made of arrays, and scalars.
    "tensor_of_array": Operation(lambda t, a: t + library(t).tensor(a), with_array(), breaks=True),
    "memory_of_array": Operation(lambda t, a: t + library(t).from_numpy(a), with_array(), breaks=True),
    "mul_scalar": Operation(
        lambda t, n: t * np.float64(n), undifferentiated(one(is_float, parameters=a_number))
    ),
    "scalar_mul": Operation(
        lambda t, n: np.float32(n) * t, undifferentiated(one(is_float, parameters=a_number))
    ),
    # NumPy writes to the memory of a tensor.
    "numpy_add_": Operation(written_by_numpy, undifferentiated(target(is_number)), breaks=True),
}

"""`make_tensor`: random tensors to try functions on. For programs and their tests; it needs no oracle."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import rushlight

__all__ = ["make_tensor"]


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of random numbers in [low, high), cut down to what the dtype holds.

    By default [-9, 9) for floating and complex dtypes, [-9, 10) for integers, [0, 2) for bool. With
    `noncontiguous` every other number of a larger tensor, from the second one; with `exclude_zero` the
    smallest positive normal number, or one, in place of zero.
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else tuple(shape)
    exact = not (dtype.is_floating_point or dtype.is_complex)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "make_tensor: the parameters `noncontiguous` and `memory_format` are mutually "
            f"exclusive, but got {noncontiguous} and {memory_format}"
        )
    if requires_grad and exact:
        raise ValueError(
            "make_tensor: `requires_grad=True` is not supported for boolean and integral "
            f"dtypes, but got {dtype}"
        )
    if dtype is rushlight.float8_e8m0fnu:
        raise TypeError("make_tensor: float8_e8m0fnu is not supported; it has only powers of two")
    spread = noncontiguous and math.prod(sizes) > 1
    drawn = (*sizes[:-1], 2 * sizes[-1]) if spread else sizes
    result = _integers(drawn, dtype, device, low, high) if exact else _floats(drawn, dtype, device, low, high)
    if spread:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = 1 if exact else rushlight.finfo(dtype).tiny
    return result.requires_grad_(requires_grad) if not exact else result


def _range(
    dtype: Any,
    low: float | None,
    high: float | None,
    limits: tuple[float, float],
    defaults: tuple[float, float],
) -> tuple[float, float]:
    """`low` and `high`, defaults in place of None, within the limits of the dtype."""
    low = defaults[0] if low is None else low
    high = defaults[1] if high is None else high
    lowest, highest = limits
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"make_tensor: `low` and `high` cannot be NaN, but got {low} and {high}")
    if low == high and dtype.itemsize > 1 and (dtype.is_floating_point or dtype.is_complex):
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is "
            "deprecated; use full()",
            FutureWarning,
            stacklevel=4,
        )
    elif low >= high:
        raise ValueError(f"make_tensor: `low` must be less than `high`, but got {low} >= {high}")
    elif high < lowest or low >= highest:
        raise ValueError(
            f"make_tensor: the value interval specified by `low` and `high` is [{low}, {high}), "
            f"but {dtype} only supports [{lowest}, {highest})"
        )
    return min(max(low, lowest), highest), min(max(high, lowest), highest)


def _integers(shape: Sequence[int], dtype: Any, device: Any, low: float | None, high: float | None) -> Any:
    if dtype is rushlight.bool:
        start, stop = _range(dtype, low, high, (0, 2), (0, 2))
    else:
        info = rushlight.iinfo(dtype)
        largest = info.max + (dtype is not rushlight.int64)  # int64 counts no further
        start, stop = _range(dtype, low, high, (info.min, largest), (-9, 10))
    return rushlight.randint(math.ceil(start), math.ceil(stop), tuple(shape), device=device, dtype=dtype)


def _floats(shape: Sequence[int], dtype: Any, device: Any, low: float | None, high: float | None) -> Any:
    info = rushlight.finfo(dtype)
    start, stop = _range(dtype, low, high, (info.min, info.max), (-9, 9))
    small = dtype.is_floating_point and dtype.itemsize == 1
    result = rushlight.empty(tuple(shape), device=device, dtype=rushlight.float32 if small else dtype)
    numbers = rushlight.view_as_real(result) if dtype.is_complex else result
    if stop - start >= rushlight.finfo(numbers.dtype).max:  # more than uniform_ can tell apart
        numbers.uniform_(start / 2, stop / 2).mul_(2)
    else:
        numbers.uniform_(start, stop)
    return result.to(dtype) if small else result

"""Helpers of PyTorch's tests of its capture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._api.link import as_strided, randn, zeros
from ..core import dtypes
from ..core.dtypes import DType

__all__ = ["rand_strided"]


def rand_strided(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: DType = dtypes.float32,
    device: Any = "cpu",
    extra_size: int = 0,
) -> Any:
    """A tensor of normal numbers, or zeros of other dtypes, with these strides, and `extra_size` elements of its
    storage after the last."""
    needed = sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + 1 + extra_size
    if not (dtype.is_floating_point or dtype.is_complex):
        memory = zeros(needed, dtype=dtype, device=device)
    elif dtype.itemsize == 1:  # there are no random numbers of 8 bits
        memory = randn(needed, dtype=dtypes.float16, device=device).to(dtype)
    else:
        memory = randn(needed, dtype=dtype, device=device)
    return as_strided(memory, size, stride)

"""Fourier transforms over given dimensions: what they take and return.

`dim` is never empty of meaning here: the functions users call (decompositions/fft.py) resolve defaults, sizes
and normalization, and end in these three. `normalization`: 0 none, 1 by the root of the signal's size, 2 by
the size.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dtypes import DType
from ..core.errors import check
from ..core.registry import INTERNAL, define
from ..core.shapes import Spec, wrap_dims
from ..core.tensor import Tensor


def transformed_dims(self: Tensor, dim: Sequence[int], name: str) -> tuple[int, ...]:
    dims = wrap_dims(dim, self.ndim, name=name)
    check(len(dims) > 0 or name == "_fft_c2c", f"{name}: needs at least one dimension")
    for d in dims:
        check(
            self.shape[d] > 0,
            f"{name}: dimension {d} has no elements; a transform needs at least one data point",
        )
    return dims


def complex_of(dtype: DType, name: str) -> DType:
    check(
        dtype.is_floating_point and dtype.opmath is dtype,
        f"{name}: expected a float32 or float64 tensor, got {dtype.name}",
    )
    return dtype.to_complex()


def r2c_rule(self: Tensor, dim: Sequence[int], onesided: bool) -> Spec:
    dims = transformed_dims(self, dim, "_fft_r2c")
    shape = list(self.shape)
    if onesided:
        shape[dims[-1]] = shape[dims[-1]] // 2 + 1
    return Spec(tuple(shape), complex_of(self.dtype, "_fft_r2c"))


def c2r_rule(self: Tensor, dim: Sequence[int], last_dim_size: int) -> Spec:
    dims = transformed_dims(self, dim, "_fft_c2r")
    check(self.dtype.is_complex, f"_fft_c2r: expected a complex tensor, got {self.dtype.name}")
    shape = list(self.shape)
    check(last_dim_size >= 1, f"_fft_c2r: the output needs at least one data point, got {last_dim_size}")
    shape[dims[-1]] = last_dim_size
    return Spec(tuple(shape), self.dtype.to_real())


def c2c_rule(self: Tensor, dim: Sequence[int]) -> Spec:
    transformed_dims(self, dim, "_fft_c2c")
    check(self.dtype.is_complex, f"_fft_c2c: expected a complex tensor, got {self.dtype.name}")
    return Spec(tuple(self.shape), self.dtype)


define(
    "_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
    shape=r2c_rule,
    api=INTERNAL,
)
define(
    "_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor",
    shape=c2r_rule,
    api=INTERNAL,
)
define(
    "_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor",
    shape=c2c_rule,
    api=INTERNAL,
)

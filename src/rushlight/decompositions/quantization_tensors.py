"""What composites do with quantized tensors, and operators around them that are made of simpler ones."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.declare_layouts import attach_quantized, quantized_kernel
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, QUANTIZED, DType, iinfo
from ..core.errors import check
from ..core.quantized import integers_of, make_quantized
from ..core.registry import FUNCTION, REGISTRY, composite
from ..core.tensor import Tensor
from ..kernels.quantization import dequantized, inside, one_scale
from ..kernels.quantization_tensors import averaged, on_grid, on_integers
from . import creation_basic, pointwise, pooling, pooling_means, resample  # noqa: F401  operators named here
from .quantization_observer import grid_for

FLOAT, DOUBLE = DTYPES["float32"], DTYPES["float64"]


# Values.


@composite("dequantize.self(Tensor self) -> Tensor")
def dequantize(self: Tensor) -> Tensor:
    return self.to(FLOAT)


quantized_kernel("dequantize.self")(lambda self: dequantized(self))


@composite("dequantize.tensors(Tensor[] tensors) -> Tensor[]", api=FUNCTION)
def dequantize_each(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple([run_name("dequantize.self", tensor) for tensor in tensors])


@quantized_kernel("equal")
def equal(self: Tensor, other: Tensor) -> bool:
    """The same integers that stand for the same: dtype, scheme, scales."""
    mine, theirs = self._quantizer, other._quantizer
    same = mine is not None and theirs is not None and self.dtype is other.dtype and mine.same_as(theirs)
    return same and bool(run_name("equal", integers_of(self), integers_of(other)))


# A grid that fits the values.


def fitting(x: Tensor, low: int, high: int, reduce_range: bool, name: str) -> tuple[float, int]:
    check(
        x._quantizer is None and x.dtype is FLOAT,
        f"{name}: the input must be float32, but it is {x.dtype.name}",
    )
    if reduce_range:
        low, high = int(low / 2), high // 2
    x = x.detach()
    scale, zero_point = grid_for(x.min(), x.max(), low, high, False, DOUBLE)
    return float(scale.item()), int(zero_point.item())


@composite("_choose_qparams_per_tensor(Tensor self, bool reduce_range=False) -> (float, int)", api=FUNCTION)
def choose(self: Tensor, reduce_range: bool) -> tuple[float, int]:
    return fitting(self, 0, 255, reduce_range, "_choose_qparams_per_tensor")


@composite(
    "quantize_per_tensor_dynamic(Tensor self, ScalarType dtype, bool reduce_range) -> Tensor", api=FUNCTION
)
def quantize_dynamic(self: Tensor, dtype: DType, reduce_range: bool) -> Tensor:
    name = "quantize_per_tensor_dynamic"
    if dtype is DTYPES["float16"]:
        return self.to(dtype)
    check(
        dtype in (QUANTIZED["qint8"], QUANTIZED["quint8"]),
        f"{name}: dtype must be qint8, quint8 or float16, but it is {dtype.name}",
    )
    limits = iinfo(dtype)
    scale, zero_point = fitting(self, limits.min, limits.max, reduce_range, name)
    return run_name("quantize_per_tensor", self, scale, zero_point, dtype)


# Composites that run on the integers, or on the values, as a whole.

for _name in (
    "max_pool1d_with_indices",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    *[
        f"{_mark}{_rank}d{_kind}"
        for _mark in ("upsample_nearest", "_upsample_nearest_exact")
        for _rank in (2, 3)
        for _kind in ("", ".vec")
    ],
):
    attach_quantized(REGISTRY[_name], on_integers(REGISTRY[_name], DOUBLE))
for _name in ("avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"):
    attach_quantized(REGISTRY[_name], averaged(REGISTRY[_name]))


@quantized_kernel("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(self: Tensor, mask: Tensor, value: float | Tensor) -> Tensor:
    grid = one_scale(self, "masked_fill")
    number = on_grid(float(value.item() if isinstance(value, Tensor) else value), self, grid)
    return make_quantized(run_name("masked_fill.Scalar", integers_of(self), mask, number), grid)


@quantized_kernel("isclose")
def isclose(self: Tensor, other: Tensor) -> Tensor:
    raise RuntimeError("isclose is not supported for quantized tensors; call dequantize() on them first")


def max_pool(rank: int) -> None:
    name = f"max_pool{rank}d"

    @composite(
        f"quantized_{name}(Tensor self, int[{rank}] kernel_size, int[{rank}] stride=[], int[{rank}] "
        f"padding=0, int[{rank}] dilation=1, bool ceil_mode=False) -> Tensor",
        api=FUNCTION,
    )
    def pool(
        self: Tensor,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        ceil_mode: bool,
    ) -> Tensor:
        inside(self, f"quantized_{name}")
        return run_name(name, self, kernel_size, stride, padding, dilation, ceil_mode)


for _rank in (1, 2, 3):
    max_pool(_rank)

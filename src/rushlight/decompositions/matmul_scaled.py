"""Products of narrow types with scales, in terms of plain products."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, composite
from ..core.tensor import Tensor

_INT4_FACTORS = (DTYPES["float32"], DTYPES["float16"], DTYPES["bfloat16"])


@composite(
    "_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? "
    "scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor",
    api=FUNCTION,
)
def scaled_mm(
    self: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None,
    scale_result: Tensor | None,
    out_dtype: Any,
) -> Tensor:
    """A scale for all, or one for each row of `self` and one for each column of `mat2`."""
    rows, columns = self.shape[0], mat2.shape[1]
    for scale, name, shape in ((scale_a, "scale_a", (rows, 1)), (scale_b, "scale_b", (1, columns))):
        check(
            scale.numel() == 1 or tuple(scale.shape) == shape,
            f"_scaled_mm: {name} must have one element or shape {list(shape)}, but it has shape "
            f"{list(scale.shape)}",
        )
    wide = self.dtype.opmath
    a, b = (scale if scale.numel() > 1 else scale.reshape(()) for scale in (scale_a, scale_b))
    result = self.to(wide).mm(mat2.to(wide)) * a.to(wide) * b.to(wide)
    result = result if bias is None else result + bias.to(wide)
    result = result if scale_result is None else result * scale_result.to(wide)
    return result.to(out_dtype or self.dtype)


@composite("_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor", api=FUNCTION)
def weight_int8pack_mm(self: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    """`self` times the transposed whole numbers of `mat2`, whose rows have a scale each."""
    check(mat2.dtype is DTYPES["int8"], f"_weight_int8pack_mm: mat2 must be int8, not {mat2.dtype.name}")
    wide = self.dtype.opmath
    return (self.to(wide).mm(mat2.to(wide).mT) * scales.to(wide)).to(self.dtype)


@composite("_convert_weight_to_int4pack_for_cpu(Tensor self, int innerKTiles) -> Tensor", api=FUNCTION)
def convert_weight_to_int4pack_for_cpu(self: Tensor, innerKTiles: int) -> Tensor:
    """Two numbers of 4 bits in each byte, the first of a pair in the lower half. How they lie concerns
    `_weight_int4pack_mm_for_cpu` alone: it is not the order that PyTorch's kernels have."""
    name = "_convert_weight_to_int4pack_cpu"
    check(self.dtype is DTYPES["int32"], f"{name} : expect weight to be kInt.")
    check(self.ndim == 2, f"{name} : expect weight to be a matrix, not of shape {list(self.shape)}")
    check(self.shape[0] % 16 == 0, f"{name} : expect N to be dividable by 16, not {self.shape[0]}")
    check(self.shape[1] % 2 == 0, f"{name} : expect K to be dividable by 2, not {self.shape[1]}")
    check(innerKTiles in (2, 4, 8), f"{name} : innerKTiles need to be 2, 4, or 8, got {innerKTiles}")
    low, high = (self.bitwise_and(15).reshape((self.shape[0], -1, 2)).select(2, i) for i in (0, 1))
    return (low + high * 16).to(DTYPES["uint8"])


@composite(
    "_weight_int4pack_mm_for_cpu(Tensor self, Tensor mat2, int qGroupSize, Tensor qScaleAndZeros) -> Tensor",
    api=FUNCTION,
)
def weight_int4pack_mm_for_cpu(self: Tensor, mat2: Tensor, qGroupSize: int, qScaleAndZeros: Tensor) -> Tensor:
    """`self` times the transposed (w - 8) * scale + zero, with numbers for each group of a row."""
    name = "_weight_int4pack_mm_cpu"
    check(self.dtype in _INT4_FACTORS, f"{name} : expect A to be either 32-bit or 16-bit float tensor.")
    check(mat2.dtype is DTYPES["uint8"], f"{name} : expect B to be uint8 tensor.")
    check(self.ndim == 2 and mat2.ndim == 2, f"{name} : expect A and B to be matrices")
    check(
        self.shape[1] == 2 * mat2.shape[1],
        f"{name} : A has {self.shape[1]} columns, B is for {2 * mat2.shape[1]}",
    )
    check(
        qGroupSize in (32, 64, 128, 256),
        f"{name}: expect qGroupSize to be 32, 64, 128 or 256, got {qGroupSize}",
    )
    check(
        qScaleAndZeros.dtype is self.dtype,
        f"expected scalar type {self.dtype.torch_name} but found {qScaleAndZeros.dtype.torch_name}",
    )
    rows, columns = mat2.shape[0], self.shape[1]
    groups = -(-columns // qGroupSize)
    check(
        tuple(qScaleAndZeros.shape) == (groups, rows, 2),
        f"{name}: expect qScaleAndZeros to be of shape {[groups, rows, 2]}, got {list(qScaleAndZeros.shape)}",
    )
    halves = run_name("stack", (mat2.bitwise_and(15), mat2 >> 4), 2)
    wide = self.dtype.opmath
    each = run_name("repeat_interleave.self_int", qScaleAndZeros.to(wide), qGroupSize, 0, None)
    scale, zero = (each.narrow(0, 0, columns).select(2, i).mT for i in (0, 1))
    weight = (halves.reshape((rows, columns)).to(wide) - 8) * scale + zero
    return self.to(wide).mm(weight.mT).to(self.dtype)

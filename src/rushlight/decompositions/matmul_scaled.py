"""Products of groups of rows, and of narrow types with scales, in terms of plain products."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.tensor import Tensor
from .creation_basic import counted


def members(offs: Tensor, count: int, like: Tensor) -> Tensor:
    """For each group, which of `count` places belong to it: group g ends before offs[g]."""
    places = counted(count, offs.device)
    ends = offs.unsqueeze(1)
    starts = run_name("constant_pad_nd", offs.narrow(0, 0, offs.shape[0] - 1), (1, 0), 0).unsqueeze(1)
    return ((places >= starts) & (places < ends)).to(like.dtype)


@composite(
    "_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) "
    "-> Tensor",
    api=FUNCTION,
)
def grouped_mm(
    self: Tensor, mat2: Tensor, offs: Tensor | None, bias: Tensor | None, out_dtype: Any
) -> Tensor:
    """Groups are dimension 0 of a factor with three dimensions, and ranges, ended by `offs`, of the
    dimension of a matrix that meets it: rows of `self`, columns of `mat2`, or the depth of both."""
    check(bias is None, "_grouped_mm: bias is not supported; add it to the result")
    check(
        (offs is None) == (self.ndim == 3 and mat2.ndim == 3),
        "_grouped_mm: offs must be given if a factor is a matrix, and only then",
    )
    check(
        self.shape[-1] == mat2.shape[-2],
        f"_grouped_mm: factors of shapes {list(self.shape)} and {list(mat2.shape)} cannot be multiplied",
    )
    a, b = (t.to(t.dtype.opmath) for t in (self, mat2))
    if offs is None:
        result = a.bmm(b)
    elif self.ndim == 2 and mat2.ndim == 2:
        result = (a * members(offs, a.shape[1], a).unsqueeze(1)).matmul(b)
    elif self.ndim == 2:
        result = (a.matmul(b) * members(offs, a.shape[0], a).unsqueeze(2)).sum(0)
    else:
        result = (a.matmul(b) * members(offs, b.shape[1], b).unsqueeze(1)).sum(0)
    return result.to(out_dtype or self.dtype)


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


@composite("_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor", api=INTERNAL)
def weight_int8pack_mm(self: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    """`self` times the transposed whole numbers of `mat2`, whose rows have a scale each."""
    check(mat2.dtype is DTYPES["int8"], f"_weight_int8pack_mm: mat2 must be int8, not {mat2.dtype.name}")
    wide = self.dtype.opmath
    return (self.to(wide).mm(mat2.to(wide).mT) * scales.to(wide)).to(self.dtype)

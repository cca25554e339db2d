"""Products of groups of rows, and products of scaled float8 matrices."""

from __future__ import annotations

import enum
from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, DType
from ..core.errors import check
from ..core.tensor import Tensor

__all__ = ["ScalingType", "SwizzleType", "grouped_mm", "scaled_grouped_mm", "scaled_mm"]


class ScalingType(enum.IntEnum):
    """What a scale is for: the whole matrix, a row of it, or a block.

    >>> F.ScalingType.TensorWise.name
    'TensorWise'
    """

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.IntEnum):
    """The order of scales in memory.

    >>> F.SwizzleType.NO_SWIZZLE.name
    'NO_SWIZZLE'
    """

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: DType | None = None,
) -> Tensor:
    """A product for each group.

    3-d operands hold one matrix for each group. Of a 2-d operand, `offs` says where each group ends: rows of
    `mat_a`, columns of `mat_b`, or, if both are 2-d, the dimension that is summed over.

    >>> a, b = rl.ones(4, 8, dtype=rl.bfloat16), rl.ones(2, 8, 8, dtype=rl.bfloat16)
    >>> F.grouped_mm(a, b, offs=rl.tensor([2, 4], dtype=rl.int32)).shape
    rushlight.Size([4, 8])
    """
    return run_name("_grouped_mm", mat_a, mat_b, offs, bias, out_dtype)


def _scale(scale: Any, recipe: Any, side: str, name: str) -> Tensor:
    """The factors of a matrix, in a shape that broadcasts with the product."""
    scales = scale if isinstance(scale, list | tuple) else [scale]
    recipes = recipe if isinstance(recipe, list | tuple) else [recipe]
    check(
        len(scales) == 1 and len(recipes) == 1,
        f"{name}: one scale for each matrix is supported",
        NotImplementedError,
    )
    factor, kind = scales[0], ScalingType(int(recipes[0]))
    if kind is ScalingType.TensorWise:
        check(
            factor.numel() == 1, f"{name}: a scale for the whole matrix has one element, not {factor.numel()}"
        )
        return factor.reshape(())
    if kind is ScalingType.RowWise:
        return factor.reshape((-1, 1)) if side == "a" else factor.reshape((1, -1))
    raise NotImplementedError(f"{name}: scales for blocks ({kind.name}) are not supported on CPU")


def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: Any,
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Tensor | None = None,
    output_dtype: DType | None = DTYPES["bfloat16"],
    contraction_dim: list[int] | tuple[int, ...] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """The product of two matrices, each times its scale: one for all of it, or one for each row of `mat_a`
    and each column of `mat_b`.

    >>> whole = F.ScalingType.TensorWise
    >>> a, b = rl.eye(16).to(rl.float8_e4m3fn), rl.ones(16, 16).to(rl.float8_e4m3fn).t()
    >>> F.scaled_mm(a, b, rl.tensor(2.0), whole, rl.tensor(3.0), whole, output_dtype=rl.float32)[0, :4]
    tensor([6., 6., 6., 6.])
    """
    for order in (swizzle_a, swizzle_b):
        first = order[0] if isinstance(order, list | tuple) and order else order
        check(not first, "scaled_mm: scales in swizzled order are not supported on CPU", NotImplementedError)
    left = _scale(scale_a, scale_recipe_a, "a", "scaled_mm")
    right = _scale(scale_b, scale_recipe_b, "b", "scaled_mm")
    return run_name("_scaled_mm", mat_a, mat_b, left, right, bias, None, output_dtype, use_fast_accum)


def scaled_grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: Any,
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Tensor | None = None,
    offs: Tensor | None = None,
    output_dtype: DType | None = DTYPES["bfloat16"],
    contraction_dim: list[int] | tuple[int, ...] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """PyTorch has it on GPUs alone.

    >>> whole = F.ScalingType.TensorWise
    >>> x = rl.ones(2, 2)
    >>> F.scaled_grouped_mm(x, x, rl.tensor(1.0), whole, rl.tensor(1.0), whole)
    Traceback (most recent call last):
    NotImplementedError: scaled_grouped_mm is not supported on CPU; scale the operands and use grouped_mm
    """
    raise NotImplementedError(
        "scaled_grouped_mm is not supported on CPU; scale the operands and use grouped_mm"
    )

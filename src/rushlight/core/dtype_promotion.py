"""Which dtype several dtypes have in common, and what may be cast to what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn, TypeAlias

from .dtypes import (
    _FLOAT8,
    _SCALARS,
    DTYPES,
    Category,
    DType,
    bfloat16,
    bool_,
    complex32,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    scalar_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)

_WIDE_UNSIGNED = frozenset((uint16, uint32, uint64))


def _promote(a: DType, b: DType) -> DType | None:
    """The rule that fills the table; None where PyTorch refuses to promote."""
    if a is b:
        return a
    low, high = sorted((a, b), key=lambda dtype: dtype.category)
    if low in _FLOAT8 or high in _FLOAT8:
        return None
    if low in _WIDE_UNSIGNED or high in _WIDE_UNSIGNED:
        return high if high.is_floating_point else None
    if high.is_complex:
        if float64 in (low, high) or complex128 in (low, high):
            return complex128
        half = complex32 in (low, high) and not {bfloat16, float32, complex64} & {low, high}
        return complex32 if half else complex64
    if low.category is not high.category:
        return high
    if high.is_floating_point:  # float16 and bfloat16: the range of one, the precision of the other
        if low.itemsize == high.itemsize:
            return float32
        return max(low, high, key=lambda dtype: dtype.itemsize)
    if {low, high} == {uint8, int8}:
        return int16
    return max(low, high, key=lambda dtype: dtype.itemsize)


_PROMOTIONS: dict[tuple[DType, DType], DType] = {
    (a, b): result for a in DTYPES.values() for b in DTYPES.values() if (result := _promote(a, b)) is not None
}


def promote_types(a: DType, b: DType) -> DType:
    """The smallest dtype that both promote to; RuntimeError for the mixes PyTorch refuses.

    >>> rl.promote_types(rl.int32, rl.float16)
    rushlight.float16
    """
    result = _PROMOTIONS.get((a, b))
    if result is None:
        _refuse(a, b)
    return result


def _refuse(a: DType, b: DType) -> NoReturn:
    for value in (a, b):
        if not isinstance(value, DType):
            raise TypeError(f"promote_types: expected a dtype, got {type(value).__name__}")
    if a.is_quantized or b.is_quantized:
        raise RuntimeError(
            f"promotion is not supported for quantized types: attempted to promote "
            f"{a.torch_name} and {b.torch_name}; call dequantize() first"
        )
    group = "float8 types" if a in _FLOAT8 or b in _FLOAT8 else "uint16, uint32 and uint64"
    raise RuntimeError(
        f"promotion is not supported for {group}: attempted to promote {a.torch_name} and "
        f"{b.torch_name}; convert one operand explicitly with .to(dtype)"
    )


def can_cast(from_: DType, to: DType) -> bool:
    """Whether the category of `from_` fits `to`: not complex to real, float to int, or int to bool.

    >>> rl.can_cast(rl.int32, rl.float32), rl.can_cast(rl.float32, rl.int32)
    (True, False)
    """
    if from_.is_quantized or to.is_quantized:
        return not from_.is_complex
    return from_.category <= to.category or (from_.category is Category.COMPLEX and to.is_complex)


PythonScalar: TypeAlias = "bool | int | float | complex"


def _combine(strong: DType | None, weak: DType | None) -> DType | None:
    """`strong` unless `weak` is of a higher category; a floating `strong` keeps its precision."""
    if strong is None or weak is None:
        return weak if strong is None else strong
    if strong.is_complex:
        return strong
    if strong.is_floating_point:
        return strong.to_complex() if weak.is_complex else strong
    if weak.is_complex:  # not by promote_types, which refuses uint16, uint32 and uint64 with a complex type
        return weak
    if strong is bool_ or weak.category >= Category.FLOATING:
        return promote_types(strong, weak)
    return strong


def _fold(dtypes: Iterable[DType]) -> DType | None:
    result: DType | None = None
    for dtype in dtypes:
        if result is None:
            result = dtype
        elif dtype is not result:
            result = promote_types(result, dtype)
    return result


def common_dtype(
    dimension: Iterable[DType], zero_dim: Iterable[DType] = (), scalars: Iterable[DType | PythonScalar] = ()
) -> DType:
    """The dtype of an operation on a mix of operands (torch.result_type).

    dimension   dtypes of tensors with at least one dimension
    zero_dim    dtypes of 0-d tensors: they count only if of a higher category than every dimensioned tensor
    scalars     Python numbers (or dtypes that stand for them): weaker still; a floating or complex one counts
                as the default dtype whatever its own width
    """
    strong = _fold(dimension)
    middle = _fold(zero_dim)
    weak: DType | None = None
    for scalar in scalars:
        if isinstance(scalar, DType):
            dtype = (
                _SCALARS[float if scalar.is_floating_point else complex]
                if scalar.category >= Category.FLOATING
                else scalar
            )
        else:
            dtype = scalar_dtype(scalar)
        weak = dtype if weak is None else promote_types(weak, dtype)
    result = _combine(strong, _combine(middle, weak))
    if result is None:
        raise ValueError("common_dtype: needs at least one operand")
    return result

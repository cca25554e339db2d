"""`quantized_decomposed`: quantization with integers as ordinary tensors, in terms of simpler operators.

    quantize    q = round(x / scale) + zero_point, clamped to quant_min .. quant_max, in the given dtype
    dequantize  x = (q - zero_point) * scale, float32 unless out_dtype says otherwise

Scale and zero point are numbers, tensors of one element (`tensor`; with bounds that are tensors, too:
`tensor2`) or vectors with one element for each index of a dimension (`per_channel`). A number is used in the
precision of the tensor, so a tensor of one element is, too. All is pointwise: compiled it is one loop.
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch import readable
from ..core.dtypes import DTYPES, DType, finfo, iinfo
from ..core.errors import check
from ..core.registry import INTERNAL, composite
from ..core.shapes import wrap_dim
from ..core.tensor import Tensor
from .quantization import FLOAT

_SPACE = "quantized_decomposed::"
_NUMBERS = "Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype"
_TENSORS = "Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype"
_BOUNDS = _TENSORS.replace("int quant", "Tensor quant")
_AXIS = "int axis, int quant_min, int quant_max, ScalarType dtype"
_OUT = "*, ScalarType? out_dtype=None"

# What quantized values may be, with the least and the greatest of them.
RANGES = {
    DTYPES[name]: (iinfo(DTYPES[name]).min, iinfo(DTYPES[name]).max)
    for name in ("uint8", "int8", "uint16", "int16", "int32")
}
RANGES |= {
    DTYPES[name]: (int(finfo(DTYPES[name]).min), int(finfo(DTYPES[name]).max))
    for name in ("float8_e5m2", "float8_e4m3fn")
}


def check_dtype(dtype: DType, name: str) -> None:
    check(
        dtype in RANGES,
        f"{name}: unsupported dtype {dtype.name}; quantized values are {', '.join(d.name for d in RANGES)}",
        ValueError,
    )


def check_bounds(quant_min: Any, quant_max: Any, dtype: DType, name: str) -> None:
    check_dtype(dtype, name)
    least, most = RANGES[dtype]
    check(
        least <= quant_min and quant_max <= most,
        f"{name}: quant_min and quant_max must be in {least} .. "
        f"{most} for {dtype.name}, but they are {quant_min} and {quant_max}",
        AssertionError,
    )


def check_values(input: Tensor, dtype: DType, name: str) -> None:
    check(
        input.dtype is dtype,
        f"{name}: the input should be {dtype.name}, as the argument dtype says, but it is {input.dtype.name}",
        AssertionError,
    )
    check_dtype(dtype, name)


def as_float(input: Tensor, name: str) -> Tensor:
    check(
        input.dtype.opmath is FLOAT and input.dtype.itemsize > 1,
        f"{name}: the input must be float32, float16 or bfloat16, but it is {input.dtype.name}",
        AssertionError,
    )
    return input.to(FLOAT)


def single(value: Tensor, name: str, what: str) -> Tensor:
    check(
        value.numel() == 1,
        f"{name}: {what} must have one element, but it has {value.numel()}",
        AssertionError,
    )
    return value.reshape(())


def rounded(steps: Tensor, zero_point: Any, low: Any, high: Any, dtype: DType) -> Tensor:
    return (steps.round() + zero_point).clamp(low, high).to(dtype)


# One scale.


@composite(f"{_SPACE}quantize_per_tensor({_NUMBERS}) -> Tensor", api=INTERNAL)
def quantize(
    input: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: DType
) -> Tensor:
    name = "quantize_per_tensor"
    x = as_float(input, name)
    check_bounds(quant_min, quant_max, dtype, name)
    return rounded(x * (1.0 / scale), zero_point, quant_min, quant_max, dtype)


@composite(
    f"{_SPACE}quantize_per_tensor.tensor({_TENSORS}) -> Tensor",
    f"{_SPACE}quantize_per_tensor.tensor2({_BOUNDS}) -> Tensor",
    api=INTERNAL,
)
def quantize_by_tensors(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: Any, quant_max: Any, dtype: DType
) -> Tensor:
    name = "quantize_per_tensor"
    origin, step = single(zero_point, name, "zero_point"), single(scale, name, "scale")
    check(not readable(step) or step.item() != 0, f"{name}: division by a scale of 0", ZeroDivisionError)
    x = as_float(input, name)
    if isinstance(quant_min, Tensor):
        low, high = single(quant_min, name, "quant_min"), single(quant_max, name, "quant_max")
        if readable(low) and readable(high):
            check_bounds(low.item(), high.item(), dtype, name)
        quant_min, quant_max = low.to(FLOAT), high.to(FLOAT)
    else:
        check_bounds(quant_min, quant_max, dtype, name)
    # the reciprocal is rounded once to float32, as that of a number is
    inverse = step.to(DTYPES["float64"]).reciprocal().to(FLOAT)
    return rounded(x * inverse, origin.to(FLOAT), quant_min, quant_max, dtype)


@composite(f"{_SPACE}dequantize_per_tensor({_NUMBERS}, {_OUT}) -> Tensor", api=INTERNAL)
def dequantize(input: Tensor, scale: float, zero_point: int, dtype: DType, out_dtype: DType | None) -> Tensor:
    check_values(input, dtype, "dequantize_per_tensor")
    return (input.to(out_dtype or FLOAT) - zero_point) * scale


@composite(
    f"{_SPACE}dequantize_per_tensor.tensor({_TENSORS}, {_OUT}) -> Tensor",
    f"{_SPACE}dequantize_per_tensor.tensor2({_BOUNDS}, {_OUT}) -> Tensor",
    api=INTERNAL,
)
def dequantize_by_tensors(
    input: Tensor, scale: Tensor, zero_point: Tensor, dtype: DType, out_dtype: DType | None
) -> Tensor:
    name = "dequantize_per_tensor"
    origin, step = single(zero_point, name, "zero_point"), single(scale, name, "scale")
    check_values(input, dtype, name)
    out = out_dtype or FLOAT
    if not out.is_floating_point:  # a difference of integers, and a product that is not
        return (input.to(out) - origin.to(out)) * step.to(FLOAT)
    wide = out.opmath  # half precision times a number: only what comes out of each step is rounded
    difference = (input.to(out).to(wide) - origin.to(out).to(wide)).to(out)
    return (difference.to(wide) * step.to(wide)).to(out)


# A scale for each index of a dimension.


@composite(
    f"{_SPACE}quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, {_AXIS}) -> Tensor",
    api=INTERNAL,
)
def quantize_channels(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: DType,
) -> Tensor:
    name = "quantize_per_channel"
    x = as_float(input, name)
    axis = channel_axis(input, axis, name)
    check_bounds(quant_min, quant_max, dtype, name)
    inverse = vector(scales, x, axis).reciprocal()
    return rounded(x * inverse, vector(zero_points, x, axis), quant_min, quant_max, dtype)


@composite(
    f"{_SPACE}dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, {_AXIS}, "
    f"{_OUT}) -> Tensor",
    api=INTERNAL,
)
def dequantize_channels(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    out_dtype: DType | None,
) -> Tensor:
    name = "dequantize_per_channel"
    check_values(input, dtype, name)
    axis = channel_axis(input, axis, name)
    check_bounds(quant_min, quant_max, dtype, name)
    difference = input if zero_points is None else input - vector(zero_points, input, axis)
    return (difference * vector(scales, input, axis)).to(out_dtype or FLOAT)


def vector(values: Tensor, x: Tensor, axis: int) -> Tensor:
    """One element for each index of dimension `axis`, or one for all, in the shape that broadcasts with x."""
    return values.reshape([values.shape[0] if d == axis else 1 for d in range(x.ndim)])


def channel_axis(input: Tensor, axis: int, name: str) -> int:
    check(
        axis < input.ndim,
        f"{name}: axis must be below {input.ndim}, the number of dimensions of the input, but it is {axis}",
        AssertionError,
    )
    return wrap_dim(axis, input.ndim, name=name)

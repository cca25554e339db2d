"""Elementwise activations and their backward operators, each a scalar body.

A backward operator is the product of `grad_output` and the slope, in one step and with one rounding. At a
kink the slope is PyTorch's choice, which the comparisons here spell out.
"""

from __future__ import annotations

import math
from typing import Any

from ..core.declare_pointwise import pointwise
from ..core.errors import check
from ..core.registry import FUNCTION, INPLACE, INTERNAL, METHOD, OUT
from .dtype_sets import FLOATS, INEXACT, REAL_NUMBERS

TANH_SCALE, TANH_CUBE = math.sqrt(2 / math.pi), 0.044715  # gelu's approximation by tanh
SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def number(ops: Any, value: Any, like: Any) -> Any:
    return ops.constant(value, like=like)


def sigmoid_of(ops: Any, x: Any) -> Any:
    one = ops.constant(1, like=x)
    return ops.div(one, ops.add(one, ops.exp(ops.neg(x))))


# Rectifiers.


@pointwise(
    "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
    dtypes=REAL_NUMBERS,
    parameters=("threshold", "value"),
    api=FUNCTION | INPLACE,
)
def threshold(ops: Any, self: Any, threshold: Any, value: Any) -> Any:
    return ops.where(ops.le(self, number(ops, threshold, self)), number(ops, value, self), self)


@pointwise(
    "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
    parameters=("threshold",),
    dtypes=REAL_NUMBERS,
    api=INTERNAL,
)
def threshold_backward(ops: Any, grad_output: Any, self: Any, threshold: Any) -> Any:
    below = ops.le(self, ops.constant(threshold, like=self))
    return ops.where(below, ops.constant(0, like=grad_output), grad_output)


@pointwise(
    "leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
    dtypes=FLOATS,
    parameters=("negative_slope",),
    api=INTERNAL,
)
def leaky_relu(ops: Any, self: Any, negative_slope: Any) -> Any:
    return ops.where(
        ops.gt(self, number(ops, 0, self)), self, ops.mul(self, number(ops, negative_slope, self))
    )


@pointwise(
    "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) "
    "-> Tensor",
    dtypes=FLOATS,
    parameters=("negative_slope",),
    api=INTERNAL,
)
def leaky_relu_backward(ops: Any, grad_output: Any, self: Any, negative_slope: Any) -> Any:
    return ops.where(
        ops.gt(self, number(ops, 0, self)),
        grad_output,
        ops.mul(grad_output, number(ops, negative_slope, self)),
    )


@pointwise("_prelu_kernel(Tensor self, Tensor weight) -> Tensor", dtypes=FLOATS, api=FUNCTION)
def prelu_kernel(ops: Any, self: Any, weight: Any) -> Any:
    return ops.where(ops.gt(self, number(ops, 0, self)), self, ops.mul(self, weight))


@pointwise(
    "_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)",
    dtypes=FLOATS,
    api=INTERNAL,
)
def prelu_kernel_backward(ops: Any, grad_output: Any, self: Any, weight: Any) -> Any:
    positive = ops.gt(self, number(ops, 0, self))
    return (
        ops.where(positive, grad_output, ops.mul(grad_output, weight)),
        ops.where(positive, number(ops, 0, self), ops.mul(grad_output, self)),
    )


@pointwise(
    "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
    dtypes=FLOATS,
    parameters=("alpha", "scale", "input_scale"),
    api=INTERNAL,
)
def elu(ops: Any, self: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    below = ops.mul(
        ops.expm1(ops.mul(self, number(ops, input_scale, self))), number(ops, alpha * scale, self)
    )
    return ops.where(ops.lt(self, number(ops, 0, self)), below, ops.mul(self, number(ops, scale, self)))


@pointwise(
    "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, "
    "Tensor self_or_result) -> Tensor",
    dtypes=FLOATS,
    parameters=("alpha", "scale", "input_scale"),
    api=INTERNAL,
)
def elu_backward(
    ops: Any, grad_output: Any, alpha: Any, scale: Any, input_scale: Any, is_result: bool, self_or_result: Any
) -> Any:
    x = self_or_result
    if is_result:
        check(
            alpha >= 0,
            "In-place elu backward calculation is triggered with a negative slope which is not "
            f"supported: alpha is {alpha}",
        )
        slope = ops.mul(ops.add(x, number(ops, alpha * scale, x)), number(ops, input_scale, x))
    else:
        slope = ops.mul(
            ops.exp(ops.mul(x, number(ops, input_scale, x))), number(ops, alpha * scale * input_scale, x)
        )
    factor = ops.where(ops.le(x, number(ops, 0, x)), slope, number(ops, scale, x))
    return ops.mul(grad_output, factor)


# Pieces of straight lines.


def check_limits(self: Any, min_val: Any, max_val: Any) -> None:
    if self.dtype.name == "uint8":
        check(
            min_val >= 0 and max_val >= 0,
            f"cannot do hardtanh on an unsigned type with negative limits: they are {min_val} and {max_val}",
        )


@pointwise(
    "hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
    dtypes=REAL_NUMBERS,
    parameters=("min_val", "max_val"),
    check=check_limits,
    checks_numbers=True,
    api=INTERNAL,
)
def hardtanh(ops: Any, self: Any, min_val: Any, max_val: Any) -> Any:
    return ops.minimum(ops.maximum(self, number(ops, min_val, self)), number(ops, max_val, self))


@pointwise(
    "hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor",
    dtypes=FLOATS,
    parameters=("min_val", "max_val"),
    api=INTERNAL,
)
def hardtanh_backward(ops: Any, grad_output: Any, self: Any, min_val: Any, max_val: Any) -> Any:
    flat = ops.logical_or(ops.le(self, number(ops, min_val, self)), ops.ge(self, number(ops, max_val, self)))
    return ops.where(flat, number(ops, 0, self), grad_output)


def clipped(ops: Any, x: Any, low: Any, high: Any) -> Any:
    return ops.minimum(ops.maximum(x, number(ops, low, x)), number(ops, high, x))


@pointwise("hardsigmoid(Tensor self) -> Tensor", dtypes=FLOATS, api=INTERNAL)
def hardsigmoid(ops: Any, self: Any) -> Any:
    return ops.div(clipped(ops, ops.add(self, number(ops, 3, self)), 0, 6), number(ops, 6, self))


@pointwise("hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor", dtypes=FLOATS, api=INTERNAL)
def hardsigmoid_backward(ops: Any, grad_output: Any, self: Any) -> Any:
    slanted = ops.logical_and(ops.gt(self, number(ops, -3, self)), ops.lt(self, number(ops, 3, self)))
    return ops.where(slanted, ops.div(grad_output, number(ops, 6, self)), number(ops, 0, self))


@pointwise("hardswish(Tensor self) -> Tensor", dtypes=FLOATS, api=INTERNAL)
def hardswish(ops: Any, self: Any) -> Any:
    gate = clipped(ops, ops.add(self, number(ops, 3, self)), 0, 6)
    return ops.div(ops.mul(self, gate), number(ops, 6, self))


@pointwise("hardswish_backward(Tensor grad_output, Tensor self) -> Tensor", dtypes=FLOATS, api=INTERNAL)
def hardswish_backward(ops: Any, grad_output: Any, self: Any) -> Any:
    slope = ops.add(ops.div(self, number(ops, 3, self)), number(ops, 0.5, self))
    upper = ops.where(ops.lt(self, number(ops, 3, self)), ops.mul(grad_output, slope), grad_output)
    return ops.where(ops.le(self, number(ops, -3, self)), number(ops, 0, self), upper)


def check_lambda(lambd: Any) -> None:
    check(lambd >= 0, f"lambda must be greater or equal to 0, but found to be {lambd}.")


@pointwise(
    "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    dtypes=FLOATS,
    parameters=("lambd",),
    check=check_lambda,
    checks_numbers=True,
    api=INTERNAL,
)
def softshrink(ops: Any, self: Any, lambd: Any) -> Any:
    high, low = number(ops, lambd, self), number(ops, -lambd, self)
    inside = ops.mul(self, number(ops, 0, self))  # NaN stays NaN
    lower = ops.where(ops.lt(self, low), ops.sub(self, low), inside)
    return ops.where(ops.gt(self, high), ops.sub(self, high), lower)


@pointwise(
    "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    dtypes=FLOATS,
    parameters=("lambd",),
    api=FUNCTION | METHOD | OUT,
)
def hardshrink(ops: Any, self: Any, lambd: Any) -> Any:
    return ops.where(inside_of(ops, self, lambd), number(ops, 0, self), self)


@pointwise(
    "softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor",
    dtypes=FLOATS,
    parameters=("lambd",),
    api=INTERNAL,
)
def softshrink_backward(ops: Any, grad_output: Any, self: Any, lambd: Any) -> Any:
    return ops.where(inside_of(ops, self, lambd), number(ops, 0, self), grad_output)


@pointwise(
    "hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor",
    dtypes=FLOATS,
    parameters=("lambd",),
    api=INTERNAL,
)
def hardshrink_backward(ops: Any, grad_out: Any, self: Any, lambd: Any) -> Any:
    return ops.where(inside_of(ops, self, lambd), number(ops, 0, self), grad_out)


def inside_of(ops: Any, x: Any, lambd: Any) -> Any:
    return ops.logical_and(ops.ge(x, number(ops, -lambd, x)), ops.le(x, number(ops, lambd, x)))


# Smooth activations.


def check_approximation(approximate: str) -> None:
    check(
        approximate in ("none", "tanh"),
        f"gelu: approximate argument must be either none or tanh, not {approximate}",
    )


@pointwise(
    "gelu(Tensor self, *, str approximate='none') -> Tensor",
    dtypes=FLOATS,
    check=check_approximation,
    api=INTERNAL,
)
def gelu(ops: Any, self: Any, approximate: str) -> Any:
    if approximate == "none":
        return ops.mul(self, ops.ndtr(self))
    gate = ops.tanh(tanh_argument(ops, self))
    return ops.mul(ops.mul(number(ops, 0.5, self), self), ops.add(number(ops, 1, self), gate))


def tanh_argument(ops: Any, x: Any) -> Any:
    cube = ops.mul(ops.mul(x, x), x)
    inner = ops.add(x, ops.mul(number(ops, TANH_CUBE, x), cube))
    return ops.mul(number(ops, TANH_SCALE, x), inner)


@pointwise(
    "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor",
    dtypes=FLOATS,
    check=check_approximation,
    api=INTERNAL,
)
def gelu_backward(ops: Any, grad_output: Any, self: Any, approximate: str) -> Any:
    if approximate == "tanh":
        half, one = number(ops, 0.5, self), number(ops, 1, self)
        t = ops.tanh(tanh_argument(ops, self))
        three = number(ops, 3 * TANH_CUBE, self)
        inner = ops.mul(number(ops, TANH_SCALE, self), ops.add(one, ops.mul(three, ops.mul(self, self))))
        left = ops.mul(half, ops.add(one, t))
        right = ops.mul(ops.mul(half, self), ops.mul(ops.sub(one, ops.mul(t, t)), inner))
        slope = ops.add(left, right)
    else:
        slope = ops.fma(self, ops.density(self), ops.ndtr(self))
    return ops.mul(grad_output, slope)


@pointwise("silu(Tensor self) -> Tensor", dtypes=INEXACT, api=INTERNAL)
def silu(ops: Any, self: Any) -> Any:
    return ops.div(self, ops.add(number(ops, 1, self), ops.exp(ops.neg(self))))


@pointwise("silu_backward(Tensor grad_output, Tensor self) -> Tensor", dtypes=FLOATS, api=INTERNAL)
def silu_backward(ops: Any, grad_output: Any, self: Any) -> Any:
    one, gate = number(ops, 1, self), sigmoid_of(ops, self)
    slope = ops.mul(gate, ops.add(one, ops.mul(self, ops.sub(one, gate))))
    return ops.mul(grad_output, slope)


@pointwise("mish(Tensor self) -> Tensor", dtypes=FLOATS, api=INTERNAL)
def mish(ops: Any, self: Any) -> Any:
    return ops.mul(self, ops.tanh(softplus_of(ops, self)))


def softplus_of(ops: Any, x: Any) -> Any:
    """log(1 + exp(x)) without overflow."""
    return ops.add(ops.maximum(x, number(ops, 0, x)), ops.log1p(ops.exp(ops.neg(ops.abs(x)))))


@pointwise("mish_backward(Tensor grad_output, Tensor self) -> Tensor", dtypes=FLOATS, api=INTERNAL)
def mish_backward(ops: Any, grad_output: Any, self: Any) -> Any:
    one, t = number(ops, 1, self), ops.tanh(softplus_of(ops, self))
    slope = ops.add(t, ops.mul(ops.mul(self, sigmoid_of(ops, self)), ops.sub(one, ops.mul(t, t))))
    return ops.mul(grad_output, slope)


@pointwise(
    "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
    dtypes=FLOATS,
    parameters=("beta", "threshold"),
    api=INTERNAL,
)
def softplus(ops: Any, self: Any, beta: Any, threshold: Any) -> Any:
    scaled = ops.mul(self, number(ops, beta, self))
    smooth = ops.div(ops.log1p(ops.exp(scaled)), number(ops, beta, self))
    return ops.where(ops.gt(scaled, number(ops, threshold, self)), self, smooth)


@pointwise(
    "softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor",
    dtypes=FLOATS,
    parameters=("beta", "threshold"),
    api=INTERNAL,
)
def softplus_backward(ops: Any, grad_output: Any, self: Any, beta: Any, threshold: Any) -> Any:
    scaled = ops.mul(self, number(ops, beta, self))
    return ops.where(
        ops.gt(scaled, number(ops, threshold, self)),
        grad_output,
        ops.mul(grad_output, sigmoid_of(ops, scaled)),
    )


@pointwise("log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)", dtypes=FLOATS, api=INTERNAL)
def log_sigmoid_forward(ops: Any, self: Any) -> Any:
    buffer = ops.exp(ops.neg(ops.abs(self)))
    return ops.sub(ops.minimum(self, number(ops, 0, self)), ops.log1p(buffer)), buffer


@pointwise(
    "log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor",
    dtypes=FLOATS,
    api=INTERNAL,
)
def log_sigmoid_backward(ops: Any, grad_output: Any, self: Any, buffer: Any) -> Any:
    """The slope is sigmoid(-self), from `buffer` = exp(-|self|), which cannot overflow."""
    zero, one = number(ops, 0, self), number(ops, 1, self)
    above = ops.where(ops.lt(self, zero), one, buffer)
    return ops.div(ops.mul(grad_output, above), ops.add(one, buffer))


@pointwise(
    "rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, Scalar "
    "upper, bool training, bool self_is_result) -> Tensor",
    dtypes=FLOATS,
    parameters=("lower", "upper"),
    api=INTERNAL,
)
def rrelu_with_noise_backward(
    ops: Any, grad_output: Any, self: Any, noise: Any, lower: Any, upper: Any, training: bool
) -> Any:
    if training and upper - lower > 1e-6:
        return ops.mul(noise, grad_output)
    slope = number(ops, (lower + upper) / 2, self)
    return ops.where(ops.gt(self, number(ops, 0, self)), grad_output, ops.mul(grad_output, slope))

"""Gradients of elementwise operators that are operators themselves.

Each computes in one step, and with one rounding in half precision, what is several operators otherwise.
"""

from __future__ import annotations

import math
from typing import Any

from ..core.declare_pointwise import pointwise
from ..core.registry import INTERNAL
from .dtype_sets import FLOATS, INEXACT


def times_conj(ops: Any, grad: Any, slope: Any) -> Any:
    return ops.mul(grad, ops.conj(slope) if ops.dtype(slope).is_complex else slope)


@pointwise("sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor", dtypes=INEXACT, api=INTERNAL)
def sigmoid_backward(ops: Any, grad_output: Any, output: Any) -> Any:
    one = ops.constant(1, like=output)
    return times_conj(ops, grad_output, ops.mul(output, ops.sub(one, output)))


@pointwise("tanh_backward(Tensor grad_output, Tensor output) -> Tensor", dtypes=INEXACT, api=INTERNAL)
def tanh_backward(ops: Any, grad_output: Any, output: Any) -> Any:
    one = ops.constant(1, like=output)
    return times_conj(ops, grad_output, ops.sub(one, ops.mul(output, output)))


@pointwise(
    "logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor", dtypes=FLOATS, api=INTERNAL
)
def logit_backward(ops: Any, grad_output: Any, self: Any, eps: float | None) -> Any:
    one = ops.constant(1, like=self)
    low, high = (ops.constant(bound, like=self) for bound in ((0, 1) if eps is None else (eps, 1 - eps)))
    outside = ops.logical_or(ops.lt(self, low), ops.gt(self, high))
    there = ops.constant(math.nan if eps is None else 0, like=self)
    return ops.where(outside, there, ops.div(grad_output, ops.mul(self, ops.sub(one, self))))

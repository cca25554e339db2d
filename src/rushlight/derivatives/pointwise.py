"""Derivatives of elementwise operators."""

from __future__ import annotations

from .declare import AUTO_ELEMENTWISE, NOT_DIFFERENTIABLE, derivative
from .helpers import conj

derivative("add.Tensor",
           self=lambda grad: grad,
           other=lambda grad, alpha: grad if alpha == 1 else grad * conj(alpha),
           result=AUTO_ELEMENTWISE)
derivative("add.Scalar", self=lambda grad: grad, result=AUTO_ELEMENTWISE)
derivative(["mul.Tensor", "mul.Scalar"],
           self=lambda grad, other: grad * conj(other),
           other=lambda grad, self: grad * conj(self),
           result=AUTO_ELEMENTWISE)
derivative("sigmoid",
           self=lambda grad, result: grad * conj(result * (1 - result)),
           result=AUTO_ELEMENTWISE)
derivative(["eq.Tensor", "eq.Scalar"], NOT_DIFFERENTIABLE)

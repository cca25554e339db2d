"""Derivatives of elementwise operators on complex numbers.

They are not holomorphic: gradients follow PyTorch's convention (the conjugate Wirtinger gradient), and
tangents have formulas of their own.
"""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .declare import AUTO_LINEAR, derivative
from .helpers import conj
from .pointwise import drop, real_part, replaced, zero


def angle_gradient(self: Tensor) -> Tensor:
    """i z / |z|**2, and 0 at 0."""
    null = self == 0
    return drop(null, 1j / conj(replaced(null, self, 1)))


derivative("angle",
           self=lambda grad, self: grad * angle_gradient(self) if self.dtype.is_complex else zero(grad),
           result=lambda self_t, self:
               real_part(conj(self_t) * angle_gradient(self)) if self.dtype.is_complex else zero(self_t))
derivative("complex", real=lambda grad: grad.real, imag=lambda grad: grad.imag, result=AUTO_LINEAR)


def polar(abs: Tensor, angle: Tensor) -> Tensor:
    return run_name("polar", abs, angle)


derivative("polar",
           abs=lambda grad, angle: grad * conj(polar(angle.new_ones(angle.shape), angle)),
           angle=lambda grad, result: grad * conj(result * 1j),
           result=lambda abs_t, angle_t, angle, result: polar(abs_t, angle) + result * (angle_t * 1j))
derivative("_conj_physical", self=lambda grad: conj(grad), result=AUTO_LINEAR)

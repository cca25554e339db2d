"""Derivatives of reductions."""

from __future__ import annotations

from .declare import AUTO_LINEAR, derivative
from .helpers import restore_dims

derivative("sum", self=lambda grad, self_shape: grad.expand(self_shape), result=AUTO_LINEAR)
derivative("sum.dim_IntList",
           self=lambda grad, self_shape, dim, keepdim:
               restore_dims(grad, dim, keepdim, len(self_shape)).expand(self_shape),
           result=AUTO_LINEAR)

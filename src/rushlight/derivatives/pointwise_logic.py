"""Derivatives of selection; comparison, logic, bits and tests of numbers have none."""

from __future__ import annotations

from .declare import AUTO_ELEMENTWISE, AUTO_LINEAR, NOT_DIFFERENTIABLE, derivative
from .pointwise import drop, keep

for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    derivative([f"{_name}.Tensor", f"{_name}.Scalar"], NOT_DIFFERENTIABLE)
derivative(["logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_not"], NOT_DIFFERENTIABLE)
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    derivative([f"{_name}.Tensor", f"{_name}.Scalar", f"{_name}.Scalar_Tensor"], NOT_DIFFERENTIABLE)
for _name in ("bitwise_left_shift", "bitwise_right_shift"):
    derivative([f"{_name}.Tensor", f"{_name}.Tensor_Scalar", f"{_name}.Scalar_Tensor"], NOT_DIFFERENTIABLE)
derivative(["isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal"], NOT_DIFFERENTIABLE)

derivative("where.self",
           condition=NOT_DIFFERENTIABLE,
           self=lambda grad, condition: keep(condition, grad),
           other=lambda grad, condition: drop(condition, grad),
           result=AUTO_LINEAR)
derivative(["where.ScalarSelf", "where.ScalarOther"],
           condition=NOT_DIFFERENTIABLE,
           self=lambda grad, condition: keep(condition, grad),
           other=lambda grad, condition: drop(condition, grad),
           result=AUTO_ELEMENTWISE)
derivative("where.Scalar", NOT_DIFFERENTIABLE)
derivative("nan_to_num", self=lambda grad, self: keep(self.isfinite(), grad), result=AUTO_ELEMENTWISE)

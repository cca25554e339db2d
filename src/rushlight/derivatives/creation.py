"""Derivatives of factories, clones, casts and fills."""

from __future__ import annotations

import warnings

from ..core.tensor import Tensor
from .declare import AUTO_ELEMENTWISE, AUTO_LINEAR, NOT_DIFFERENTIABLE, derivative
from .helpers import nothing

derivative(["empty_like", "zeros_like", "ones_like", "full_like", "new_empty", "new_empty_strided",
            "new_zeros", "new_ones", "new_full"], NOT_DIFFERENTIABLE)
derivative([f"{name}.{kinds}" for name in ("linspace", "logspace")
            for kinds in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")], NOT_DIFFERENTIABLE)

derivative(["clone", "_to_copy"], self=lambda grad: grad, result=AUTO_LINEAR)
derivative("copy", self=nothing, src=lambda grad: grad, result=AUTO_LINEAR)
derivative("fill.Scalar", self=nothing, result=AUTO_ELEMENTWISE)
derivative("fill.Tensor", self=nothing, value=lambda grad: grad.sum(), result=AUTO_LINEAR)
derivative("zero", self=nothing, result=AUTO_LINEAR)


# PyTorch's own tests: one formula warns, one is wrong on purpose, so that it is seen to be used.

def warning(grad: Tensor) -> Tensor:
    warnings.warn("Warn from backward", stacklevel=2)
    return grad.clone()


derivative("_test_warn_in_autograd", self=warning)
derivative("_test_autograd_multiple_dispatch.fullcoverage", self=lambda grad: grad + 1, result=AUTO_LINEAR)

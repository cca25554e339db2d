"""Derivatives of extremes and order statistics.

Where positions are returned, the gradient goes to the element that was selected; elsewhere it is shared
equally by the elements that attain the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.shapes import Shape, wrap_dims
from ..core.tensor import Tensor
from .declare import NOT_DIFFERENTIABLE, derivative
from .helpers import restore_dims
from .reduction import Dims, contract


def attaining(self: Tensor, result: Tensor) -> Tensor:
    """Where elements equal the result; NaN equals NaN."""
    return (self == result) | (self.isnan() & result.isnan())


def shared(grad: Tensor, attained: Tensor, dim: Dims) -> Tensor:
    """Equal parts of `grad` for the elements that attain the result; NaN for all where none does."""
    dims = wrap_dims(dim, attained.ndim) if attained.ndim else ()
    return grad.where(attained, 0) / attained.sum(dims, keepdim=True)


def extreme_backward(grad: Tensor, self: Tensor, dim: Dims, keepdim: bool, result: Tensor) -> Tensor:
    """amax and amin: a NaN among the elements makes all gradients NaN."""
    grad, result = (restore_dims(value, dim, keepdim, self.ndim) for value in (grad, result))
    return shared(grad, self == result, dim)


def extreme_tangent(self_t: Tensor, self: Tensor, dim: Dims, keepdim: bool, result: Tensor) -> Tensor:
    gradient = extreme_backward(result.new_ones(result.shape), self, dim, keepdim, result)
    return contract(gradient, self_t, dim, keepdim)


def aminmax_backward(grads: Sequence[Tensor | None], self: Tensor, dim: Dims, keepdim: bool, min: Tensor,
                     max: Tensor) -> Tensor | None:
    parts = [extreme_backward(grad, self, dim, keepdim, result)
             for grad, result in zip(grads, (min, max), strict=True) if grad is not None]
    return parts[0] + parts[1] if len(parts) == 2 else parts[0] if parts else None


derivative(["amax", "amin"], self=extreme_backward, result=extreme_tangent)
derivative("aminmax", self=aminmax_backward,
           result0=lambda self_t, self, dim, keepdim, min: extreme_tangent(self_t, self, dim, keepdim, min),
           result1=lambda self_t, self, dim, keepdim, max: extreme_tangent(self_t, self, dim, keepdim, max))


def whole_backward(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    return shared(grad, attaining(self, result), None)


def whole_tangent(self_t: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """Forward mode asks which elements equal the result: of NaN none does, and the tangent is NaN."""
    return shared(self_t, self == result, None).sum()


def selected_backward(grad: Tensor, self_shape: Shape, dim: int, keepdim: bool, indices: Tensor) -> Tensor:
    """`grad` at the selected positions, zero elsewhere."""
    if not self_shape:
        return grad
    grad, indices = (restore_dims(value, dim, keepdim, len(self_shape)) for value in (grad, indices))
    return grad.new_zeros(self_shape).scatter(dim, indices, grad)


def selected_tangent(self_t: Tensor, dim: int, keepdim: bool, indices: Tensor) -> Tensor:
    if not self_t.ndim:
        return self_t
    picked = self_t.gather(dim, restore_dims(indices, dim, keepdim, self_t.ndim))
    return picked if keepdim else picked.squeeze(dim)


# The order in which overloads are declared numbers their nodes, as PyTorch does: MaxBackward0 is max.dim's.
derivative(["median", "nanmedian"], self=whole_backward, result=whole_tangent)
derivative(["max.dim", "min.dim", "median.dim", "nanmedian.dim", "mode"],
           self=selected_backward, result0=selected_tangent)
derivative(["max", "min"], self=whole_backward, result=whole_tangent)
derivative(["argmax", "argmin"], NOT_DIFFERENTIABLE)

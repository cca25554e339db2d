"""Derivatives of joining, reordering, masking and padding.

All of them are linear maps that move elements. Composites differentiate through their bodies; `stack` has an
entry because its gradients are views of one tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dispatch import run_name
from ..core.shapes import Shape, wrap_dim
from ..core.tensor import Tensor
from .declare import AUTO_LINEAR, NOT_DIFFERENTIABLE, derivative

# Joining.


def cat_backward(grad: Tensor, tensors_shape: Sequence[Shape], dim: int) -> list[Tensor | None]:
    """Each tensor's part of the gradient; a tensor of shape (0,) joins tensors of any rank and has none."""
    dim = wrap_dim(dim, grad.ndim)
    parts: list[Tensor | None] = []
    first = 0
    for shape in tensors_shape:
        if tuple(shape) == (0,):
            parts.append(None)
            continue
        parts.append(run_name("slice.Tensor", grad, dim, first, first + shape[dim], 1))
        first += shape[dim]
    return parts


derivative("cat", tensors=cat_backward, result=AUTO_LINEAR)
derivative(["stack", "_stack"], tensors=lambda grad, dim: grad.unbind(dim), result=AUTO_LINEAR)


# Reordering and masking.

derivative("flip", self=lambda grad, dims: grad.flip(dims), result=AUTO_LINEAR)
derivative("roll", self=lambda grad, shifts, dims: grad.roll([-shift for shift in shifts], dims),
           result=AUTO_LINEAR)
derivative("tril", self=lambda grad, diagonal: grad.tril(diagonal), result=AUTO_LINEAR)
derivative("triu", self=lambda grad, diagonal: grad.triu(diagonal), result=AUTO_LINEAR)
derivative("repeat_interleave.Tensor", NOT_DIFFERENTIABLE)


# Padding.

derivative("constant_pad_nd",
           self=lambda grad, pad: run_name("constant_pad_nd", grad, tuple([-amount for amount in pad]), 0),
           result=lambda self_t, pad: run_name("constant_pad_nd", self_t, pad, 0))


def border_padding(name: str) -> None:
    """reflection_pad or replication_pad, and its backward operator, which reads of `self` only the shape."""
    def backward(grad: Tensor, self_shape: Shape, padding: Shape) -> Tensor:
        like = grad.new_zeros(()).expand(self_shape)
        return run_name(f"{name}_backward", grad, like, padding)

    derivative(name, self=backward, result=AUTO_LINEAR)
    derivative(f"{name}_backward", grad_output=lambda grad, padding: run_name(name, grad, padding),
               self=lambda grad: None, result=AUTO_LINEAR)


for _dims in (1, 2, 3):
    border_padding(f"reflection_pad{_dims}d")
    border_padding(f"replication_pad{_dims}d")

"""Derivatives of views: what a view shows gets its gradient, the rest gets zeros.

The tangent of a view is a view of the tangent wherever its memory allows, so that writing through one is seen
by the other. Tangents need not be laid out like their primals, so that views which speak of memory have
formulas of their own. Twins that copy, and the many names of reshape, differentiate through their bodies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.shapes import Shape, Spec, extent, wrap_dim, wrap_dims
from ..core.tensor import Tensor, wrap
from ..core.tokens import contiguous_format
from ..decompositions.view_backward import diagonal_backward, unfold_backward
from .declare import AUTO_LINEAR, NOT_DIFFERENTIABLE, derivative

derivative("alias", self=lambda grad: grad, result=AUTO_LINEAR)
derivative("detach", NOT_DIFFERENTIABLE)


# Other shapes.

derivative(["view", "_unsafe_view", "_reshape_alias"], self=lambda grad, self_shape: grad.reshape(self_shape),
           result=lambda self_t, size: self_t.reshape(size))
derivative(["squeeze", "squeeze.dim", "squeeze.dims"], self=lambda grad, self_shape: grad.view(self_shape),
           result=AUTO_LINEAR)
derivative("unsqueeze", self=lambda grad, dim: grad.squeeze(dim), result=AUTO_LINEAR)
derivative("expand", self=lambda grad: grad, result=AUTO_LINEAR)


# The order of dimensions.

def inverse_permute(grad: Tensor, dims: Shape) -> Tensor:
    order = wrap_dims(dims, len(dims), empty_is_all=False)
    return grad.permute(tuple(sorted(range(len(order)), key=order.__getitem__)))


derivative("transpose.int", self=lambda grad, dim0, dim1: grad.transpose(dim0, dim1), result=AUTO_LINEAR)
derivative("t", self=lambda grad: grad.t(), result=AUTO_LINEAR)
derivative("permute", self=inverse_permute, result=AUTO_LINEAR)


# Parts.

derivative("select.int", result=AUTO_LINEAR,
           self=lambda grad, self_shape, dim, index:
               run_name("select_backward", grad, self_shape, dim, index))
derivative("slice.Tensor", result=AUTO_LINEAR,
           self=lambda grad, self_shape, dim, start, end, step:
               run_name("slice_backward", grad, self_shape, dim, start, end, step))
derivative("diagonal", result=AUTO_LINEAR,
           self=lambda grad, self_shape, offset, dim1, dim2:
               diagonal_backward(grad, self_shape, offset, dim1, dim2))
derivative("unfold", result=AUTO_LINEAR,
           self=lambda grad, self_shape, dimension, size, step:
               unfold_backward(grad, self_shape, dimension, size, step))


# Several parts. Those that were not used have no gradient.

def defined(grads: Sequence[Tensor | None], shapes: Sequence[Shape]) -> tuple[Tensor, ...]:
    """The gradients of the parts, with zeros for those that have none."""
    some = next(grad for grad in grads if grad is not None)
    return tuple([some.new_zeros(shape) if grad is None else grad
                  for grad, shape in zip(grads, shapes, strict=True)])


def unbind_backward(grads: Sequence[Tensor | None], self_shape: Shape, dim: int) -> Tensor:
    dim = wrap_dim(dim, len(self_shape))
    part = (*self_shape[:dim], *self_shape[dim + 1:])
    return run_name("stack", defined(grads, [part] * len(grads)), dim)


def joined(grads: Sequence[Tensor | None], self_shape: Shape, split_sizes: Sequence[int], dim: int) -> Tensor:
    dim = wrap_dim(dim, len(self_shape))
    parts = [(*self_shape[:dim], size, *self_shape[dim + 1:]) for size in split_sizes]
    return run_name("cat", defined(grads, parts), dim)


def split_backward(grads: Sequence[Tensor | None], self_shape: Shape, split_size: int, dim: int) -> Tensor:
    total = self_shape[dim]
    sizes = [min(split_size, total - i * split_size) for i in range(len(grads))]
    return joined(grads, self_shape, sizes, dim)


derivative("unbind.int", self=unbind_backward, result=AUTO_LINEAR)
derivative(["split.Tensor", "unsafe_split.Tensor"], self=split_backward, result=AUTO_LINEAR)
derivative(["split_with_sizes", "unsafe_split_with_sizes"], self=joined, result=AUTO_LINEAR)


# Other readings of the same bytes.

def as_complex(x: Tensor) -> Tensor:
    """The pairs along the last dimension as complex numbers: a view where the memory is known to allow it."""
    *outer, last = x.strides()
    aligned = x._trace is None and last == 1 and not x.storage_offset() % 2 and not any(
        stride % 2 for stride in outer)
    return run_name("view_as_complex", x if aligned else run_name("clone", x, contiguous_format))


def as_real(x: Tensor) -> Tensor:
    return run_name("view_as_real", x.resolve_conj())


derivative("view.dtype", NOT_DIFFERENTIABLE)
derivative("view_as_real", self=lambda grad: as_complex(grad), result=lambda self_t: as_real(self_t))
derivative("view_as_complex", self=lambda grad: as_real(grad), result=lambda self_t: as_complex(self_t))
derivative("_conj", self=lambda grad: grad.conj(), result=AUTO_LINEAR)
derivative("_neg_view", self=lambda grad: -grad, result=AUTO_LINEAR)


# Any geometry.

def positions(shape: Sequence[int], strides: Sequence[int], offset: int, like: Tensor) -> Tensor:
    """Where in its storage each element of a tensor of this geometry lies, as a 1-d tensor on the
    device of `like`."""
    index = np.full(tuple(shape), offset, np.int64)
    for dim, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        index += (np.arange(size) * stride).reshape((-1,) + (1,) * (len(shape) - dim - 1))
    return wrap(index.reshape(-1)).to(like.device)


def may_overlap(shape: Shape, strides: Shape) -> bool:
    """Whether two elements of a tensor of this geometry may share one place in memory."""
    reach = 0
    steps = [(stride, size) for size, stride in zip(shape, strides, strict=True) if size > 1]
    for stride, size in sorted(steps):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


class Window:
    """The piece of a storage that a tensor and an `as_strided` of it span together."""

    def __init__(self, like: Tensor, spec: Spec, size: Shape, stride: Shape,
                 storage_offset: int | None) -> None:
        self.shape, self.strides = spec.known_shape(), spec.known_strides()
        self.size, self.stride = size, stride
        offset = spec.offset if storage_offset is None else storage_offset
        low = min(spec.offset, offset)
        self.offset = offset - low
        self.length = max(extent(self.shape, self.strides) + spec.offset, extent(size, stride) + offset) - low
        # Where the elements of the tensor are, and those of as_strided.
        self.own = positions(self.shape, self.strides, spec.offset - low, like)
        self.shown = positions(size, stride, self.offset, like)

    def filled(self, x: Tensor) -> Tensor:
        """The storage where `x` is written in the places of the tensor, zeros elsewhere."""
        return x.new_zeros((self.length,)).index_copy(0, self.own, x.reshape(-1))

    def view(self, storage: Tensor) -> Tensor:
        return storage.as_strided(self.size, self.stride, self.offset)


def as_strided_backward(grad: Tensor, self_spec: Spec, size: Shape, stride: Shape,
                        storage_offset: int | None) -> Tensor:
    """The gradient goes through the storage: elements of the output that share a place add up there, and
    elements of the input that share a place get equal parts of it."""
    window = Window(grad, self_spec, size, stride, storage_offset)
    storage = grad.new_zeros((window.length,)).index_add(0, window.shown, grad.reshape(-1))
    if may_overlap(window.shape, window.strides):
        shares = grad.new_zeros((window.length,), dtype=DTYPES["int64"])
        shares = shares.index_add(0, window.own, window.own.new_ones(window.own.shape))
        storage = storage / shares.clamp(min=1)
    return storage.index_select(0, window.own).reshape(window.shape)


def as_strided_tangent(self_t: Tensor, self: Tensor, size: Shape, stride: Shape,
                       storage_offset: int | None) -> Tensor:
    """A view of the tangent if that is laid out like the tensor, else of a storage that is filled from it."""
    if self_t.strides() == self.strides() and self_t.storage_offset() == self.storage_offset():
        return self_t.as_strided(size, stride, storage_offset)
    window = Window(self_t, self.spec(), size, stride, storage_offset)
    return window.view(window.filled(self_t))


derivative("as_strided", self=as_strided_backward, result=as_strided_tangent)


# Twins that return the tensor with `src` in the place of what the view shows.

derivative("select_scatter", result=AUTO_LINEAR,
           self=lambda grad, src_shape, dim, index:
               grad.select_scatter(grad.new_zeros(src_shape), dim, index),
           src=lambda grad, dim, index: grad.select(dim, index))
derivative("slice_scatter", result=AUTO_LINEAR,
           self=lambda grad, src_shape, dim, start, end, step:
               grad.slice_scatter(grad.new_zeros(src_shape), dim, start, end, step),
           src=lambda grad, dim, start, end, step: run_name("slice.Tensor", grad, dim, start, end, step))
derivative("diagonal_scatter", result=AUTO_LINEAR,
           self=lambda grad, src_shape, offset, dim1, dim2:
               grad.diagonal_scatter(grad.new_zeros(src_shape), offset, dim1, dim2),
           src=lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2))


def scatter_window(grad: Tensor, self_spec: Spec, result_spec: Spec, size: Shape, stride: Shape,
                   storage_offset: int | None) -> Window:
    """The result has the offset of `self`, and its strides unless those overlap."""
    spec = Spec(result_spec.shape, result_spec.dtype, result_spec.strides, self_spec.offset)
    return Window(grad, spec, size, stride, storage_offset)


def kept_gradient(grad: Tensor, self_spec: Spec, result_spec: Spec, size: Shape, stride: Shape,
                  storage_offset: int | None) -> Tensor:
    window = scatter_window(grad, self_spec, result_spec, size, stride, storage_offset)
    kept = grad.new_ones((window.length,), dtype=DTYPES["bool"]).index_fill(0, window.shown, False)
    return grad.where(kept.index_select(0, window.own).reshape(window.shape), 0)


def scattered_gradient(grad: Tensor, self_spec: Spec, result_spec: Spec, size: Shape, stride: Shape,
                       storage_offset: int | None) -> Tensor:
    window = scatter_window(grad, self_spec, result_spec, size, stride, storage_offset)
    return window.view(window.filled(grad))


derivative("as_strided_scatter", self=kept_gradient, src=scattered_gradient)

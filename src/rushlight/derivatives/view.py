"""Derivatives of views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.dtypes import DTYPES
from ..core.shapes import Shape, Spec, extent
from ..core.tensor import Tensor, wrap
from .declare import AUTO_LINEAR, NOT_DIFFERENTIABLE, derivative

derivative("alias", self=lambda grad: grad, result=AUTO_LINEAR)
derivative("detach", NOT_DIFFERENTIABLE)
derivative("transpose.int", self=lambda grad, dim0, dim1: grad.transpose(dim0, dim1), result=AUTO_LINEAR)
derivative("expand", self=lambda grad: grad, result=AUTO_LINEAR)


def positions(shape: Sequence[int], strides: Sequence[int], offset: int) -> Tensor:
    """Where in its storage each element of a tensor of this geometry lies, as a 1-d tensor."""
    index = np.full(tuple(shape), offset, np.int64)
    for dim, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        index += (np.arange(size) * stride).reshape((-1,) + (1,) * (len(shape) - dim - 1))
    return wrap(index.reshape(-1))


def may_overlap(shape: Shape, strides: Shape) -> bool:
    """Whether two elements of a tensor of this geometry may share one place in memory."""
    reach = 0
    for stride, size in sorted((stride, size) for size, stride in zip(shape, strides, strict=True) if size > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def as_strided_backward(grad: Tensor, self_spec: Spec, size: Shape, stride: Shape, storage_offset: int | None) -> Tensor:
    """The gradient goes through the storage: elements of the output that share a place add up there, and elements of
    the input that share a place get equal parts of it."""
    shape, strides = self_spec.known_shape(), self_spec.known_strides()
    offset = self_spec.offset if storage_offset is None else storage_offset
    low = min(self_spec.offset, offset)
    length = max(extent(shape, strides) + self_spec.offset, extent(size, stride) + offset) - low
    own = positions(shape, strides, self_spec.offset - low)
    storage = grad.new_zeros((length,)).index_add(0, positions(size, stride, offset - low), grad.reshape(-1))
    if may_overlap(shape, strides):
        shared = grad.new_zeros((length,), dtype=DTYPES["int64"]).index_add(0, own, own.new_ones(own.shape))
        storage = storage / shared
    return storage.index_select(0, own).reshape(shape)


derivative("as_strided", self=as_strided_backward, result=AUTO_LINEAR)

"""Another shape for a tensor in place: of outputs, and of whatever its storage allows."""

from __future__ import annotations

import gc
import sys
import warnings

import numpy as np

from .arrays import array_over, reachable
from .determinism import DETERMINISM, undefined
from .dispatch import AMBIENT
from .dtypes import Category
from .shapes import Spec, check_bytes, contiguous_strides, extent, is_dense
from .storage import Storage, resize_storage, when_moved
from .tensor import Tensor, wrap


def resize_output(target: Tensor, result: Tensor, warn: bool = True) -> None:
    """Give `target` the shape of `result`.

    Warns, as PyTorch mostly does, when a non-empty tensor must be resized.
    """
    if target.shape == result.shape:
        return
    if target._parts is not None:
        target._spec = Spec(tuple(result.shape), target.dtype)
        return
    if warn and target.numel() != 0:
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(target.shape)}, which "
            f"does not match the required output shape {list(result.shape)}. Pass an output of the "
            "right "
            "shape, or an empty one.",
            UserWarning,
            stacklevel=4,
        )
    strides = (
        result.strides() if is_dense(result.shape, result.strides()) else contiguous_strides(result.shape)
    )
    set_geometry(target, tuple(result.shape), strides)


def set_geometry(
    target: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int | None = None
) -> None:
    """Change shape and strides of `target` in place; its storage grows if it must, keeping its bytes."""
    offset = target._offset if offset is None else offset
    if target._trace is not None and target._trace.resize(target, shape, strides, offset):
        return
    if AMBIENT.trace is not None:
        if AMBIENT.trace.set_geometry(target, shape, strides, offset):
            return
        AMBIENT.trace.refuse("it changes the shape of a tensor of the caller in place")
    check_bytes(shape, strides, target.dtype.itemsize, offset)
    shared = _holders(target) > _ALONE
    storage = target.storage_object
    span = extent(shape, strides)
    needed = (offset + span) * target.dtype.itemsize if span else 0
    if storage.buffer is None:
        target._spec = Spec(shape, target.dtype, strides, offset)
        storage._meta_bytes = max(storage._meta_bytes, needed)
    else:
        if needed > storage.buffer.nbytes:
            had = storage.buffer.nbytes
            resize_storage(storage, needed, shared)
            if DETERMINISM.fills and target.dtype.category is not Category.QUANTIZED:
                size = target.dtype.itemsize
                new = storage.buffer[-(-had // size) * size : needed].view(target.dtype.numpy)
                new[...] = undefined(target.dtype)
        target._array = array_over(storage.buffer, shape, strides, offset, target.dtype)
    target._strides, target._offset = strides, offset


def _holders(tensor: Tensor) -> int:
    """How many references there are to the storage of a tensor."""
    return sys.getrefcount(tensor._storage) if tensor._storage is not None else 0


def _count_of_one() -> int:
    tensor = wrap(np.empty(1))
    assert tensor.storage_object is not None
    return _holders(tensor)


_ALONE = _count_of_one()


def _look_again(storage: Storage) -> None:
    """Let the tensors over a storage whose buffer was replaced see it. No storage keeps a list of its
    tensors, since that would cost every view, so they are looked for among all objects."""
    kinds = _with_subclasses(Tensor)  # most objects are none: a look at a set is the quickest way to tell
    for other in gc.get_objects():
        if type(other) in kinds and other._storage is storage:
            shape, strides = tuple(other.shape), other.strides()
            other._array = reachable(storage, shape, strides, other._offset, other.dtype)
            other._strides = strides


def _with_subclasses(kind: type) -> set[type]:
    """A class and all that derive from it."""
    return {kind}.union(*map(_with_subclasses, type.__subclasses__(kind)))


when_moved(_look_again)

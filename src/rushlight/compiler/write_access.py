"""Whether the memory of a tensor may be written by a program: whether it is reached through that tensor alone.

Every way to share memory holds a reference: views and detached tensors to the Storage, NumPy and DLPack to the
array or to the array that owns its bytes. So that counting references answers the question.
"""

from __future__ import annotations

from sys import getrefcount

import numpy as np

from ..core.tensor import Tensor


def _counted() -> int:
    """What getrefcount says of an object that a variable of the function holds."""
    local = np.empty(0)
    return getrefcount(local)


HELD = _counted() + 1  # and a tensor or an array holds, too


def may_update(tensor: Tensor) -> bool:
    """Whether a program may write to the memory of `tensor` while it runs: no other input has a part in it."""
    return sole_owner(tensor) and tensor._array.flags.writeable  # type: ignore[union-attr]


def sole_owner(tensor: Tensor) -> bool:
    """Whether the memory of `tensor` can be reached through it alone."""
    storage, array = tensor._storage, tensor._array
    if tensor._base is not None or tensor._offset or type(array) is not np.ndarray:
        return False
    owner = array.base
    held = 0  # references by the storage
    if storage is not None:
        if getrefcount(storage) != HELD:
            return False
        buffer = storage.buffer
        base = array if owner is None else owner
        if buffer is None or getrefcount(buffer) != HELD or buffer.base is not base:
            return False
        del base
        held = 1
    if owner is None:
        return getrefcount(array) == HELD + held
    return (
        type(owner) is np.ndarray
        and owner.base is None
        and getrefcount(array) == HELD
        and getrefcount(owner) == HELD + held
    )

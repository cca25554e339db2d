"""Writes that change nothing but memory: what an in-place form need not look at again.

In: an operator and its arguments. Out: whether the tensor that its in-place form writes to has memory of its own
that no other argument shares, and neither autograd, a transform nor a mode is told of the write.
"""

from __future__ import annotations

import functools
from typing import Any

from .dispatch import AMBIENT
from .modes import MODES
from .pointwise import changes_memory_alone
from .registry import OpDef
from .tensor import AUTOGRAD, Tensor


@functools.cache
def _writes_one(op: OpDef) -> bool:
    """Whether the in-place form of `op` writes its one result to the elements of its first argument."""
    returns = op.schema.returns
    return (
        len(returns) == 1
        and returns[0].type.is_tensor
        and returns[0].type.alias is None
        and op.tensor_positions[:1] == (0,)
    )


def is_plain_write(op: OpDef, args: tuple[Any, ...]) -> bool:
    """Whether writing the result of `op` to its first argument changes nothing but the memory of that, so that
    there is nothing to check before, unless dtype or shape do not fit."""
    if AMBIENT.keys or not _writes_one(op):
        return False
    target = args[0]
    array, storage, keys = target._array, target._storage, target._keys
    if array is None or target._base is not None or not array.flags.carray or target.dtype.is_complex:
        return False
    others: list[Any] = [args[i] for i in op.tensor_positions[1:]]
    for i in op.list_positions:
        others.extend(args[i] or ())
    for other in others:
        if other is not None:
            if other is target or other._array is None:
                return False
            if storage is not None and other._storage is storage:
                return False
            keys |= other._keys
    return not keys or (keys <= AUTOGRAD and changes_memory_alone((target, *others)))


def are_written_plainly(targets: Any) -> bool:
    """Whether nobody asks about writes to these tensors, each of which owns its memory."""
    if AMBIENT.keys or MODES.grad or MODES.dual_levels:
        return False
    for target in targets:
        array = target._array
        if (
            array is None
            or target._keys & ~AUTOGRAD
            or target._inference
            or target._base is not None
            or not array.flags.carray
        ):
            return False
    return True


def fits_plainly(target: Tensor, result: Tensor) -> bool:
    return (
        not result._keys & ~AUTOGRAD
        and result.dtype is target.dtype
        and result._array is not None
        and result._array.shape == target._array.shape  # type: ignore[union-attr]
    )

"""Tensors that may be written to although a backward pass needs them: their values are copied first."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from ..core.dispatch import AMBIENT
from ..core.errors import check
from ..core.modes import MODES
from ..core.tensor import AUTOGRAD, Tensor
from .saved_hooks import saved_tensors_hooks

_Key = tuple[int, int, tuple[int, ...], tuple[int, ...], int]


class _Handle:
    """Stands for one saved tensor, for as long as a node keeps it."""

    __slots__ = ("__weakref__",)


class SavedTensors:
    """The tensors that were saved inside of the context and are still kept by a node."""

    def __init__(self) -> None:
        self.cloned: MutableMapping[_Handle, Tensor] = WeakKeyDictionary()
        self.original: MutableMapping[_Handle, Tensor] = WeakKeyDictionary()
        self.tid_to_weakhandle: MutableMapping[_Key, _Handle] = WeakValueDictionary()

    def clear(self) -> None:
        self.cloned.clear()
        self.original.clear()
        self.tid_to_weakhandle.clear()

    def pack(self, tensor: Tensor) -> _Handle:
        key = (
            id(tensor) if tensor._array is None else tensor.data_ptr(),
            tensor.storage_offset(),
            tuple(tensor.shape),
            tensor.strides(),
            tensor.version_counter.value,
        )
        handle = self.tid_to_weakhandle.get(key)
        if handle is None:
            handle = self.tid_to_weakhandle[key] = _Handle()
            self.original[handle] = tensor
        return handle

    def unpack(self, handle: _Handle) -> Tensor:
        found = self.cloned.get(handle)
        if found is None:
            found = self.original.get(handle)
        check(
            found is not None,
            "Trying to backward outside of the 'allow_mutation_on_saved_tensors' "
            "context in which the graph was recorded",
            AssertionError,
        )
        return found  # type: ignore[return-value]

    def before_write(self, target: Tensor) -> None:
        """Copy what shares the memory of a tensor that is about to be written to."""
        if target._parts is not None or target._array is None:
            return
        for handle, tensor in list(self.original.items()):
            if tensor._array is not None and np.may_share_memory(tensor._array, target._array):
                saved, MODES.before_write = MODES.before_write, None
                try:
                    self.cloned[handle] = tensor.detach().clone()
                finally:
                    MODES.before_write = saved
                del self.original[handle]


class allow_mutation_on_saved_tensors:
    """Inside, a tensor that is saved for backward is copied before it is written to, so that backward (which
    must run inside, too) sees the values it had.

    >>> x = rl.ones(1, requires_grad=True)
    >>> with rl.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x * 2
    ...     z = y.square()
    ...     _ = y.detach().zero_()
    ...     z.sum().backward()
    >>> x.grad
    tensor([8.])
    """

    def __enter__(self) -> SavedTensors:
        check(MODES.before_write is None, "allow_mutation_on_saved_tensors contexts cannot be nested")
        self._context = SavedTensors()
        self._hooks = saved_tensors_hooks(self._context.pack, self._context.unpack)
        self._hooks.__enter__()
        self._keys = AMBIENT.keys & AUTOGRAD
        AMBIENT.keys |= AUTOGRAD  # no write takes the short way
        MODES.before_write = self._context.before_write
        return self._context

    def __exit__(self, *exception: Any) -> None:
        MODES.before_write = None
        AMBIENT.keys = AMBIENT.keys & ~AUTOGRAD | self._keys
        self._hooks.__exit__(*exception)
        self._context.clear()

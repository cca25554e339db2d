"""Dictionaries whose keys are tensors, compared by identity and not kept alive."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

from ..core.tensor import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """A weak reference that equals another to the same object, whatever `==` of the object says."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        first, second = self(), other() if isinstance(other, WeakIdRef) else None
        return self is other if first is None or second is None else first is second


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A mapping by the identity of its keys; an entry goes with its key."""

    def __init__(self, dict: Any = None) -> None:
        self.data: dict[WeakIdRef, Any] = {}
        for key, value in (dict or {}).items():
            self[key] = value

    def _forget(self, reference: Any) -> None:
        self.data.pop(reference, None)

    def __getitem__(self, key: Any) -> Any:
        return self.data[WeakIdRef(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[WeakIdRef(key, self._forget)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[WeakIdRef(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return WeakIdRef(key) in self.data
        except TypeError:  # it cannot be referred to weakly
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return sum(reference() is not None for reference in list(self.data))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self.ref = WeakIdRef(tensor)

    def __call__(self) -> Tensor | None:
        found: Tensor | None = self.ref()
        return found

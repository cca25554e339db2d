"""Tensors of the caller that a captured program gives another shape, over the same memory: `x.t_()`.

While the program is captured the caller's tensor really has the new shape, since the program looks at it.
`restore` undoes that, and `changes` says what a run of the compiled program does to its arguments instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.arrays import array_over
from ..core.dispatch import run_name
from ..core.resizing import set_geometry
from ..core.symbols import hint, plain
from ..core.tensor import Tensor

# What an in-place view changes of a tensor, its place in the history included.
_FIELDS = ("_array", "_strides", "_offset", "_view_of", "_seen", "_node", "_output_nr", "_tangents")


@dataclass(frozen=True)
class Change:
    """What becomes of a tensor of the caller: of an argument, if `target` is its number."""

    target: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    distance: int  # from where it began to where it begins

    def apply(self, tensor: Tensor) -> None:
        offset = tensor._offset + self.distance
        set_geometry(tensor, self.shape, self.strides, offset)
        if tensor._base is not None:  # how it is made of its base, for writes to come
            view = run_name("as_strided", tensor._base, self.shape, self.strides, offset)
            tensor._view_of, tensor._seen = view._view_of, view._seen


class Geometries:
    """The caller's tensors that have another shape now, with what they were."""

    def __init__(self) -> None:
        self._changed: dict[int, tuple[Tensor, dict[str, Any]]] = {}

    def set(self, tensor: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> None:
        self._changed.setdefault(id(tensor), (tensor, {name: getattr(tensor, name) for name in _FIELDS}))
        buffer = tensor.storage_object.buffer
        assert buffer is not None
        tensor._array = array_over(buffer, shape, strides, hint(offset), tensor.dtype)
        tensor._strides, tensor._offset = strides, offset

    def __contains__(self, tensor: Tensor) -> bool:
        return id(tensor) in self._changed

    def changes(self) -> list[Change]:
        return [
            Change(tensor, tuple(tensor.shape), tensor.strides(), plain(tensor._offset - fields["_offset"]))
            for tensor, fields in self._changed.values()
        ]

    def restore(self) -> None:
        for tensor, fields in self._changed.values():
            for name, value in fields.items():
                setattr(tensor, name, value)
        self.forget()

    def forget(self) -> None:
        """Leave the tensors as they are."""
        self._changed = {}

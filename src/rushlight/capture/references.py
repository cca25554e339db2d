"""References: how a compiled program finds the tensors of its caller, as data.

A captured program names the tensors that it took from its caller. In the next call they are found again by
reference: `Argument(0)` is whatever is passed first, `Captured(t)` is always `t`, `GradOf(Argument(0))` is the
gradient that the argument has then, `At(container, key)` is what lies at a location of Python's.

In:  the leaves of a call's arguments. Out: `ref.find(leaves)`, the object. References are compared by what
they refer to, objects by identity, so that they can be keys of dictionaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Argument:
    """A leaf of the arguments, by its number."""

    index: int

    def find(self, leaves: Sequence[Any]) -> Any:
        return leaves[self.index]

    def __str__(self) -> str:
        return f"argument {self.index}"


@dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """A tensor that the program knows from elsewhere than its arguments."""

    tensor: Tensor

    def find(self, leaves: Sequence[Any]) -> Any:
        return self.tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Captured) and other.tensor is self.tensor

    def __hash__(self) -> int:
        return id(self.tensor)

    def __str__(self) -> str:
        return "a captured tensor"


@dataclass(frozen=True, slots=True)
class GradOf:
    """The gradient of a tensor."""

    owner: Argument | Captured

    def find(self, leaves: Sequence[Any]) -> Any:
        return self.owner.find(leaves)._grad

    def __str__(self) -> str:
        return f"the gradient of {self.owner}"


@dataclass(frozen=True, slots=True, eq=False)
class At:
    """What is at a location of Python's: `container[key]`."""

    container: Any
    key: Any
    name: str

    def find(self, leaves: Sequence[Any]) -> Any:
        return self.container[self.key]

    def __str__(self) -> str:
        return self.name


TensorRef = Argument | Captured | GradOf | At


def layout_of(tensor: Tensor, *, anywhere: bool = False) -> tuple[Any, ...]:
    """What a program is compiled for of a tensor: the fields that `LAYOUT` names, strides in bytes. If it may lie
    `anywhere` in its storage, the offset is None."""
    array = tensor._array
    if tensor._parts is not None:
        return tensor.shape, tensor.dtype, tensor.layout, tensor.requires_grad
    if array is None:
        return tensor.shape, tensor.dtype, tensor.strides(), tensor.device
    return (
        array.shape,
        array.strides,
        tensor.dtype,
        tensor.requires_grad,
        None if anywhere else tensor._offset,
        tensor._conj,
        tensor._neg,
        type(tensor),
    )


LAYOUT = ("shape", "strides", "dtype", "requires_grad", "offset", "conj bit", "neg bit", "class")
LAYOUT_OF_PARTS = ("shape", "dtype", "layout", "requires_grad")  # of tensors that are made of other ones


def layout_difference(old: tuple[Any, ...], new: tuple[Any, ...]) -> str:
    """In what two layouts differ, in words: "shape was (3, 4), is (5, 4)"."""
    if len(old) != len(new):
        return "was a tensor of another kind (strided, sparse, without data)"
    names = LAYOUT if len(old) == len(LAYOUT) else LAYOUT_OF_PARTS
    differ = {n: (a, b) for n, a, b in zip(names, old, new, strict=True) if a != b}
    name = next(
        n for n in ("shape", "dtype", *names) if n in differ
    )  # of which the strides are a consequence
    before, after = differ[name]
    if name == "strides":
        before, after = (_strides(layout) for layout in (old, new))
    return f"{name} was {_text(before)}, is {_text(after)}"


def _strides(layout: tuple[Any, ...]) -> Any:
    """The strides of a layout in elements; of one whose sizes change, what is known of them."""
    steps = layout[1]
    if steps and type(steps[0]) is str:
        return f"dense with dimensions in the order {', '.join(map(str, steps[1:]))}"
    return steps if any(type(s) is not int for s in steps) else tuple(s // layout[2].itemsize for s in steps)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return repr(tuple(value))
    return value.__name__ if isinstance(value, type) else str(value)

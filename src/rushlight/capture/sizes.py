"""Arguments whose sizes are symbols while a call is captured.

In: which sizes change from call to call (`Changing`). While the function runs, such a tensor says that its shape
and strides are symbols (core/symbols.py): its `_spec` does, which is None for any other tensor with data.
Strides of a dense tensor follow from its sizes; others that change are symbols themselves. Where a tensor begins
in its storage, and how much follows behind it, are symbols that cancel out of the graph, which counts from the
beginning of the tensor, unless the program asks for them. `restore` makes the tensors what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.atoms import INFINITY
from ..core.data_sizes import is_data
from ..core.errors import check
from ..core.marks import DimensionMark
from ..core.pytree import flatten
from ..core.shapes import Spec, extent, is_dense, memory_order, strides_in_order
from ..core.symbols import hint, is_size, plain
from ..core.tensor import Tensor
from .numbers import Numbers


@dataclass(frozen=True)
class Changing:
    """Which numbers about the arguments are symbols, by the number of the leaf."""

    sizes: Mapping[int, frozenset[int]] = field(default_factory=dict)  # dimensions of a tensor
    strides: Mapping[int, frozenset[int]] = field(default_factory=dict)
    numbers: frozenset[int] = frozenset()  # ints
    # what the program says of dimensions, by the number of the leaf and the dimension
    marks: Mapping[tuple[int, int], DimensionMark] = field(default_factory=dict)
    unbacked: Mapping[int, frozenset[int]] = field(default_factory=dict)  # dimensions that may be 0 or 1, too
    places: bool = False  # whether tensors may begin anywhere in their storages


NOTHING_CHANGES = Changing()


class SymbolicArguments:
    """The tensors among the arguments of a capture whose sizes are symbols."""

    def __init__(self, numbers: Numbers, args: Any, kwargs: Any, changing: Changing) -> None:
        self._tensors: dict[int, Tensor] = {}
        self._strides: dict[int, Any] = {}  # what these tensors said of their strides
        self._placed: dict[int, Tensor] = {}  # that may begin anywhere
        self._behind: dict[int, Any] = {}  # how much of the storage follows behind such a tensor
        self._numbers = numbers
        if not changing.places and not changing.sizes and not changing.strides:
            return
        leaves, _ = flatten((args, kwargs), records=True)
        if changing.places:
            self._place(leaves)
        for i, leaf in enumerate(leaves):
            dims, steps = changing.sizes.get(i, frozenset()), changing.strides.get(i, frozenset())
            if isinstance(leaf, Tensor) and (dims or steps) and id(leaf) not in self._tensors:
                leaf._spec = _symbolic(numbers, i, leaf, dims, steps, changing.unbacked.get(i, frozenset()))
                self._tensors[id(leaf)] = leaf
                self._strides[id(leaf)], leaf._strides = leaf._strides, None
                for d, size in enumerate(leaf._spec.known_shape()):
                    mark = changing.marks.get((i, d))
                    if mark is not None:
                        _limit(numbers, f"argument {i}.shape[{d}]", size, mark)

    def _place(self, leaves: Sequence[Any]) -> None:
        """Have tensors begin where a symbol says: one for those over one storage, which keep their distance."""
        first: dict[int, tuple[int, Any]] = {}
        for i, leaf in enumerate(leaves):
            if not isinstance(leaf, Tensor) or leaf._array is None or id(leaf) in self._placed:
                continue
            offset = leaf._offset
            key = id(leaf if leaf._storage is None else leaf._storage)
            if key not in first:
                name = f"argument {i}.storage_offset()"
                first[key] = offset, self._numbers.place(offset, _reading(i, _offset_of), name)
            known, symbol = first[key]
            self._placed[id(leaf)] = leaf
            self._behind[id(leaf)] = self._numbers.place(
                _bytes_behind(leaf),
                _reading(i, _bytes_behind),
                f"argument {i}: bytes behind it",
                0 if leaf._array.size else -INFINITY,
            )
            leaf._offset = symbol + (offset - known)

    def room(self, tensor: Tensor, spec: Spec) -> Any:
        """How many bytes the storage of a tensor has."""
        behind = self._behind.get(id(tensor))
        if behind is None:
            return tensor.storage_object.nbytes()
        whole = spec.offset + extent(spec.known_shape(), spec.known_strides())
        return whole * spec.dtype.itemsize + behind

    def pinned(self, tensor: Tensor, spec: Spec) -> Spec:
        """`spec`, which a tensor is about to get, with numbers for sizes and strides; those of a tensor that gets
        another geometry in place are no symbols."""
        if self._tensors.pop(id(tensor), None) is not None:
            assert tensor._spec is not None
            for size in (*tensor._spec.known_shape(), *tensor._spec.known_strides()):
                plain(size)
            tensor._spec, tensor._strides = None, self._strides.pop(id(tensor))
        return replace(
            spec, shape=tuple(map(plain, spec.known_shape())), strides=tuple(map(plain, spec.known_strides()))
        )

    def restore(self) -> None:
        """Make the tensors what they were."""
        for tensor in self._tensors.values():
            tensor._spec, tensor._strides = None, self._strides[id(tensor)]
        for tensor in self._placed.values():
            tensor._offset = hint(tensor._offset)
        self._tensors, self._strides, self._placed, self._behind = {}, {}, {}, {}


def _reading(i: int, read: Callable[[Tensor], int]) -> Callable[[list[Any]], int]:
    return lambda leaves: read(leaves[i])


def _offset_of(tensor: Tensor) -> int:
    return tensor._offset


def _bytes_behind(tensor: Tensor) -> int:
    """How much of its storage lies behind a tensor with data."""
    array = tensor._array
    assert array is not None
    used = tensor._offset + extent(array.shape, tensor.strides())
    return tensor.storage_object.nbytes() - used * tensor.dtype.itemsize


def _symbolic(
    numbers: Numbers,
    i: int,
    tensor: Tensor,
    dims: frozenset[int],
    steps: frozenset[int],
    unbacked: frozenset[int],
) -> Spec:
    """What a tensor says of itself. Sizes 0 and 1 are cases of their own, never symbols, unless they are said to
    be."""

    def size_of(d: int) -> Any:
        return lambda leaves: leaves[i]._array.shape[d]

    def stride_of(d: int) -> Any:
        return lambda leaves: leaves[i]._array.strides[d] // leaves[i]._array.itemsize

    def size(d: int, n: int) -> Any:
        name = f"argument {i}.shape[{d}]"
        if d in unbacked:
            return numbers.data_size(name, max(n, 2), read=size_of(d))
        return numbers.size(n, size_of(d), name) if d in dims and n > 1 else n

    shape: list[Any] = [size(d, n) for d, n in enumerate(tensor.shape)]
    strides: Sequence[Any] = tensor.strides()
    if is_dense(tensor.shape, strides):
        strides = strides_in_order(shape, memory_order(tensor.shape, strides))
    else:
        strides = [
            numbers.size(s, stride_of(d), f"argument {i}.stride({d})") if d in steps and s > 1 else s
            for d, s in enumerate(strides)
        ]
    return Spec(tuple(shape), tensor.dtype, tuple(strides), tensor._offset)


def _limit(numbers: Numbers, name: str, size: Any, mark: DimensionMark) -> None:
    """Assume of a size what its mark says. RuntimeError if the size of this call is another."""
    low, high = mark.low, mark.high
    known = not is_data(size)
    if known and ((low is not None and hint(size) < low) or (high is not None and hint(size) > high)):
        raise RuntimeError(
            f"mark_dynamic: {name} is {hint(size)}, which is not in the range that was given, {low} to {high}"
        )
    if is_size(size):
        if low is not None:  # a guard, or a check of every call
            check(size >= low, f"{name} must not be less than {low}")
        if high is not None:
            check(size <= high, f"{name} must not be more than {high}")
        if mark.must_be:
            numbers.must_change[name] = size


def check_marks(numbers: Numbers) -> None:
    """RuntimeError if a program needs one size of a dimension that was marked as dynamic."""
    for name, size in numbers.must_change.items():
        number = numbers.symbols.simplified(size.index).constant_value()
        if number is not None:
            lines = [guard.line for guard in numbers.symbols.guards if guard.line]
            where = f" (see {lines[-1]})" if lines else ""
            raise RuntimeError(
                f"mark_dynamic: the program can only be compiled for {name} == {number}{where}. Use "
                "maybe_mark_dynamic to allow that, mark_static if it never changes, or change the program"
            )

"""Which sizes of a function's arguments are symbols, and the keys of calls that differ in these alone.

As in PyTorch: a call is compiled for its sizes; when another call comes that differs in some of them, exactly
those are symbols from then on. `dynamic=True` makes all of them symbols from the start, `dynamic=False` none;
`mark_dynamic`, `maybe_mark_dynamic` and `mark_static` say so of one dimension. Sizes 0 and 1 are cases of their
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..capture.references import LAYOUT
from ..capture.sizes import Changing
from ..core.marks import DimensionMark, DimensionMarks, marks_of
from ..core.shapes import is_dense, memory_order
from ..core.tensor import Tensor
from .call_key import CallKey
from .size_profile import ChangedSizes, SizeProfile

SHAPE, STRIDES, DTYPE = (LAYOUT.index(name) for name in ("shape", "strides", "dtype"))


class AnySize(NamedTuple):
    """What stands in a key for a size of 2 or more that is a symbol."""

    what: str

    def __repr__(self) -> str:
        return self.what


ANY = AnySize("any size")
DENSE = (
    "dense, in order"  # what stands for strides that follow from the sizes, with the order of the dimensions
)


class ChangingSizes:
    """What is known of the sizes in the calls of one function."""

    def __init__(
        self, dynamic: bool | None = None, profile: SizeProfile | None = None, *, unbacked: bool = False
    ) -> None:
        self.dynamic = dynamic
        self.unbacked = unbacked  # whether `mark_unbacked` says more than that a size changes
        self._profile = profile  # of earlier processes
        self._last: dict[CallKey, CallKey] = {}  # by what calls have in common, the last one
        self._sizes: dict[CallKey, dict[int, set[int]]] = {}
        self._strides: dict[CallKey, dict[int, set[int]]] = {}
        self._numbers: dict[CallKey, set[int]] = {}
        self._unbacked: dict[CallKey, dict[int, set[int]]] = {}
        self._marks: dict[CallKey, dict[tuple[int, int], DimensionMark]] = {}

    def clear(self) -> None:
        self._last.clear()
        self._sizes.clear()
        self._strides.clear()
        self._numbers.clear()
        self._unbacked.clear()
        self._marks.clear()

    @property
    def watching(self) -> bool:
        """Whether keys of calls may have to be generalized."""
        return bool(self._sizes or self._strides)

    def key(self, key: CallKey) -> CallKey:
        """The key of a call, without the sizes that are symbols."""
        kind = _kind(key)
        sizes, strides = self._sizes.get(kind), self._strides.get(kind)
        if not sizes and not strides:
            return key
        any_size = self._unbacked.get(kind, {})
        leaves = [
            _generalized(leaf, (sizes or {}).get(i, ()), (strides or {}).get(i, ()), any_size.get(i, ()))
            if _is_layout(leaf)
            else leaf
            for i, leaf in enumerate(key.leaves)
        ]
        return key._replace(leaves=tuple(leaves))

    def learn(self, key: CallKey, leaves: Sequence[Any]) -> None:
        """A call with this key is about to be compiled: see what changed since the last one like it."""
        if self.dynamic is False:
            return
        kind = _kind(key)
        last = self._last.get(kind)
        self._last[kind] = key
        said = self._marks[kind] = {}  # by the tensors of this call
        marks = {i: marks_of(leaf) or NO_MARKS for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)}
        if last is None:
            self._recall(kind, marks)
        known = self._changed(kind)
        for i, layout in enumerate(key.leaves):
            if not _is_layout(layout):
                continue
            mark = marks.get(i, NO_MARKS)
            shape = layout[SHAPE]
            found = {d for d in range(len(shape)) if d in mark.dynamic}
            steps: set[int] = set()
            if self.dynamic:
                found |= set(range(len(shape)))
                steps |= set(range(len(shape)))
            if last is not None:
                before = last.leaves[i]
                found |= {d for d, (a, b) in enumerate(zip(before[SHAPE], shape, strict=True)) if a != b}
                steps |= {
                    d for d, (a, b) in enumerate(zip(before[STRIDES], layout[STRIDES], strict=True)) if a != b
                }
            if steps and not _is_dense(layout):
                self._strides.setdefault(kind, {}).setdefault(i, set()).update(steps)
            found -= mark.static
            if self.unbacked and mark.unbacked:
                self._unbacked.setdefault(kind, {}).setdefault(i, set()).update(mark.unbacked)
            said.update({(i, d): mark.of(d) for d in mark.dynamic if mark.of(d).says_more})
            if found:
                self._sizes.setdefault(kind, {}).setdefault(i, set()).update(found)
        if last is not None:
            self._keep(kind, known, marks)

    def _recall(self, kind: CallKey, marks: Mapping[int, DimensionMarks]) -> None:
        """Begin with what changed in earlier processes."""
        known = self._profile.load(kind) if self._profile is not None and not self.dynamic else None
        if known is not None:
            sizes, self._strides[kind], self._numbers[kind] = known
            self._sizes[kind] = {i: dims - marks.get(i, NO_MARKS).static for i, dims in sizes.items()}

    def _keep(self, kind: CallKey, before: ChangedSizes, marks: Mapping[int, DimensionMarks]) -> None:
        """Tell later processes what changed, if it is more than before; not what marks say of this one."""
        now = self._changed(kind)
        if self._profile is not None and not self.dynamic and now != before:
            sizes = {i: dims - marks.get(i, NO_MARKS).dynamic for i, dims in now.sizes.items()}
            self._profile.store(kind, now._replace(sizes=sizes))

    def _changed(self, kind: CallKey) -> ChangedSizes:
        dims = [{i: set(d) for i, d in of.get(kind, {}).items()} for of in (self._sizes, self._strides)]
        return ChangedSizes(dims[0], dims[1], set(self._numbers.get(kind, ())))

    def number_changes(self, key: CallKey, numbers: Sequence[int]) -> None:
        """These ints among the arguments had to be known, and changed."""
        if self.dynamic is not False and numbers:
            kind = _kind(key)
            before = self._changed(kind)
            self._numbers.setdefault(kind, set()).update(numbers)
            self._keep(kind, before, {})

    def changing(self, key: CallKey) -> Changing:
        """What is a symbol when a call with this key is captured."""
        kind = _kind(key)
        numbers = set(self._numbers.get(kind, ()))
        if self.dynamic:
            numbers |= {i for i, leaf in enumerate(key.leaves) if leaf is int}
        return Changing(
            {i: frozenset(dims) for i, dims in self._sizes.get(kind, {}).items()},
            {i: frozenset(dims) for i, dims in self._strides.get(kind, {}).items()},
            frozenset(numbers),
            dict(self._marks.get(kind, {})),
            {i: frozenset(dims) for i, dims in self._unbacked.get(kind, {}).items()},
            places=True,
        )


def seen_as(key: CallKey, other: CallKey) -> CallKey:
    """The key of a call without the sizes that are symbols in another key: what is left to differ is why."""
    leaves = list(key.leaves)
    for i, (leaf, pattern) in enumerate(zip(key.leaves, other.leaves, strict=False)):
        if _is_layout(leaf) and _is_layout(pattern) and len(leaf[SHAPE]) == len(pattern[SHAPE]):
            dims = [d for d, n in enumerate(pattern[SHAPE]) if n == ANY]
            steps = [d for d, n in enumerate(pattern[STRIDES]) if n == ANY]
            leaves[i] = _generalized(leaf, dims, steps)
    return key._replace(leaves=tuple(leaves))


NO_MARKS = DimensionMarks()


def _is_layout(leaf: Any) -> bool:
    return isinstance(leaf, tuple) and len(leaf) == len(LAYOUT)


def _kind(key: CallKey) -> CallKey:
    """A key without any sizes: what calls have in common that may be served by one program."""
    return key._replace(leaves=tuple([_rank(leaf) if _is_layout(leaf) else leaf for leaf in key.leaves]))


def _rank(layout: tuple[Any, ...]) -> tuple[Any, ...]:
    """The layout without sizes and strides; the same of one in which some are symbols already."""
    return (len(layout[SHAPE]), *layout[STRIDES + 1 :])


def _elements(layout: tuple[Any, ...]) -> tuple[int, ...]:
    """The strides of a layout, in elements."""
    return tuple(s // layout[DTYPE].itemsize for s in layout[STRIDES])


def _is_dense(layout: tuple[Any, ...]) -> bool:
    return is_dense(layout[SHAPE], _elements(layout))


def _generalized(layout: tuple[Any, ...], dims: Any, steps: Any, any_size: Any = ()) -> tuple[Any, ...]:
    if not dims and not steps:
        return layout
    shape = tuple(ANY if d in any_size or (d in dims and n > 1) else n for d, n in enumerate(layout[SHAPE]))
    if _is_dense(layout):
        strides: tuple[Any, ...] = (DENSE, *memory_order(layout[SHAPE], _elements(layout)))
    else:
        elements = _elements(layout)
        strides = tuple(ANY if d in steps and elements[d] > 1 else s for d, s in enumerate(layout[STRIDES]))
    return (shape, strides, *layout[STRIDES + 1 :])

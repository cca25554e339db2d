"""What a program says of the dimensions of a tensor: which sizes change from call to call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class DimensionMarks:
    """The marks of one tensor, by dimension."""

    dynamic: frozenset[int] = frozenset()  # symbols; must_be: it is an error if a program needs the number
    must_be: frozenset[int] = frozenset()
    static: frozenset[int] = frozenset()
    unbacked: frozenset[int] = frozenset()  # of which nothing is assumed, not that it is 2 or more either
    ranges: Mapping[int, tuple[int | None, int | None]] = field(default_factory=dict)

    def of(self, dim: int) -> DimensionMark:
        return DimensionMark(
            dim in self.must_be, *self.ranges.get(dim, (None, None)), unbacked=dim in self.unbacked
        )


@dataclass(frozen=True)
class DimensionMark:
    """What is said of one dimension whose size changes."""

    must_be: bool = False
    low: int | None = None
    high: int | None = None
    unbacked: bool = False

    @property
    def says_more(self) -> bool:
        """Whether it says more than that the size changes."""
        return self.must_be or self.unbacked or self.low is not None or self.high is not None


def marks_of(tensor: Any) -> DimensionMarks | None:
    """What was said of the dimensions of a tensor."""
    found: DimensionMarks | None = tensor.__dict__.get("_dimension_marks")
    return found


def _dims(tensor: Any, index: Any) -> tuple[int, ...]:
    given = range(tensor.ndim) if index is None else index if isinstance(index, list | tuple) else (index,)
    found = []
    for dim in given:
        if not -tensor.ndim <= dim < tensor.ndim:
            raise IndexError(f"dimension {dim} is out of range for a tensor of {tensor.ndim} dimensions")
        found.append(dim % tensor.ndim)
    return tuple(found)


def mark_dynamic(tensor: Any, index: Any, *, min: int | None = None, max: int | None = None) -> None:
    """The size changes: compiled code takes all sizes (from `min` to `max`, if given), and a program that needs
    one size alone is an error."""
    marks = marks_of(tensor) or DimensionMarks()
    dims = frozenset(_dims(tensor, index))
    tensor._dimension_marks = replace(
        marks,
        dynamic=marks.dynamic | dims,
        must_be=marks.must_be | dims,
        static=marks.static - dims,
        ranges={**marks.ranges, **dict.fromkeys(dims, (min, max))},
    )


def maybe_mark_dynamic(tensor: Any, index: Any) -> None:
    """The size changes; a program may need one size nevertheless."""
    marks = marks_of(tensor) or DimensionMarks()
    dims = frozenset(_dims(tensor, index))
    tensor._dimension_marks = replace(marks, dynamic=marks.dynamic | dims, static=marks.static - dims)


def mark_unbacked(
    tensor: Any, index: Any, *, strict: bool = False, min: int | None = None, max: int | None = None
) -> None:
    """The size changes, and under fullgraph=True compiled code takes it as it takes a size that is data: one
    program serves all sizes (from `min` to `max`, if given), 0 and 1 included, and a program that asks for more
    is an error. Elsewhere it is as after `mark_dynamic`, or `maybe_mark_dynamic` if not `strict`."""
    if strict:
        mark_dynamic(tensor, index, min=min, max=max)
    else:
        maybe_mark_dynamic(tensor, index)
    marks = marks_of(tensor) or DimensionMarks()
    dims = frozenset(_dims(tensor, index))
    ranges = {**marks.ranges, **dict.fromkeys(dims, (min, max))}
    tensor._dimension_marks = replace(marks, unbacked=marks.unbacked | dims, ranges=ranges)


def mark_static(tensor: Any, index: Any = None) -> None:
    """The size does not change: another one compiles again."""
    marks = marks_of(tensor) or DimensionMarks()
    dims = frozenset(_dims(tensor, index))
    tensor._dimension_marks = replace(
        marks,
        dynamic=marks.dynamic - dims,
        must_be=marks.must_be - dims,
        static=marks.static | dims,
        unbacked=marks.unbacked - dims,
    )

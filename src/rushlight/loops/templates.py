"""Kernels that are not a plain loop nest, as the compiler's stages pass them on: scans, scatters and sorts.

Each is a `Call` with one of the routines below. Scans and scatters carry a nest (attribute "nest"), whose
statements mean what they mean in any nest, but for what is said here; scheduling adds how its loops run
(attribute "plan").

SCAN: one phase with one inner loop, which runs in order. A `Reduce` of the nest folds by the `Fold` of its
name (attribute "folds"); later statements of the same point read the running value as the leaf "running".
SCATTER: no inner loops; `Store`s go to positions that may be loaded from memory. Points that may meet at one
position run one after the other, in row-major order, in one task.
COPY: a nest that writes a part of a buffer, and is not to be fused with others that write the rest.
SORT: see `Sort`. The first input is the source; the attributes "values" and "positions" are the buffers that
results go to, None where nobody reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.dtypes import DType
from .expr import Expr, Recorder
from .nest import Buffer, Call, Nest, verify

SCAN, SCATTER, COPY, SORT = "scan", "scatter", "copy", "sort"


@dataclass(frozen=True, repr=False)
class Fold:
    """How a scan goes on: the running value becomes `step`, an expression of `old` and `new`.

    `neutral` is what it starts from. If it is `associative`, parts of a row may be folded first.
    """

    step: Expr
    old: Expr
    new: Expr
    neutral: Any
    running: Expr
    associative: bool

    def __str__(self) -> str:
        return f"{self.running} := {self.step}"

    __repr__ = __str__


def fold(ops: Recorder, name: str, dtype: DType, step: Any, neutral: Any, associative: bool) -> Fold:
    """A fold by the function `step(ops, old, new)`."""
    old, new, running = (ops.make("running", (), dtype, name + part) for part in (".old", ".new", ""))
    return Fold(step(ops, old, new), old, new, neutral, running, associative)


def nest_of(call: Call) -> Nest:
    nest: Nest = call.attributes["nest"]
    return nest


def template(routine: str, nest: Nest, extra: Sequence[Buffer] = (), **attributes: Any) -> Call:
    """A call that runs `nest`; `extra` are buffers that it reads besides."""
    verify(nest)
    outputs = list(dict.fromkeys(access.buffer for access in nest.writes()))
    reads = [access.buffer for access in nest.reads()]
    inputs = list(dict.fromkeys((*reads, *extra)))
    return Call(nest.name, routine, inputs, outputs, {"nest": nest, **attributes})


@dataclass(frozen=True)
class Layout:
    """Where element i of row (r_0, ..., r_n) lies: offset + sum of r_k * strides[k] + i * step."""

    strides: tuple[int, ...]
    step: int
    offset: int = 0


@dataclass(frozen=True)
class Sort:
    """The order of each row, equal elements in the order they have; NaN counts as the greatest.

    `rows` are the extents that number the rows. The first `count` elements of the sorted row and their
    positions are the results.
    """

    dtype: DType
    rows: tuple[int, ...]
    length: int
    count: int
    descending: bool
    source: Layout
    values: Layout
    positions: Layout


NETWORK, RADIX, SELECT = "network", "radix", "select"


@dataclass(frozen=True)
class SortPlan:
    """How rows are sorted: by which method, in how many tasks, each with `words` 8-byte words of scratch."""

    method: str
    rows: int
    tasks: int
    rows_per_task: int
    words: int
    scratch: Buffer


def sort_of(call: Call) -> Sort:
    sort: Sort = call.attributes["sort"]
    return sort

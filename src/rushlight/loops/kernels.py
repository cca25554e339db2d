"""The kernels of a program: the loop nest, and the kernels that are more than one.

    Nest      phases under outer loops (loops/nest.py)
    Product   a matrix product, with a nest that runs on every finished tile of the result
    Scan      a nest whose inner loop runs in order and hands running values on
    Scatter   a nest that stores at positions loaded from memory
    Copy      a nest that writes a part of a buffer whose other parts other kernels write
    Sort      the order of every row
    Extern    an operator's eager kernel, called on whole buffers

All are frozen: a pass that changes one makes another with `dataclasses.replace`. Each has a `name`, and
`inputs` and `outputs`, the buffers that it reads and writes; kernels are equal only to themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..core.dtypes import DType
from ..graph.ir import Node
from .expr import Expr, Recorder
from .nest import Buffer, Nest
from .plans import LoopPlan
from .product import ProductShape


@dataclass(frozen=True, eq=False)
class Product:
    """result = left @ right, dense, [batch, rows, columns]; see `ProductShape` for how the operands lie.

    The epilogue is a nest over (batch, rows, columns) that runs on every tile of the result as soon as it is
    finished. Where nobody else reads the result, it is memory that the epilogue writes, or scratch.
    """

    name: str
    shape: ProductShape
    left: Buffer
    right: Buffer
    result: Buffer
    epilogue: Nest | None = None
    keeps_result: bool = True  # somebody besides the epilogue reads the result
    nontemporal: tuple[Buffer, ...] = ()  # results of the epilogue that are stored past the caches
    # of the result, only what lies near the diagonal of its triangle is read: as far as vectors and tiles reach
    near_diagonal: bool = False
    groups: Buffer | None = None  # where groups of rows, or of the depth, end

    @functools.cached_property
    def inputs(self) -> tuple[Buffer, ...]:
        reads = () if self.epilogue is None else self.epilogue.inputs
        groups = () if self.groups is None else (self.groups,)
        others = (b for b in reads if b is not self.result and b not in self.outputs)
        return (self.left, self.right, *groups, *others)

    @functools.cached_property
    def outputs(self) -> tuple[Buffer, ...]:
        writes = () if self.epilogue is None else self.epilogue.outputs
        kept = (self.result,) if self.keeps_result else ()
        return tuple(dict.fromkeys((*kept, *writes, self.result)))

    def __str__(self) -> str:
        outputs, inputs = (", ".join(map(str, buffers)) for buffers in (self.outputs, self.inputs))
        epilogue = "" if self.epilogue is None else f"\n{self.epilogue}"
        return f"{outputs} = product({inputs}; {self.shape}){epilogue}"


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


@dataclass(frozen=True, eq=False)
class Scan:
    """A nest of one phase with one inner loop, which runs in order.

    A `Reduce` of the nest folds by the `Fold` of its name; later statements of the same point read the running
    value as the leaf "running".
    """

    nest: Nest
    folds: Mapping[str, Fold]
    plan: LoopPlan | None = None

    @property
    def name(self) -> str:
        return self.nest.name

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        return self.nest.inputs

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        return self.nest.outputs

    def __str__(self) -> str:
        folds = ", ".join(map(str, self.folds.values()))
        return f"{_spelled('scan', self.inputs, self.outputs)} with {folds}\n{self.nest}"


@dataclass(frozen=True, eq=False)
class Scatter:
    """A nest without inner loops, whose stores go to positions that may be loaded from memory.

    Points that may meet at one position run one after the other, in row-major order, in one task. What is
    written has contents before, which count as read.
    """

    nest: Nest

    @property
    def name(self) -> str:
        return self.nest.name

    @functools.cached_property
    def inputs(self) -> tuple[Buffer, ...]:
        return tuple(dict.fromkeys((*self.nest.inputs, *self.nest.outputs)))

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        return self.nest.outputs

    def __str__(self) -> str:
        return f"{_spelled('scatter', self.inputs, self.outputs)}\n{self.nest}"


@dataclass(frozen=True, eq=False)
class Copy:
    """A nest that writes a part of a buffer, and is not to be fused with others that write the rest. One that
    `overwrites` replaces elements that others have written; the parts of others do not overlap."""

    nest: Nest
    overwrites: bool = False

    @property
    def name(self) -> str:
        return self.nest.name

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        return self.nest.inputs

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        return self.nest.outputs

    def __str__(self) -> str:
        return f"{_spelled('copy', self.inputs, self.outputs)}\n{self.nest}"


@dataclass(frozen=True)
class Layout:
    """Where element i of row (r_0, ..., r_n) lies: offset + sum of r_k * strides[k] + i * step."""

    strides: tuple[int, ...]
    step: int
    offset: int = 0


@dataclass(frozen=True)
class SortShape:
    """Which rows are sorted: `rows` are the extents that number them, each has `length` elements.

    The first `count` elements of the sorted row and their positions are the results.
    """

    dtype: DType
    rows: tuple[int, ...]
    length: int
    count: int
    descending: bool
    source: Layout
    values: Layout
    positions: Layout


@dataclass(frozen=True, eq=False)
class Sort:
    """The order of each row, equal elements in the order they have; NaN counts as the greatest.

    `values` and `positions` are None where nobody reads them.
    """

    name: str
    shape: SortShape
    source: Buffer
    values: Buffer | None
    positions: Buffer | None

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        return (self.source,)

    @functools.cached_property
    def outputs(self) -> tuple[Buffer, ...]:
        return tuple(b for b in (self.values, self.positions) if b is not None)

    def __str__(self) -> str:
        return _spelled("sort", self.inputs, self.outputs, str(self.shape))


@dataclass(frozen=True, eq=False)
class Extern:
    """A call of the eager kernel of `node`'s operator; inputs are seen under `layouts`, (shape, strides) each."""

    name: str
    node: Node
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    layouts: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

    def __str__(self) -> str:
        return _spelled("extern", self.inputs, self.outputs, str(self.node))


Routine = Product | Scan | Scatter | Copy | Sort | Extern  # a kernel that is not a plain nest
Kernel = Nest | Routine


def _spelled(kind: str, inputs: tuple[Buffer, ...], outputs: tuple[Buffer, ...], details: str = "") -> str:
    sources, targets = (", ".join(map(str, buffers)) for buffers in (inputs, outputs))
    return f"{targets} = {kind}({sources}{'; ' if details else ''}{details})"

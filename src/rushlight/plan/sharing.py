"""What a program has once: code that kernels share.

Nests with the same key and other buffers share one function; an instruction with long code that occurs in
more than one place becomes a function of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from ..core.dtypes import DType
from ..core.index import Index, Quotient, Remainder
from ..core.symbols import hint
from ..loops.expr import Expr, walk
from ..loops.instructions import COSTS
from ..loops.nest import Buffer, MemoryKind, Nest, Reduce, Statement, Store
from .cost import CALLED_TOO_OFTEN, WORTH_SHARING
from .nest import NestPlan
from .vectors import extent_of

Instructions = frozenset[tuple[str, DType]]  # by name and the dtype of operands and result

SHARED_DTYPES = ("float32", "float64")


def is_costly(node: Expr) -> bool:
    """Whether an instruction is so long that its code should not be repeated: a function of floats."""
    return (
        COSTS.get(node.op, 1) >= WORTH_SHARING
        and node.op not in CALLED_TOO_OFTEN
        and node.dtype.name in SHARED_DTYPES
        and bool(node.args)
        and all(a.dtype is node.dtype for a in node.args)
    )


def shared_instructions(nests: Iterable[Nest]) -> Instructions:
    """Long instructions that occur more than once in different nests: their code is written once."""
    uses: Counter[tuple[str, DType]] = Counter()
    for nest in nests:
        for phase in nest.phases:
            nodes = {node for value in phase.values() for node in walk(value) if is_costly(node)}
            uses.update((node.op, node.dtype) for node in nodes)
    return frozenset(use for use, count in uses.items() if count > 1)


def kernel_key(plan: NestPlan) -> Any:
    """What the code of a nest depends on: nests with the same key and other buffers can share a function."""
    key = _Key(plan.nest)
    single = plan.vector_outer and plan.shares_extent
    width = 0 if plan.outer is None else plan.outer.width
    key.parts += [plan.vector_outer, plan.block]
    for var in plan.nest.outer:
        key.parts.append((width, hint(extent_of(var)) >= width) if single else var.extent)
    for phase in plan.nest.phases:
        key.parts.append(tuple((key.names[v], v.extent) for v in phase.inner))
        for statement in phase.statements:
            key.add_statement(statement)
    if plan.limit is not None:
        key.parts.append(key.index(plan.limit))
        for rest in (r for phase in plan.phases for r in phase.rest):
            key.add_value(rest.store.value)
            place = key.buffers[rest.store.access.buffer]
            key.parts.append((place, rest.reach, key.numbers[rest.store.value]))
    return tuple(key.parts)


class _Key:
    """The parts of a key, with loops, buffers and values by the number of their first use."""

    def __init__(self, nest: Nest) -> None:
        self.parts: list[Any] = []
        self.numbers: dict[Expr, int] = {}
        self.names: dict[Any, str] = {}
        for var in (*nest.outer, *(v for phase in nest.phases for v in phase.inner)):
            self.names.setdefault(var, f"v{len(self.names)}")
        self.buffers: dict[Buffer, tuple[Any, ...]] = {}
        for buffer in dict.fromkeys(a.buffer for a in (*nest.reads(), *nest.writes())):
            size = buffer.size if buffer.memory is MemoryKind.ROW else None
            self.buffers[buffer] = (len(self.buffers), buffer.dtype.name, size)

    def add_statement(self, statement: Statement) -> None:
        self.add_value(statement.value)
        if isinstance(statement, Reduce):
            where: Any = (self.names.setdefault(statement.name, f"v{len(self.names)}"), statement.combine)
        else:
            where = self._store(statement)
        self.parts.append((where, self.numbers[statement.value]))

    def _store(self, store: Store) -> Any:
        return self.buffers[store.access.buffer], self.index(store.access.index), store.mode

    def add_value(self, value: Expr) -> None:
        for node in walk(value):
            if node not in self.numbers:
                self.numbers[node] = len(self.numbers)
                self.parts.append(self._node(node))

    def _node(self, node: Expr) -> Any:
        data: Any = node.data
        if node.op == "load":
            indirect = tuple((atom.name, self.numbers[x]) for atom, x in data.indirect)
            data = (self.buffers[data.buffer], self.index(data.index), indirect)
        elif node.op == "index":
            data = self.index(data)
        elif node.op == "reduced":
            data = self.names[data]
        elif node.op == "constant":
            data = data[0]
        return node.op, node.dtype.name, tuple(self.numbers[a] for a in node.args), data

    def index(self, index: Index) -> Any:
        return tuple(
            sorted(
                (tuple(self._atom(atom) for atom in monomial), coefficient)
                for monomial, coefficient in index.terms.items()
            )
        )

    def _atom(self, atom: Any) -> str:
        if isinstance(atom, Quotient | Remainder):
            parts = (self.index(part) for part in (atom.value, atom.divisor))
            sign = "" if atom.value.bounds()[0] >= 0 else "signed "  # by which the code differs
            return f"{sign}{type(atom).__name__}({', '.join(map(str, parts))})"
        return self.names.get(atom, str(atom))

"""What the code of a nest depends on: the width of its vectors, and a key that equal kernels share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...loops.expr import Expr, cost, loads_in, walk
from ...loops.index import Index, Quotient, Remainder, Var
from ...loops.nest import Buffer, MemoryKind, Nest, Reduce, Statement, Store
from ...loops.plans import LoopPlan
from ...loops.varying import varying
from ...runtime.target import Target
from .reductions import ARGUMENTS


def machine_lanes(nest: Nest, target: Target) -> int:
    """Lanes that fill a register with the widest type that is computed with (64-bit indices do not count, nor
    what is the same everywhere, such as the numbers of an optimizer)."""
    variables = [*nest.outer, *(var for phase in nest.phases for var in phase.inner)]
    moving = varying((value for phase in nest.phases for value in phase.values()), variables)
    return target.lanes(max([4, *(node.dtype.itemsize for node in moving if node.op != "index")]))


LIMITED = 2  # registers of a vector in rows that end early: wider ones would end later


def row_unit(plan: LoopPlan, target: Target) -> int | None:
    """Lanes of the widest vectors of rows that end early; None if they run to their end all the same."""
    unit = LIMITED * machine_lanes(plan.nest, target)
    whole = all(extent_of(phase.inner[-1]) % unit == 0 for phase in plan.nest.phases if phase.inner)
    return unit if plan.limit is not None and whole else None


LONG_FOLD = 12  # instructions that hide the latency of the fold themselves


def folds_long(statement: Statement) -> bool:
    """Whether what is folded takes long to compute."""
    return isinstance(statement, Reduce) and cost(statement.value) >= LONG_FOLD


def loop_width(statements: Sequence[Statement], var: Var, lanes: int) -> int:
    """Lanes of a loop: as many registers as can be had without waste, up to four.

    Where lanes are gathered or many values are alive, one register has to do; where what is folded takes long
    to compute, two.
    """
    extent = extent_of(var)
    most = 2 if any(folds_long(s) for s in statements) else 4
    streams: set[Any] = set()
    for statement in statements:
        if any(access.indirect for access in loads_in(statement.value)):
            return lanes
        for index, key in _indices(statement):
            stride = index.stride(var)
            if stride is None or stride not in (0, 1):
                return lanes
            if stride == 1:
                streams.add(key)
        if isinstance(statement, Reduce):
            if statement.combine in ARGUMENTS:
                return lanes
            streams.add(statement.name)
    most = min(most, 4 if len(streams) <= 4 else 2 if len(streams) <= 8 else 1)
    for registers in (4, 2):
        width = registers * lanes
        if registers <= most and extent >= width and -extent % width <= extent // 8:
            return width
    return lanes


def extent_of(var: Var) -> int:
    value = var.extent.constant_value()
    if value is None:
        raise NotImplementedError("extents known only at call time")
    return value


def _indices(statement: Statement) -> Iterator[tuple[Index, Any]]:
    """The indices of a statement, each with what is read or written there."""
    for node in walk(statement.value):
        if node.op == "load":
            yield node.data.index, node.data
        elif node.op == "index":
            yield node.data, node
    if isinstance(statement, Store):
        yield statement.access.index, statement.access


# Equal kernels.

NOTHING: Mapping[Buffer, int] = {}


def kernel_key(plan: LoopPlan, target: Target, reaches: Mapping[Buffer, int] = NOTHING) -> Any:
    """What the code of a nest depends on: nests with the same key and other buffers can share a function."""
    nest = plan.nest
    names: dict[Any, str] = {}
    for var in (*nest.outer, *(v for phase in nest.phases for v in phase.inner)):
        names.setdefault(var, f"v{len(names)}")
    buffers: dict[Buffer, tuple[Any, ...]] = {}
    for buffer in dict.fromkeys(a.buffer for a in (*nest.reads(), *nest.writes())):
        size = buffer.size.constant_value() if buffer.memory is MemoryKind.ROW else None
        buffers[buffer] = (len(buffers), buffer.dtype.name, size)
    numbers: dict[Expr, int] = {}
    single = plan.vector_outer and len(nest.outer) == 1
    statements = [s for phase in nest.phases for s in phase.statements]
    parts: list[Any] = [plan.vector_outer, plan.block]
    for var in nest.outer:
        width = loop_width(statements, var, machine_lanes(nest, target)) if single else 0
        parts.append((width, extent_of(var) >= width) if single else extent_of(var))
    for phase in nest.phases:
        parts.append(tuple((names[v], extent_of(v)) for v in phase.inner))
        for statement in phase.statements:
            for node in walk(statement.value):
                if node not in numbers:
                    numbers[node] = len(numbers)
                    parts.append(_node_key(node, numbers, names, buffers))
            where: Any
            if isinstance(statement, Store):
                where = (
                    buffers[statement.access.buffer],
                    _index_key(statement.access.index, names),
                    statement.mode,
                )
            else:
                where = (names.setdefault(statement.name, f"v{len(names)}"), statement.combine)
            parts.append((where, numbers[statement.value]))
    if plan.limit is not None:
        parts.append(_index_key(plan.limit, names))
        for store in (s for stores in plan.rest for s in stores):
            for node in walk(store.value):
                if node not in numbers:
                    numbers[node] = len(numbers)
                    parts.append(_node_key(node, numbers, names, buffers))
            buffer = store.access.buffer
            parts.append((buffers[buffer], reaches.get(buffer), numbers[store.value]))
    return tuple(parts)


def _node_key(
    node: Expr, numbers: dict[Expr, int], names: dict[Any, str], buffers: dict[Buffer, tuple[Any, ...]]
) -> Any:
    data: Any = node.data
    if node.op == "load":
        indirect = tuple((atom.name, numbers[x]) for atom, x in data.indirect)
        data = (buffers[data.buffer], _index_key(data.index, names), indirect)
    elif node.op == "index":
        data = _index_key(data, names)
    elif node.op == "reduced":
        data = names[data]
    elif node.op == "constant":
        data = data[0]
    return node.op, node.dtype.name, tuple(numbers[a] for a in node.args), data


def _index_key(index: Index, names: dict[Any, str]) -> Any:
    return tuple(
        sorted(
            (tuple(_atom_key(atom, names) for atom in monomial), coefficient)
            for monomial, coefficient in index.terms.items()
        )
    )


def _atom_key(atom: Any, names: dict[Any, str]) -> str:
    if isinstance(atom, Quotient | Remainder):
        parts = (_index_key(part, names) for part in (atom.value, atom.divisor))
        sign = "" if atom.value.bounds()[0] >= 0 else "signed "  # by which the code differs, see values.py
        return f"{sign}{type(atom).__name__}({', '.join(map(str, parts))})"
    return names.get(atom, str(atom))

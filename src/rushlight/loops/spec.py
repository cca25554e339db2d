"""The contract of the loop IR, as data: one `NestRule` for everything that a valid nest keeps.

A rule has a name, a sentence, and a function that gives what breaks it. `verify_nest` applies `NEST_RULES`;
`verify_kernel` and `verify_definition` apply them to the nest that a kernel carries, or that a definition
stands for, and check that products, sorts and library calls stay inside of their buffers. Passes are verified
so in tests and where RUSHLIGHT_VERIFY=1 is set (core/passes.py); every finding raises InternalError.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from ..core.atoms import Dim
from ..core.data_sizes import is_data
from ..core.errors import InternalError
from ..core.index import Index, Indirect, Var, as_index
from ..core.proofs import always_nonnegative
from ..core.symbols import hint, hint_of, size_of
from .definitions import Definition, Map, Reduction
from .expr import Access, Expr, loads_in, result_dtype, walk
from .extents import flatten
from .instructions import INSTRUCTIONS, OperandTypes, ResultType
from .kernels import Extern, Kernel, Layout, Product, Sort
from .nest import Buffer, MemoryKind, Nest, Phase, Reduce, Statement, Store
from .plans import LoopPlan
from .product import Matrix, ProductShape, hints_of


@dataclass(frozen=True)
class NestRule:
    """Something that every valid nest keeps; `broken(nest)` says where it does not."""

    name: str
    sentence: str
    broken: Callable[[Nest], Iterator[str]]


def verify_nest(nest: Nest, updated: Collection[Buffer] = ()) -> None:
    """Raise InternalError if the nest breaks a rule.

    `updated` are the buffers of the caller that are written in place.
    """
    for rule in NEST_RULES:
        for finding in rule.broken(nest):
            raise InternalError(
                f"{nest.name} breaks the rule {rule.name!r} ({rule.sentence}): {finding}\n{nest}"
            )
    for access in nest.writes():
        if access.buffer.memory is MemoryKind.CONSTANT or (
            access.buffer.memory is MemoryKind.INPUT and access.buffer not in updated
        ):
            raise InternalError(f"{nest.name}: {access} is not to be written\n{nest}")


# Loops.


def _extents(nest: Nest) -> Iterator[str]:
    for var in (*nest.outer, *(v for phase in nest.phases for v in phase.inner)):
        if hint_of(var.extent) < 0:
            yield f"{var} runs {var.extent} times"


def _running(nest: Nest) -> Iterator[Phase]:
    """The phases that run at all: a fold over no elements is valid, and touches no memory."""
    if all(hint_of(var.extent) > 0 for var in nest.outer):
        yield from (p for p in nest.phases if all(hint_of(var.extent) > 0 for var in p.inner))


def _loops(nest: Nest) -> Iterator[str]:
    for phase in nest.phases:
        loops = {*nest.outer, *phase.inner}
        for text, index in _indices(phase.statements):
            unknown = [atom for atom in index.atoms() if isinstance(atom, Var) and atom not in loops]
            if unknown:
                yield f"{text} uses {', '.join(map(str, unknown))}"


def _indices(statements: Iterable[Statement]) -> Iterator[tuple[str, Index]]:
    for statement in statements:
        if isinstance(statement, Store):
            yield str(statement.access), statement.access.index
        for value in statement.values():
            for node in walk(value):
                if node.op == "load":
                    yield str(node), node.data.index
                elif node.op == "index":
                    yield str(node), node.data


# Memory.


def _bounds(nest: Nest) -> Iterator[str]:
    phases = list(_running(nest))
    stores = (store.access for phase in phases for store in phase.stores())
    for access in dict.fromkeys((*_loads(phases), *stores)):
        low, high = access.index.bounds()
        size = hint_of(access.buffer.size)
        if size == 0 and is_data(size_of(access.buffer.size)):
            continue  # a guess: of what is empty in a run, one element may be read (runtime/sized.py)
        if (low < 0 or high >= size) and not _proven(access):
            outside = _outside(access.index, size)
            if outside is not None:
                yield f"{access} reaches element {outside} of {size}"


def _proven(access: Access) -> bool:
    """Whether an access stays inside of its buffer for all sizes, where these change."""
    index, size = access.index, access.buffer.size
    return (
        size.constant_value() is None and always_nonnegative(index) and always_nonnegative(size - 1 - index)
    )


def _loads(phases: Iterable[Phase]) -> Iterator[Access]:
    for phase in phases:
        for value in phase.values():
            yield from loads_in(value)


MOST_POINTS = 1 << 14  # points at which an index is evaluated to find one outside of its buffer


def _outside(index: Index, size: int) -> int | None:
    """A value of an index that is not in 0..size-1, if one is found.

    `Index.bounds` is an estimate: it takes the parts of an index apart that change together. Where it does not
    prove that the index stays inside, the index is evaluated, at every point of short loops and at the corners
    of long ones; where sizes change, for those of the call that was captured.
    """
    free = sorted((a for a in index.atoms() if isinstance(a, Var | Indirect)), key=str)
    sizes = {a: a.owner.hints[a] for a in index.atoms() if isinstance(a, Dim)}
    total = 1
    for atom in free:
        total *= hint_of(atom.extent) or 1
    choices: list[Iterable[int]] = []
    for atom in free:
        extent = hint_of(atom.extent) or 1
        few = (
            range(extent)
            if total <= MOST_POINTS
            else sorted({n for n in (0, 1, extent // 2, extent - 1) if 0 <= n < extent})
        )
        choices.append(few)
    for point in _points(choices):
        value = index.evaluate(sizes | dict(zip(free, point, strict=True)))
        if not 0 <= value < size:
            return value
    return None


def _points(choices: list[Iterable[int]]) -> Iterator[tuple[int, ...]]:
    if not choices:
        yield ()
        return
    for rest in _points(choices[1:]):
        for first in choices[0]:
            yield (first, *rest)


def _read_after_write(nest: Nest) -> Iterator[str]:
    written: dict[Buffer, list[tuple[Phase, Access]]] = {}
    for phase in nest.phases:
        for store in phase.stores():
            written.setdefault(store.access.buffer, []).append((phase, store.access))
    for phase in nest.phases:
        for value in phase.values():
            for access in loads_in(value):
                for where, other in written.get(access.buffer, ()):
                    same = phase is where and not other.indirect and _equal(access.index, other.index)
                    if not same and not _at_one_point(nest, access, other):
                        yield f"{access} is read where another point writes {other}"


def _equal(index: Index, other: Index) -> bool:
    """Whether two indices are one function; ways of writing one that the algebra does not make equal count."""
    return index == other or _outside(index - other, 1) is None


def _at_one_point(nest: Nest, access: Access, other: Access) -> bool:
    """Whether both stay in the part of their buffer that belongs to one point of the outer loops."""
    if access.buffer.memory is MemoryKind.ROW:
        return True
    if access.indirect or other.indirect:
        return False
    single = {var: 0 for var in nest.outer if var.extent == 1}
    part = _parts(_hinted(access.index.substitute(single)), nest)
    return part is not None and part == _parts(_hinted(other.index.substitute(single)), nest)


def _hinted(index: Index) -> Index:
    """An index in the call that was captured, where sizes change."""
    sizes = {a: a.owner.hints[a] for a in index.atoms() if isinstance(a, Dim)}
    loops = {a: _hinted_loop(a) for a in index.atoms() if isinstance(a, Var)}
    return index.substitute(sizes | loops) if sizes or any(a != b for a, b in loops.items()) else index


def _hinted_loop(var: Var) -> Var:
    return Var(var.name, hint_of(var.extent))


def _parts(index: Index, nest: Nest) -> tuple[Index, int] | None:
    """(where the part of an outer point begins, its length), if an index stays inside of a part of its own."""
    outer = [_hinted_loop(var) for var in nest.outer if var.extent != 1]
    begin = as_index(0)
    for var in outer:
        step = index.stride(var)
        if step is None:
            return None
        begin = begin + step * var
    steps = [step.constant_value() for var in outer if (step := index.stride(var)) is not None]
    low, high = (index - begin).bounds()
    length = min((abs(step) for step in steps if step), default=None)
    if None in steps or 0 in steps or low < 0 or (length is not None and high >= length):
        return None
    return begin, length or 0


# Values.


def _accumulators(nest: Nest) -> Iterator[str]:
    finished: set[str] = set()
    for phase in nest.phases:
        folded: set[str] = set()
        for statement in phase.statements:
            for value in statement.values():
                for node in walk(value):
                    if node.op == "reduced" and node.data not in finished:
                        yield f"{node.data} is read before its phase has ended"
            if isinstance(statement, Reduce):
                if statement.name in finished | folded:
                    yield f"{statement.name} is folded twice"
                folded.add(statement.name)
        finished |= folded


def _dtypes(nest: Nest) -> Iterator[str]:
    seen: set[Expr] = set()
    for phase in nest.phases:
        for store in phase.stores():
            if store.value.dtype is not store.access.buffer.dtype:
                yield f"{store.access} of {store.access.buffer.dtype.name} gets {store.value.dtype.name}"
        for value in phase.values():
            for node in walk(value):
                if node not in seen:
                    seen.add(node)
                    yield from _wrong_dtypes(node)


def _wrong_dtypes(node: Expr) -> Iterator[str]:
    row = INSTRUCTIONS.get(node.op)
    if row is None:
        yield f"{node.op} is no instruction"
        return
    if row.arity is not None and len(node.args) != row.arity:
        yield f"{node.op} takes {row.arity} operands, not {len(node.args)}"
        return
    if node.op == "load" and node.dtype is not node.data.buffer.dtype:
        yield f"{node} of {node.data.buffer.dtype.name} is loaded as {node.dtype.name}"
    if row.result is not ResultType.GIVEN and node.dtype is not result_dtype(row, node.args):
        yield f"{node.op} gives {node.dtype.name}, not {result_dtype(row, node.args).name}"
    alike = node.args if row.operands is OperandTypes.ALIKE else node.args[1:]
    if row.operands is not OperandTypes.ANY and len({a.dtype for a in alike}) > 1:
        yield f"{node.op} takes operands of one dtype, not {', '.join(a.dtype.name for a in alike)}"


NEST_RULES = (
    NestRule("extents", "a loop runs 0 times or more", _extents),
    NestRule("loops", "an index uses variables of the loops around it only", _loops),
    NestRule("bounds", "every access lies inside of its buffer", _bounds),
    NestRule(
        "accumulators", "an accumulator is folded in one statement and read in later phases", _accumulators
    ),
    NestRule(
        "read after write",
        "what the nest writes is read at the same element, or at the same outer point",
        _read_after_write,
    ),
    NestRule("dtypes", "operands and results have the dtypes that the instruction set says", _dtypes),
)


# Kernels and definitions.


def verify_kernel(kernel: Kernel | LoopPlan, updated: Collection[Buffer] = ()) -> None:
    """Raise InternalError if a kernel breaks a rule."""
    if isinstance(kernel, Product):
        _verify_product(kernel)
        if kernel.epilogue is not None:
            verify_nest(kernel.epilogue, updated)
    elif isinstance(kernel, Sort):
        _verify_sort(kernel)
    elif isinstance(kernel, Extern):
        for buffer, (shape, strides) in zip(kernel.inputs, kernel.layouts, strict=True):
            if 0 not in shape:
                last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
                _inside(kernel.name, buffer, 0, last)
    elif isinstance(kernel, LoopPlan):
        verify_nest(kernel.nest, updated)
    elif isinstance(kernel, Nest):
        verify_nest(kernel, updated)
    else:
        verify_nest(kernel.nest, updated)


def verify_definition(definition: Definition) -> None:
    """Raise InternalError if a definition breaks a rule of the nest that it stands for."""
    if isinstance(definition, Map):
        store = Store(Access(definition.buffer, flatten(definition.variables)), definition.value)
        nest = Nest(definition.buffer.name, definition.variables, (Phase((), (store,)),))
        verify_nest(nest)
    elif isinstance(definition, Reduction):
        fold = Reduce("result", definition.combine, definition.value)
        nest = Nest(definition.buffer.name, definition.outer, (Phase(definition.inner, (fold,)),))
        verify_nest(nest)
    else:
        verify_kernel(definition)


def _inside(name: str, buffer: Buffer, first: int, last: int) -> None:
    size, first, last = hint_of(buffer.size), hint(first), hint(last)
    if first < 0 or last >= size:
        raise InternalError(f"{name}: elements {first} to {last} of {buffer}, which has {size}")


def _verify_product(product: Product) -> None:
    p = hints_of(product.shape)
    if min(p.batch, p.rows, p.columns, p.depth) < 1:
        raise InternalError(f"{product.name}: a product without elements: {p}")
    _inside(product.name, product.left, *_span(p.left, p, p.rows, p.depth, left=True))
    _inside(product.name, product.right, *_span(p.right, p, p.depth, p.columns, left=False))
    _inside(product.name, product.result, 0, p.size - 1)
    if (p.groups is None) != (product.groups is None):
        raise InternalError(f"{product.name}: groups without a buffer that says where they end")
    if product.groups is not None:
        _inside(product.name, product.groups, 0, p.batch - 1)
        if product.groups.dtype.name != "int64" or product.epilogue is not None or p.triangle or p.windows:
            raise InternalError(f"{product.name}: a product of groups has int64 ends, and nothing else")


def _span(matrix: Matrix, p: ProductShape, rows: int, columns: int, *, left: bool) -> tuple[int, int]:
    """The first and the last element of an operand."""
    steps = [(p.batch, matrix.batch)]
    if left and p.windows is not None:
        segment = p.depth // p.windows.segments
        steps += [*p.windows.positions, *p.windows.taps, (segment, matrix.column)]
    else:
        steps += [(rows, matrix.row), (columns, matrix.column)]
    ends = [(n - 1) * step for n, step in steps]
    return matrix.offset + sum(min(e, 0) for e in ends), matrix.offset + sum(max(e, 0) for e in ends)


def _verify_sort(sort: Sort) -> None:
    s = sort.shape
    for buffer, layout, length in (
        (sort.source, s.source, s.length),
        (sort.values, s.values, s.count),
        (sort.positions, s.positions, s.count),
    ):
        if buffer is not None:
            _inside(sort.name, buffer, *_row_span(layout, s.rows, length))


def _row_span(layout: Layout, rows: tuple[int, ...], length: int) -> tuple[int, int]:
    ends = [(n - 1) * step for n, step in zip((*rows, length), (*layout.strides, layout.step), strict=True)]
    return layout.offset + sum(min(e, 0) for e in ends), layout.offset + sum(max(e, 0) for e in ends)

"""Every rule of the loop IR's contract finds what breaks it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rushlight.core.dtypes import DTYPES
from rushlight.core.errors import InternalError
from rushlight.core.index import Index, Var, as_index
from rushlight.loops.definitions import Map, Reduction
from rushlight.loops.expr import Access, Expr, Recorder
from rushlight.loops.kernels import Layout, Product, Sort, SortShape
from rushlight.loops.nest import Buffer, Combine, MemoryKind, Nest, Phase, Reduce, Store
from rushlight.loops.product import Matrix, ProductShape
from rushlight.loops.spec import NEST_RULES, verify_definition, verify_kernel, verify_nest

FLOAT, INT = DTYPES["float32"], DTYPES["int64"]
OPS = Recorder()
ROW, J = Var("i", 4), Var("j", 6)


def buffer(name: str, size: int, memory: MemoryKind = MemoryKind.TEMPORARY, dtype: Any = FLOAT) -> Buffer:
    return Buffer(name, dtype, as_index(size), memory)


X, Y, Z = buffer("x", 24, MemoryKind.INPUT), buffer("y", 24), buffer("z", 4)
HERE = as_index(ROW) * 6 + J


def load(source: Buffer, index: Index, dtype: Any = FLOAT) -> Expr:
    return OPS.load_at(source, index, dtype)


def row_sums() -> Nest:
    """y = x * 2, then z = the sum of each row of y, less the first element of the row."""
    fold = Phase(
        (J,),
        (
            Store(Access(Y, HERE), OPS.add(load(X, HERE), load(X, HERE))),
            Reduce("total", Combine.SUM, load(Y, HERE)),
        ),
    )
    total = OPS.make("reduced", (), FLOAT, "total")
    last = Phase((), (Store(Access(Z, as_index(ROW)), OPS.sub(total, load(Y, as_index(ROW) * 6))),))
    return Nest("sums", (ROW,), (fold, last))


def changed(phase: int, statement: int, **fields: Any) -> Nest:
    nest = row_sums()
    statements = list(nest.phases[phase].statements)
    statements[statement] = replace(statements[statement], **fields)
    phases = list(nest.phases)
    phases[phase] = replace(phases[phase], statements=tuple(statements))
    return replace(nest, phases=tuple(phases))


def test_a_valid_nest_keeps_all_rules() -> None:
    verify_nest(row_sums())
    assert len({rule.name for rule in NEST_RULES}) == len(NEST_RULES)


BROKEN: dict[str, Callable[[], Nest]] = {
    "extents": lambda: replace(row_sums(), outer=(Var("i", -1),)),
    "loops": lambda: changed(1, 0, value=load(X, HERE)),
    "bounds": lambda: changed(0, 0, value=load(X, HERE + 1)),
    "accumulators": lambda: replace(row_sums(), phases=row_sums().phases[::-1]),
    "read after write": lambda: changed(1, 0, value=load(Y, as_index(ROW) + 1)),
    "dtypes": lambda: changed(0, 0, value=load(X, HERE, INT)),
}


@pytest.mark.parametrize("name", [rule.name for rule in NEST_RULES])
def test_each_rule_finds_what_breaks_it(name: str) -> None:
    with pytest.raises(InternalError, match=f"breaks the rule '{name}'"):
        verify_nest(BROKEN[name]())


@pytest.mark.parametrize(
    "store", [lambda: Access(Y, HERE - 1), lambda: Access(Y, as_index(J) * 6 + ROW), lambda: Access(Z, HERE)]
)
def test_stores_stay_inside(store: Callable[[], Access]) -> None:
    with pytest.raises(InternalError, match="'bounds'"):
        verify_nest(changed(0, 0, access=store()))


def test_bounds_that_the_estimate_does_not_prove() -> None:
    """i // 4 and i % 4 change together: at most 5 * 3 + 1, not 5 * 3 + 3 (of 22)."""
    long, small = Var("k", 22), buffer("small", 16, MemoryKind.INPUT)
    index = as_index(long) // 4 * 3 + as_index(long) % 4
    assert index.bounds()[1] == 18
    value = load(small, index)
    nest = Nest("n", (long,), (Phase((), (Store(Access(buffer("out", 22), as_index(long)), value),)),))
    with pytest.raises(InternalError, match="reaches element"):
        verify_nest(nest)
    enough = load(buffer("enough", 17, MemoryKind.INPUT), index)
    verify_nest(Nest("n", (long,), (Phase((), (Store(Access(buffer("out", 22), as_index(long)), enough),)),)))


def test_a_fold_over_nothing_touches_no_memory() -> None:
    none = buffer("none", 0, MemoryKind.INPUT)
    verify_definition(Reduction(Z, (ROW,), (Var("j", 0),), Combine.SUM, load(none, as_index(ROW))))
    with pytest.raises(InternalError, match="'bounds'"):
        verify_definition(Reduction(Z, (ROW,), (J,), Combine.SUM, load(none, as_index(ROW))))


def test_memory_that_is_not_to_be_written() -> None:
    nest = changed(1, 0, access=Access(given := buffer("given", 4, MemoryKind.INPUT), as_index(ROW)))
    with pytest.raises(InternalError, match="not to be written"):
        verify_nest(nest)
    verify_nest(nest, updated=[given])


def test_instructions_get_operands_of_one_dtype() -> None:
    whole = OPS.make("constant", (), INT, ("1", 1))
    mixed = OPS.make("add", (load(X, HERE), whole), FLOAT)
    with pytest.raises(InternalError, match="add takes operands of one dtype"):
        verify_nest(changed(0, 0, value=mixed))
    with pytest.raises(InternalError, match="adds is no instruction"):
        verify_nest(changed(0, 0, value=OPS.make("adds", (load(X, HERE),), FLOAT)))
    with pytest.raises(InternalError, match="lt gives float32, not bool"):
        verify_nest(changed(0, 0, value=OPS.make("lt", (load(X, HERE), load(X, HERE)), FLOAT)))


def test_definitions() -> None:
    verify_definition(Map(Y, (ROW, J), load(X, HERE)))
    verify_definition(Reduction(Z, (ROW,), (J,), Combine.SUM, load(X, HERE)))
    verify_definition(Map(buffer("none", 0), (Var("i", 0),), OPS.number(1.0, FLOAT)))
    with pytest.raises(InternalError, match="'bounds'"):
        verify_definition(Map(Z, (ROW, J), load(X, HERE)))
    with pytest.raises(InternalError, match="'bounds'"):
        verify_definition(Reduction(Z, (ROW,), (J,), Combine.SUM, load(X, HERE * 2)))


def test_products_and_sorts_stay_inside() -> None:
    shape = ProductShape(1, 2, 3, 4, Matrix(0, 0, 4, 1), Matrix(0, 0, 3, 1), FLOAT)
    left, right, out = buffer("left", 8), buffer("right", 12), buffer("out", 6)
    verify_kernel(Product("p", shape, left, right, out))
    with pytest.raises(InternalError, match="elements 4 to 11 of left"):
        verify_kernel(Product("p", replace(shape, left=Matrix(4, 0, 4, 1)), left, right, out))
    with pytest.raises(InternalError, match="elements 0 to 11 of out"):
        verify_kernel(Product("p", replace(shape, batch=2), left, right, out))
    rows = Layout((6,), 1)
    which = SortShape(FLOAT, (4,), 6, 6, False, rows, rows, rows)
    verify_kernel(Sort("s", which, X, Y, buffer("at", 24, dtype=INT)))
    with pytest.raises(InternalError, match="elements 0 to 23 of z"):
        verify_kernel(Sort("s", which, X, Z, None))

"""Plans: what is decided for a target, what printing shows of it, and what verification refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.core.dtypes import DTYPES
from rushlight.core.errors import InternalError
from rushlight.core.index import as_index
from rushlight.core.passes import verifying
from rushlight.loops.kernels import Product
from rushlight.loops.nest import Buffer, MemoryKind
from rushlight.loops.product import Matrix, ProductShape
from rushlight.loops.program import Program
from rushlight.plan.nest import NestPlan
from rushlight.plan.passes import PLAN_PASSES, plan_program
from rushlight.plan.product import EpilogueMode, Grid, ProductPlan, TileKernel
from rushlight.plan.program import PlannedProgram
from rushlight.plan.scan import ScanPlan
from rushlight.plan.scatter import ScatterPlan
from rushlight.plan.sorting import SortMethod, SortPlan
from rushlight.plan.vectors import Tail
from rushlight.plan.workspace import Workspace
from rushlight.runtime.target import Target
from rushlight.schedule.passes import staged

NARROW = Target("", "", "", 16, 16, has_fma=False, has_masked_memory=False)
MEDIUM = Target("", "", "", 32, 16, has_fma=True, has_masked_memory=True)
WIDE = Target("", "", "", 64, 32, has_fma=True, has_masked_memory=True)
TARGETS = {"narrow": NARROW, "medium": MEDIUM, "wide": WIDE}


def products(program: PlannedProgram) -> list[ProductPlan]:
    return [plan for stage in program.stages for _, plan in program.products_in(stage)]


def normal(*shape: int) -> Any:
    return rl.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def scheduled(function: Callable[..., Any], *args: Any) -> Program:
    compiled = rl.compile(function, fullgraph=True)
    compiled(*args)
    ((entry,),) = compiled.specializations.values()
    schedule: Program = entry.artifact.schedule
    return schedule


def planned(function: Callable[..., Any], *args: Any, target: Target = MEDIUM) -> PlannedProgram:
    program = plan_program(scheduled(function, *args), target)
    program.verify()
    return program


def matmul(rows: int, depth: int, columns: int, *, transposed: bool = False) -> Program:
    right = Matrix(0, 0, 1, depth) if transposed else Matrix(0, 0, columns, 1)
    shape = ProductShape(1, rows, columns, depth, Matrix(0, 0, depth, 1), right, DTYPES["float32"])
    kinds = (MemoryKind.INPUT, MemoryKind.INPUT, MemoryKind.OUTPUT)
    buffers = [Buffer(f"b{i}", DTYPES["float32"], as_index(1), kind) for i, kind in enumerate(kinds)]
    return staged([Product("matmul0", shape, *buffers)])


def product_plan(schedule: Program, target: Target = MEDIUM) -> ProductPlan:
    program = plan_program(schedule, target)
    program.verify()
    (plan,) = products(program)
    return plan


# Products.


@pytest.mark.parametrize(
    ("target", "height", "width"), [(NARROW, 6, 8), (MEDIUM, 6, 16), (WIDE, 6, 64)], ids=TARGETS
)
def test_tiles_fill_the_registers_of_the_target(target: Target, height: int, width: int) -> None:
    tile = product_plan(matmul(600, 600, 960), target).tile
    assert (tile.kernel, tile.height, tile.width) == (TileKernel.COLUMNS, height, width)


def test_vectors_run_along_the_depth_where_packing_would_cost_more() -> None:
    few, many = (product_plan(matmul(rows, 256, 256, transposed=True)) for rows in (8, 256))
    assert few.tile.kernel is TileKernel.DEPTH
    assert few.left is few.right is None
    assert few.scratch_bytes == 0
    assert many.tile.kernel is TileKernel.COLUMNS
    assert many.right is not None and not many.right.contiguous
    assert many.direct == 0
    assert many.scratch_bytes >= 256 * 256 * 4


def test_small_products_are_one_task() -> None:
    assert product_plan(matmul(16, 16, 16)).grid == Grid(1, 1, 1)
    assert product_plan(matmul(512, 512, 512)).grid.tasks > 8


def test_where_an_epilogue_runs() -> None:
    x, w, b, one = normal(64, 64), normal(64, 64), normal(64), normal(2, 64)
    cases: list[tuple[Callable[..., Any], tuple[Any, ...], EpilogueMode]] = [
        (lambda x, w: x @ w, (x, w), EpilogueMode.NONE),
        (lambda x, w, b: x @ w + b, (x, w, b), EpilogueMode.IN_REGISTERS),
        (lambda x, w, b: rl.tanh(x @ w + b), (x, w, b), EpilogueMode.PER_TILE),
        (lambda x, w, b: rl.tanh(x @ w.T + b), (one, w, b), EpilogueMode.AT_END),
    ]
    for function, arguments, mode in cases:
        (plan,) = products(planned(function, *arguments))
        assert plan.epilogue.mode is mode
        assert bool(plan.epilogue.finish) == (mode is EpilogueMode.IN_REGISTERS)


def test_printing_shows_tile_packing_grid_and_epilogue() -> None:
    text = str(planned(lambda x, w, b: F.relu(x @ w.T + b), normal(256, 128), normal(192, 128), normal(192)))
    for part in (
        "tiles of 6x16 tile",
        "tasks",
        "right operand transposed into",
        "epilogue per tile",
        "prefetch",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"tiles": 1}, "tiles cover the rows"),
        ({"panels": 99}, "panels cover the columns"),
        ({"chunk": 1000}, "room for a chunk of edge tiles"),
        ({"grid": Grid(2, 1, 1)}, "no task is empty"),
        ({"block": 0}, "blocks are not deeper"),
        ({"direct": 0}, "what is not read where it is is packed"),
    ],
)
def test_a_wrong_product_plan_is_refused(change: dict[str, Any], rule: str) -> None:
    plan = product_plan(matmul(60, 32, 64))
    with pytest.raises(InternalError, match=rule):
        replace(plan, **change).verify()


# Nests.


def only_nest(program: PlannedProgram) -> NestPlan:
    (plan,) = program.plans.values()
    assert isinstance(plan, NestPlan)
    return plan


@pytest.mark.parametrize(("name", "lanes"), [("narrow", 4), ("medium", 8), ("wide", 16)])
def test_vectors_are_registers_wide(name: str, lanes: int) -> None:
    plan = only_nest(planned(lambda x: x * 2 + 1, normal(64, 64), target=TARGETS[name]))
    assert plan.lanes == lanes
    assert plan.outer is not None and plan.outer.width == 4 * lanes


def test_tails() -> None:
    overlapping = only_nest(planned(lambda x: x * 2, normal(1001)))
    assert overlapping.outer is not None and overlapping.outer.tail is Tail.OVERLAP
    sums = planned(lambda x: x.sum(1), normal(64, 1001))
    loops = [p.loop for plan in sums.plans.values() if isinstance(plan, NestPlan) for p in plan.phases]
    assert Tail.OVERLAP_COPIED in {loop.tail for loop in loops if loop is not None}
    short = planned(lambda x: x.sum(1), normal(64, 5))
    tails = {p.loop.tail for plan in short.plans.values() for p in plan.phases if p.loop is not None}
    assert tails <= {Tail.MASKED, Tail.NONE}


def test_rows_of_softmax_are_interleaved_and_prefetched() -> None:
    plan = only_nest(planned(lambda x: rl.softmax(x, 1), normal(400, 64)))
    assert plan.interleaved_rows == 8
    assert any(p.write for phase in plan.phases for p in phase.prefetch)
    assert any(not p.write for phase in plan.phases for p in phase.prefetch)
    assert "8 rows interleaved" in str(plan) and "prefetch" in str(plan)


def test_a_wrong_nest_plan_is_refused() -> None:
    plan = only_nest(planned(lambda x: x * 2, normal(300_000)))
    assert plan.tasks > 1
    for change, rule in (
        ({"rows_per_task": 1}, "tasks cover"),
        ({"tasks": 2 * plan.tasks}, "no task is empty"),
    ):
        with pytest.raises(InternalError, match=rule):
            replace(plan, **change).verify()


def test_equal_nests_share_code() -> None:
    program = planned(lambda x, y: (x * 2, (y * 2).sum()), normal(64), normal(128))
    assert set(program.code_of) == {name for name, plan in program.plans.items() if type(plan) is NestPlan}
    assert set(program.code_of.values()) <= set(program.code_of)


# Scans, scatters, sorts.


def test_scans() -> None:
    plans = planned(lambda x: (x.cumsum(1), x.cumsum(0)), normal(40, 50)).plans.values()
    along = {plan.vector_outer for plan in plans if isinstance(plan, ScanPlan)}
    assert along == {False, True}


def test_a_scatter_is_split_only_along_loops_that_never_meet() -> None:
    x, index = normal(300, 640), rl.tensor(np.random.default_rng(0).integers(0, 300, 300))
    (plan,) = (
        plan
        for plan in planned(lambda x, i: rl.zeros(300, 640).index_add(0, i, x), x, index).plans.values()
        if isinstance(plan, ScatterPlan)
    )
    assert plan.tasks > 1
    assert plan.nest.outer[0] is plan.order[-1]  # the columns: rows may meet
    assert plan.loop is not None and plan.loop.tail is Tail.SCALAR


@pytest.mark.parametrize(
    ("function", "shape", "method"),
    [
        (lambda x: rl.topk(x, 3), (5, 100), SortMethod.SELECT),
        (lambda x: rl.sort(x), (40, 100), SortMethod.NETWORK),
        (lambda x: rl.sort(x), (2, 5000), SortMethod.RADIX),
    ],
)
def test_sort_methods(function: Callable[..., Any], shape: tuple[int, int], method: SortMethod) -> None:
    program = planned(function, normal(*shape))
    (plan,) = (plan for plan in program.plans.values() if isinstance(plan, SortPlan))
    assert plan.method is method
    assert program.workspace.offsets[plan.scratch] % 64 == 0
    assert method.value in str(program)
    with pytest.raises(InternalError, match="tasks cover the rows"):
        replace(plan, rows=10**6).verify()


# Programs.


def attention(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_every_pass_leaves_a_program_that_holds(target: Target) -> None:
    schedule = scheduled(attention, *[normal(2, 4, 64, 32) for _ in range(3)])
    program = PlannedProgram(schedule, target)
    for each in PLAN_PASSES:
        program = each.run(program)
        assert each.verify is not None
        each.verify(program)
        assert str(program)


def test_a_program_without_a_plan_for_a_kernel_is_refused() -> None:
    program = planned(attention, *[normal(2, 4, 64, 32) for _ in range(3)])
    with pytest.raises(InternalError, match="has no plan"):
        replace(program, plans=dict(list(program.plans.items())[1:])).verify()


def test_memory_that_overlaps_is_refused() -> None:
    program = planned(attention, *[normal(2, 4, 64, 32) for _ in range(3)])
    assert len(program.workspace.offsets) > 1
    everything_first = Workspace(dict.fromkeys(program.workspace.offsets, 0), program.workspace.size)
    with pytest.raises(InternalError, match="reaches over byte"):
        replace(program, workspace=everything_first).verify()


def test_compiling_verifies_plans_on_request() -> None:
    with verifying():
        x = normal(7, 9)
        np.testing.assert_allclose(
            rl.compile(lambda x: (x @ x.T).softmax(1).cumsum(0).sort(1)[0])(x).numpy(),
            (x @ x.T).softmax(1).cumsum(0).sort(1)[0].numpy(),
            rtol=1e-5,
        )

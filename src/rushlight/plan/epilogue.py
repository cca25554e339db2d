"""What follows a product: in the registers of its kernels, on tiles in cache, or at the end of each task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..core.index import as_index
from ..core.symbols import divisible
from ..loops.expr import Access, Expr
from ..loops.nest import Buffer, Nest, Store
from ..runtime.target import Target
from .cost import EPILOGUE_BYTES, EPILOGUE_PANELS, MOST_OTHERS
from .loops import plan_tile
from .product import EpilogueMode, EpiloguePlan, FinishStep, ProductPlan, TileKernel


def plan_epilogue(plan: ProductPlan, target: Target) -> EpiloguePlan:
    nest = plan.product.epilogue
    if nest is None:
        return EpiloguePlan()
    ragged = _ragged(plan, target)
    streamed = () if ragged else _streamed(plan, nest)
    finish = _finish(plan, nest)
    registers = 1
    while (
        not ragged
        and 2 * registers * target.vector_bytes <= EPILOGUE_BYTES
        and _divides(plan, 2 * registers * target.lanes(plan.shape.dtype.itemsize), finish)
    ):
        registers *= 2
    if finish:
        mode = EpilogueMode.IN_REGISTERS
    elif plan.tile.kernel is TileKernel.DEPTH:
        # Such a tile is narrower than a vector; what a task computes has few rows and is in cache still.
        mode = EpilogueMode.AT_END
    else:
        mode = EpilogueMode.PER_TILE
    return EpiloguePlan(
        mode,
        plan_tile(nest, target, registers, ragged=ragged),
        finish,
        _prefetched(plan, nest, finish, streamed),
        streamed,
    )


def _finish(plan: ProductPlan, nest: Nest) -> tuple[FinishStep, ...]:
    """The epilogue as steps that kernels do in registers. Empty if there are others, for which they are in
    the way."""
    p, result = plan.shape, plan.product.result
    if plan.tile.kernel is not TileKernel.COLUMNS or p.triangle is not None:
        return ()
    statements = nest.phases[0].statements
    store = statements[0]
    if len(statements) > 1 or not isinstance(store, Store) or store.access.buffer is not result:
        return ()
    kinds = {store.access.index: "matrix", as_index(nest.outer[-1]): "row"}

    def operand(value: Expr) -> Expr | None:
        """What an instruction takes besides the sums, if kernels can do it."""
        sides = [side for side in value.args if side.op == "load" and side.data != store.access]
        if value.op not in ("add", "mul") or not sides or value.dtype is not p.dtype:
            return None
        access: Access = sides[0].data
        reads_plainly = not access.indirect and access.buffer is not result
        return (
            sides[0] if reads_plainly and access.buffer.dtype is p.dtype and access.index in kinds else None
        )

    found: list[FinishStep] = []
    value = store.value
    while not (value.op == "load" and value.data == store.access):
        besides = operand(value)
        if besides is None:
            return ()
        found.insert(0, FinishStep(value.op, kinds[besides.data.index], besides.data.buffer))
        value = value.args[1 - value.args.index(besides)]
    counts = Counter(step.operand for step in found)
    return tuple(found) if counts["row"] <= 1 and counts["matrix"] <= MOST_OTHERS else ()


def _prefetched(
    plan: ProductPlan, nest: Nest, finish: Sequence[FinishStep], streamed: Sequence[Buffer]
) -> tuple[Buffer, ...]:
    """What the epilogue reads and writes at the elements of the product."""
    if finish:
        return tuple(step.buffer for step in finish if step.operand == "matrix")
    result = plan.product.result
    here = _indices_of(nest, result)
    found = dict.fromkeys(
        a.buffer
        for a in (*nest.reads(), *nest.writes())
        if a.buffer is not result
        and a.index in here
        and a.buffer.dtype.itemsize == plan.shape.dtype.itemsize
        and a.buffer not in streamed
    )
    return tuple(found)[:MOST_OTHERS]


def _streamed(plan: ProductPlan, nest: Nest) -> tuple[Buffer, ...]:
    """What the epilogue stores past the caches: where its vectors are whole, and begin where registers of
    memory do."""
    here = _indices_of(nest, plan.product.result)
    return tuple(
        a.buffer
        for a in nest.writes()
        if a.buffer in plan.product.nontemporal and a.index in here and a.buffer.dtype is plan.shape.dtype
    )


def _indices_of(nest: Nest, buffer: Buffer) -> set[object]:
    return {a.index for a in (*nest.reads(), *nest.writes()) if a.buffer is buffer}


def _ragged(plan: ProductPlan, target: Target) -> bool:
    """Whether a range of columns may begin or end inside of a vector."""
    lanes = target.lanes(plan.shape.dtype.itemsize)
    cut = plan.tile.width % lanes != 0 and (plan.sized or plan.grid.columns > 1)
    return not divisible(plan.shape.columns, lanes) or cut


def _divides(plan: ProductPlan, lanes: int, finish: Sequence[FinishStep]) -> bool:
    """Whether every range of columns is a whole number of vectors of so many lanes."""
    width = plan.tile.width
    share, rest = divmod(plan.panels, plan.grid.columns)
    panels = 1 if finish else EPILOGUE_PANELS
    steps = (share * width, panels * width)  # between where ranges begin
    even = not plan.sized and rest == 0 and all(step % lanes == 0 for step in steps)
    return divisible(plan.shape.columns, lanes) and (width % lanes == 0 or even)

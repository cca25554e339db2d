"""Updates in place: new contents of the caller's memory that are written where the old ones are.

A pair is an output and the input whose contents it replaces. The step that computes the output may write it
to the input's memory if nobody needs the old contents then: every other step that reads them runs before, and
the step itself reads each element only where it writes it, in the same turn of its loops. The order of stages
then follows from the memory that steps touch.

A program that finds an error in its data leaves the caller's memory as it was: nothing is updated in place
before the last stage that may find one has run. The code of the first such stage looks first whether there
was an error (codegen/llvm/module.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ..loops.expr import CHECKS, Access, loads_in, walk
from ..loops.index import Index, Var
from ..loops.nest import Buffer, Call, Nest, Phase, Place, Statement, Store
from ..loops.product import MATMUL, epilogue_of, result_of
from .loops import LoopPlan
from .stages import Chain, Stage, Step, form_stages, is_native, reads_writes

Pair = tuple[Buffer, Buffer]  # an output and the input that it replaces


def update_in_place(
    steps: Sequence[Step], pairs: Sequence[Pair], chained: Callable[[Sequence[Step]], list[Step | Chain]]
) -> tuple[list[Stage], list[Pair]]:
    """The steps in stages, with those of `pairs` in place that can be; and which those are. `chained` forms
    chains of the steps."""
    touched = [reads_writes(step) for step in steps]
    chosen = [pair for pair in pairs if _writer(steps, touched, pair) is not None]
    while True:
        changed = list(steps)
        for pair in chosen:
            at = _writer(steps, touched, pair)
            assert at is not None
            changed[at] = _replaced(changed[at], *pair)
        stages = form_stages(chained(changed))
        after = max((n for n, stage in enumerate(stages) if any(map(may_fail, stage.steps))), default=-1)
        late = {b for stage in stages[after + 1 :] for step in stage.steps for b in reads_writes(step)[1]}
        kept = [pair for pair in chosen if pair[1] in late]
        if kept == chosen:
            for _, memory in kept:
                memory.place = Place.UPDATED
            return stages, kept
        chosen = kept


def _writer(
    steps: Sequence[Step], touched: Sequence[tuple[list[Buffer], list[Buffer]]], pair: Pair
) -> int | None:
    """The number of the step that can write the output of a pair in place; None if there is none."""
    new, old = pair
    writers = [n for n, (_, writes) in enumerate(touched) if new in writes]
    if len(writers) != 1 or any(new in reads for reads, _ in touched):
        return None
    at = writers[0]
    if any(old in reads for reads, _ in touched[at + 1 :]) or any(old in writes for _, writes in touched):
        return None
    return at if _only_there(steps[at], new, old) else None


def _only_there(step: Step, new: Buffer, old: Buffer) -> bool:
    """Whether a step reads `old` only at the element of `new` that it writes at the same point."""
    nest = _nest_of(step)
    if nest is None:
        return False
    if isinstance(step, Call) and (old in step.inputs[:2] or result_of(step) is new):
        return False
    writing = [phase for phase in nest.phases if any(access.buffer is new for access in _stores(phase))]
    if len(writing) != 1:
        return False
    places = [access for access in _stores(writing[0]) if access.buffer is new]
    loops = (*nest.outer, *writing[0].inner)
    here = _without_single(places[0].index, loops)
    if len(places) != 1 or places[0].indirect:
        return False
    for phase in nest.phases:
        for access in (a for value in phase.values() for a in loads_in(value)):
            if access.buffer is old and (
                phase is not writing[0] or access.indirect or _without_single(access.index, loops) != here
            ):
                return False
    return True


def _nest_of(step: Step) -> Nest | None:
    if isinstance(step, LoopPlan):
        return step.nest
    return epilogue_of(step) if step.routine == MATMUL else None


def _stores(phase: Phase) -> Iterator[Access]:
    return (s.access for s in phase.statements if isinstance(s, Store))


def _without_single(index: Index, variables: Sequence[Var]) -> Index:
    return index.substitute({var: 0 for var in variables if var.extent == 1})


def _replaced(step: Step, new: Buffer, old: Buffer) -> Step:
    """The step, writing to `old` instead of `new`."""
    nest = _nest_of(step)
    assert nest is not None

    def stored(s: Store) -> Store:
        return replace(s, access=Access(old, s.access.index)) if s.access.buffer is new else s

    def moved(s: Statement) -> Statement:
        return stored(s) if isinstance(s, Store) else s

    phases = [Phase(p.inner, [moved(s) for s in p.statements]) for p in nest.phases]
    changed = Nest(nest.name, nest.outer, phases)
    if isinstance(step, LoopPlan):
        return replace(step, nest=changed, rest=tuple(tuple(map(stored, stores)) for stores in step.rest))
    outputs = [old if buffer is new else buffer for buffer in step.outputs]
    inputs = [buffer for buffer in step.inputs if buffer is not old]
    return Call(step.name, step.routine, inputs, outputs, {**step.attributes, "epilogue": changed})


def may_fail(step: Step) -> bool:
    """Whether a step may find an error in the data."""
    if isinstance(step, Call) and not is_native(step):
        return True
    nests: list[Nest | None] = (
        [step.nest] if isinstance(step, LoopPlan) else [step.attributes.get("nest"), epilogue_of(step)]
    )
    find: Callable[[Phase], bool] = lambda phase: any(  # noqa: E731
        node.op in CHECKS for value in phase.values() for node in walk(value)
    )
    return any(find(phase) for nest in nests if nest is not None for phase in nest.phases)

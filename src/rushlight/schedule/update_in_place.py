"""Updates in place: new contents of the caller's memory that are written where the old ones are.

A pair is an output and the input whose contents it replaces. The step that computes the output may write it
to the input's memory if nobody needs the old contents then: every other step that reads them runs before, and
the step itself reads each element only where it writes it, in the same turn of its loops. Loops that read the
new contents later read them there. The order of stages then follows from the memory that steps touch.

A program that finds an error in its data leaves the caller's memory as it was: nothing is updated in place
before the last stage that may find one has run. The code of the first such stage looks first whether there
was an error (codegen/llvm/module.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..core.index import Index, Var
from ..loops.expr import Access, Expr, loads_in
from ..loops.kernels import Product
from ..loops.nest import Buffer, Nest
from ..loops.plans import LoopPlan
from ..loops.program import Chain, Pair, Program, Step
from ..loops.rewrite import rename_plan, rewrite_nest, rewrite_store
from .chains import form_chains
from .stages import form_stages, may_fail


def update_in_place(program: Program) -> Program:
    """The steps in chains and stages, those in place that can be."""
    steps = program.steps
    at_of = {step.name: n for n, step in enumerate(steps)}
    places = {pair: _writer(program, at_of, pair) for pair in program.requested_updates}
    chosen = [pair for pair in program.requested_updates if places[pair] is not None]
    while True:
        changed = list(steps)
        by_step: dict[int, dict[Buffer, Buffer]] = {}
        read: dict[int, dict[Buffer, Buffer]] = {}
        for pair in chosen:
            at = places[pair]
            assert at is not None
            by_step.setdefault(at, {})[pair[0]] = pair[1]
            for reader in program.readers(pair[0]):
                assert isinstance(reader, LoopPlan)
                read.setdefault(at_of[reader.name], {})[pair[0]] = pair[1]
        for at, names in by_step.items():
            changed[at] = _replaced(changed[at], names)
        for at, names in read.items():
            plan = changed[at]
            assert isinstance(plan, LoopPlan)
            changed[at] = rename_plan(program.recorder, plan, names)
        stages = form_stages(form_chains(changed))
        after = max((n for n, stage in enumerate(stages) if any(map(may_fail, stage.steps))), default=-1)
        late = {b for stage in stages[after + 1 :] for step in stage.steps for b in step.outputs}
        kept = [pair for pair in chosen if pair[1] in late]
        if kept == chosen:
            break
        chosen = kept
    staged = replace(
        program,
        steps=tuple(step for stage in stages for step in stage.steps),
        stages=stages,
        updates=dict(kept),
    )
    return staged.note(
        *(f"{new} is written in place of {old}" for new, old in kept),
        *(
            f"one after the other, share by share: {', '.join(step.name for step in unit.steps)}"
            for stage in stages
            for unit in stage.units
            if isinstance(unit, Chain)
        ),
    )


def _writer(program: Program, at_of: Mapping[str, int], pair: Pair) -> int | None:
    """The number of the step that can write the output of a pair in place; None if there is none."""
    new, old = pair
    writers = program.writers(new)
    if len(writers) != 1 or program.writers(old):
        return None
    step = writers[0]
    assert isinstance(step, Step)
    at = at_of[step.name]
    if not all(isinstance(reader, LoopPlan) and at_of[reader.name] > at for reader in program.readers(new)):
        return None
    if any(isinstance(other, Step) and at_of[other.name] > at for other in program.readers(old)):
        return None
    return at if _only_there(step, new, old) else None


def _only_there(step: Step, new: Buffer, old: Buffer) -> bool:
    """Whether a step reads `old` only at the element of `new` that it writes at the same point."""
    nest = _nest_of(step)
    if nest is None:
        return False
    if isinstance(step, Product) and (old in (step.left, step.right) or step.result is new):
        return False
    writing = [phase for phase in nest.phases if any(store.access.buffer is new for store in phase.stores())]
    if len(writing) != 1:
        return False
    places = [store.access for store in writing[0].stores() if store.access.buffer is new]
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
    return step.epilogue if isinstance(step, Product) else None


def _without_single(index: Index, variables: Sequence[Var]) -> Index:
    return index.substitute({var: 0 for var in variables if var.extent == 1})


def _replaced(step: Step, names: Mapping[Buffer, Buffer]) -> Step:
    """The step, writing to other buffers in place of those that `names` has."""

    def value(expr: Expr) -> Expr:
        return expr

    def target(access: Access) -> Access:
        return Access(names[access.buffer], access.index) if access.buffer in names else access

    if isinstance(step, LoopPlan):
        rest = tuple(tuple(rewrite_store(s, value, target) for s in stores) for stores in step.rest)
        return replace(step, nest=rewrite_nest(step.nest, value, target), rest=rest)
    assert isinstance(step, Product)
    assert step.epilogue is not None
    return replace(step, epilogue=rewrite_nest(step.epilogue, value, target))

"""Kernels made by the compiler.

`compile_form` captures a call of one operator on operands whose sizes are symbols, and compiles it as any
program.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from .._higher_order_ops.scan import scan
from ..autograd.grad_mode import set_grad_enabled
from ..capture.captured_call import CapturedCall
from ..capture.program import capture_own
from ..capture.references import Argument, TensorRef
from ..capture.sizes import NOTHING_CHANGES, Changing
from ..compiler.build import build_specialization
from ..compiler.pipeline import compile_captured
from ..core.dispatch import call
from ..core.giving_up import GivenUp
from ..core.pytree import LEAF
from ..core.registry import OpDef
from ..core.shapes import is_dense
from ..decompositions.recurrent_fused import loops_by
from ..logs import logger
from ..lowering.declare import LibraryCall
from ..runtime import profile
from ..runtime.engine import engine
from ..runtime.executable import Executable
from ..runtime.sized import SizedExecutable
from .calls import changes
from .kernel_records import KernelRecord, NoRecord, captured_numbers, pack, record_key, result_of
from .kernels import Kernel, Unsuitable, example_of, stored_kernel, usual_leaves
from .layouts import Form, Operand, Slot
from .row_programs import RowLayout, RowProgram, RowRecord

MOST_NODES = 1000  # operators that one may consist of: code that is longer takes too long to make


def calls_library(op: OpDef) -> bool:
    """Whether an operator has no kernel because the compiler itself would call NumPy's."""
    return isinstance(op.lowering, LibraryCall)


def compile_form(op: OpDef, form: Form, stage: int) -> Kernel:
    """Load or compile the kernel of a form: with usual sizes or, after all stages of these, with its own. Raises
    for an operator that cannot have one."""
    if isinstance(op.lowering, LibraryCall):  # as `calls_library` says
        raise Unsuitable(op.lowering.reason)
    usual = usual_leaves(form, stage)
    if usual is not None:
        try:
            return stored_kernel(op, form, usual) or _compiled(op, form, usual)
        except (Unsuitable, GivenUp):
            raise
        except Exception as error:  # sizes that the arguments of the operator rule out
            logger("eager").debug("%s: no kernel with usual sizes: %s", op.name, error)
    return stored_kernel(op, form, form.leaves) or _compiled(op, form, form.leaves)


def _compiled(op: OpDef, form: Form, given: Sequence[Any]) -> Kernel:
    before, key = changes(), record_key(op, form, given)
    leaves = [example_of(leaf) if isinstance(leaf, Operand) else leaf for leaf in given]
    every = {i: leaf for i, leaf in enumerate(given) if isinstance(leaf, Operand)}
    dims = {i: frozenset(range(len(leaf.shape))) for i, leaf in every.items()}
    loose = {i: dims[i] for i, leaf in every.items() if not is_dense(leaf.shape, leaf.strides)}
    changing = NOTHING_CHANGES if form.fixed else Changing(dims, loose)

    def program(*given: Any) -> Any:
        with loops_by(lambda step, start, slices, reverse: scan(step, start, slices, reverse=reverse)):
            return call(op, _filled(form.arguments, given))

    captured = capture_own(program, tuple(leaves), changing)
    _check_pure(captured)
    if len(captured.graph.nodes) > MOST_NODES:
        raise Unsuitable(f"it consists of {len(captured.graph.nodes)} operators")
    with profile.plain():  # a profiler sees operators, not what they run
        compiled = compile_captured(captured)
    specialization = build_specialization(compiled, leaves)
    executable = compiled.forward.executable
    if not isinstance(executable, Executable | SizedExecutable) or compiled.backward is not None:
        raise Unsuitable("its sizes are data")
    record = KernelRecord(
        _inputs_of(specialization.inputs),
        [result_of(leaf) for leaf in captured.leaves],
        captured.structure,
        captured_numbers(specialization.live),
    )
    if changes() != before:
        raise Unsuitable("another thread has changed what it depends on")
    kept = False
    if key is not None and compiled.forward.key is not None:
        try:
            kept = engine().cache.store(key, pack(compiled.forward.key, record, specialization.live))
        except NoRecord as reason:
            logger("eager").debug("%s is compiled in every process: %s", op.name, reason)
    return Kernel(record, executable, key if kept else None)


def _inputs_of(given: Sequence[Any]) -> list[int | type]:
    """For each input of a program the number of the leaf, or the type of the numbers that it holds."""
    inputs: list[int | type] = []
    for ref in given:
        if isinstance(ref, TensorRef):
            if not isinstance(ref, Argument):
                raise Unsuitable("it takes tensors from elsewhere")
            inputs.append(ref.index)
        elif ref in (float, int):
            inputs.append(ref)
        else:
            raise Unsuitable("it draws random numbers")
    return inputs


def _filled(arguments: Any, given: Sequence[Any]) -> Any:
    if type(arguments) is Slot:
        return given[arguments.number]
    return tuple([_filled(a, given) for a in arguments]) if type(arguments) is tuple else arguments


def _check_pure(captured: CapturedCall) -> None:
    effects = (
        captured.writes,
        captured.gradients,
        captured.draws,
        captured.changes,
        captured.replaced,
        captured.flags,
        captured.deferred,
        captured.kinds,
        captured.stores,
        captured.differentiable,
    )
    if any(effects) or captured.grad_mode is not None:
        raise Unsuitable("it does more than to compute")
    if captured.live.symbols.data:
        raise Unsuitable("sizes of its results are data")
    for leaf in captured.leaves:
        if leaf.kind not in ("value", "view") and not (leaf.kind == "python" and leaf.python is None):
            raise Unsuitable("it returns more than new tensors")
    values, views = (
        [leaf.index for leaf in captured.leaves if leaf.kind == kind] for kind in ("value", "view")
    )
    if len(set(views)) != len(views) or not set(views).isdisjoint(values):
        raise Unsuitable("it returns two views of a tensor")


# --- rows ------------------------------------------------------------------------------------------


def compile_row(update: Callable[..., None], layout: RowLayout, key: str | None) -> RowProgram:
    """Compile `update(row, numbers)`, and keep it under `key`."""
    given = layout.leaves(layout.usual, layout.numbers)
    leaves = [example_of(leaf) if isinstance(leaf, Operand) else leaf for leaf in given]
    count = len(layout.dtypes)

    def program(*given: Any) -> None:
        with set_grad_enabled(False):
            update(given[:count], given[count:])

    dims = {} if layout.single else {i: frozenset((0,)) for i, wide in enumerate(layout.flat) if wide}
    captured = capture_own(program, tuple(leaves), Changing(dims))
    others = (captured.gradients, captured.draws, captured.changes, captured.replaced, captured.flags)
    if any((*others, captured.deferred, captured.kinds, captured.stores, captured.differentiable)):
        raise Unsuitable("it does more than to write to its row")
    with profile.plain():
        compiled = compile_captured(captured)
    specialization = build_specialization(compiled, leaves)
    executable = compiled.forward.executable
    if not isinstance(executable, Executable | SizedExecutable):
        raise Unsuitable("its sizes are data")
    numbers = captured_numbers(specialization.live)
    call = specialization.call
    record = RowRecord(
        KernelRecord(_inputs_of(specialization.inputs), [], LEAF, numbers),
        list(call.writes),
        [(ref.index, count) for ref, count in call.versions if isinstance(ref, Argument)],
    )
    if key is not None and compiled.forward.key is not None:
        try:
            packed = pack(compiled.forward.key, record.kernel, specialization.live)
        except NoRecord as reason:
            logger("eager").debug("a step is compiled in every process: %s", reason)
        else:
            data = json.dumps([packed.decode(), record.writes, record.versions])
            engine().cache.store(key, data.encode())
    return RowProgram(layout, record, executable)

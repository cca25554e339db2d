"""Branches and loops around compiled bodies.

In: a `ControlFlow` (loops/control_flow.py). Out: a task (launch.py), which fills the
bodies' blocks of addresses, in scratch memory, and calls their entries. What a loop carries is written by one
step where the next one reads it: at two places in turn, and by the last step to the output.

A body that finds an error leaves its number in a word of its own; the loop ends, and the program's error word
gets the number that the same error has in this program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.lazy import LazyModule
from ...core.shapes import numel
from ...graph.subgraph import BodyProgram
from ...loops.control_flow import BodyMemory, ControlFlow
from ...loops.nest import Buffer
from ...runtime.target import Target
from .emitter import Emitter
from .launch import Task
from .nests import Reports
from .records import task_function

ir = LazyModule("llvmlite.ir")

POOL, ERROR = 0, 1  # slots of every block


def c_routines() -> dict[str, int]:
    """The addresses of the routines of C that the code may call."""
    library = ctypes.CDLL(None)
    return {
        name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        for name in ("malloc", "free", "memcpy")
    }


def routines_of(module: Any, bodies: Sequence[BodyProgram]) -> dict[str, int]:
    """What the code of a module calls for control flow, by name."""
    known = {**{body.name: body.address for body in bodies}, **c_routines()}
    return {name: known[name] for name in module.globals if name in known}


def emit_control_flow(
    module: Any, kernel: ControlFlow, target: Target, slots: Mapping[Buffer, int], reports: Reports
) -> Task:
    """Add the function of a kernel."""
    name = f"{kernel.name}.task"
    function, e = task_function(module, name, target)
    call = _Call(e, kernel, function.args[0], slots, reports)
    _EMITTERS[kernel.node.op.schema.name](call)
    e.builder.ret_void()
    return Task(name, 1, kernel=kernel.name)


class _Body:
    """One body of a kernel, in the code that calls it."""

    def __init__(self, call: _Call, program: BodyProgram, memory: BodyMemory) -> None:
        self.e, self.call, self.program = call.e, call, program
        self.block, self.error = call.scratch_at(memory.block), call.scratch_at(memory.error)
        e = self.e
        e.store(e.load(call.block, e.i64), self.block)
        e.store(self.error, e.address(self.block, ERROR, e.i64))
        e.store(e.i64(0), self.error)
        for slot, offset in program.temporaries:
            self._set(slot, call.scratch_at(memory.workspace + offset))
        for (slot, _), offset in zip(program.discarded, memory.discarded, strict=True):
            self._set(slot, call.scratch_at(offset))

    def _set(self, slot: int, pointer: Any) -> None:
        self.e.store(pointer, self.e.address(self.block, slot, self.e.i64))

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Call the body with these addresses."""
        e, program = self.e, self.program
        for slot, pointer in zip(program.inputs, inputs, strict=True):
            if slot is not None:
                self._set(slot, pointer)
        for slot, pointer in zip(program.outputs, outputs, strict=True):
            self._set(slot, pointer)
        if program.address:
            entry = e.declare(program.name, ir.VoidType(), [e.pointer])
            e.call(entry, [self.block])

    def failed(self) -> Any:
        """Whether it has found an error, an i1; reports it if so."""
        e = self.e
        if not self.program.reports:
            return ir.Constant(ir.IntType(1), 0)
        found = e.load(self.error, e.i64)
        failed = e.compare("!=", found, 0)
        with e.when(failed):
            number: Any = e.i64(0)
            for own, (kind, message) in enumerate(self.program.reports, 1):
                outer = self.call.reports.number_of(kind, message)
                number = e.select(e.compare("==", found, own), e.i64(outer), number)
            self.call.report(number)
        return failed


class _Call:
    """A kernel whose function is being written."""

    def __init__(
        self, e: Emitter, kernel: ControlFlow, block: Any, slots: Mapping[Buffer, int], reports: Reports
    ) -> None:
        self.e, self.kernel, self.block, self.reports = e, kernel, block, reports
        pointers = {b: e.load(e.address(block, slots[b], e.i64), e.pointer) for b in kernel.outputs}
        pointers |= {b: e.load(e.address(block, slots[b], e.i64), e.pointer) for b in kernel.inputs}
        *results, self.scratch = kernel.outputs
        self.scratch = pointers[self.scratch]
        self.inputs, self.outputs = ([pointers[b] for b in buffers] for buffers in (kernel.inputs, results))
        seen = zip(kernel.inputs, kernel.layouts, strict=True)  # perhaps of a part of a buffer
        self.sizes = [numel(shape) * b.dtype.itemsize for b, (shape, _) in seen]
        self.result_sizes = [(b.size.constant_value() or 0) * b.dtype.itemsize for b in results]
        self.settings = kernel.node.args
        self.bodies = [_Body(self, *pair) for pair in zip(kernel.bodies, kernel.memory, strict=True)]

    def at(self, pointer: Any, offset: Any) -> Any:
        """A pointer some bytes further."""
        return self.e.address(pointer, offset, self.e.i8)

    def scratch_at(self, offset: int) -> Any:
        return self.at(self.scratch, offset)

    def report(self, number: Any) -> None:
        e = self.e
        e.store(number, e.load(e.address(self.block, ERROR, e.i64), e.pointer))

    def copy(self, target: Any, source: Any, size: Any) -> None:
        e = self.e
        function = e.declare("memcpy", e.pointer, [e.pointer, e.pointer, e.i64])
        e.call(function, [target, source, e.i64(size) if isinstance(size, int) else size])

    def turn(self, number: int, odd: Any) -> Any:
        """The place in scratch memory that step `odd` (an i1) writes what is carried to."""
        first, second = (self.scratch_at(offset) for offset in self.kernel.turns[number])
        return self.e.select(odd, second, first)

    def is_odd(self, number: Any) -> Any:
        e = self.e
        return e.compare("!=", e.builder.and_(number, e.i64(1)), 0)


def _no(e: Emitter, condition: Any) -> Any:
    return e.builder.not_(condition)


def _emit_cond(call: _Call) -> None:
    e = call.e
    pred, *operands = call.inputs
    chosen = e.compare("!=", e.load(pred, e.i8), 0)

    def run(body: _Body) -> Callable[[], Sequence[Any]]:
        def branch() -> Sequence[Any]:
            body.run(operands, call.outputs)
            body.failed()
            return ()

        return branch

    e.branch(chosen, run(call.bodies[0]), run(call.bodies[1]))


def _emit_invoke(call: _Call) -> None:
    call.bodies[0].run(call.inputs, call.outputs)
    call.bodies[0].failed()


def _emit_scan(call: _Call) -> None:
    e = call.e
    carried, sliced, length, reverse = call.settings
    init, xs, extra = (
        call.inputs[:carried],
        call.inputs[carried : carried + sliced],
        call.inputs[carried + sliced :],
    )
    steps = [size // length for size in call.sizes[carried : carried + sliced]]
    strides = [size // length for size in call.result_sizes[carried:]]
    body = call.bodies[0]

    def step(number: Any, *before: Any) -> tuple[Any, Sequence[Any]]:
        following = e.add(number, 1)
        last = e.compare("==", following, length)
        place = e.sub(e.i64(length - 1), number) if reverse else number
        odd = call.is_odd(number)
        after = [e.select(last, call.outputs[i], call.turn(i, odd)) for i in range(carried)]
        slices = [call.at(x, e.mul(place, size)) for x, size in zip(xs, steps, strict=True)]
        stacked = [
            call.at(y, e.mul(place, size)) for y, size in zip(call.outputs[carried:], strides, strict=True)
        ]
        body.run([*before, *slices, *extra], [*after, *stacked])
        again = e.builder.and_(_no(e, last), _no(e, body.failed()))
        return again, [following, *after]

    e.repeat([e.i64(0), *init], step)


def _emit_while(call: _Call) -> None:
    e = call.e
    (carried,) = call.settings
    init, extra = call.inputs[:carried], call.inputs[carried:]
    condition, body = call.bodies
    flag = call.scratch_at(call.kernel.flag)

    def step(number: Any, *before: Any) -> tuple[Any, Sequence[Any]]:
        condition.run([*before, *extra], [flag])
        failed = condition.failed()
        goes_on = e.builder.and_(e.compare("!=", e.load(flag, e.i8), 0), _no(e, failed))
        after = [call.turn(i, call.is_odd(number)) for i in range(carried)]

        def run() -> Sequence[Any]:
            body.run([*before, *extra], after)
            return (_no(e, body.failed()), e.add(number, 1), *after)

        again, following, *values = e.branch(
            goes_on, run, lambda: (ir.Constant(ir.IntType(1), 0), number, *before)
        )
        return again, [following, *values]

    count, *values = e.repeat([e.i64(0), *init], step)
    for target, value, size in zip(call.outputs, values, call.kernel.carried, strict=False):
        call.copy(target, value, size)
    e.store(count, call.outputs[-1])


def _emit_while_backward(call: _Call) -> None:
    """The steps again, each kept, in memory that is as long as they are many; then back."""
    e = call.e
    carried, shared, sums = call.settings
    init, extra = call.inputs[:carried], call.inputs[carried : carried + shared]
    steps = e.load(call.inputs[carried + shared], e.i64)
    grads = call.inputs[carried + shared + 1 :]
    sizes = [-(-max(size, 1) // 64) * 64 for size in call.kernel.carried[:carried]]
    places = [sum(sizes[:i]) for i in range(carried)]
    total = max(sum(sizes), 64)
    memory = e.call(e.declare("malloc", e.pointer, [e.i64]), [e.add(e.mul(steps, total), total)])
    missing = e.compare("==", e.builder.ptrtoint(memory, e.i64), 0)
    no_memory = call.reports.number_of(RuntimeError, "not enough memory for the steps of a while_loop")

    def kept(number: Any) -> list[Any]:
        start = call.at(memory, e.mul(number, total))
        return [call.at(start, place) for place in places]

    def forward() -> None:
        for target, value, size in zip(kept(e.i64(0)), init, call.kernel.carried, strict=False):
            call.copy(target, value, size)
        with e.loop(0, e.sub(steps, 1)) as number:
            call.bodies[0].run([*kept(number), *extra], kept(e.add(number, 1)))

    def back(number: Any, *before: Any) -> Sequence[Any]:
        after = [call.turn(carried + i, call.is_odd(number)) for i in range(sums)]
        values = kept(e.sub(e.sub(steps, number), 1))
        call.bodies[1].run([*before, *values, *extra], after)
        return after

    def run() -> Sequence[Any]:
        forward()
        found = e.fold(0, steps, 1, grads, back)
        for target, value, size in zip(call.outputs, found, call.kernel.carried[carried:], strict=True):
            call.copy(target, value, size)
        e.call(e.declare("free", ir.VoidType(), [e.pointer]), [memory])
        return ()

    def fail() -> Sequence[Any]:
        call.report(e.i64(no_memory))
        return ()

    e.branch(missing, fail, run)


_EMITTERS: dict[str, Callable[[_Call], None]] = {
    "cond": _emit_cond,
    "invoke_subgraph": _emit_invoke,
    "scan": _emit_scan,
    "while_loop": _emit_while,
    "while_loop_backward": _emit_while_backward,
}

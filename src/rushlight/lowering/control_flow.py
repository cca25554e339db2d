"""Control flow whose bodies are native code: one kernel that calls them.

A body that is not native throughout leaves its operator to the eager kernel (capture/control_flow.py), as a
library call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..capture.control_flow import COND, INVOKE, SCAN, WHILE, WHILE_BACKWARD
from ..core.dtypes import DTYPES
from ..core.shapes import Spec, numel
from ..graph.ir import Node
from ..graph.subgraph import Subgraph
from ..loops.control_flow import ControlFlow, lay_out_scratch
from ..loops.expr import NotRecordable
from .lowered import Lowered, Lowerer


def _call(
    low: Lowerer,
    op: Any,
    settings: tuple[Any, ...],
    operands: Sequence[Lowered],
    bodies: Sequence[Subgraph],
    carried: Sequence[Lowered],
    out: Sequence[Spec],
) -> tuple[Lowered, ...]:
    """Call the programs of `bodies` on `operands`."""
    programs = tuple(body.program for body in bodies)
    if any(program is None or not program.native for program in programs):
        raise NotRecordable(f"{op.name}: a body has library calls")
    inputs = [operand.contiguous() for operand in operands]
    outputs = [low.fresh_buffer(spec.dtype, spec.known_shape()) for spec in out]
    sizes = tuple(numel(tensor.shape) * tensor.dtype.itemsize for tensor in carried)
    layout = lay_out_scratch([program for program in programs if program is not None], sizes)
    scratch = low.fresh_buffer(DTYPES["uint8"], (layout.size,))
    low.definitions.append(
        ControlFlow(
            f"{op.schema.name}{len(low.definitions)}",
            Node(op, settings),
            tuple(x.buffer for x in inputs if x.buffer is not None),
            (*outputs, scratch),
            tuple((x.shape, x.strides) for x in inputs),
            tuple(program for program in programs if program is not None),
            layout.memory,
            sizes,
            layout.turns,
            layout.flag,
        )
    )
    return tuple(low.stored(buffer, spec.known_shape()) for buffer, spec in zip(outputs, out, strict=True))


# `settings` are what the code generator needs to know besides buffers: how many operands of each kind there are.


def _cond(args: tuple[Any, ...]) -> tuple[Lowered, ...]:
    pred, operands, true, false, low, out = args
    return _call(low, COND, (), (pred, *operands), (true, false), (), out)


def _while(args: tuple[Any, ...]) -> tuple[Lowered, ...]:
    carried, extra, condition, body, low, out = args
    return _call(low, WHILE, (len(carried),), (*carried, *extra), (condition, body), carried, out)


def _while_backward(args: tuple[Any, ...]) -> tuple[Lowered, ...]:
    carried, extra, steps, grads, body, back, _, low, out = args
    counts = (len(carried), len(extra), len(grads))
    operands = (*carried, *extra, steps, *grads)
    return _call(low, WHILE_BACKWARD, counts, operands, (body, back), (*carried, *grads), out)


def _scan(args: tuple[Any, ...]) -> tuple[Lowered, ...]:
    init, xs, extra, body, length, reverse, low, out = args
    settings = (len(init), len(xs), length, reverse)
    return _call(low, SCAN, settings, (*init, *xs, *extra), (body,), init, out)


def _invoke(args: tuple[Any, ...]) -> tuple[Lowered, ...]:
    operands, body, low, out = args
    return _call(low, INVOKE, (), operands, (body,), (), out)


COND.lowering = _cond
WHILE.lowering = _while
WHILE_BACKWARD.lowering = _while_backward
SCAN.lowering = _scan
INVOKE.lowering = _invoke

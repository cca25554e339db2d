"""The higher-order operators of a graph: branches and loops whose bodies are graphs (graph/subgraph.py).

    cond(pred, operands; true, false)             the outputs of one of two bodies
    while_loop(carried, extra; condition, body)   the carried tensors once the condition is false, and the steps
    while_loop_backward(...)                      its derivative: the steps again, and then back
    scan(init, xs, extra; body, length, reverse)  the last carry, and what each step gave, stacked
    invoke_subgraph(operands; body)               the outputs of a body

The bodies of a loop take the carried tensors, then a slice of each of `xs`, then `extra`. Here are their shape
rules, and the kernels that run a body operator by operator where there is no native code for it; native code is
in lowering/control_flow.py and codegen/llvm/control_flow.py, derivatives and batching in _higher_order_ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.construct import from_numpy
from ..core.dtypes import DTYPES
from ..core.modes import MODES
from ..core.registry import Api, Kind
from ..core.schema import parse_schema
from ..core.shapes import Spec
from ..core.tensor import Tensor
from ..graph.subgraph import Subgraph
from .subgraph import HigherOrderOp, run_body

INT64 = DTYPES["int64"]
_GRAPH = "__torch__.rushlight.Subgraph"


def _operator(
    signature: str, rule: Callable[..., tuple[Spec, ...]], kernel: Callable[..., list[Tensor]]
) -> HigherOrderOp:
    def run(args: tuple[Any, ...]) -> list[np.ndarray]:
        *given, _ = args  # the last are the specs
        grad, MODES.grad = MODES.grad, False
        try:
            return [tensor.numpy_array() for tensor in kernel(*map(_tensors, given))]
        finally:
            MODES.grad = grad

    op = HigherOrderOp(
        parse_schema(f"rushlight::{signature} -> Tensor[]"),
        Kind.STRUCTURAL,
        "control_flow",
        api=Api.NONE,
        moves=True,
        rule=lambda args: rule(*args),
    )
    op.kernel = run
    op.kernel_reads = frozenset(range(len(op.schema.arguments)))
    return op


def _tensors(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return from_numpy(argument)
    return tuple(map(_tensors, argument)) if isinstance(argument, tuple | list) else argument


# cond


def _cond_shape(pred: Any, operands: Any, true: Subgraph, false: Subgraph) -> tuple[Spec, ...]:
    return tuple(true.output_specs())


def _cond(pred: Tensor, operands: Sequence[Tensor], true: Subgraph, false: Subgraph) -> list[Tensor]:
    return run_body(true if pred.item() else false, operands)


COND = _operator(f"cond(Tensor pred, Tensor[] operands, {_GRAPH} true, {_GRAPH} false)", _cond_shape, _cond)


# while_loop


def _while_shape(carried: Any, extra: Any, condition: Subgraph, body: Subgraph) -> tuple[Spec, ...]:
    return (*body.output_specs(), Spec((), INT64))


def _while(
    carried: Sequence[Tensor], extra: Sequence[Tensor], condition: Subgraph, body: Subgraph
) -> list[Tensor]:
    values, steps = list(carried), 0
    while run_body(condition, [*values, *extra])[0].item():
        values = run_body(body, [*values, *extra])
        steps += 1
    return [*values, from_numpy(np.array(steps))]


WHILE = _operator(
    f"while_loop(Tensor[] carried, Tensor[] extra, {_GRAPH} condition, {_GRAPH} body)", _while_shape, _while
)


def _while_backward_shape(
    carried: Any, extra: Any, steps: Any, grads: Any, body: Subgraph, back: Subgraph, inputs: Any
) -> tuple[Spec, ...]:
    return tuple(back.output_specs())


def _while_backward(
    carried: Sequence[Tensor],
    extra: Sequence[Tensor],
    steps: Tensor,
    grads: Sequence[Tensor],
    body: Subgraph,
    back: Subgraph,
    inputs: Sequence[int],
) -> list[Tensor]:
    history = [list(carried)]
    for _ in range(int(steps.item()) - 1):
        history.append(run_body(body, [*history[-1], *extra]))
    found = list(grads)
    for values in reversed(history[: int(steps.item())]):
        found = run_body(back, [*found, *values, *extra])
    return found


# `back` takes gradients (of what is carried, then sums for `extra`), the carried tensors before a step, and
# `extra`; it gives the gradients before the step. `inputs` are the numbers of the inputs of `body` whose
# gradients they are.
WHILE_BACKWARD = _operator(
    f"while_loop_backward(Tensor[] carried, Tensor[] extra, Tensor steps, Tensor[] grads, {_GRAPH} body, "
    f"{_GRAPH} back, int[] inputs)",
    _while_backward_shape,
    _while_backward,
)


# scan


def _scan_shape(
    init: Sequence[Any], xs: Any, extra: Any, body: Subgraph, length: int, reverse: bool
) -> tuple[Spec, ...]:
    specs = body.output_specs()
    stacked = (Spec((length, *spec.known_shape()), spec.dtype) for spec in specs[len(init) :])
    return (*specs[: len(init)], *stacked)


def _scan(
    init: Sequence[Tensor],
    xs: Sequence[Tensor],
    extra: Sequence[Tensor],
    body: Subgraph,
    length: int,
    reverse: bool,
) -> list[Tensor]:
    carry = list(init)
    specs = _scan_shape(init, xs, extra, body, length, reverse)[len(init) :]
    stacked = [np.empty(spec.known_shape(), spec.dtype.numpy) for spec in specs]
    for step in range(length - 1, -1, -1) if reverse else range(length):
        slices = [from_numpy(x.numpy_array()[step, ...]) for x in xs]
        results = run_body(body, [*carry, *slices, *extra])
        carry = results[: len(init)]
        for array, result in zip(stacked, results[len(init) :], strict=True):
            array[step] = result.numpy_array()
    return [*carry, *map(from_numpy, stacked)]


SCAN = _operator(
    f"scan(Tensor[] init, Tensor[] xs, Tensor[] extra, {_GRAPH} body, int length, bool reverse)",
    _scan_shape,
    _scan,
)


# invoke_subgraph


def _invoke_shape(operands: Any, body: Subgraph) -> tuple[Spec, ...]:
    return tuple(body.output_specs())


def _invoke(operands: Sequence[Tensor], body: Subgraph) -> list[Tensor]:
    return run_body(body, operands)


INVOKE = _operator(f"invoke_subgraph(Tensor[] operands, {_GRAPH} body)", _invoke_shape, _invoke)

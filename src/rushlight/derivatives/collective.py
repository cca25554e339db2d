"""Derivatives of collectives: what is differentiated is the sum of all processes' results.

So the gradient of a value that many processes read is the sum of theirs: of a gathered tensor it is scattered, of
a scattered one gathered.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

from ..comm.functional import group_of
from ..core.dispatch import run_name
from ..core.tensor import Tensor
from ..ops.collective import SPACE
from .declare import AUTO_LINEAR, NOT_DIFFERENTIABLE, derivative


def waited(name: str, *args: Any) -> Tensor:
    return run_name(SPACE + "wait_tensor", run_name(SPACE + name, *args))


def all_reduce_backward(grad: Tensor, input: Tensor, reduce_op: str, group_name: Any) -> Tensor:
    if reduce_op.lower() in ("sum", "avg"):
        return waited("all_reduce", grad, reduce_op, group_name)
    return waited("all_reduce", grad, "sum", group_name) * _weight(input, reduce_op, group_name)


def _weight(input: Tensor, reduce_op: str, group_name: Any) -> Tensor:
    """The derivative of a minimum, maximum or product by this process's value. Processes with the same extreme
    value share it equally, as `amax` does."""
    if reduce_op.lower() == "product":
        group = group_of(group_name)
        flat = input.reshape(-1)
        everybody = waited("all_gather_into_tensor", flat, group.size(), group_name)
        rows = everybody.reshape((group.size(), *input.shape)).unbind(0)
        others = [row for rank, row in enumerate(rows) if rank != group.rank()]
        return functools.reduce(operator.mul, others) if others else input * 0 + 1
    chosen = (input == waited("all_reduce", input, reduce_op, group_name)).to(input.dtype)
    return chosen / waited("all_reduce", chosen, "sum", group_name)


def _check_linear(name: str, reduce_op: str) -> None:
    if reduce_op.lower() not in ("sum", "avg"):
        raise NotImplementedError(f"{name} with reduce_op={reduce_op!r} has no derivative; 'sum' and 'avg' have")


def reduce_scatter_backward(grad: Tensor, reduce_op: str, group_size: int, group_name: Any) -> Tensor:
    _check_linear("reduce_scatter_tensor", reduce_op)
    whole = waited("all_gather_into_tensor", grad, group_size, group_name)
    return whole / group_size if reduce_op.lower() == "avg" else whole


def broadcast_backward(grad: Tensor, src: int, group_name: Any) -> Tensor:
    total = waited("all_reduce", grad, "sum", group_name)
    group = group_of(group_name)
    return total if group.ranks[group.rank()] == src else total * 0


def all_reduce_forward(input_t: Tensor, input_p: Tensor, reduce_op: str, group_name: Any) -> Tensor:
    if reduce_op.lower() in ("sum", "avg"):
        return run_name(SPACE + "all_reduce", input_t, reduce_op, group_name)
    weighted = input_t * _weight(input_p, reduce_op, group_name)
    return run_name(SPACE + "all_reduce", weighted, "sum", group_name)


derivative(
    SPACE + "all_reduce",
    input=all_reduce_backward,
    result=all_reduce_forward,
)
derivative(
    SPACE + "all_gather_into_tensor",
    input=lambda grad, group_size, group_name, input_shape: waited(
        "reduce_scatter_tensor", grad, "sum", group_size, group_name
    ).reshape(input_shape),
    result=AUTO_LINEAR,
)
derivative(SPACE + "reduce_scatter_tensor", input=reduce_scatter_backward, result=AUTO_LINEAR)
derivative(
    SPACE + "all_to_all_single",
    input=lambda grad, output_split_sizes, input_split_sizes, group_name: waited(
        "all_to_all_single", grad, input_split_sizes, output_split_sizes, group_name
    ),
    result=AUTO_LINEAR,
)
derivative(SPACE + "broadcast", input=broadcast_backward, result=AUTO_LINEAR)
derivative(SPACE + "wait_tensor", tensor=lambda grad: grad, result=AUTO_LINEAR)
derivative(SPACE + "isend", tensor=NOT_DIFFERENTIABLE)
derivative(SPACE + "irecv", tensor=NOT_DIFFERENTIABLE)

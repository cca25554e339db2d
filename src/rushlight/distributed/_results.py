"""Collectives that give new tensors: what distributed tensors and modules exchange.

Eager, they are those of process groups. In a program that is captured they are operators of its graph (functional
collectives), and the compiler decides where they begin and where they are waited for.
"""

from __future__ import annotations

from typing import Any

from .._api.compiler import is_compiling
from .._api.link import cat
from ..core.tensor import Tensor
from . import _functional_collectives as functional
from . import distributed_c10d as c10d

_OPS = {
    "sum": c10d.ReduceOp.SUM,
    "avg": c10d.ReduceOp.AVG,
    "product": c10d.ReduceOp.PRODUCT,
    "min": c10d.ReduceOp.MIN,
    "max": c10d.ReduceOp.MAX,
}


def all_reduce(tensor: Tensor, how: str, group: Any) -> Tensor:
    if is_compiling():
        return functional.all_reduce(tensor.detach(), how, group)
    made = tensor.detach().contiguous().clone()
    c10d.all_reduce(made, _OPS[how], group=group)
    return made


def broadcast(tensor: Tensor, source: int, group: Any) -> Tensor:
    """What process `source` of the group has."""
    if is_compiling():
        return functional.broadcast(tensor.detach(), source, group)
    made = tensor.detach().contiguous().clone()
    c10d.broadcast(made, group=group, group_src=source)
    return made


def all_gather(tensor: Tensor, dim: int, group: Any) -> Tensor:
    """What all processes have, one after the other along `dim`."""
    tensor, parts = tensor.detach().contiguous(), c10d.get_world_size(group)
    if is_compiling():
        return functional.all_gather_tensor(tensor, dim, group)
    shape = tuple(tensor.shape)
    made = tensor.new_empty((parts * shape[0], *shape[1:]))
    c10d.all_gather_into_tensor(made, tensor, group=group)
    return made if dim == 0 else cat(list(made.chunk(parts, 0)), dim)


def reduce_scatter(tensor: Tensor, how: str, dim: int, group: Any) -> Tensor:
    """The piece of this process, along `dim`, of what all have."""
    parts = c10d.get_world_size(group)
    tensor = tensor.detach()
    if is_compiling():
        return functional.reduce_scatter_tensor(tensor.contiguous(), how, dim, group)
    rows = tensor if dim == 0 else cat(list(tensor.chunk(parts, dim)), 0)
    made = rows.new_empty((rows.shape[0] // parts, *rows.shape[1:]))
    c10d.reduce_scatter_tensor(made, rows.contiguous(), _OPS[how], group=group)
    return made


def all_to_all(tensor: Tensor, group: Any) -> Tensor:
    """Row i of the result is what process i has in the row of this one."""
    tensor = tensor.detach().contiguous()
    if is_compiling():
        return functional.all_to_all_single(tensor, None, None, group)
    made = tensor.new_empty(tuple(tensor.shape))
    c10d.all_to_all_single(made, tensor, group=group)
    return made

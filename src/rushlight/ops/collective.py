"""Collectives as operators: what processes exchange inside of a graph.

An operator begins a collective and returns the memory of its result at once; `wait_tensor` of that gives the
result. `group_name` is the name of a group of processes (comm/group.py).
"""

from __future__ import annotations

from typing import Any

from ..comm.functional import group_of, reduction
from ..comm.reductions import check_reduction
from ..core.errors import check
from ..core.registry import INTERNAL, define
from ..core.shapes import Shape, Spec
from ..core.tensor import Tensor
from ..core.traits import Trait

SPACE = "_c10d_functional::"


def _collective(schema: str, shape: Any) -> None:
    """RAISES: as an error in the data, it is not to be lost where nobody reads the result."""
    define(SPACE + schema, shape=shape, api=INTERNAL, moves=True, traits=Trait.COLLECTIVE | Trait.RAISES)


def like(input: Tensor) -> Spec:
    return Spec(tuple(input.shape), input.dtype)


def all_reduce(input: Tensor, reduce_op: str) -> Spec:
    check_reduction("all_reduce", reduction(reduce_op).kind, input.dtype)
    return like(input)


def all_gather(input: Tensor, group_size: int) -> Spec:
    shape = tuple(input.shape) or (1,)
    return Spec((shape[0] * group_size, *shape[1:]), input.dtype)


def reduce_scatter(input: Tensor, reduce_op: str, group_size: int) -> Spec:
    check_reduction("reduce_scatter_tensor", reduction(reduce_op).kind, input.dtype)
    check(
        input.ndim > 0 and input.shape[0] % group_size == 0,
        f"reduce_scatter_tensor: the first dimension of {list(input.shape)} is not divisible by {group_size}",
    )
    return Spec((input.shape[0] // group_size, *input.shape[1:]), input.dtype)


def all_to_all(input: Tensor, output_split_sizes: Shape, input_split_sizes: Shape) -> Spec:
    check(input.ndim > 0, "all_to_all_single: the input has no dimension to split")
    check(
        sum(input_split_sizes) == input.shape[0],
        f"all_to_all_single: {list(input_split_sizes)} do not split {input.shape[0]} rows",
    )
    return Spec((sum(output_split_sizes), *input.shape[1:]), input.dtype)


def broadcast(input: Tensor, src: int, group_name: Any) -> Spec:
    check(src in group_of(group_name).ranks, f"broadcast: rank {src} is not in the group", ValueError)
    return like(input)


_collective("all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor", all_reduce)
_collective("all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor", all_gather)
_collective(
    "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor",
    reduce_scatter,
)
_collective(
    "all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) -> "
    "Tensor",
    all_to_all,
)
_collective("broadcast(Tensor input, int src, str group_name) -> Tensor", broadcast)
_collective("isend(Tensor tensor, int dst, int tag, str group_name) -> Tensor", lambda tensor: like(tensor))
_collective("irecv(Tensor tensor, int src, int tag, str group_name) -> Tensor", lambda tensor: like(tensor))
_collective("wait_tensor(Tensor tensor) -> Tensor", lambda tensor: like(tensor))

"""Collectives that write to their arguments, or take several tensors, in terms of those that do not.

Those of a list begin one after the other; compiled, small reductions among them are joined (comm/functional.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.registry import INTERNAL, composite
from ..core.tensor import Tensor
from ..core.traits import Trait
from ..ops.collective import SPACE


def _composite(schema: str, space: str = SPACE) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return composite(space + schema, api=INTERNAL, traits=Trait.COLLECTIVE)


def _begun(name: str, *args: Any) -> Tensor:
    return run_name(SPACE + name, *args)


def _waited(name: str, *args: Any) -> Tensor:
    return run_name(SPACE + "wait_tensor", _begun(name, *args))


@_composite("all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)")
def all_reduce_(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    return input.copy_(_waited("all_reduce", input, reduce_op, group_name))


@_composite("broadcast_(Tensor(a!) input, int src, str group_name) -> Tensor(a!)")
def broadcast_(input: Tensor, src: int, group_name: str) -> Tensor:
    return input.copy_(_waited("broadcast", input, src, group_name))


@_composite("all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]")
def all_reduce_coalesced(inputs: Sequence[Tensor], reduce_op: str, group_name: str) -> list[Tensor]:
    return [_begun("all_reduce", x, reduce_op, group_name) for x in inputs]


@_composite("all_reduce_coalesced_(Tensor(a!)[] inputs, str reduce_op, str group_name) -> Tensor(a!)[]")
def all_reduce_coalesced_(inputs: Sequence[Tensor], reduce_op: str, group_name: str) -> list[Tensor]:
    begun = [_begun("all_reduce", x, reduce_op, group_name) for x in inputs]
    return [x.copy_(run_name(SPACE + "wait_tensor", y)) for x, y in zip(inputs, begun, strict=True)]


@_composite("all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str group_name) -> Tensor[]")
def all_gather_into_tensor_coalesced(
    inputs: Sequence[Tensor], group_size: int, group_name: str
) -> list[Tensor]:
    return [_begun("all_gather_into_tensor", x, group_size, group_name) for x in inputs]


@_composite(
    "reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduce_op, int group_size, str group_name) -> Tensor[]"
)
def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor], reduce_op: str, group_size: int, group_name: str
) -> list[Tensor]:
    return [_begun("reduce_scatter_tensor", x, reduce_op, group_size, group_name) for x in inputs]


@_composite(
    "all_gather_into_tensor_out(Tensor input, int group_size, str group_name, *, Tensor(a!) out) -> Tensor(a!)"
)
def all_gather_into_tensor_out(input: Tensor, group_size: int, group_name: str, out: Tensor) -> Tensor:
    return out.copy_(_waited("all_gather_into_tensor", input, group_size, group_name))


@_composite(
    "reduce_scatter_tensor_out(Tensor input, str reduce_op, int group_size, str group_name, *, "
    "Tensor(a!) out) -> Tensor(a!)"
)
def reduce_scatter_tensor_out(
    input: Tensor, reduce_op: str, group_size: int, group_name: str, out: Tensor
) -> Tensor:
    return out.copy_(_waited("reduce_scatter_tensor", input, reduce_op, group_size, group_name))


@_composite(
    "batch_p2p_ops(str[] op_list, int[] peer_list, int[] tag_list, Tensor[] tensors, str group_name) -> Tensor[]"
)
def batch_p2p_ops(
    op_list: Sequence[str],
    peer_list: Sequence[int],
    tag_list: Sequence[int],
    tensors: Sequence[Tensor],
    group_name: str,
) -> list[Tensor]:
    check(
        len(op_list) == len(peer_list) == len(tag_list) == len(tensors),
        "batch_p2p_ops: there are as many operations as peers, tags and tensors",
    )
    check(all(op in ("isend", "irecv") for op in op_list), f"batch_p2p_ops: isend or irecv, not {op_list}")
    calls = zip(op_list, tensors, peer_list, tag_list, strict=True)
    return [_begun(op, tensor, peer, tag, group_name) for op, tensor, peer, tag in calls]


# PyTorch's names of those that are differentiable; here all are.
_AUTOGRAD = "_c10d_functional_autograd::"


@_composite("all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor", _AUTOGRAD)
def all_gather_autograd(input: Tensor, group_size: int, group_name: str) -> Tensor:
    return _begun("all_gather_into_tensor", input, group_size, group_name)


@_composite(
    "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor", _AUTOGRAD
)
def reduce_scatter_autograd(input: Tensor, reduce_op: str, group_size: int, group_name: str) -> Tensor:
    return _begun("reduce_scatter_tensor", input, reduce_op, group_size, group_name)


@_composite(
    "all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) -> "
    "Tensor",
    _AUTOGRAD,
)
def all_to_all_autograd(
    input: Tensor, output_split_sizes: Any, input_split_sizes: Any, group_name: str
) -> Tensor:
    return _begun("all_to_all_single", input, output_split_sizes, input_split_sizes, group_name)

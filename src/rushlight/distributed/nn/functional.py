"""Collectives that return new tensors and have derivatives, by the names of `torch.distributed.nn.functional`.

What is differentiated is the sum of all processes' results, so every process has to call backward. Those that
give all processes a result are made of the functional collectives, and are part of graphs. Ranks are those of the
whole job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._api.link import cat, empty_like, stack, zeros_like
from ...autograd.function import Function
from ...core.tensor import Tensor
from .. import _functional_collectives as funcol
from .. import distributed_c10d as c10d
from ..reduce_ops import ReduceOp

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]

WORLD = c10d.group.WORLD


def broadcast(tensor: Tensor, src: int, group: Any = WORLD) -> Tensor:
    """The tensor of process `src`, in all processes."""
    return funcol.broadcast(tensor, src, group)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = WORLD) -> Tensor:
    return funcol.all_reduce(tensor, op, group)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = WORLD) -> Tensor:
    """The combination of all tensors in process `dst`, by SUM or AVG if it is to be differentiated; the others
    get a copy of their own tensor."""
    return _Reduce.apply(tensor, dst, op, group)


def all_gather(tensor: Tensor, group: Any = WORLD) -> tuple[Tensor, ...]:
    """The tensors of all processes, which have one shape."""
    return tuple(funcol.all_gather_tensor(tensor.unsqueeze(0), 0, group).unbind(0))


def _all_gather_base(output_tensor: Tensor, input_tensor: Tensor, group: Any = WORLD) -> Tensor:
    """The tensors of all processes one after the other, in the shape of `output_tensor`."""
    return funcol.all_gather_tensor(input_tensor, 0, group).reshape(output_tensor.shape)


def gather(tensor: Tensor, dst: int = 0, group: Any = WORLD) -> tuple[Tensor, ...]:
    """The tensors of all processes in process `dst`; zeros in the others."""
    return _Gather.apply(tensor, dst, group)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = WORLD) -> Tensor:
    """One of the tensors of process `src` for each process; all processes give as many, of one shape."""
    if any(t.shape != tensors[0].shape for t in tensors):
        raise RuntimeError(f"scatter: tensors must have one shape, not {[tuple(t.shape) for t in tensors]}")
    return _Scatter.apply(src, group, *tensors)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = WORLD
) -> Tensor:
    """This process's part of the combination of everybody's tensors, in the shape of `output`."""
    return funcol.reduce_scatter_tensor(stack(list(input_list)), op, 0, group).reshape(output.shape)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = WORLD
) -> tuple[Tensor, ...]:
    """What each process has for this one, in the shapes of `output_tensor_list`; process i gets
    `input_tensor_list[i]`."""
    size = c10d.get_world_size(group)
    if not len(input_tensor_list) == len(output_tensor_list) == size:
        raise ValueError(
            f"all_to_all: {size} processes take {size} tensors each way, not {len(input_tensor_list)} and "
            f"{len(output_tensor_list)}"
        )
    sent = [x.reshape(-1) for x in input_tensor_list]
    wanted = [x.numel() for x in output_tensor_list]
    found = funcol.all_to_all_single(cat(sent), wanted, [x.numel() for x in sent], group)
    parts = found.split(wanted)
    return tuple(part.reshape(x.shape) for part, x in zip(parts, output_tensor_list, strict=True))


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = WORLD,
) -> Tensor:
    """Rows of `input` go to the processes in turn; the result is the rows received, in the shape of `output`."""
    size = c10d.get_world_size(group)
    sent = list(input_split_sizes) if input_split_sizes else [input.shape[0] // size] * size
    wanted = list(output_split_sizes) if output_split_sizes else [output.shape[0] // size] * size
    return funcol.all_to_all_single(input, wanted, sent, group).reshape(output.shape)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, dst: int, op: Any, group: Any) -> Tensor:
        ctx.dst, ctx.op, ctx.group = dst, op, group
        result = tensor.clone()
        c10d.reduce(result, dst, op, group)
        return result if c10d.get_rank() == dst else tensor.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        found = broadcast(grad, ctx.dst, ctx.group)
        if ctx.op == ReduceOp.AVG:
            found = found / c10d.get_world_size(ctx.group)
        elif ctx.op != ReduceOp.SUM:
            raise NotImplementedError(f"reduce with {ctx.op} has no derivative; SUM and AVG have")
        return found, None, None, None


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, dst: int, group: Any) -> tuple[Tensor, ...]:
        ctx.dst, ctx.group = dst, group
        found = [zeros_like(tensor) for _ in range(c10d.get_world_size(group))]
        c10d.gather(tensor, found if c10d.get_rank() == dst else None, dst, group)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return scatter(grads, ctx.dst, ctx.group), None, None


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        result = empty_like(tensors[0])
        c10d.scatter(result, list(tensors) if c10d.get_rank() == src else None, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return None, None, *gather(grad, ctx.src, ctx.group)

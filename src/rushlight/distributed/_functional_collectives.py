"""Collectives that return new tensors, with derivatives, for graphs and transforms.

In PyTorch the result of an eager call is a tensor that waits when it is first used; here it has waited. To
compute in between, call `ops._c10d_functional` and `wait_tensor` yourself: compiled code moves the two apart
in any case.
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from ..ops.collective import SPACE
from .device_mesh import DeviceMesh
from .groups import ProcessGroup, member, new_group
from .reduce_ops import ReduceOp

__all__ = [
    "all_gather_into_tensor_coalesced",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]


class AsyncCollectiveTensor(Tensor):
    """Of PyTorch; no tensor here is one."""


def _group(group: Any) -> ProcessGroup:
    """The group of an argument: a group, its name, a list of ranks, or a mesh of one dimension (or one with the
    number of a dimension)."""
    if isinstance(group, DeviceMesh):
        return _checked(group.get_group())
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return _checked(group[0].get_group(group[1]))
    if isinstance(group, list) and group and isinstance(group[0], int):
        return _checked(new_group(group))
    return _checked(member(group))


def _checked(group: Any) -> ProcessGroup:
    if not isinstance(group, ProcessGroup):
        raise ValueError(
            "a collective is called by the processes of its group, and this process is not in it"
        )
    return group


def _kind(reduce_op: Any) -> str:
    return reduce_op.name.lower() if isinstance(reduce_op, ReduceOp) else str(reduce_op)


def _begun(name: str, *args: Any) -> Tensor:
    return run_name(SPACE + name, *args)


def wait_tensor(tensor: Tensor) -> Tensor:
    """What `tensor`, the result of a collective that was begun, becomes."""
    return run_name(SPACE + "wait_tensor", tensor)


def all_reduce(self: Tensor, reduceOp: Any, group: Any, tag: str = "") -> Tensor:
    return wait_tensor(_begun("all_reduce", self, _kind(reduceOp), _group(group).group_name))


def all_reduce_coalesced(self: list[Tensor], reduceOp: Any, group: Any, tag: str = "") -> list[Tensor]:
    name = _group(group).group_name
    return [wait_tensor(t) for t in [_begun("all_reduce", x, _kind(reduceOp), name) for x in self]]


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    return wait_tensor(_begun("broadcast", self, src, _group(group).group_name))


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """Everybody's tensors, concatenated along `gather_dim`."""
    pg = _group(group)
    rows = self.movedim(gather_dim, 0) if self.dim() > 1 else self
    whole = wait_tensor(_begun("all_gather_into_tensor", rows.contiguous(), pg.size(), pg.group_name))
    return whole.movedim(0, gather_dim) if self.dim() > 1 else whole


def reduce_scatter_tensor(self: Tensor, reduceOp: Any, scatter_dim: int, group: Any, tag: str = "") -> Tensor:
    """This process's part, along `scatter_dim`, of the combination of everybody's tensors."""
    pg = _group(group)
    if self.shape[scatter_dim] % pg.size():
        raise AssertionError(
            f"input dimension {scatter_dim} ({self.shape[scatter_dim]}) must be a multiple of group_size "
            f"{pg.size()}"
        )
    rows = self.movedim(scatter_dim, 0).contiguous()
    part = wait_tensor(_begun("reduce_scatter_tensor", rows, _kind(reduceOp), pg.size(), pg.group_name))
    return part.movedim(0, scatter_dim)


def all_to_all_single(
    self: Tensor,
    output_split_sizes: list[int] | None,
    input_split_sizes: list[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    pg = _group(group)
    if output_split_sizes is None or input_split_sizes is None:
        if output_split_sizes is not None or input_split_sizes is not None:
            raise AssertionError("output_split_sizes and input_split_sizes are given together, or neither is")
        output_split_sizes = input_split_sizes = [self.shape[0] // pg.size()] * pg.size()
    return wait_tensor(
        _begun("all_to_all_single", self, output_split_sizes, input_split_sizes, pg.group_name)
    )


def all_gather_into_tensor_coalesced(self: list[Tensor], group: Any, tag: str = "") -> list[Tensor]:
    pg = _group(group)
    begun = [_begun("all_gather_into_tensor", x, pg.size(), pg.group_name) for x in self]
    return [wait_tensor(t) for t in begun]


def reduce_scatter_tensor_coalesced(
    inputs: list[Tensor], reduceOp: Any, scatter_dim: list[int], group: Any, tag: str = ""
) -> list[Tensor]:
    return [reduce_scatter_tensor(x, reduceOp, d, group) for x, d in zip(inputs, scatter_dim, strict=True)]


def permute_tensor(self: Tensor, src_dst: list[int], group: Any, tag: str = "") -> Tensor:
    """Process i's tensor goes to process `src_dst[i]`."""
    pg = _group(group)
    if sorted(src_dst) != list(range(pg.size())):
        raise ValueError(f"permute_tensor: {src_dst} is not a permutation of {pg.size()} processes")
    rows = self.shape[0]
    sent, received = [0] * pg.size(), [0] * pg.size()
    sent[src_dst[pg.rank()]] = received[src_dst.index(pg.rank())] = rows
    return all_to_all_single(self, received, sent, pg)


# All are differentiable.
all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single

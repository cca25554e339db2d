"""Messages from one process to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..comm import exchange
from ..comm.group import ProcessGroup
from ..comm.pending import Pending
from ..core.tensor import Tensor
from .arrays import check_tensor, read, write
from .groups import get_global_rank, get_group_rank, member
from .work import Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def _peer(group: ProcessGroup, rank: int | None, group_rank: int | None, what: str) -> int | None:
    """The number in the group of the other process; None if it is not given."""
    if rank is not None and group_rank is not None:
        raise ValueError("Can't specify both a rank of the world and one of the group")
    if rank is None and group_rank is None:
        return None
    peer = group_rank if rank is None else get_group_rank(group, rank)
    assert peer is not None
    get_global_rank(group, peer)
    if peer == group.rank():
        raise ValueError(
            f"Invalid {what} rank: {what} rank should not be the same as the rank of the current process."
        )
    return peer


def _check_tag(tag: int) -> None:
    if not 0 <= tag < 32_767:
        raise ValueError(f"a tag is a number from 0 to 32,766, not {tag}")


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Begin to send `tensor` to process `dst`; it is not to be written before the work has ended."""
    check_tensor(tensor, "tensor")
    _check_tag(tag)
    if (pg := member(group)) is None:
        return None
    peer = _peer(pg, dst, group_dst, "destination")
    if peer is None:
        raise ValueError("Must specify either a rank of the world or one of the group")
    where = f"send from rank {pg.ranks[pg.rank()]} to rank {pg.ranks[peer]}"
    return Work(
        Pending(where, exchange.send(pg, read(tensor), peer, tag), pg.timeout.total_seconds()), [tensor]
    )


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Begin to receive into `tensor` from process `src`, or from anyone."""
    check_tensor(tensor, "tensor")
    _check_tag(tag)
    if (pg := member(group)) is None:
        return None
    if pg.size() == 1:
        raise ValueError("irecv: there is no other process in the group")
    peer = _peer(pg, src, group_src, "source")
    out, finish = write(tensor)
    came_from: list[int] = []
    sender = "any rank" if peer is None else f"rank {pg.ranks[peer]}"
    where = f"recv of rank {pg.ranks[pg.rank()]} from {sender}"
    steps = exchange.receive(pg, out, peer, tag, came_from)
    pending = Pending(where, steps, pg.timeout.total_seconds(), finish)
    return Work(pending, [tensor], lambda: pg.ranks[came_from[0]])


def send(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send `tensor` to process `dst`."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receive into `tensor` from process `src`, or from anyone; returns the process it came from."""
    work = irecv(tensor, src, group, tag, group_src)
    return -1 if work is None else work.source_rank()


class P2POp:
    """A message for `batch_isend_irecv`: `op` is `isend` or `irecv`."""

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        check_tensor(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, member(group), tag
        if peer is None and group_peer is None:
            raise ValueError("P2POp: either peer or group_peer is needed")
        if self.group is not None:
            number = _peer(self.group, peer, group_peer, "peer")
            assert number is not None
            self.group_peer, self.peer = number, self.group.ranks[number]

    def __repr__(self) -> str:
        return f"P2POp({self.op.__name__}, peer={self.peer}, tag={self.tag})"


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin all messages of the list; receives first, so that sends find them waiting."""
    if not isinstance(p2p_op_list, list) or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``."
        )
    if not p2p_op_list:
        raise ValueError("batch_isend_irecv: the list is empty")
    if any(op.group is not p2p_op_list[0].group for op in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    works: dict[int, Any] = {}
    for kind in (irecv, isend):
        for k, message in enumerate(p2p_op_list):
            if message.op is kind:
                works[k] = kind(message.tensor, message.peer, message.group, message.tag)
    return [work for _, work in sorted(works.items()) if work is not None]

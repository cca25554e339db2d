"""Every collective, over contiguous arrays of one dimension, as steps that wait for MPI.

MPI moves bytes. A reduction is made in two steps: each process gets its share of everybody's values and combines
them (`reductions.combine`, in the order of ranks); then it sends the result. Both steps are messages between
pairs with a number of their own, so that the second step of one collective may begin before or after another
collective, differently in each process. Small values go in one step: everybody gets all of them and combines
them itself, in the same order. What is not reduced is one call of MPI's.

A group without a communicator sends nothing: one of one process, or an imagined one, in which the other processes
have what this one has.
"""

from __future__ import annotations

import numpy as np

from .group import ProcessGroup
from .mpi import DistBackendError, load
from .pending import Steps
from .reductions import Reduction, combine, premultiplied

SMALL = 1 << 16  # bytes that a process receives at most when everybody gets all values
TAGS = 1 << 14  # numbers of collectives under way at the same time; MPI has at least 32,767 tags


def flat_bytes(array: np.ndarray) -> np.ndarray:
    """The memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8)


def shares(count: int, size: int) -> list[int]:
    """Where each process's share of `count` values begins, and the end."""
    return [count * i // size for i in range(size + 1)]


def _exchange(
    group: ProcessGroup, sent: dict[int, np.ndarray], received: dict[int, np.ndarray], tag: int
) -> Steps:
    """Messages between pairs. What arrives must have the size that is expected."""
    comm, MPI = group.comm, load()
    arrivals = [(peer, a) for peer, a in received.items() if a.size]
    requests = [comm.Irecv([flat_bytes(a), MPI.BYTE], peer, tag) for peer, a in arrivals]
    requests += [comm.Isend([flat_bytes(a), MPI.BYTE], peer, tag) for peer, a in sent.items() if a.size]
    statuses = yield requests
    for (peer, a), status in zip(arrivals, statuses, strict=False):
        if status.Get_count(MPI.BYTE) != a.nbytes:
            raise DistBackendError(
                f"{status.Get_count(MPI.BYTE)} bytes came from rank {group.ranks[peer]} where {a.nbytes} were "
                "expected: the processes call different collectives, or with tensors of different sizes"
            )


def _tag(group: ProcessGroup) -> int:
    return 2 * (group.next_sequence() % TAGS)


def all_reduce(group: ProcessGroup, values: np.ndarray, out: np.ndarray, how: Reduction) -> Steps:
    """`out`, which may be `values`, becomes the combination of everybody's values."""
    yield from _reduce(group, values, out, how, None)


def reduce(group: ProcessGroup, values: np.ndarray, out: np.ndarray, how: Reduction, root: int) -> Steps:
    """As `all_reduce`, but only process `root` gets the result; elsewhere `out` is not written."""
    yield from _reduce(group, values, out, how, root)


def _reduce(
    group: ProcessGroup, values: np.ndarray, out: np.ndarray, how: Reduction, root: int | None
) -> Steps:
    size, rank = group.size(), group.rank()
    tag = _tag(group)
    values = premultiplied(values, how)
    if group.comm is None:
        combine([values], out, how)
        return
    if values.nbytes * size <= SMALL:
        everything = np.empty((size, values.size), values.dtype)
        yield from _gathered(group, values, everything, root)
        if root in (None, rank):
            combine(list(everything), out, how, own=-1)
        return
    bounds = shares(values.size, size)
    peers = [i for i in range(size) if i != rank]
    low, high = bounds[rank], bounds[rank + 1]
    arrived = {i: np.empty(high - low, values.dtype) for i in peers}
    yield from _exchange(group, {i: values[bounds[i] : bounds[i + 1]] for i in peers}, arrived, tag)
    arrived[rank] = values[low:high]
    share = out[low:high] if root in (None, rank) else np.empty(high - low, out.dtype)
    combine([arrived[i] for i in range(size)], share, how, own=rank)
    sent = {i: share for i in peers if root in (None, i)}
    received = {i: out[bounds[i] : bounds[i + 1]] for i in peers} if root in (None, rank) else {}
    yield from _exchange(group, sent, received, tag + 1)


def _gathered(group: ProcessGroup, values: np.ndarray, out: np.ndarray, root: int | None) -> Steps:
    MPI = load()
    sent, received = [flat_bytes(values), MPI.BYTE], [flat_bytes(out), values.nbytes, MPI.BYTE]
    if root is None:
        yield [group.comm.Iallgather(sent, received)]
    else:
        yield [group.comm.Igather(sent, received if group.rank() == root else None, root)]


def reduce_scatter(group: ProcessGroup, inputs: list[np.ndarray], out: np.ndarray, how: Reduction) -> Steps:
    """Process i gets the combination of everybody's `inputs[i]`, which may differ in size for different i."""
    size, rank, tag = group.size(), group.rank(), _tag(group)
    inputs = [premultiplied(values, how) for values in inputs]
    if group.comm is None:
        combine([inputs[rank]], out, how)
        return
    arrived = {i: np.empty(out.size, out.dtype) for i in range(size) if i != rank}
    yield from _exchange(group, {i: inputs[i] for i in arrived}, arrived, tag)
    arrived[rank] = inputs[rank]
    combine([arrived[i] for i in range(size)], out, how, own=rank)


def broadcast(group: ProcessGroup, values: np.ndarray, root: int) -> Steps:
    group.next_sequence()
    if group.comm is not None:
        yield [group.comm.Ibcast([flat_bytes(values), load().BYTE], root)]


def all_gather(group: ProcessGroup, values: np.ndarray, outs: list[np.ndarray]) -> Steps:
    """`outs[i]` becomes the values of process i; sizes may differ."""
    group.next_sequence()
    whole = _joined(outs)
    if group.comm is None:
        _imagine([values] * len(outs), outs)
        return
    counts = [a.nbytes for a in outs]
    target = np.empty(sum(counts), np.uint8) if whole is None else whole
    MPI = load()
    yield [group.comm.Iallgatherv([flat_bytes(values), MPI.BYTE], [target, counts, MPI.BYTE])]
    if whole is None:
        _split(target, outs)


def _joined(outs: list[np.ndarray]) -> np.ndarray | None:
    """The bytes of arrays that lie one behind the other in one array; None if they do not."""
    base = outs[0].base if outs else None
    if not isinstance(base, np.ndarray) or not base.flags.c_contiguous:
        return None
    at, first = [a.__array_interface__["data"][0] for a in outs], base.__array_interface__["data"][0]
    ends = [start + a.nbytes for start, a in zip(at, outs, strict=True)]
    if any(a.base is not base for a in outs) or at[0] != first or at[1:] != ends[:-1]:
        return None
    return flat_bytes(base) if ends[-1] == first + base.nbytes else None


def _split(data: np.ndarray, outs: list[np.ndarray]) -> None:
    at = 0
    for a in outs:
        flat_bytes(a)[...] = data[at : at + a.nbytes]
        at += a.nbytes


def _imagine(arrays: list[np.ndarray], outs: list[np.ndarray]) -> None:
    """What would have come from others: the values of this process, as many as are expected."""
    for values, out in zip(arrays, outs, strict=False):
        out[...] = np.resize(values, out.shape)


def gather(group: ProcessGroup, values: np.ndarray, outs: list[np.ndarray], root: int) -> Steps:
    """As `all_gather`, at process `root`; `outs` is empty elsewhere."""
    group.next_sequence()
    if group.comm is None:
        _imagine([values] * len(outs), outs)
        return
    MPI, counts = load(), [a.nbytes for a in outs]
    target = np.empty(sum(counts), np.uint8)
    received = [target, counts, MPI.BYTE] if group.rank() == root else None
    yield [group.comm.Igatherv([flat_bytes(values), MPI.BYTE], received, root)]
    _split(target, outs)


def scatter(group: ProcessGroup, inputs: list[np.ndarray], out: np.ndarray, root: int) -> Steps:
    """Process i gets `inputs[i]` of process `root`; `inputs` is empty elsewhere."""
    group.next_sequence()
    if group.comm is None:
        _imagine(inputs[group.rank() :][:1], [out])
        return
    MPI, sent = load(), None
    if group.rank() == root:
        data = np.concatenate([flat_bytes(a) for a in inputs])
        sent = [data, [a.nbytes for a in inputs], MPI.BYTE]
    yield [group.comm.Iscatterv(sent, [flat_bytes(out), MPI.BYTE], root)]


def all_to_all(group: ProcessGroup, inputs: list[np.ndarray], outs: list[np.ndarray]) -> Steps:
    """Process i gets `inputs[i]`; `outs[i]` becomes what process i had for this one."""
    tag, rank = _tag(group), group.rank()
    if inputs[rank].nbytes != outs[rank].nbytes:
        raise ValueError(
            f"all_to_all: rank {rank} sends itself {inputs[rank].size} values and expects {outs[rank].size}"
        )
    outs[rank][...] = inputs[rank]
    if group.comm is None:
        _imagine(inputs, outs)
    else:
        others = [i for i in range(group.size()) if i != rank]
        yield from _exchange(group, {i: inputs[i] for i in others}, {i: outs[i] for i in others}, tag)


def barrier(group: ProcessGroup) -> Steps:
    group.next_sequence()
    if group.comm is not None:
        yield [group.comm.Ibarrier()]


def _check_peers(group: ProcessGroup) -> None:
    if group.size() == 1:
        raise ValueError("there is no other process in the group to send to or to receive from")


def send(group: ProcessGroup, values: np.ndarray, peer: int, tag: int) -> Steps:
    _check_peers(group)
    if group.comm is not None:
        yield [group.messages.Isend([flat_bytes(values), load().BYTE], peer, tag)]


def receive(group: ProcessGroup, out: np.ndarray, peer: int | None, tag: int, came_from: list[int]) -> Steps:
    """From process `peer`, or from anyone. `came_from` becomes the process it came from."""
    _check_peers(group)
    if group.comm is None:
        came_from[:] = [peer or 0]
        return
    MPI = load()
    source = MPI.ANY_SOURCE if peer is None else peer
    (status,) = yield [group.messages.Irecv([flat_bytes(out), MPI.BYTE], source, tag)]
    came_from[:] = [status.Get_source()]
    if status.Get_count(MPI.BYTE) != out.nbytes:
        raise DistBackendError(
            f"recv: {status.Get_count(MPI.BYTE)} bytes came from rank {group.ranks[came_from[0]]} into a "
            f"tensor of {out.nbytes} bytes"
        )

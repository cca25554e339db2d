"""Collectives: what all processes of a group do together, each with its own tensors.

Results are written into tensors that the caller gives. Everything is checked before anything is sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np

from ..comm import exchange
from ..comm.debug import check_same
from ..comm.group import ProcessGroup
from ..comm.mpi import DistBackendError
from ..comm.pending import Pending, Steps
from ..comm.reductions import Reduction, check_reduction
from ..core.tensor import Tensor
from .arrays import check_tensor, check_tensors, read, write, write_all
from .groups import get_group_rank, member
from .reduce_ops import ReduceOp, reduction_of
from .work import Work

__all__ = [
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
]


def _begin(
    group: ProcessGroup,
    name: str,
    steps: Steps,
    async_op: bool,
    result: Any = None,
    finish: Callable[[], None] | None = None,
) -> Work | None:
    """Begin a collective and, unless `async_op`, wait for its end."""
    where = f"{name} of group {group.group_name} (rank {group.rank()} of {group.size()})"
    work = Work(Pending(where, steps, group.timeout.total_seconds(), finish), result)
    if async_op:
        return work
    work.wait()
    return None


def _facts(tensor: Tensor) -> tuple[str, list[int]]:
    return tensor.dtype.name, list(tensor.shape)


def _check_same_dtype(tensors: list[Tensor]) -> None:
    if any(t.dtype is not tensors[0].dtype for t in tensors):
        raise ValueError(
            "Invalid usage of tensors with different dtypes"
            f"Found {', '.join(sorted({str(t.dtype) for t in tensors}))}"
        )


def _reduction(name: str, op: Any, tensor: Tensor) -> Reduction:
    how = reduction_of(op)
    check_reduction(name, how.kind, tensor.dtype)
    return how


def _root(group: ProcessGroup, rank: int | None, group_rank: int | None, default: int | None = 0) -> int:
    """The number in the group of the process that an argument `src` or `dst` means."""
    if group_rank is not None:
        if rank is not None:
            raise ValueError("Can't specify both a rank of the world and one of the group")
        if not 0 <= group_rank < group.size():
            raise ValueError(f"Group rank {group_rank} is not part of group {group}")
        return group_rank
    rank = default if rank is None else rank
    if rank is None:
        raise ValueError("Must specify either a rank of the world or one of the group")
    return get_group_rank(group, rank)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """`tensor` becomes the combination of everybody's, with the same bits in every process."""
    check_tensor(tensor, "tensor")
    if (pg := member(group)) is None:
        return None
    how = _reduction("all_reduce", op, tensor)
    check_same(pg, "all_reduce", *_facts(tensor), how.kind)
    values, finish = write(tensor)
    return _begin(pg, "all_reduce", exchange.all_reduce(pg, values, values, how), async_op, [tensor], finish)


def all_reduce_coalesced(
    tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """`all_reduce` of several tensors of one dtype, in one message."""
    tensors = [tensors] if isinstance(tensors, Tensor) else tensors
    check_tensors(tensors, "tensors")
    _check_same_dtype(tensors)
    if (pg := member(group)) is None:
        return None
    how = _reduction("all_reduce", op, tensors[0])
    check_same(pg, "all_reduce_coalesced", *map(_facts, tensors), how.kind)
    targets, finish = write_all(tensors)
    joined = np.concatenate(targets)

    def split() -> None:
        at = 0
        for target in targets:
            target[...] = joined[at : at + target.size]
            at += target.size
        finish()

    steps = exchange.all_reduce(pg, joined, joined, how)
    return _begin(pg, "all_reduce_coalesced", steps, async_op, tensors, split)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """`tensor` of process `dst` becomes the combination of everybody's."""
    check_tensor(tensor, "tensor")
    if (pg := member(group)) is None:
        return None
    how, root = _reduction("reduce", op, tensor), _root(pg, dst, group_dst, default=None)
    check_same(pg, "reduce", *_facts(tensor), how.kind, f"to {root}")
    if pg.rank() != root:
        values = read(tensor)
        return _begin(pg, "reduce", exchange.reduce(pg, values, values, how, root), async_op, [tensor])
    values, finish = write(tensor)
    return _begin(pg, "reduce", exchange.reduce(pg, values, values, how, root), async_op, [tensor], finish)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """`tensor` becomes that of process `src`."""
    check_tensor(tensor, "tensor")
    if (pg := member(group)) is None:
        return None
    root = _root(pg, src, group_src, default=None)
    check_same(pg, "broadcast", *_facts(tensor), f"from {root}")
    if pg.rank() == root:
        return _begin(pg, "broadcast", exchange.broadcast(pg, read(tensor), root), async_op, [tensor])
    values, finish = write(tensor)
    return _begin(pg, "broadcast", exchange.broadcast(pg, values, root), async_op, [tensor], finish)


def _check_list(tensors: Any, name: str, group: ProcessGroup) -> None:
    check_tensors(tensors, name)
    if len(tensors) != group.size():
        raise ValueError(f"{name} has {len(tensors)} tensors for the {group.size()} processes of the group")


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Any:
    """`tensor_list[i]` becomes the tensor of process i; these may differ in size."""
    check_tensors(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    _check_same_dtype([*tensor_list, tensor])
    if (pg := member(group)) is None:
        return None
    _check_list(tensor_list, "tensor_list", pg)
    _check_own(tensor_list[pg.rank()], tensor, "all_gather", pg)
    check_same(pg, "all_gather", tensor.dtype.name, [list(t.shape) for t in tensor_list])
    outs, finish = write_all(tensor_list)
    return _begin(
        pg, "all_gather", exchange.all_gather(pg, read(tensor), outs), async_op, tensor_list, finish
    )


def _check_own(target: Tensor, tensor: Tensor, name: str, group: ProcessGroup) -> None:
    if target.numel() != tensor.numel():
        raise ValueError(
            f"{name}: rank {group.rank()} has a tensor of {list(tensor.shape)}, and the place for it is of "
            f"{list(target.shape)}"
        )


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """`output_tensor_lists[i]` become the tensors of process i."""
    if (pg := member(group)) is None:
        return None
    check_tensors(input_tensor_list, "tensor_list")
    works = [
        all_gather([outputs[k] for outputs in output_tensor_lists], tensor, pg, True)
        for k, tensor in enumerate(input_tensor_list)
    ]
    return _together(works, async_op)


def _together(works: list[Work], async_op: bool) -> Work | None:
    """One handle of several collectives."""
    whole = _Works(works)
    if async_op:
        return whole
    whole.wait()
    return None


class _Works(Work):
    def __init__(self, works: list[Work]) -> None:
        super().__init__(None, [w._result for w in works])
        self._works = works

    def wait(self, timeout: timedelta | None = None) -> bool:
        for work in self._works:
            work.wait(timeout)
        return True

    def is_completed(self) -> bool:
        return sum(work.is_completed() for work in self._works) == len(self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self) -> BaseException | None:
        return next((e for work in self._works if (e := work.exception()) is not None), None)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Any:
    """`output_tensor` becomes everybody's `input_tensor`, one behind the other: concatenated or stacked along the
    first dimension."""
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    _check_same_dtype([output_tensor, input_tensor])
    if (pg := member(group)) is None:
        return None
    _check_multiple(output_tensor, input_tensor, pg, "output tensor", "input tensor")
    check_same(pg, "all_gather_into_tensor", *_facts(input_tensor))
    out, finish = write(output_tensor)
    outs = _pieces(out, [input_tensor.numel()] * pg.size())
    steps = exchange.all_gather(pg, read(input_tensor), outs)
    return _begin(pg, "all_gather_into_tensor", steps, async_op, [output_tensor], finish)


def _pieces(array: np.ndarray, counts: list[int]) -> list[np.ndarray]:
    ends = np.cumsum([0, *counts])
    return [array[low:high] for low, high in pairwise(ends)]


def _check_multiple(large: Tensor, small: Tensor, group: ProcessGroup, a: str, b: str) -> None:
    if large.numel() != small.numel() * group.size():
        raise ValueError(f"{a} size must be equal to world_size times {b} size")


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """`gather_list[i]` of process `dst` becomes the tensor of process i; these may differ in size."""
    check_tensor(tensor, "tensor")
    if (pg := member(group)) is None:
        return None
    root = _root(pg, dst, group_dst)
    _check_at_root(pg, root, gather_list, "gather_list", "destination")
    check_same(pg, "gather", tensor.dtype.name, f"to {root}")
    if pg.rank() != root:
        return _begin(pg, "gather", exchange.gather(pg, read(tensor), [], root), async_op)
    assert gather_list is not None
    _check_same_dtype([*gather_list, tensor])
    _check_own(gather_list[root], tensor, "gather", pg)
    outs, finish = write_all(gather_list)
    return _begin(pg, "gather", exchange.gather(pg, read(tensor), outs, root), async_op, gather_list, finish)


def _check_at_root(
    group: ProcessGroup, root: int, tensors: list[Tensor] | None, name: str, role: str
) -> None:
    if group.rank() == root:
        if not tensors:
            raise ValueError(f"Argument ``{name}`` must be specified on {role} rank.")
        _check_list(tensors, name, group)
    elif tensors:
        raise ValueError(f"Argument ``{name}`` must NOT be specified on non-{role} ranks.")


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """`tensor` becomes `scatter_list[i]` of process `src`, in process i."""
    check_tensor(tensor, "tensor")
    if (pg := member(group)) is None:
        return None
    root = _root(pg, src, group_src)
    _check_at_root(pg, root, scatter_list, "scatter_list", "source")
    if scatter_list:
        _check_same_dtype([*scatter_list, tensor])
        _check_own(tensor, scatter_list[root], "scatter", pg)
    check_same(pg, "scatter", tensor.dtype.name, f"from {root}")
    out, finish = write(tensor)
    inputs = [read(t) for t in scatter_list or ()]
    return _begin(pg, "scatter", exchange.scatter(pg, inputs, out, root), async_op, [tensor], finish)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """`output` of process i becomes the combination of everybody's `input_list[i]`; these may differ in size."""
    check_tensor(output, "output")
    check_tensors(input_list, "input_list")
    _check_same_dtype([output, *input_list])
    if (pg := member(group)) is None:
        return None
    _check_list(input_list, "input_list", pg)
    _check_own(output, input_list[pg.rank()], "reduce_scatter", pg)
    how = _reduction("reduce_scatter", op, output)
    check_same(pg, "reduce_scatter", output.dtype.name, [list(t.shape) for t in input_list], how.kind)
    out, finish = write(output)
    steps = exchange.reduce_scatter(pg, [read(t) for t in input_list], out, how)
    return _begin(pg, "reduce_scatter", steps, async_op, [output], finish)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """`output` of process i becomes the i-th part of the combination of everybody's `input`."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    _check_same_dtype([output, input])
    if (pg := member(group)) is None:
        return None
    _check_multiple(input, output, pg, "input tensor", "output tensor")
    how = _reduction("reduce_scatter_tensor", op, output)
    check_same(pg, "reduce_scatter_tensor", *_facts(input), how.kind)
    out, finish = write(output)
    parts = _pieces(read(input), [output.numel()] * pg.size())
    steps = exchange.reduce_scatter(pg, parts, out, how)
    return _begin(pg, "reduce_scatter_tensor", steps, async_op, [output], finish)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """`output_tensor_list[i]` becomes what process i has for this one in its `input_tensor_list`."""
    check_tensors(output_tensor_list, "output_tensor_list")
    check_tensors(input_tensor_list, "input_tensor_list")
    _check_same_dtype([*output_tensor_list, *input_tensor_list])
    if (pg := member(group)) is None:
        return None
    _check_list(output_tensor_list, "output_tensor_list", pg)
    _check_list(input_tensor_list, "input_tensor_list", pg)
    _check_own(output_tensor_list[pg.rank()], input_tensor_list[pg.rank()], "all_to_all", pg)
    check_same(pg, "all_to_all", input_tensor_list[0].dtype.name)
    outs, finish = write_all(output_tensor_list)
    steps = exchange.all_to_all(pg, [read(t) for t in input_tensor_list], outs)
    return _begin(pg, "all_to_all", steps, async_op, output_tensor_list, finish)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """`all_to_all` of parts of one tensor along its first dimension: equal ones, or of the sizes given."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    _check_same_dtype([output, input])
    if (pg := member(group)) is None:
        return None
    sent, received = split_counts(input, input_split_sizes, pg), split_counts(output, output_split_sizes, pg)
    if sent[pg.rank()] != received[pg.rank()]:
        raise ValueError(
            f"all_to_all_single: rank {pg.rank()} sends itself {sent[pg.rank()]} values and expects "
            f"{received[pg.rank()]}"
        )
    check_same(pg, "all_to_all_single", input.dtype.name)
    out, finish = write(output)
    steps = exchange.all_to_all(pg, _pieces(read(input), sent), _pieces(out, received))
    return _begin(pg, "all_to_all_single", steps, async_op, [output], finish)


def split_counts(tensor: Tensor, sizes: list[int] | None, group: ProcessGroup) -> list[int]:
    """How many values go to, or come from, each process."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not sizes:
        if rows % group.size():
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        sizes = [rows // group.size()] * group.size()
    if len(sizes) != group.size():
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != rows:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    row = tensor.numel() // rows if rows else 0
    return [size * row for size in sizes]


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Return when all processes of the group are here."""
    if (pg := member(group)) is None:
        return None
    check_same(pg, "barrier")
    return _begin(pg, "barrier", exchange.barrier(pg), async_op)


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """A barrier that says which processes did not come in time: rank 0 waits for a message of each (the first
    that is missing, or with `wait_all_ranks` all of them, are named) and then lets all of them go."""
    if (pg := member(group)) is None or pg.comm is None:
        return
    limit = (timeout or pg.timeout).total_seconds()
    tag, token = 32_767, np.zeros(1, np.uint8)
    if pg.rank() != 0:
        Pending("monitored_barrier", exchange.send(pg, token, 0, tag), limit).wait()
        Pending("monitored_barrier", exchange.receive(pg, token, 0, tag, []), limit).wait()
        return
    tokens = {i: np.zeros(1, np.uint8) for i in range(1, pg.size())}
    arrivals = {
        i: Pending("monitored_barrier", exchange.receive(pg, t, i, tag, [])) for i, t in tokens.items()
    }
    deadline, missing = time.monotonic() + limit, []
    for rank, arrival in arrivals.items():
        try:
            arrival.wait(max(0.0, deadline - time.monotonic()))
        except DistBackendError:
            missing.append(pg.ranks[rank])
            if not wait_all_ranks:
                break
    if missing:
        for arrival in arrivals.values():
            arrival.cancel()
        said = f"Ranks {', '.join(map(str, missing))}" if wait_all_ranks else f"Rank {missing[0]}"
        raise RuntimeError(f"{said} failed to pass monitoredBarrier in {limit * 1000:.0f} ms")
    for i in tokens:
        Pending("monitored_barrier", exchange.send(pg, token, i, tag), limit).wait()

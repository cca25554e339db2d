"""Collectives whose results are new arrays, for operators: begun by one, waited for by another.

What was begun is found again by the memory of its result. The input is copied at once, so that the caller may
write to it, or give its memory to something else, before the collective has ended.
Compiled programs have calls of their own (compiler/collective_calls.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from . import exchange
from .debug import check_same
from .group import ProcessGroup, resolve
from .pending import Pending, Steps
from .reductions import Reduction

# Bytes of reductions that a compiled program joins; 0: none.
BUCKET = int(os.environ.get("RUSHLIGHT_DISTRIBUTED_BUCKET") or 1 << 20)

_begun: dict[int, tuple[Pending, np.ndarray]] = {}  # by the address of the result, which is kept


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def group_of(group: object) -> ProcessGroup:
    """The group of an operator's argument: its name, or the group itself."""
    return group if isinstance(group, ProcessGroup) else resolve(str(group))


def reduction(name: str) -> Reduction:
    """What the name of a reduction in an operator's argument means: "sum", "avg", ..."""
    kinds = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
    if name.upper() not in kinds:
        raise ValueError(f"Unrecognized reduce_op: {name}")
    return Reduction(name.upper())


def _begin(group: ProcessGroup, name: str, steps: Steps, outs: Sequence[np.ndarray]) -> None:
    if name not in ("isend", "irecv"):
        parts = () if name == "all_to_all_single" else (f"{o.dtype}{list(o.shape)}" for o in outs)
        check_same(group, name, *parts)
    where = f"{name} of group {group.group_name} (rank {group.rank()} of {group.size()})"
    pending = Pending(where, steps, group.timeout.total_seconds())
    for out in outs:
        if not pending.done:
            _begun[address(out)] = (pending, out)


def wait(result: np.ndarray) -> None:
    """Return when the collective whose result has this memory has ended; at once if there is none."""
    at = address(result)
    found = _begun.pop(at, None)
    if found is not None:
        found[0].wait()


def all_reduce(values: np.ndarray, reduce_op: str, group_name: object, out: np.ndarray) -> None:
    group, how = group_of(group_name), reduction(reduce_op)
    out[...] = values
    flat = out.reshape(-1)
    _begin(group, "all_reduce", exchange.all_reduce(group, flat, flat, how), [out])


def all_gather(values: np.ndarray, group_name: object, out: np.ndarray) -> None:
    group = group_of(group_name)
    outs = list(out.reshape(group.size(), values.size))
    steps = exchange.all_gather(group, values.reshape(-1).copy(), outs)
    _begin(group, "all_gather_into_tensor", steps, [out])


def reduce_scatter(values: np.ndarray, reduce_op: str, group_name: object, out: np.ndarray) -> None:
    group, how = group_of(group_name), reduction(reduce_op)
    parts = list(values.copy().reshape(group.size(), out.size))
    _begin(group, "reduce_scatter_tensor", exchange.reduce_scatter(group, parts, out.reshape(-1), how), [out])


def all_to_all(
    values: np.ndarray, received: Sequence[int], sent: Sequence[int], group_name: object, out: np.ndarray
) -> None:
    group = group_of(group_name)
    inputs = _rows(values.copy(), sent)
    _begin(group, "all_to_all_single", exchange.all_to_all(group, inputs, _rows(out, received)), [out])


def _rows(array: np.ndarray, counts: Sequence[int]) -> list[np.ndarray]:
    ends = np.cumsum([0, *counts])
    return [array[ends[i] : ends[i + 1]].reshape(-1) for i in range(len(counts))]


def broadcast(values: np.ndarray, src: int, group_name: object, out: np.ndarray) -> None:
    group = group_of(group_name)
    out[...] = values
    _begin(group, "broadcast", exchange.broadcast(group, out.reshape(-1), group.ranks.index(src)), [out])


def send(values: np.ndarray, dst: int, tag: int, group_name: object, out: np.ndarray) -> None:
    group = group_of(group_name)
    out[...] = values
    _begin(group, "isend", exchange.send(group, out.reshape(-1), group.ranks.index(dst), tag), [out])


def receive(src: int, tag: int, group_name: object, out: np.ndarray) -> None:
    group = group_of(group_name)
    steps = exchange.receive(group, out.reshape(-1), group.ranks.index(src), tag, [])
    _begin(group, "irecv", steps, [out])

"""RUSHLIGHT_DISTRIBUTED_DEBUG=DETAIL: processes compare what they are about to do before they begin."""

from __future__ import annotations

import numpy as np

from .exchange import flat_bytes
from .group import ProcessGroup, debug_level
from .mpi import load
from .pending import Pending, Steps

_LENGTH = 512


def _compared(group: ProcessGroup, texts: np.ndarray) -> Steps:
    own = texts[group.rank()].copy()
    MPI = load()
    yield [group.comm.Iallgather([flat_bytes(own), MPI.BYTE], [flat_bytes(texts), _LENGTH, MPI.BYTE])]


def check_same(group: ProcessGroup, name: str, *facts: object) -> None:
    """In the mode DETAIL: RuntimeError in every process if `name` and `facts` are not the same in all of them."""
    if group.comm is None or debug_level() != "DETAIL":
        return
    said = f"{name}({', '.join(map(str, facts))})".encode()[:_LENGTH]
    texts = np.zeros((group.size(), _LENGTH), np.uint8)
    texts[group.rank(), : len(said)] = np.frombuffer(said, np.uint8)
    Pending(f"the check of {name}", _compared(group, texts), group.timeout.total_seconds()).wait()
    if (texts == texts[0]).all():
        return
    calls = [bytes(row).rstrip(b"\0").decode(errors="replace") for row in texts]
    listed = "\n".join(f"  rank {rank}: {call}" for rank, call in zip(group.ranks, calls, strict=True))
    raise RuntimeError(
        f"Detected mismatch between collectives on ranks of group {group.group_name} "
        f"(number {group.sequence + 1}):\n{listed}"
    )

"""The network that ranks are on, measured: `rushlight launch -n 4 -m rushlight.planning.calibrate network.json`.

All processes send messages to all others at once, as collectives do: few and many small ones, and large ones. Of
each exchange the median counts, in the process that takes longest.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from typing import Any

import numpy as np

from .. import distributed as dist
from ..comm.group import ProcessGroup
from ..comm.mpi import load
from .network import Network

REPEATS = 40
MANY = 8  # small messages to each process
MEDIUM, LARGE = 1 << 20, 8 << 20  # bytes that a process sends


def measure_network(group: Any = None) -> Network:
    """The network of the processes of `group`, all of which call this."""
    found = dist.group.WORLD if group is None else group
    if not isinstance(found, ProcessGroup) or found.comm is None:
        raise RuntimeError("measure_network: there is nobody to send messages to")
    peers = found.size() - 1
    few, many = (_seconds(found, 8, count) for count in (1, MANY))
    medium, large = (_seconds(found, size // peers, 1) for size in (MEDIUM, LARGE))
    overhead = max(0.0, many - few) / (2 * peers * (MANY - 1))
    machine = found.comm.Split_type(load().COMM_TYPE_SHARED)
    shared = machine.size == found.size()
    machine.Free()
    return Network(
        latency=max(0.0, few - 2 * peers * overhead),
        bandwidth=(LARGE - MEDIUM) / max(large - medium, 1e-9),
        overhead=overhead,
        offload=not shared,
    )


def _seconds(group: ProcessGroup, size: int, count: int) -> float:
    """How long it takes to exchange `count` messages of `size` bytes with every other process."""
    MPI, comm = load(), group.messages
    peers = [rank for rank in range(group.size()) if rank != group.rank()]
    sent = np.zeros((len(peers), count, size), np.uint8)
    received = np.empty_like(sent)
    times = []
    for _ in range(REPEATS):
        comm.Barrier()
        begin = time.perf_counter()
        requests = [
            comm.Irecv([received[i, k], MPI.BYTE], peer, k)
            for i, peer in enumerate(peers)
            for k in range(count)
        ]
        requests += [
            comm.Isend([sent[i, k], MPI.BYTE], peer, k) for i, peer in enumerate(peers) for k in range(count)
        ]
        while not MPI.Request.Testall(requests):
            os.sched_yield()  # as comm/pending.py waits: processes may share a core
        times.append(time.perf_counter() - begin)
    return float(comm.allreduce(statistics.median(times), MPI.MAX))


def main(path: str) -> None:
    dist.init_process_group("mpi")
    network = measure_network()
    if dist.get_rank() == 0:
        network.save(path)
        print(f"{path}: {network}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])

"""A program in which something goes wrong, as its first argument says."""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import rushlight as rl
import rushlight.distributed as dist
from rushlight.distributed._functional_collectives import all_reduce


def train(directory: Path, steps: int, die_at: int) -> float:
    """Steps whose state is kept after each; rank 1 is killed in step `die_at` of the first start."""
    kept = directory / "state.txt"
    first, x = 0, rl.full((100_000,), 1.0 + dist.get_rank())
    if kept.exists():
        first, value = int(kept.read_text().split()[0]), float.fromhex(kept.read_text().split()[1])
        x = x * 0 + value
    for step in range(first, steps):
        if step == die_at and dist.get_rank() == 1 and os.environ["RUSHLIGHT_RESTART"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(x, dist.ReduceOp.AVG)
        x = (x * 1.1).sin()
        dist.barrier()
        if dist.get_rank() == 0:
            (directory / "part").write_text(f"{step + 1} {float(x[0]).hex()}")
            (directory / "part").replace(kept)
        dist.barrier()
    return float(x[0])


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


def go_on_after_an_error(directory: Path) -> None:
    """A program whose collective timed out is called again, when messages of the first call have come late."""
    rank = dist.get_rank()
    program = rl.compile(lambda x: all_reduce(x * 2, "sum", "0") + 1, fullgraph=True)
    x = rl.ones(100_000)
    program(x)
    if rank == 1:  # late: the other one has given up
        wait_for(directory / "0")
    try:
        program(x * 3)
    except dist.DistBackendError as error:
        print("timed out" if "timed out" in str(error) else error, flush=True)
    (directory / str(rank)).touch()
    wait_for(directory / str(1 - rank))
    for i in range(20):
        found = program(x * i)
        assert found.eq(4 * i + 1).all(), (i, found)


def sizes(what: str) -> int:
    """How many elements the second rank has, where the first has 100,000."""
    return 110_000 if what.endswith("more") else 90_000


def note() -> None:
    """Write down when something goes wrong: right after this."""
    if "FAULT_NOTE" in os.environ:
        Path(os.environ["FAULT_NOTE"]).write_text(str(time.time()))


def main() -> None:
    what = sys.argv[1]
    if what == "early" and os.environ["RANK"] == "1":
        note()
        raise ImportError("before MPI is there")
    dist.init_process_group("mpi", timeout=timedelta(seconds=3 if what.endswith("timeout") else 600))
    rank, x = dist.get_rank(), rl.ones(100_000)
    if what == "raise" and rank == 1:
        note()
        raise ValueError("of the second rank")
    if what == "kill" and rank == 1:
        time.sleep(0.3)
        note()
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "exit" and rank == 1:
        note()
        sys.exit(7)
    if what.startswith("sizes") and rank == 1:
        note()
    if what == "timeout" and rank == 1:
        note()
        time.sleep(600)
    if what == "train":
        value = train(Path(sys.argv[2]), 6, int(sys.argv[3]))
        if rank == 0:
            print("value", value.hex())
    elif what == "late_timeout":
        go_on_after_an_error(Path(sys.argv[2]))
    elif what == "torchrun":
        assert (os.environ["RANK"], os.environ["WORLD_SIZE"]) == (str(rank), "2")
        assert os.environ["LOCAL_RANK"] == str(rank) == str(dist.get_node_local_rank())
        print("fine")
    elif what.startswith("compiled"):
        program = rl.compile(lambda x: all_reduce(x * 2, "sum", "0") + 1, fullgraph=True)
        program(x)
        if rank == 1:
            note()
        if what == "compiled_timeout" and rank == 1:
            time.sleep(600)
        if what == "compiled_kill" and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        program(x if not what.startswith("compiled_sizes") or rank == 0 else rl.ones(sizes(what)))
    else:
        dist.all_reduce(x if not what.startswith("sizes") or rank == 0 else rl.ones(sizes(what)))
        dist.barrier()
    dist.destroy_process_group()


main()

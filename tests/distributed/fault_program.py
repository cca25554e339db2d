"""A training run with checkpoints, of which one process may be killed: `fault_program.py directory kill|run`."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

from model import GPT, batch, loss_of, optimizer_of

import rushlight as rl
import rushlight.distributed as dist
import rushlight.distributed.checkpoint as dcp
from rushlight.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from rushlight.nn.parallel import DistributedDataParallel

STEPS, EVERY, KILLED_AT = 9, 3, 7


def kill_in_backward(model: Any, note: Path) -> None:
    """In the middle of a step: when the gradient of an inner parameter is there."""
    if not note.exists():

        def end(grad: Any) -> None:
            note.write_text("killed")
            os.kill(os.getpid(), signal.SIGKILL)

        model.blocks[0].up.weight.register_hook(end)


def main(directory: Path, kill: bool) -> None:
    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    rl.manual_seed(rank)
    model = GPT()
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.02)
    optimizer = optimizer_of(ddp)
    states = get_state_dict(ddp, optimizer)
    state: dict[str, Any] = {"model": states[0], "optimizer": states[1], "step": 0}
    last = dcp.latest(directory)
    if last is not None:
        dcp.load(state, checkpoint_id=last)
        set_state_dict(ddp, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    if rank == 0:
        print(f"begins at step {state['step']}", flush=True)
    loss = rl.zeros(())
    for i in range(state["step"], STEPS):
        if kill and i == KILLED_AT and rank == size - 1:
            kill_in_backward(model, directory / "note")
        optimizer.zero_grad()
        loss = loss_of(ddp, batch(i).chunk(size)[rank].contiguous())
        loss.backward()
        optimizer.step()
        if (i + 1) % EVERY == 0:
            states = get_state_dict(ddp, optimizer)
            saved = {"model": states[0], "optimizer": states[1], "step": i + 1}
            dcp.save(saved, checkpoint_id=directory / f"step-{i + 1}")
    total = loss.detach().clone()
    dist.all_reduce(total, dist.ReduceOp.AVG)
    bits = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    if rank == 0:
        print(f"ends with {float(total).hex()} {bits}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "kill")

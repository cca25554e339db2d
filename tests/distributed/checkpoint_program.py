"""Checkpoints that several processes write: `checkpoint_program.py save|load|check directory`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from model import GPT, batch, optimizer_of, step_of

import rushlight as rl
import rushlight.distributed as dist
import rushlight.distributed.checkpoint as dcp
from rushlight.distributed.checkpoint import saving
from rushlight.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh


def sharded(seed: int) -> Any:
    rl.manual_seed(seed)
    model = GPT(layers=1)
    fully_shard(model.blocks[0])
    return fully_shard(model)


def state_of(seed: int, steps: int) -> tuple[Any, Any, dict[str, Any]]:
    model = sharded(seed)
    optimizer = optimizer_of(model)
    step = step_of(model, optimizer)
    for i in range(steps):
        step(batch(i))
    states, of_optimizer = get_state_dict(model, optimizer)
    return model, optimizer, {"model": states, "optimizer": of_optimizer, "step": steps, "rate": (1, 0.5)}


def fingerprint(state: Any) -> dict[str, np.ndarray]:
    found = {}
    for item in dcp.stateful.items_of(state):
        if isinstance(item.value, rl.Tensor):
            value = item.value.detach()
            value = value.full_tensor() if isinstance(value, DTensor) else value
            found[item.name] = value.numpy().copy()
    return found


def save(directory: Path) -> None:
    _, _, state = state_of(0, 2)
    dcp.save(state, checkpoint_id=directory / "step-1")
    dcp.save(state, checkpoint_id=directory / "step-1")  # in the place of the former
    future = dcp.async_save(state, checkpoint_id=directory / "step-2")
    expected = fingerprint(state)
    for item in dcp.stateful.items_of(state["model"]):
        item.value.detach().zero_()  # what is saved are the values of before
    future.result(timeout=60)
    if dist.get_rank() == 0:
        np.savez(directory / "expected.npz", **expected)
    files = sorted(os.listdir(directory / "step-2"))
    ranks = [f"rank-{i:05d}.safetensors" for i in range(dist.get_world_size())]
    assert files == ["manifest.json", *ranks], files
    sizes = [os.path.getsize(directory / "step-2" / name) for name in ranks]
    assert max(sizes) < 1.5 * sum(sizes) / len(sizes) + 4096, sizes  # all write about as much
    dist.barrier()


def load(directory: Path) -> None:
    """By another number of processes than have written it."""
    expected = np.load(directory / "expected.npz")
    for name in ("step-1", "step-2"):
        model, optimizer, state = state_of(1, 0)
        dcp.load(state, checkpoint_id=directory / name)
        assert state["step"] == 2 and state["rate"] == (1, 0.5)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        whole, of_optimizer = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True))
        found = fingerprint({"model": whole, "optimizer": of_optimizer})
        assert found.keys() == set(expected.files)
        for key, value in found.items():
            np.testing.assert_array_equal(value, expected[key])
    assert dcp.latest(directory) == str(directory / "step-2")


def check(directory: Path) -> None:
    """What goes wrong, and what stays as it was."""
    rank, size = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    tensor = distribute_tensor(rl.arange(7.0), mesh, [Shard(0)])
    dcp.save({"x": tensor}, checkpoint_id=directory / "a-1")
    for bad in ({"y": tensor}, {"x": distribute_tensor(rl.zeros(6), mesh, [Shard(0)])}):
        before = {key: value.full_tensor().numpy().copy() for key, value in bad.items()}
        wrong = (ValueError, dcp.CheckpointException)
        raises(wrong, lambda bad=bad: dcp.load(bad, checkpoint_id=directory / "a-1"))
        assert all(np.array_equal(bad[key].full_tensor().numpy(), value) for key, value in before.items())
    # a value that only one process cannot write: an error in all, and the former checkpoint is still there
    value = object() if rank == size - 1 else 1
    raises(
        dcp.CheckpointException, lambda: dcp.save({"x": tensor, "v": value}, checkpoint_id=directory / "a-1")
    )
    # a process that fails to write
    original = saving.write_arrays
    if rank == size - 1:
        saving.write_arrays = lambda *args: (_ for _ in ()).throw(OSError("no space left"))
    raises(dcp.CheckpointException, lambda: dcp.save({"x": tensor * 2}, checkpoint_id=directory / "a-1"))
    raises(dcp.CheckpointException, lambda: dcp.save({"x": tensor * 2}, checkpoint_id=directory / "a-2"))
    saving.write_arrays = original
    dist.barrier()
    state = {"x": distribute_tensor(rl.zeros(7), mesh, [Shard(0)])}
    dcp.load(state, checkpoint_id=dcp.latest(directory))
    assert np.array_equal(state["x"].full_tensor().numpy(), np.arange(7.0))
    assert not [name for name in os.listdir(directory) if "unfinished" in name]


def raises(error: Any, function: Any) -> None:
    try:
        function()
    except error:
        return
    raise AssertionError(f"{error} was not raised")


if __name__ == "__main__":
    dist.init_process_group("mpi")
    {"save": save, "load": load, "check": check}[sys.argv[1]](Path(sys.argv[2]))
    print("done", flush=True)
    dist.destroy_process_group()

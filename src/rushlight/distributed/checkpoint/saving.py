"""Writing a checkpoint.

All processes tell each other what they hold; a part that several hold is written by the one that has least to
write. Each writes its file into a directory of another name, and says so. When all have, the first one writes
the manifest and gives the directory its name. `async_save` copies what is to be written and does the writing in
a thread, which exchanges no messages: processes then say in small files that they are done.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import shutil
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from .. import distributed_c10d as c10d
from ..groups import world
from .files import checksum, put_in_place, sync_directory, write_arrays, write_text
from .filesystem import directory_of
from .manifest import (
    NAME,
    UNFINISHED,
    CheckpointException,
    Chunk,
    Manifest,
    StoredTensor,
    encoded,
    read_manifest,
)
from .regions import Region, held_part
from .stateful import items_of, states_of

TIMEOUT = 1800.0  # seconds that the thread of async_save waits for other processes
_POLL = 0.02  # seconds


@dataclass
class Plan:
    """What one process writes, and what all of them do."""

    directory: Path  # where the checkpoint is to be
    unfinished: Path  # where it is written
    rank: int
    world: int
    arrays: list[tuple[str, str, np.ndarray]]  # (key, dtype, array)
    regions: dict[str, tuple[str, Region]]  # key -> name of the tensor and the part of it
    shapes: dict[str, tuple[tuple[int, ...], str]]  # of all tensors: shape and dtype
    values: dict[str, Any]

    @property
    def file(self) -> str:
        return f"rank-{self.rank:05d}.safetensors"


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> Manifest:
    """Write `state_dict` as the checkpoint `checkpoint_id`; returns when it is complete. An error in one process
    is raised in all, and leaves what was there before."""
    _no_planner(planner)
    group = _group(process_group, no_dist)
    plan = _agree(state_dict, directory_of(checkpoint_id, storage_writer), storage_writer, group, copy=False)
    said: list[Any] = [None] * plan.world
    _gather(said, _written(plan), group)
    outcome: list[Any] = [None]
    if plan.rank == 0:
        outcome = [_complete(plan, said)]
    if group is not None:
        c10d.broadcast_object_list(outcome, group_src=0, group=group)
    if isinstance(outcome[0], str):
        raise CheckpointException(outcome[0])
    return outcome[0]


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> concurrent.futures.Future[Manifest]:
    """As `save`; what is written are the values of now, and the writing goes on beside the program. The result of
    the Future says that the checkpoint is complete."""
    _no_planner(planner)
    group = _group(process_group, no_dist)
    plan = _agree(state_dict, directory_of(checkpoint_id, storage_writer), storage_writer, group, copy=True)
    future: concurrent.futures.Future[Manifest] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(_written_beside(plan))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="rushlight checkpoint").start()
    return future


def save_state_dict(state_dict: dict[str, Any], storage_writer: Any, process_group: Any = None) -> Manifest:
    """As `save`; the older name."""
    return save(state_dict, storage_writer=storage_writer, process_group=process_group)


def _no_planner(planner: Any) -> None:
    if planner is not None:
        raise NotImplementedError("torch.distributed.checkpoint: planners are not available")


def _group(given: Any, alone: bool) -> Any:
    """The group that writes together, None for this process alone."""
    if alone or not c10d.is_initialized():
        return None
    return world() if given is None else given


def _gather(into: list[Any], mine: Any, group: Any) -> None:
    if group is None:
        into[0] = mine
    else:
        c10d.all_gather_object(into, mine, group=group)


def _agree(state: dict[str, Any], path: str, writer: Any, group: Any, *, copy: bool) -> Plan:
    """What this process is to write; the directory for it is made."""
    rank, world = (0, 1) if group is None else (c10d.get_rank(group), c10d.get_world_size(group))
    problem: str | None = None
    held: dict[tuple[str, Region], Tensor] = {}
    shapes: dict[str, tuple[tuple[int, ...], str]] = {}
    values: dict[str, Any] = {}
    try:
        for item in items_of(states_of(state)):
            if isinstance(item.value, Tensor):
                region, tensor = held_part(item.value)
                shapes[item.name] = region.whole, tensor.dtype.name
                if region.numel():
                    held[item.name, region] = tensor.detach()
            else:
                encoded(item.value, item.name)
                values[item.name] = item.value
        if os.path.exists(path) and not getattr(writer, "overwrite", True):
            raise CheckpointException(f"{path} is there, and overwrite=False")
    except Exception as error:
        problem = f"rank {rank}: {type(error).__name__}: {error}"
    token = f"{UNFINISHED}{uuid.uuid4().hex[:12]}"
    all_of_them: list[Any] = [None] * world
    _gather(
        all_of_them, (problem, token, [(key, t.dtype.itemsize) for key, t in held.items()], shapes), group
    )
    problems = [each[0] for each in all_of_them if each[0] is not None]
    if problems:
        raise CheckpointException(f"the checkpoint {path} was not written: " + "; ".join(problems))
    mine = _share([each[2] for each in all_of_them])[rank]
    for each in all_of_them:
        shapes.update(each[3])
    unfinished = Path(path + all_of_them[0][1])
    os.makedirs(unfinished, exist_ok=True)
    arrays, regions = [], {}
    for number, key in enumerate(mine):
        tensor = held[key]
        array = np.ascontiguousarray(tensor.numpy_array())
        label = f"{key[0]}#{number}"
        arrays.append((label, tensor.dtype.name, array.copy() if copy else array))
        regions[label] = key
    return Plan(Path(path), unfinished, rank, world, arrays, regions, shapes, values)


def _share(held: list[list[tuple[tuple[str, Region], int]]]) -> list[list[tuple[str, Region]]]:
    """Who writes what: each part once, by that of its holders that has least to write so far."""
    holders: dict[tuple[str, Region], list[int]] = {}
    sizes: dict[tuple[str, Region], int] = {}
    for rank, parts in enumerate(held):
        for key, size in parts:
            holders.setdefault(key, []).append(rank)
            sizes[key] = key[1].numel() * size
    load, mine = [0] * len(held), [[] for _ in held]  # type: ignore[var-annotated]
    for key in sorted(holders, key=lambda k: (-sizes[k], k[0], k[1].offsets)):
        rank = min(holders[key], key=lambda r: load[r])
        load[rank] += sizes[key]
        mine[rank].append(key)
    return mine


def _written(plan: Plan) -> Any:
    """Write the file of this process: what is in it, or what went wrong."""
    try:
        size = write_arrays(plan.unfinished / plan.file, plan.arrays)
        sync_directory(plan.unfinished)
    except Exception as error:
        return f"rank {plan.rank}: {type(error).__name__}: {error}"
    chunks = []
    for key, _, array in plan.arrays:
        name, region = plan.regions[key]
        chunks.append((name, region.offsets, region.sizes, key, checksum(array)))
    return {"file": plan.file, "size": size, "chunks": chunks}


def _complete(plan: Plan, said: list[Any]) -> Any:
    """In the first process, when all have said what they wrote: the manifest, or what went wrong."""
    problems = [each for each in said if isinstance(each, str)]
    try:
        if problems:
            raise CheckpointException("; ".join(problems))
        manifest = Manifest(values=plan.values, world_size=plan.world)
        for name, (shape, dtype) in plan.shapes.items():
            manifest.tensors[name] = StoredTensor(tuple(shape), dtype)
        for each in said:
            manifest.files[each["file"]] = each["size"]
            for name, offsets, sizes, key, crc in each["chunks"]:
                manifest.tensors[name].chunks.append(
                    Chunk(tuple(offsets), tuple(sizes), each["file"], key, crc)
                )
        write_text(plan.unfinished / NAME, manifest.text())
        put_in_place(plan.unfinished, plan.directory)
    except Exception as error:
        shutil.rmtree(plan.unfinished, ignore_errors=True)
        return f"the checkpoint {plan.directory} was not written: {error}"
    return manifest


def _written_beside(plan: Plan) -> Manifest:
    """The work of async_save: processes leave notes in the directory that is being written."""
    _leave(plan, _written(plan))
    deadline = time.monotonic() + TIMEOUT
    if plan.rank == 0:
        said = [_note(plan, rank, deadline) for rank in range(plan.world)]
        for rank in range(plan.world):
            (plan.unfinished / _note_name(rank)).unlink(missing_ok=True)
        outcome = _complete(plan, said)
        if isinstance(outcome, str):
            raise CheckpointException(outcome)
        return outcome
    while plan.unfinished.exists():
        if time.monotonic() > deadline:
            raise CheckpointException(
                f"the checkpoint {plan.directory} was not completed in {TIMEOUT:.0f} seconds"
            )
        time.sleep(_POLL)
    manifest = read_manifest(plan.directory)
    if plan.file not in manifest.files:
        raise CheckpointException(f"the checkpoint {plan.directory} was not written")
    return manifest


def _note_name(rank: int) -> str:
    return f"rank-{rank:05d}.json"


def _leave(plan: Plan, said: Any) -> None:
    write_text(plan.unfinished / _note_name(plan.rank), json.dumps(said))


def _note(plan: Plan, rank: int, deadline: float) -> Any:
    path = plan.unfinished / _note_name(rank)
    while not path.exists():
        if time.monotonic() > deadline:
            return f"rank {rank} has not written its part in {TIMEOUT:.0f} seconds"
        time.sleep(_POLL)
    return json.loads(path.read_text())

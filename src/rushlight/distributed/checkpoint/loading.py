"""Reading a checkpoint into the tensors of a state dict, by any number of processes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ...autograd.grad_mode import no_grad
from ...core.construct import from_numpy
from ...core.dtypes import DTYPES
from ...core.tensor import Tensor
from .. import distributed_c10d as c10d
from .files import Reader
from .filesystem import directory_of
from .manifest import CheckpointException, Manifest, StoredTensor, read_manifest
from .regions import Region, held_part
from .stateful import Item, is_stateful, items_of, states_of


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Read the checkpoint `checkpoint_id` into `state_dict`: tensors in place, each process what it holds of
    them; other values are put into their containers. Objects with a state dict load theirs. Nothing is changed
    if a name is missing or a shape differs."""
    if planner is not None:
        raise NotImplementedError("torch.distributed.checkpoint: planners are not available")
    path = directory_of(checkpoint_id, storage_reader)
    alone = no_dist or not c10d.is_initialized()
    try:
        states = states_of(state_dict)
        _fill(items_of(states), read_manifest(path), Reader(path), path)
    except Exception as error:
        if not alone:
            raise_together(error, process_group)
        raise
    if not alone:
        raise_together(None, process_group)
    for key, state in states.items():
        if is_stateful(state_dict[key]):
            state_dict[key].load_state_dict(state)
        else:
            state_dict[key] = state


def raise_together(error: Exception | None, group: Any) -> None:
    """An error in one process is one in all."""
    said: list[Any] = [None] * c10d.get_world_size(group)
    c10d.all_gather_object(said, None if error is None else f"{type(error).__name__}: {error}", group=group)
    if error is not None:
        raise error
    wrong = [f"rank {rank}: {text}" for rank, text in enumerate(said) if text is not None]
    if wrong:
        raise CheckpointException("the checkpoint was not loaded in all processes: " + "; ".join(wrong))


def load_state_dict(state_dict: dict[str, Any], storage_reader: Any, process_group: Any = None) -> None:
    """As `load`; the older name."""
    load(state_dict, storage_reader=storage_reader, process_group=process_group)


def _fill(items: list[Item], manifest: Manifest, reader: Reader, path: str) -> None:
    read = []
    for item in items:
        if not isinstance(item.value, Tensor):
            if item.name not in manifest.values:
                raise CheckpointException(f"Missing key in checkpoint state_dict: {item.name} (in {path}).")
            continue
        stored = manifest.tensors.get(item.name)
        if stored is None:
            raise CheckpointException(f"Missing key in checkpoint state_dict: {item.name} (in {path}).")
        region, held = held_part(item.value)
        if region.whole != stored.shape:
            raise ValueError(
                f"Size mismatch between saved {list(stored.shape)} and current: {list(region.whole)} for "
                f"{item.name}"
            )
        read.append((held, _part(item.name, region, stored, reader)))
    with no_grad():
        for held, array in read:
            held.detach().copy_(from_numpy(array))
    for item in items:
        if not isinstance(item.value, Tensor):
            item.container[item.key] = manifest.values[item.name]


def _part(name: str, region: Region, stored: StoredTensor, reader: Reader) -> np.ndarray:
    """A part of a stored tensor, put together of the chunks that it meets."""
    made = np.empty(region.sizes, DTYPES[stored.dtype].numpy)
    found = 0
    for chunk in stored.chunks:
        common = region.meets(stored.region(chunk))
        if common is not None:
            part = reader.chunk(stored, chunk)[common[1]]
            made[common[0]] = part
            found += part.size
    if found != made.size:
        raise CheckpointException(
            f"the checkpoint has {found} of the {made.size} elements of {name} that are asked for"
        )
    return made

"""Checkpoints that several processes write together, and that any number of processes can read.

    dcp.save({"model": model.state_dict(), "step": 7}, checkpoint_id="run/step-7")
    dcp.load(state, checkpoint_id="run/step-7")          # into the tensors of `state`, in place

A checkpoint is a directory: one safetensors file for each process, with the parts of tensors that it had, and
`manifest.json`, which says which part of which tensor lies where. It is written under another name and
renamed when all of it is on the disk, so that what has the name is complete. `state_dict` has the states of
modules and optimizers by the names of parameters; `latest(directory)` finds the last complete checkpoint.
"""

from .filesystem import FileSystemReader, FileSystemWriter
from .loading import load, load_state_dict
from .manifest import CheckpointException, latest
from .saving import async_save, save, save_state_dict
from .stateful import Stateful

__all__ = [
    "CheckpointException",
    "FileSystemReader",
    "FileSystemWriter",
    "Stateful",
    "async_save",
    "latest",
    "load",
    "load_state_dict",
    "save",
    "save_state_dict",
]

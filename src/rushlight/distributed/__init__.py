"""Processes that train together, on MPI ([distributed.md](../../../docs/distributed.md)).

`groups.py` makes groups of processes, `collectives.py`, `point_to_point.py` and `objects.py` are what they do
together; `comm`, below, carries the messages. `distributed_c10d` has all these names, as PyTorch's module has. A
group of one process needs no MPI and is always there.
"""

import importlib
from typing import Any

from ..comm.group import debug_level as _debug_level
from . import distributed_c10d as distributed_c10d
from .device_mesh import DeviceMesh, init_device_mesh
from .distributed_c10d import *  # noqa: F403

__all__ = ["DeviceMesh", "distributed_c10d", "get_debug_level", "init_device_mesh"]
__all__ += distributed_c10d.__all__

_ON_DEMAND = (
    "_functional_collectives",
    "algorithms",
    "checkpoint",
    "elastic",
    "fsdp",
    "nn",
    "optim",
    "rpc",
    "tensor",
    "utils",
)


def get_debug_level() -> str:
    """OFF, INFO or DETAIL: RUSHLIGHT_DISTRIBUTED_DEBUG (or PyTorch's TORCH_DISTRIBUTED_DEBUG)."""
    return _debug_level()


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

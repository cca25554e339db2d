"""Processes that train together: there is a group of one (`distributed_c10d.py`), which needs no communication.

`is_available()` is False, so that programs that ask take the way of one process; those that do not ask can
make a group of one process. What needs several raises an error that says so.
"""

import importlib
from typing import Any

from . import distributed_c10d as distributed_c10d
from .device_mesh import DeviceMesh, init_device_mesh
from .distributed_c10d import *  # noqa: F403

__all__ = ["DeviceMesh", "distributed_c10d", "init_device_mesh"]
__all__ += distributed_c10d.__all__

_ON_DEMAND = ("algorithms", "checkpoint", "fsdp", "optim", "rpc", "tensor", "utils")


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Tensors that are spread over processes: not available. No tensor is a `DTensor`."""

from ..core.missing import missing_class, missing_function
from .device_mesh import DeviceMesh, init_device_mesh
from .distributed_c10d import ALONE

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "init_device_mesh",
]

DTensor, Placement, Replicate, Shard, Partial = (
    missing_class("distributed.tensor", name, ALONE)
    for name in ("DTensor", "Placement", "Replicate", "Shard", "Partial")
)
distribute_tensor = missing_function("distributed.tensor", "distribute_tensor", ALONE)
distribute_module = missing_function("distributed.tensor", "distribute_module", ALONE)

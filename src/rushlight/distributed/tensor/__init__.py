"""Tensors that are spread over processes (`_api.py`), and modules whose parameters are (`parallel`)."""

from ..device_mesh import DeviceMesh, init_device_mesh
from ._api import DTensor, distribute_module, distribute_tensor
from ._api import empty_distributed as empty
from ._api import full_distributed as full
from ._api import ones_distributed as ones
from ._api import zeros_distributed as zeros
from ._layout import DTensorSpec
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor",
    "DTensorSpec",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "init_device_mesh",
    "ones",
    "zeros",
]

"""Meshes of devices: not available."""

from ..core.missing import missing_class, missing_function
from .distributed_c10d import ALONE

__all__ = ["DeviceMesh", "init_device_mesh"]

DeviceMesh = missing_class("distributed.device_mesh", "DeviceMesh", ALONE)
init_device_mesh = missing_function("distributed.device_mesh", "init_device_mesh", ALONE)

"""Data parallel modules; there is one device, so the module runs as it is."""

from .modules.parallel import DataParallel

__all__ = ["DataParallel"]

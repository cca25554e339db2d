"""Tensors to and from other libraries without a copy."""

from ..core.construct import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]

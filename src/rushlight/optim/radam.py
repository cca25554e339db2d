"""RAdam, under the name of PyTorch's module."""

from .adam import RAdam

__all__ = ["RAdam"]

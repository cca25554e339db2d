"""NAdam, under the name of PyTorch's module."""

from .adam import NAdam

__all__ = ["NAdam"]

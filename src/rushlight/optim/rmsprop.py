"""RMSprop, under the name of PyTorch's module."""

from .adaptive import RMSprop

__all__ = ["RMSprop"]

"""PixelShuffle and its inverse, under the name of PyTorch's module."""

from .shuffling import PixelShuffle, PixelUnshuffle

__all__ = ["PixelShuffle", "PixelUnshuffle"]

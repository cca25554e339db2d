"""Rprop, under the name of PyTorch's module."""

from .adaptive import Rprop

__all__ = ["Rprop"]

"""Adadelta, under the name of PyTorch's module."""

from .adaptive import Adadelta

__all__ = ["Adadelta"]

"""Adamax, under the name of PyTorch's module."""

from .adam import Adamax

__all__ = ["Adamax"]

"""ASGD, under the name of PyTorch's module."""

from .sgd import ASGD

__all__ = ["ASGD"]

"""Adagrad, under the name of PyTorch's module."""

from .adaptive import Adagrad

__all__ = ["Adagrad"]

"""AdamW, under the name of PyTorch's module."""

from .adam import AdamW

__all__ = ["AdamW"]

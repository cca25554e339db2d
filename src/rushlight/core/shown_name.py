"""The name of the package in texts, such as that of a dtype: `rushlight.float32`, or `torch.float32` in a program
that finds the package under PyTorch's name (programs/redirect.py)."""

from __future__ import annotations


class _ShownName:
    package = "rushlight"


SHOWN = _ShownName()

"""A context without classes and modes that run operators, under the name it has in PyTorch."""

from ._python_dispatch import no_dispatch

__all__ = ["no_dispatch"]

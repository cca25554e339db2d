"""Neural networks: for now the functions of `nn.functional` that are tensor operators."""

from . import functional

__all__ = ["functional"]

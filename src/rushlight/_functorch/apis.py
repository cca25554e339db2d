"""The transforms of `func` that PyTorch has in this module."""

from ..func import grad, grad_and_value, vmap

__all__ = ["grad", "grad_and_value", "vmap"]

"""The names of `distributed.tensor`, where they were before."""

from ..tensor import DTensor, distribute_module, distribute_tensor

__all__ = ["DTensor", "distribute_module", "distribute_tensor"]

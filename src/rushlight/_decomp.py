"""The decomposition table, under the name it has in PyTorch."""

from .decompositions.table import core_aten_decompositions, get_decompositions

__all__ = ["core_aten_decompositions", "get_decompositions"]

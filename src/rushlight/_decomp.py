"""The decomposition table, under the name it has in PyTorch."""

from .decompositions.table import (
    core_aten_decompositions,
    decomposition_table,
    get_decompositions,
    register_decomposition,
    remove_decompositions,
)

__all__ = [
    "core_aten_decompositions",
    "decomposition_table",
    "get_decompositions",
    "register_decomposition",
    "remove_decompositions",
]

"""Where the part of a distributed tensor lies that a process has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._layout import local_part
from .placement_types import Placement

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: Any, placements: Sequence[Placement], skip_offset: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of what this process holds of a tensor, and where in the whole that begins; no offset with
    `skip_offset`. A process outside of the mesh holds nothing."""
    if mesh.get_coordinate() is None:
        return (0,), ()
    shape, offset = local_part(global_shape, mesh, tuple(placements))
    return shape, () if skip_offset else offset

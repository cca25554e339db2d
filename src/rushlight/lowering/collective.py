"""Collectives are calls of MPI on whole tensors: begun when their input is ready, awaited when read."""

from __future__ import annotations

from ..ops.collective import SPACE
from .declare import extern

extern(
    "MPI moves whole tensors",
    *(
        SPACE + name
        for name in (
            "all_reduce",
            "all_gather_into_tensor",
            "reduce_scatter_tensor",
            "all_to_all_single",
            "broadcast",
            "isend",
            "irecv",
            "wait_tensor",
        )
    ),
)

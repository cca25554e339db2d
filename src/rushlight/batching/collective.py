"""Batching rules of collectives: elements travel alike; rows that are joined or split stay in front."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from ..ops.collective import SPACE
from .declare import Whole, batching

batching([SPACE + name for name in ("all_reduce", "broadcast", "wait_tensor", "isend", "irecv")], Whole())


def _rows_first(name: str, input: Tensor, *args: Any) -> Tensor:
    """The operator splits or joins along the first dimension, where the batch is."""
    if input.ndim == 1:  # of numbers: each is a row
        input = input.reshape(-1, 1)
    rows = input.movedim(0, -1).contiguous()
    result = run_name(SPACE + "wait_tensor", run_name(SPACE + name, rows, *args))
    return result.movedim(-1, 0)


@batching(SPACE + "all_gather_into_tensor")
def all_gather(input: Tensor, group_size: int, group_name: Any) -> Tensor:
    return _rows_first("all_gather_into_tensor", input, group_size, group_name)


@batching(SPACE + "reduce_scatter_tensor")
def reduce_scatter(input: Tensor, reduce_op: str, group_size: int, group_name: Any) -> Tensor:
    return _rows_first("reduce_scatter_tensor", input, reduce_op, group_size, group_name)


@batching(SPACE + "all_to_all_single")
def all_to_all(input: Tensor, output_split_sizes: Any, input_split_sizes: Any, group_name: Any) -> Tensor:
    return _rows_first("all_to_all_single", input, output_split_sizes, input_split_sizes, group_name)

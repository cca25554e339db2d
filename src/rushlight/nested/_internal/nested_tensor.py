"""Jagged nested tensors under the names that programs know from PyTorch's module of this name."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import DType
from ...core.nested import NestedTensor, from_padded, nest, ragged_of_offsets, read_integers
from ...core.tensor import Tensor
from ...decompositions.nested import jagged_from_list as _from_list

__all__ = [
    "NestedTensor",
    "jagged_from_list",
    "nested_from_padded",
    "nested_view_from_values_offsets",
    "nested_view_from_values_offsets_lengths",
]


def jagged_from_list(
    tensors: list[Tensor], offsets: Tensor | None, dtype: DType | None = None, device: Any = None
) -> tuple[NestedTensor, Tensor]:
    """The tensors as rows, and their offsets; with `offsets` they must be those."""
    made = _from_list(list(tensors), dtype, device)
    if offsets is None:
        return made, made.offsets()
    ragged = ragged_of_offsets(offsets, None, made._values.shape[made._ragged_idx - 1])
    return nest(made._values, ragged, made._ragged_idx), offsets


def nested_view_from_values_offsets(
    values: Tensor,
    offsets: Tensor,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """A view of `values` as rows that begin at `offsets`; the lengths are known from these."""
    extent = values.shape[ragged_idx - 1]
    ends = read_integers(offsets, "offsets")
    whole = len(ends) > 0 and ends[0] == 0 and ends[-1] == extent
    lengths = None if whole else offsets.diff()  # values outside of the offsets belong to no row
    return nest(values, ragged_of_offsets(offsets, lengths, extent), ragged_idx)


def nested_view_from_values_offsets_lengths(
    values: Tensor,
    offsets: Tensor,
    lengths: Tensor,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """A view of `values` as rows of `lengths` that begin at `offsets`."""
    return nest(values, ragged_of_offsets(offsets, lengths, values.shape[ragged_idx - 1]), ragged_idx)


def nested_from_padded(
    padded: Tensor,
    offsets: Tensor,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
    sum_S: int | None = None,
) -> NestedTensor:
    """The rows of a padded tensor without their padding."""
    ragged = ragged_of_offsets(offsets, None, int(read_integers(offsets, "offsets")[-1]))
    return from_padded(padded, ragged, ragged_idx)

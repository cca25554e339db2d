"""Packed sequences: schemas and shape rules.

A packed sequence holds the elements of a batch of sequences step by step, the longest sequence first; its
`batch_sizes` say how many sequences reach each step.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, define
from ..core.shapes import Spec
from ..core.tensor import Tensor

INT64 = DTYPES["int64"]


def pack_padded_sequence(input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Spec, Spec]:
    name = "_pack_padded_sequence"
    check(
        input.ndim >= 2,
        f"{name}: input must have a dimension for steps and one for the batch, but its "
        f"shape is {list(input.shape)}",
    )
    check(input.numel() > 0, f"{name}: Cannot pack empty tensors.")
    batch = input.shape[0 if batch_first else 1]
    check(
        lengths.ndim == 1 and lengths.shape[0] == batch,
        f"{name}: Expected `len(lengths)` to be equal to "
        f"batch_size, but got lengths of shape {list(lengths.shape)} (batch_size={batch})",
    )
    check_integers(lengths, name, "lengths")
    return Spec(None, input.dtype), Spec(None, INT64)


def pack_padded_sequence_backward(grad: Tensor, input_size: Sequence[int], batch_sizes: Tensor) -> Spec:
    check_integers(batch_sizes, "_pack_padded_sequence_backward", "batch_sizes")
    return Spec(tuple(input_size), grad.dtype)


def pad_packed_sequence(data: Tensor, batch_sizes: Tensor, total_length: int) -> tuple[Spec, Spec]:
    name = "_pad_packed_sequence"
    check(
        batch_sizes.ndim == 1 and batch_sizes.shape[0] > 0,
        f"{name}: batch_sizes must be a vector with at "
        f"least one step, but its shape is {list(batch_sizes.shape)}",
    )
    check_integers(batch_sizes, name, "batch_sizes")
    check(
        total_length <= 0 or total_length >= batch_sizes.shape[0],
        f"{name}: Expected total_length to be "
        f"at "
        f"least the length of the longest sequence in input, but got total_length={total_length} and max "
        f"sequence length being {batch_sizes.shape[0]}",
    )
    return Spec(None, data.dtype), Spec(None, INT64)


def check_integers(sizes: Tensor, name: str, what: str) -> None:
    check(
        sizes.dtype is INT64,
        f"{name}: '{what}' should be a CPU int64 tensor, but it is {sizes.dtype.torch_name}",
    )


define(
    "_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)",
    shape=pack_padded_sequence,
    moves=True,
    data_dependent=True,
    api=FUNCTION,
)
define(
    "_pack_padded_sequence_backward(Tensor grad, SymInt[] input_size, Tensor batch_sizes, bool "
    "batch_first) -> Tensor",
    shape=pack_padded_sequence_backward,
    moves=True,
    api=INTERNAL,
)
define(
    "_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int "
    "total_length) -> (Tensor, Tensor)",
    shape=pad_packed_sequence,
    moves=True,
    data_dependent=True,
    api=FUNCTION,
)

"""Sequences of different lengths: packed, padded, and lists of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..._api.link import API
from ...core.construct import as_tensor
from ...core.dtypes import DTYPES, int64
from ...core.errors import check
from ...core.tensor import Tensor
from .. import functional as _functional

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

functions: Any = API.functions[""]
F: Any = _functional


class _Packed(NamedTuple):
    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(_Packed):
    """The elements of sequences, step by step: first all first ones, then all second ones, and so on.

    `batch_sizes` says how many sequences reach each step; they are sorted by length, and `sorted_indices`
    tells where
    each one came from.

    >>> nn.utils.rnn.pack_sequence([rl.tensor([1, 2]), rl.tensor([3])]).batch_sizes
    tensor([2, 1])
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            check(
                isinstance(data, list | tuple) and len(data) == 2,
                "Expected data to be a list or tuple of length 2",
                AssertionError,
            )
            data, batch_sizes = data
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        move: Callable[[Any], Any] = lambda index: None if index is None else index.to(data.device)  # noqa: E731
        return type(self)(data, self.batch_sizes, move(self.sorted_indices), move(self.unsorted_indices))

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self.to("cpu", *args, **kwargs)

    def pin_memory(self) -> PackedSequence:
        return self

    def is_pinned(self) -> bool:
        return False

    @property
    def is_cuda(self) -> bool:
        return False

    # The methods are named as types, so that these must be spelled as dtypes.
    double = lambda self: self.to(dtype=DTYPES["float64"])  # noqa: E731
    float = lambda self: self.to(dtype=DTYPES["float32"])  # noqa: E731
    half = lambda self: self.to(dtype=DTYPES["float16"])  # noqa: E731
    long = lambda self: self.to(dtype=DTYPES["int64"])  # noqa: E731
    int = lambda self: self.to(dtype=DTYPES["int32"])  # noqa: E731
    short = lambda self: self.to(dtype=DTYPES["int16"])  # noqa: E731
    char = lambda self: self.to(dtype=DTYPES["int8"])  # noqa: E731
    byte = lambda self: self.to(dtype=DTYPES["uint8"])  # noqa: E731


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes `permutation`.

    >>> nn.utils.rnn.invert_permutation(rl.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else functions["argsort"](permutation)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack sequences that are padded to the same length; sorted by length unless `enforce_sorted` says
    they are.

    >>> nn.utils.rnn.pack_padded_sequence(rl.tensor([[1, 3], [2, 0]]), [2, 1]).data
    tensor([1, 3, 2])
    """
    lengths = lengths.to(int64) if isinstance(lengths, Tensor) else as_tensor(lengths, dtype=int64)
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = functions["sort"](lengths, descending=True)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, batch_sizes = functions["_pack_padded_sequence"](input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, sorted_indices, None)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The sequences padded to the same length, in their first order, and their lengths.

    >>> packed = nn.utils.rnn.pack_sequence([rl.tensor([1, 2]), rl.tensor([3])])
    >>> nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2],
            [3, 0]]), tensor([2, 1]))
    """
    longest = sequence.batch_sizes.shape[0]
    check(
        total_length is None or total_length >= longest,
        "Expected total_length to be at least the length of the "
        f"longest sequence in input, but got total_length={total_length} and max sequence length being "
        f"{longest}",
        ValueError,
    )
    padded, lengths = functions["_pad_packed_sequence"](
        sequence.data, sequence.batch_sizes, batch_first, padding_value, total_length or longest
    )
    back = sequence.unsorted_indices
    if back is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, back), lengths[back]


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences of any lengths as one tensor, filled up with `padding_value`.

    >>> nn.utils.rnn.pad_sequence([rl.tensor([1, 2]), rl.tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    check(
        isinstance(sequences, Iterable),
        f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}",
    )
    check(
        padding_side in ("left", "right"),
        f"Expected padding_side to be one of left or right, but got {padding_side}.",
    )
    parts = list(sequences)
    check(len(parts) > 0, "received an empty list of sequences")
    longest = max(part.shape[0] for part in parts)
    padded = []
    for part in parts:
        missing = longest - part.shape[0]
        sides = (missing, 0) if padding_side == "left" else (0, missing)
        padded.append(F.pad(part, (0, 0) * (part.ndim - 1) + sides, "constant", padding_value))
    return functions["stack"](padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences without their padding.

    >>> nn.utils.rnn.unpad_sequence(rl.tensor([[1, 2], [3, 0]]), rl.tensor([2, 1]), batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [sequence[:length] for sequence, length in zip(batch, lengths.tolist(), strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """A packed sequence of tensors of different lengths.

    >>> nn.utils.rnn.pack_sequence([rl.tensor([1, 2]), rl.tensor([3])]).data
    tensor([1, 3, 2])
    """
    lengths = as_tensor([sequence.shape[0] for sequence in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The tensors that a packed sequence was made of.

    >>> nn.utils.rnn.unpack_sequence(nn.utils.rnn.pack_sequence([rl.tensor([1, 2]), rl.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)

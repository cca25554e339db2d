"""Padding by mode, circular padding, and sequences padded to one length."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dispatch import run_name
from ..core.errors import check, fail
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.shapes import Shape
from ..core.tensor import Tensor
from ..core.tokens import contiguous_format

MODES = ("reflect", "replicate", "circular", "constant")  # in the order of ATen's enum


@composite(
    'pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor',
    api=FUNCTION,
    namespace="nn.functional",
)
def pad_by_name(self: Tensor, pad: Shape, mode: str, value: float | None) -> Tensor:
    check(
        mode in MODES,
        f"Unrecognised padding mode {mode}; it must be one of {', '.join(MODES)}",
        NotImplementedError,
    )
    return pad_enum(self, pad, MODES.index(mode), value)


@composite("_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None) -> Tensor", api=INTERNAL)
def pad_enum(self: Tensor, pad: Shape, mode: int, value: float | None) -> Tensor:
    check(len(pad) % 2 == 0, f"Padding length must be divisible by 2, got {list(pad)}")
    check(
        len(pad) // 2 <= self.ndim,
        "Padding length should be less than or equal to two times the input "
        f"dimension but got padding length {len(pad)} and input of dimension {self.ndim}",
    )
    name = MODES[mode]
    if name == "constant":
        return run_name("constant_pad_nd", self, pad, value or 0.0)
    check(value in (None, 0), f'Padding mode "{name}" doesn\'t take in value argument')
    dims = len(pad) // 2
    if dims not in (1, 2, 3) or self.ndim not in (dims + 1, dims + 2):
        fail(
            f"Padding size {len(pad)} is not supported for {self.ndim}D input tensor in mode {name}, which "
            "pads the last 1, 2 or 3 dimensions of a tensor that has one or two more",
            NotImplementedError,
        )
    if name == "circular":
        return pad_circular(self, pad)
    kind = "reflection" if name == "reflect" else "replication"
    return run_name(f"{kind}_pad{dims}d", self, pad)


@composite("_pad_circular(Tensor self, SymInt[] pad) -> Tensor", api=INTERNAL)
def pad_circular(self: Tensor, pad: Shape) -> Tensor:
    dims = len(pad) // 2
    check(
        dims + 1 <= self.ndim <= dims + 2,
        f"Invalid padding size, expected {self.ndim - 1} or "
        f"{self.ndim - 2} padded dimensions, but got a padding of length {len(pad)}",
    )
    result = self
    for i in range(dims):
        dim, before, after = self.ndim - 1 - i, pad[2 * i], pad[2 * i + 1]
        size = self.shape[dim]
        check(
            max(before, after) <= size,
            "Padding value causes wrapping around more than once: padding "
            f"({before}, {after}) at dimension {dim} of size {size}",
        )
        check(
            size + before + after >= 0,
            "Negative padding value is resulting in an empty dimension: "
            f"padding ({before}, {after}) at dimension {dim} of size {size}",
        )
        result = _wrapped(result, dim, before, after)
    if max(pad, default=0) > 0 and result.numel():
        return result.contiguous()
    return run_name("clone", result, contiguous_format)


def _wrapped(self: Tensor, dim: int, before: int, after: int) -> Tensor:
    """`self` with its end before it and its beginning after it; negative amounts crop first."""
    if before < 0 or after < 0:
        self = run_name("slice.Tensor", self, dim, max(-before, 0), self.shape[dim] - max(-after, 0), 1)
    size = self.shape[dim]
    if size == 0 or max(before, after) <= 0:
        return self
    # More than one turn is asked for only where something was cropped.
    turns_before, rest_before = divmod(max(before, 0), size)
    turns_after, rest_after = divmod(max(after, 0), size)
    parts = [run_name("slice.Tensor", self, dim, size - rest_before, size, 1)] if rest_before else []
    parts += [self] * (turns_before + 1 + turns_after)
    parts += [run_name("slice.Tensor", self, dim, 0, rest_after, 1)] if rest_after else []
    return run_name("cat", tuple(parts), dim)


@composite(
    "pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0., "
    'str padding_side="right") -> Tensor',
    api=INTERNAL,
)
def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool, padding_value: float, padding_side: str
) -> Tensor:
    check(sequences, "pad_sequence: received an empty list of sequences")
    check(
        padding_side in ("left", "right"),
        f"pad_sequence: padding_side must be 'left' or 'right', not {padding_side!r}",
    )
    longest = max(sequence.shape[0] for sequence in sequences)
    padded = []
    for sequence in sequences:
        missing = longest - sequence.shape[0]
        amounts = (0, missing) if padding_side == "right" else (missing, 0)
        padded.append(
            run_name(
                "constant_pad_nd",
                sequence.to(sequences[0].dtype),
                (0, 0) * (sequence.ndim - 1) + amounts,
                padding_value,
            )
        )
    return run_name("stack", tuple(padded), 0 if batch_first else 1)

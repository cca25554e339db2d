"""Padding by mode, and circular padding."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.errors import check, fail
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.shapes import Shape
from ..core.tensor import Tensor

MODES = ("reflect", "replicate", "circular", "constant")  # in the order of ATen's enum


@composite("pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor", api=FUNCTION,
           namespace="nn.functional")
def pad_by_name(self: Tensor, pad: Shape, mode: str, value: float | None) -> Tensor:
    check(mode in MODES, f"Unrecognised padding mode {mode}; it must be one of {', '.join(MODES)}", NotImplementedError)
    return pad_enum(self, pad, MODES.index(mode), value)


@composite("_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None) -> Tensor", api=INTERNAL)
def pad_enum(self: Tensor, pad: Shape, mode: int, value: float | None) -> Tensor:
    check(len(pad) % 2 == 0, f"Padding length must be divisible by 2, got {list(pad)}")
    check(len(pad) // 2 <= self.ndim, "Padding length should be less than or equal to two times the input "
          f"dimension but got padding length {len(pad)} and input of dimension {self.ndim}")
    name = MODES[mode]
    if name == "constant":
        return run_name("constant_pad_nd", self, pad, 0.0 if value is None else value)  # type: ignore[no-any-return]
    check(value in (None, 0), f'Padding mode "{name}" doesn\'t take in value argument')
    dims = len(pad) // 2
    if dims not in (1, 2, 3) or self.ndim not in (dims + 1, dims + 2):
        fail("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now", NotImplementedError)
    if name == "circular":
        return pad_circular(self, pad)
    kind = "reflection" if name == "reflect" else "replication"
    return run_name(f"{kind}_pad{dims}d", self, pad)  # type: ignore[no-any-return]


@composite("_pad_circular(Tensor self, SymInt[] pad) -> Tensor", api=INTERNAL)
def pad_circular(self: Tensor, pad: Shape) -> Tensor:
    dims = len(pad) // 2
    check(dims + 1 <= self.ndim <= dims + 2, f"Invalid padding size, expected {self.ndim - 1} or "
          f"{self.ndim - 2} padded dimensions, but got a padding of length {len(pad)}")
    result = self
    for i in range(dims):
        dim, before, after = self.ndim - 1 - i, pad[2 * i], pad[2 * i + 1]
        size = self.shape[dim]
        check(max(before, after) <= size, "Padding value causes wrapping around more than once: padding "
              f"({before}, {after}) at dimension {dim} of size {size}")
        check(size + before + after >= 0, "Negative padding value is resulting in an empty dimension: "
              f"padding ({before}, {after}) at dimension {dim} of size {size}")
        result = _wrapped(result, dim, before, after)
    return result if result is not self else self.clone()


def _wrapped(self: Tensor, dim: int, before: int, after: int) -> Tensor:
    """`self` with its end before it and its beginning after it; negative amounts crop first."""
    if before < 0 or after < 0:
        self = run_name("slice.Tensor", self, dim, max(-before, 0), self.shape[dim] - max(-after, 0), 1)
    size = self.shape[dim]
    parts = [self]
    if before > 0:
        parts.insert(0, run_name("slice.Tensor", self, dim, size - before, size, 1))
    if after > 0:
        parts.append(run_name("slice.Tensor", self, dim, 0, after, 1))
    return run_name("cat", tuple(parts), dim)  # type: ignore[no-any-return]

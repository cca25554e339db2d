"""The open transforms of functions: what `func.grad`, `vmap` and their like have in common.

While a transformed function runs, its transform lies on `MODES.transforms`, the innermost last; its depth there,
counted from 1, is the level that a program sees. A transform has a `kind`, and tells whether a derivative that
it takes follows a tensor (`tracks`). Interpreters (interpreters.py) are what runs operators: not all of them are
transforms that a program asked for, and not all transforms are interpreters, since reverse and forward mode wrap
nothing.
"""

from __future__ import annotations

import contextlib
import enum
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from .modes import MODES
from .tensor import Tensor


class TransformType(enum.Enum):
    """The kinds of transforms, under PyTorch's names."""

    Torch = 0
    Vmap = 1
    Grad = 2
    Jvp = 3
    Functionalize = 4


class Transform(Protocol):
    """One open transform."""

    kind: TransformType

    def tracks(self, tensor: Tensor) -> bool:
        """Whether a derivative that this transform takes follows `tensor`."""
        ...


@contextlib.contextmanager
def opened(transform: Transform) -> Iterator[None]:
    """Inside, `transform` is the innermost one."""
    MODES.transforms = [*MODES.transforms, transform]
    try:
        yield
    finally:
        MODES.transforms = MODES.transforms[:-1]


def level_of(transform: Any) -> int:
    """The number of an open transform as a program sees it; -1 of one that has ended."""
    return MODES.transforms.index(transform) + 1 if transform in MODES.transforms else -1


def levels_tracking(tensor: Tensor) -> list[int]:
    """The numbers of the open transforms whose derivatives follow `tensor`."""
    return [level for level, transform in enumerate(MODES.transforms, 1) if transform.tracks(tensor)]


# Printing.


def _same(tensor: Tensor) -> Tensor:
    return tensor


_untracked: Callable[[Tensor], Tensor] = _same


def install_untracked(function: Callable[[Tensor], Tensor]) -> None:
    """How autograd gives a tensor without the history that ends at open transforms."""
    global _untracked
    _untracked = function


def describe(tensor: Tensor, plain: Callable[[Tensor], str]) -> str:
    """The repr of a tensor, with the levels of the transforms whose derivatives follow it; `plain` gives that of
    the tensor as it is without them."""
    levels = levels_tracking(tensor)
    text = plain(_untracked(tensor) if levels else tensor)
    for level in levels:
        text = f"GradTrackingTensor(lvl={level}, value=\n{indented(text)}\n)"
    return text


def indented(text: str) -> str:
    return textwrap.indent(text, "    ")

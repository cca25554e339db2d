"""Keys of what the object cache has: texts, and everything else that decides about code."""

from __future__ import annotations

import functools
from typing import Any

from ..core.determinism import DETERMINISM
from ..core.dtypes import DType
from ..core.tokens import device, layout, memory_format
from . import profile, redzones
from .cache import fingerprint, key_of
from .engine import engine

_TOKENS = (device, layout, memory_format)


def key_under(*texts: str) -> str:
    """A key of texts and everything else that decides about code: modes, this package, LLVM, the CPU."""
    modes = (
        "guarded" * redzones.enabled(),
        "timed, with events" * profile.enabled(),
        "filled" * DETERMINISM.fills,
    )
    return key_of((*texts, *modes, *_surroundings()))


@functools.cache
def _surroundings() -> tuple[str, ...]:
    return ("program 2", fingerprint(), engine().identity())


class NoText(Exception):
    """An argument has no exact text."""


def exact_text(argument: Any) -> str:
    """The text of an argument of an operator that is no tensor; NoText if none tells it from all others."""
    kind = type(argument)
    if kind is int:
        return f"int {argument}"
    if argument is None or isinstance(argument, bool | int | float | complex | str):
        return f"{kind.__name__} {argument!r}"
    if isinstance(argument, tuple | list):
        return f"[{', '.join([exact_text(a) for a in argument])}]"
    if isinstance(argument, DType):
        return f"dtype {argument.name}"
    if isinstance(argument, _TOKENS):
        return repr(argument)
    raise NoText

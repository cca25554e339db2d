"""Names of PyTorch's graph capture that programs use, for the compiler that is here."""

from __future__ import annotations

from typing import Any

from .._compiler_api import (
    allow_in_graph,
    assume_constant_result,
    disable,
    graph_break,
    is_compiling,
    list_backends,
    reset,
)
from ..core.errors import check
from ..core.tensor import Tensor
from . import exc

__all__ = ["allow_in_graph", "assume_constant_result", "disable", "exc", "graph_break", "is_compiling",
           "list_backends", "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic",
           "reset", "reset_code_caches"]

reset_code_caches = reset  # there is no other state


def _check_dims(name: str, t: Any, index: Any) -> None:
    check(isinstance(t, Tensor), f"{name}: expected a tensor, got {type(t).__name__}", TypeError)
    for dim in (index,) if isinstance(index, int) else index or ():
        check(-t.ndim <= dim < t.ndim, f"{name}: dimension {dim} of a tensor with {t.ndim}", IndexError)


def mark_dynamic(t: Tensor, index: int | list[int] | tuple[int, ...], *, min: int | None = None,
                 max: int | None = None, **hints: Any) -> None:
    """A hint that sizes of `t` will vary. Sizes are not symbols yet: each is compiled for when it comes."""
    _check_dims("mark_dynamic", t, index)


def maybe_mark_dynamic(t: Tensor, index: int | list[int] | tuple[int, ...]) -> None:
    """As `mark_dynamic`."""
    _check_dims("maybe_mark_dynamic", t, index)


def mark_static(t: Any, index: int | list[int] | tuple[int, ...] | None = None) -> None:
    """A hint that sizes of `t` will not vary, which is what compiled programs assume anyway."""
    if isinstance(t, Tensor):
        _check_dims("mark_static", t, index)


def mark_static_address(t: Tensor, guard: bool = True) -> None:
    """A hint that `t` will stay in its memory; compiled programs are given their memory in every call."""
    _check_dims("mark_static_address", t, None)

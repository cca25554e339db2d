"""What an operator gave, as plain data, so that results of two backends can be compared.

A result tree becomes: `TensorOutcome` for a tensor, `Sequence` for a list, tuple or named tuple, `Token` for
a dtype or another named constant, and Python values as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class TensorOutcome:
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None  # None for sparse layouts
    device: str
    layout: str
    array: np.ndarray | None  # None on the meta device


@dataclass(frozen=True, eq=False)
class Items:
    """A list, tuple, size or named tuple (with its field names)."""

    kind: str
    items: tuple[Any, ...]
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Token:
    """A dtype, device, layout, ... by name."""

    name: str


def tensor_outcomes(outcome: Any) -> Iterator[TensorOutcome]:
    """The tensors of an outcome, left to right."""
    if isinstance(outcome, TensorOutcome):
        yield outcome
    elif isinstance(outcome, Items):
        for item in outcome.items:
            yield from tensor_outcomes(item)
    elif isinstance(outcome, dict):
        for item in outcome.values():
            yield from tensor_outcomes(item)


def describe_sequence(value: Any, describe: Any) -> Items:
    """An `Items` of a list or tuple; `describe` is applied to its items."""
    fields: tuple[str, ...] = getattr(value, "_fields", ()) or getattr(type(value), "__match_args__", ())
    if isinstance(value, list):
        kind = "list"
    elif fields:
        kind = "named tuple"
    else:
        kind = "tuple"
    return Items(kind, tuple(describe(item) for item in value), tuple(fields))

"""Kinds of samples: calls that differ in sizes alone, which one compilation for all sizes must serve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core.shapes import is_dense, memory_order

from .compare import Mismatch
from .entries import Sample
from .outcome import tensor_outcomes
from .snapshot import Foreign, SparseSpec, TensorSpec, map_tree


def kind_of(arguments: Any, result: Any) -> str:
    """What calls have in common that differ in sizes of 2 or more alone: everything but these. Sizes of 0 and 1
    are cases of their own, those of the result included."""
    shapes = [_pattern(outcome.shape) for outcome in tensor_outcomes(result)]
    return repr((map_tree(_kind_of_leaf, arguments), shapes))


def _kind_of_leaf(leaf: Any) -> Any:
    if isinstance(leaf, TensorSpec):
        dense = is_dense(leaf.size, leaf.stride)
        order = memory_order(leaf.size, leaf.stride) if dense else _pattern(leaf.stride)
        return leaf.dtype, leaf.device, _pattern(leaf.size), dense, tuple(order), leaf.storage.shared
    if isinstance(leaf, SparseSpec):
        return leaf.layout, _pattern(leaf.size), tuple(map(_kind_of_leaf, leaf.parts))
    return leaf.value if isinstance(leaf, Foreign) else leaf


def _pattern(sizes: Sequence[int]) -> tuple[Any, ...]:
    """Sizes without those that one compilation serves alike."""
    return tuple("n" if n > 1 else n for n in sizes)


class Compilations:
    """How often a function is compiled for the kinds of its calls."""

    def __init__(self, compiled: Any) -> None:
        self._reasons: Sequence[str] = getattr(compiled, "reasons", ())  # the oracle compiles nothing
        self._before = 0
        self._kinds: set[str] = set()

    def check(self, sample: Sample, result: Any) -> None:
        """Mismatch if the last call, with that result, was compiled though one of its kind had been."""
        kind, count = kind_of(sample.arguments, result), len(self._reasons)
        again = kind in self._kinds and count > self._before
        self._before = count
        self._kinds.add(kind)
        if again:
            raise Mismatch(f"compiled again for a call that differs in sizes alone: {self._reasons[-1]}")

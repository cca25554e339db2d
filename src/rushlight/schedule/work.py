"""The arithmetic that a kernel does: what a roofline and a profiler count.

Counted are operations on floating-point numbers as they are written: an addition and an exponential are one each,
a multiplication with an addition two. Index arithmetic, loads, comparisons and conversions are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..core.symbols import hint
from ..loops.expr import Expr, walk
from ..loops.instructions import COMPARISONS
from ..loops.kernels import Extern, Kernel, Product, Sort
from ..loops.nest import Nest, Phase, Reduce
from ..loops.plans import LoopPlan

FREE = frozenset(
    ("load", "constant", "index", "reduced", "scalar", "running", "cast", "where", "bitcast", "neg", "abs")
) | frozenset(COMPARISONS)


def operations_of(kernel: Kernel | LoopPlan) -> int:
    """Floating-point operations of a kernel, in the call that was captured."""
    match kernel:
        case Product():
            shape = kernel.shape
            own = int(hint(2 * shape.terms))
            return own + (0 if kernel.epilogue is None else _of_nest(kernel.epilogue))
        case Sort() | Extern():
            return 0
        case Nest():
            return _of_nest(kernel)
        case _:
            return _of_nest(kernel.nest)


def _of_nest(nest: Nest) -> int:
    outer = _points(v.extent for v in nest.outer)
    points = [_points(v.extent for v in phase.inner) * _at_a_point(phase) for phase in nest.phases]
    return outer * sum(points)


def _points(extents: Iterable[Any]) -> int:
    total = 1
    for extent in extents:
        total *= int(hint(extent))
    return total


def _at_a_point(phase: Phase) -> int:
    folds = sum(isinstance(statement, Reduce) for statement in phase.statements)
    return folds + _distinct(list(phase.values()))


def _distinct(values: Sequence[Expr]) -> int:
    """Operations of expressions; what several of them have is computed once."""
    parts = {part: None for value in values for part in walk(value)}
    return sum(part.op not in FREE and part.dtype.is_floating_point for part in parts)

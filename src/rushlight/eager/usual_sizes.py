"""Sizes that kernels are compiled with, whatever those of the first call are.

A kernel serves all sizes, but how it runs (widths of vectors, tiles of products, methods of sorting) is
decided by the sizes that it is captured with. These are the same for all calls of a kind, so that neither the
speed of a kernel nor its last bits depend on which call came first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.shapes import is_dense, memory_order
from .layouts import Operand

# The largest size and the step to the next one: of rows alone, of matrices, and of dimensions outside of these.
# What is made for the first serves no long sums, which are taken in parts (schedule/split_reductions.py).
ROWS, MATRICES, OUTER = ((4096, 64), (1 << 20, 4096)), ((256, 32), (2048, 64)), (8, 1)
STAGES = 2
MOST_SIZES = 6  # that differ; calls with more, as of lists of parameters, keep their own
GAP = 8  # elements between the rows of operands that have gaps


def with_usual_sizes(leaves: Sequence[Any], stage: int) -> list[Any] | None:
    """Leaves of a form with usual sizes: equal where they are equal, and different where they differ. None: these
    have too many."""
    operands = [leaf for leaf in leaves if isinstance(leaf, Operand)]
    inner = {n for o in operands for n in o.shape[-2:] if n > 1}
    outer = {n for o in operands for n in o.shape if n > 1} - inner
    if len(inner) > MOST_SIZES or len(outer) > MOST_SIZES:
        return None
    usual = {1: 1}
    rows = all(len(o.shape) < 2 for o in operands)
    for sizes, (largest, step) in ((inner, (ROWS if rows else MATRICES)[stage]), (outer, OUTER)):
        usual |= {n: largest - i * step for i, n in enumerate(sorted(sizes, reverse=True))}
    return [_resized(leaf, usual) if isinstance(leaf, Operand) else leaf for leaf in leaves]


def _resized(operand: Operand, usual: dict[int, int]) -> Operand:
    shape, strides = operand.shape, operand.strides
    sizes = [usual[n] for n in shape]
    dense = is_dense(shape, strides)
    found, step = [1] * len(shape), 1
    for d in reversed(memory_order(shape, strides)):
        if not dense and strides[d] > 1:
            step = max(step + GAP, 2)
        found[d] = step if dense or strides[d] > 1 else strides[d]
        if found[d]:
            step = found[d] * sizes[d]
    return Operand(operand.dtype, sizes, found)

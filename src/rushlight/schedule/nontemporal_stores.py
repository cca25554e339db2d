"""Results that nobody reads for long go past the caches.

What the forward half of a training step leaves for the backward half, the slopes of an activation, is in no
cache any more when it is read. Stored in whole lines, it need not be fetched from memory first, and leaves
the caches to what is needed next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..loops.kernels import Product
from ..loops.nest import Buffer, MemoryKind
from ..loops.program import Program, Unit
from .cost import LARGE_RESULT, LONG_WAIT
from .memory import buffers_of, bytes_hint


def store_past_caches(program: Program) -> Program:
    """Say of products which of what their epilogues write for such readers goes past the caches."""
    touched = [
        {b for step in stage.steps for b in buffers_of(step) if b.memory is not MemoryKind.ROW}
        for stage in program.stages
    ]
    traffic = [0]  # before each stage
    for buffers in touched:
        traffic.append(traffic[-1] + sum(map(bytes_hint, buffers)))

    def streamed(unit: Unit, number: int) -> Unit:
        if not isinstance(unit, Product) or unit.epilogue is None:
            return unit
        found = tuple(b for b in unit.outputs if _is_large(b, unit) and _waits(b, number, touched, traffic))
        return replace(unit, nontemporal=found) if found else unit

    stages = tuple(
        replace(stage, units=tuple(streamed(unit, number) for unit in stage.units))
        for number, stage in enumerate(program.stages)
    )
    return replace(program, stages=stages, steps=tuple(step for stage in stages for step in stage.steps))


def _is_large(buffer: Buffer, product: Product) -> bool:
    temporary = buffer is not product.result and buffer.memory is MemoryKind.TEMPORARY
    return temporary and bytes_hint(buffer) >= LARGE_RESULT


def _waits(buffer: Buffer, number: int, touched: Sequence[set[Buffer]], traffic: Sequence[int]) -> bool:
    """Whether much else is touched between the stage that writes a buffer and the next that touches it."""
    following = next((n for n in range(number + 1, len(touched)) if buffer in touched[n]), None)
    return following is not None and traffic[following] - traffic[number + 1] >= LONG_WAIT

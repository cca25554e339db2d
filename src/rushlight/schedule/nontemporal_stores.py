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
from .memory import bytes_of
from .stages import Stage

LONG = 16 << 20  # bytes touched meanwhile
LARGE = 1 << 18  # bytes


def stream_results(stages: Sequence[Stage]) -> None:
    """Say of products which of what their epilogues write for such readers goes past the caches."""
    touched = [
        [
            {b for buffers in some for b in buffers if b.memory is not MemoryKind.ROW}
            for some in ([step.inputs for step in stage.steps], [step.outputs for step in stage.steps])
        ]
        for stage in stages
    ]
    traffic = [0]  # before each stage
    for reads, writes in touched:
        traffic.append(traffic[-1] + sum(map(bytes_of, reads | writes)))
    for number, stage in enumerate(stages):
        for at, unit in enumerate(stage.units):
            if isinstance(unit, Product) and unit.epilogue is not None:
                found = [
                    b
                    for b in unit.outputs
                    if b is not unit.result
                    and b.memory is MemoryKind.TEMPORARY
                    and bytes_of(b) >= LARGE
                    and _waits(b, number, touched, traffic)
                ]
                if found:
                    stage.units[at] = replace(unit, nontemporal=tuple(found))


def _waits(
    buffer: Buffer, number: int, touched: Sequence[Sequence[set[Buffer]]], traffic: Sequence[int]
) -> bool:
    """Whether much else is touched between the stage that writes a buffer and the next that touches it."""
    following = next(
        (n for n in range(number + 1, len(touched)) if any(buffer in buffers for buffers in touched[n])), None
    )
    return following is not None and traffic[following] - traffic[number + 1] >= LONG

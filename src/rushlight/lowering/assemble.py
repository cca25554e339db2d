"""Tensors put together from parts: each part is written by a loop of its own into its range of the result.

A choice for each element would read every part at an index that is brought back inside it, and no such index
lets neighbouring elements be read as a vector. Small results are chosen all the same: one kernel, which fuses
with what follows, costs less there than several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.index import as_index, dot
from ..core.shapes import memory_order, numel, strides_in_order
from ..core.symbols import hint
from ..loops.expr import Access
from ..loops.kernels import Copy
from ..loops.nest import Buffer, Nest, Phase, Store
from .cost import SMALL
from .lowered import Lowered, Lowerer


@dataclass(frozen=True)
class Part:
    """A tensor and where its elements go: element i to offset + sum of i_d * strides[d]."""

    source: Lowered
    strides: tuple[int, ...]
    offset: int


def layout(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Dense strides in the memory order of `strides`."""
    return strides_in_order(shape, memory_order(shape, strides))


def write_part(low: Lowerer, target: Buffer, part: Part, *, overwrites: bool = False) -> None:
    """Define the elements of `target` that `part` gives, which were defined before if it `overwrites`."""
    if 0 in part.source.shape:
        return
    order = memory_order(part.source.shape, part.strides)
    variables = low.variables([part.source.shape[d] for d in order])
    index = [as_index(variables[order.index(d)]) for d in range(part.source.ndim)]
    value = part.source.load(index)
    low.check(value)
    store = Store(Access(target, dot(index, part.strides, part.offset)), value)
    nest = Nest(f"part{len(low.definitions)}", variables, (Phase((), (store,)),))
    low.definitions.append(Copy(nest, overwrites))


def assembled(
    low: Lowerer, shape: Sequence[int], strides: Sequence[int], parts: Sequence[tuple[Lowered, Sequence[int]]]
) -> Lowered:
    """The tensor of `shape`, laid out as `strides`, whose parts begin at given places and cover all of it."""
    dense = layout(shape, strides)
    target = low.fresh_buffer(parts[0][0].dtype, shape)
    for source, start in parts:
        write_part(low, target, Part(source, dense, sum(s * d for s, d in zip(start, dense, strict=True))))
    return low.stored(target, shape, dense, dense=True)


def overwritten(base: Lowered, strides: Sequence[int], part: Part) -> Lowered:
    """`base`, laid out as `strides`, with the elements that `part` gives replaced."""
    low = base.owner
    low.check(base.example())
    target = low.fresh_buffer(base.dtype, base.shape)
    dense = layout(base.shape, strides)
    result = Lowered(low, base.shape, base.dtype, base.load, None, dense).realize(target)
    write_part(low, target, part, overwrites=True)
    return result


def is_small(shape: Sequence[int]) -> bool:
    return hint(numel(shape)) <= SMALL

"""Copies of an operand in the order in which a kernel walks through it.

A slab holds, for every k, `width` units side by side: rows of the left operand, or columns of the right. It
has room for the depth rounded up to whole vectors, and a vector more: a store may reach beyond its units,
into what the next one writes or, at the end of the depth, nobody reads. Units beyond the last one of the
matrix are copies of it or zeros, which never get into the result. Nothing outside of the operand is read.
Strides are in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..emitter import Emitter
from ..routines import call_routine, element_named, routine
from ..struct import I64, Ptr, Struct
from ..types import bits_of, vector
from .fields import PackFields, PackingArgs
from .kernels import shifted


class PackArgs(Struct):
    """Units of an operand to be packed."""

    source: Ptr
    unit: I64  # from unit to unit
    depth_step: I64  # from k to k + 1
    units: I64
    depth: I64
    out: Ptr
    width: I64  # units of a slab
    room: I64  # from slab to slab


@routine("copy", PackArgs)
def copy(e: Emitter, args: PackArgs, element: str, vectors: int, lanes: int) -> None:
    """Of an operand whose units are contiguous for each k; a slab has as many as fit into `vectors`."""
    copier = _Copier(e, args, element, vectors, lanes)
    # Another task may have packed what follows: the last stores, which would reach there, are masked.
    reaching = e.builder.udiv(e.i64(vectors * lanes - 1), args.width)
    plain_depth = e.maximum(e.sub(args.depth, reaching), e.i64(0))
    with e.loop(0, plain_depth) as k:
        copier.emit(k, lambda x, place, at: e.store(x, place))
    with e.loop(plain_depth, args.depth) as k:
        copier.emit(
            k, lambda x, place, at: e.store_masked(x, place, e.tail_mask(e.sub(args.width, at), lanes))
        )


class _Copier:
    """Copies the units of one k into their slabs."""

    def __init__(self, e: Emitter, args: PackArgs, element: str, vectors: int, lanes: int) -> None:
        self.e, self.args, self.vectors, self.lanes = e, args, vectors, lanes
        self.scalar = element_named(element)
        self.kind = vector(self.scalar, lanes)
        self.step = e.mul(args.width, bits_of(self.scalar) // 8)
        # slabs whose vectors reach over nothing but other units
        inside = e.add(e.sub(args.units, vectors * lanes), args.width)
        self.plain = e.builder.udiv(e.maximum(inside, e.i64(0)), args.width)

    def emit(self, k: Any, store: Callable[[Any, Any, int], None]) -> None:
        e, args = self.e, self.args
        row = shifted(e, args.source, e.mul(k, args.depth_step))
        slab = shifted(e, args.out, e.mul(k, self.step))
        slab, row = e.fold(
            0, self.plain, 1, [slab, row], lambda _, slab, row: self._moved(slab, row, self._load, store)
        )

        def next_slab(first: Any, slab: Any, row: Any) -> tuple[Any, list[Any]]:
            following = self._moved(slab, row, lambda place, at: self._load_masked(place, first, at), store)
            first = e.add(first, args.width)
            return e.compare("<", first, args.units), [first, *following]

        first = e.mul(self.plain, args.width)
        with e.when(e.compare("<", first, args.units)):
            e.repeat([first, slab, row], next_slab)

    def _load(self, place: Any, at: int) -> Any:
        return self.e.load(place, self.kind)

    def _load_masked(self, place: Any, first: Any, at: int) -> Any:
        """A vector of which only the first units are there; the slab begins with unit `first`."""
        e = self.e
        left = e.sub(e.sub(self.args.units, first), at)
        return e.load_masked(place, self.kind, e.tail_mask(left, self.lanes))

    def _moved(
        self, slab: Any, row: Any, load: Callable[[Any, int], Any], store: Callable[[Any, Any, int], None]
    ) -> list[Any]:
        """Copy one slab; gives where the next one is, and its units."""
        e = self.e
        places = range(0, self.vectors * self.lanes, self.lanes)
        for at, x in [(at, load(e.address(row, at, self.scalar), at)) for at in places]:
            store(x, e.address(slab, at, self.scalar), at)
        return [shifted(e, slab, self.args.room), shifted(e, row, self.step)]


@routine("transpose", PackArgs)
def transpose(e: Emitter, args: PackArgs, element: str) -> None:
    """Of an operand in which each unit is contiguous along the depth."""
    scalar = element_named(element)
    lanes = e.target.lanes(bits_of(scalar) // 8)
    kind = vector(scalar, lanes)

    def square_of_units(number: Any, slab: Any, at: Any) -> None:
        """As many units as a vector has lanes, along all of the depth."""
        start = shifted(e, args.source, e.mul(number, args.unit))
        last = e.sub(e.sub(args.units, number), 1)
        offsets = [e.mul(e.minimum(e.i64(i), last), args.unit) for i in range(lanes)]
        with e.loop(0, args.depth, lanes) as k:
            mask = e.tail_mask(e.sub(args.depth, k), lanes)
            column = e.address(start, k, scalar)
            rows = [e.load_masked(shifted(e, column, offset), kind, mask) for offset in offsets]
            target = e.address(slab, e.add(e.mul(k, args.width), at), scalar)
            for x in transposed(e, rows):
                e.store(x, target)
                target = e.address(target, args.width, scalar)

    def next_slab(first: Any, slab: Any) -> tuple[Any, list[Any]]:
        with e.loop(0, args.width, lanes) as at:
            number = e.add(first, at)
            with e.when(e.compare("<", number, args.units)):
                square_of_units(number, slab, at)
        first = e.add(first, args.width)
        return e.compare("<", first, args.units), [first, shifted(e, slab, args.room)]

    e.repeat([e.i64(0), args.out], next_slab)


def transposed(e: Emitter, rows: Sequence[Any]) -> list[Any]:
    """The columns of a square of as many vectors as they have lanes.

    Rounds of interleaving: first lanes inside of 16 bytes, for which machines have instructions, then runs.
    """
    lanes = len(rows)
    current, step = list(rows), 1
    if lanes >= 4 and bits_of(rows[0].type) == 32:
        current, step = [x for i in range(0, lanes, 4) for x in _quartet(e, current[i : i + 4])], 4
    while step < lanes:
        low = [b + t for b in range(0, lanes, 2 * step) for t in (*range(step), *range(lanes, lanes + step))]
        high = [lane + step for lane in low]
        following = list(current)
        for i in range(lanes):
            if not i & step:
                following[i] = e.shuffle(current[i], low, current[i + step])
                following[i + step] = e.shuffle(current[i], high, current[i + step])
        current = following
        step *= 2
    return current


def _quartet(e: Emitter, rows: Sequence[Any]) -> list[Any]:
    """Four rows of 32-bit lanes: the columns of every 4 x 4 block of them."""
    lanes = rows[0].type.count
    blocks = range(0, lanes, 4)

    def mixed(a: Any, b: Any, pattern: Sequence[int]) -> Any:
        return e.shuffle(a, [block + (p if p < 4 else p - 4 + lanes) for block in blocks for p in pattern], b)

    halves = ((0, 4, 1, 5), (2, 6, 3, 7))
    pairs = ([mixed(a, b, pattern) for a, b in (rows[:2], rows[2:])] for pattern in halves)
    return [mixed(a, b, pattern) for a, b in pairs for pattern in ((0, 1, 4, 5), (2, 3, 6, 7))]


# The task.


@routine("packing", PackingArgs, quick=True)
def packing(e: Emitter, args: PackingArgs) -> None:
    """One task of a packing: a part of a few slabs of one matrix of the batch."""
    f = PackFields.load(e, args.fields)
    part, number = e.builder.urem(args.number, f.parts), e.builder.udiv(args.number, f.parts)
    batch, group = e.builder.udiv(number, f.groups), e.builder.urem(number, f.groups)
    k = e.mul(part, f.part_depth)
    source = e.load(e.address(args.block, f.source, e.i64), e.pointer)
    source = shifted(e, source, e.add(f.offset, e.mul(batch, f.batch_step)))
    first = e.mul(group, f.group_units)
    source = shifted(e, source, e.add(e.mul(first, f.unit), e.mul(k, f.depth_step)))
    out = e.load(e.address(args.block, f.out, e.i64), e.pointer)
    out = shifted(e, out, e.add(f.out_offset, e.mul(batch, f.out_batch)))
    out = shifted(e, out, e.mul(e.builder.udiv(first, f.width), f.room))
    out = shifted(e, out, e.mul(e.mul(k, f.width), f.size))
    units = e.minimum(e.sub(f.units, first), f.group_units)
    depth = e.minimum(e.sub(f.depth, k), f.part_depth)
    given = PackArgs(
        source=source,
        unit=f.unit,
        depth_step=f.depth_step,
        units=units,
        depth=depth,
        out=out,
        width=f.width,
        room=f.room,
    )
    call_routine(e, args.pack, given)

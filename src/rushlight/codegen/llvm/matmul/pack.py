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
from ..types import bits_of, vector
from .kernels import shifted
from .routines import callee, element_named, fields_of, routine

# source, from unit to unit, from k to k + 1; how many units and k there are; out, units of a slab, from slab
# to slab
PACK = "pnnnnpnn"


def copied_vectors(width: int, lanes: int) -> tuple[int, int]:
    """How many vectors `copy` moves for each k, and their lanes: narrow ones for narrow slabs, since stores
    that overlap and cross lines take long."""
    lanes = min(lanes, 1 << (width - 1).bit_length())
    return -(-width // lanes), lanes


@routine("copy", PACK)
def copy(
    e: Emitter,
    source: Any,
    unit: Any,
    depth_step: Any,
    units: Any,
    depth: Any,
    out: Any,
    width: Any,
    room: Any,
    element: str,
    vectors: int,
    lanes: int,
) -> None:
    """Of an operand whose units are contiguous for each k; a slab has as many as fit into `vectors`."""
    scalar = element_named(element)
    size = bits_of(scalar) // 8
    kind = vector(scalar, lanes)
    step = e.mul(width, size)
    # slabs whose vectors reach over nothing but other units
    inside = e.add(e.sub(units, vectors * lanes), width)
    plain = e.builder.udiv(e.maximum(inside, e.i64(0)), width)

    def each(k: Any, store: Callable[[Any, Any, int], None]) -> None:
        row = shifted(e, source, e.mul(k, depth_step))
        slab = shifted(e, out, e.mul(k, step))

        def moved(slab: Any, row: Any, load: Callable[[Any, int], Any]) -> list[Any]:
            places = range(0, vectors * lanes, lanes)
            for at, x in [(at, load(e.address(row, at, scalar), at)) for at in places]:
                store(x, e.address(slab, at, scalar), at)
            return [shifted(e, slab, room), shifted(e, row, step)]

        def next_slab(first: Any, slab: Any, row: Any) -> tuple[Any, list[Any]]:
            following = moved(
                slab,
                row,
                lambda place, at: e.load_masked(
                    place, kind, e.tail_mask(e.sub(e.sub(units, first), at), lanes)
                ),
            )
            first = e.add(first, width)
            return e.compare("<", first, units), [first, *following]

        slab, row = e.fold(
            0,
            plain,
            1,
            [slab, row],
            lambda _, slab, row: moved(slab, row, lambda place, at: e.load(place, kind)),
        )
        first = e.mul(plain, width)
        with e.when(e.compare("<", first, units)):
            e.repeat([first, slab, row], next_slab)

    # Another task may have packed what follows: the last stores, which would reach there, are masked.
    reaching = e.builder.udiv(e.i64(vectors * lanes - 1), width)
    plain_depth = e.maximum(e.sub(depth, reaching), e.i64(0))
    with e.loop(0, plain_depth) as k:
        each(k, lambda x, place, at: e.store(x, place))
    with e.loop(plain_depth, depth) as k:
        each(k, lambda x, place, at: e.store_masked(x, place, e.tail_mask(e.sub(width, at), lanes)))


@routine("transpose", PACK)
def transpose(
    e: Emitter,
    source: Any,
    unit: Any,
    depth_step: Any,
    units: Any,
    depth: Any,
    out: Any,
    width: Any,
    room: Any,
    element: str,
) -> None:
    """Of an operand in which each unit is contiguous along the depth."""
    scalar = element_named(element)
    size = bits_of(scalar) // 8
    lanes = e.target.lanes(size)
    kind = vector(scalar, lanes)

    def next_slab(first: Any, slab: Any) -> tuple[Any, list[Any]]:
        with e.loop(0, width, lanes) as at:
            number = e.add(first, at)
            with e.when(e.compare("<", number, units)):
                start = shifted(e, source, e.mul(number, unit))
                last = e.sub(e.sub(units, number), 1)
                offsets = [e.mul(e.minimum(e.i64(i), last), unit) for i in range(lanes)]
                with e.loop(0, depth, lanes) as k:
                    mask = e.tail_mask(e.sub(depth, k), lanes)
                    column = e.address(start, k, scalar)
                    rows = [e.load_masked(shifted(e, column, offset), kind, mask) for offset in offsets]
                    target = e.address(slab, e.add(e.mul(k, width), at), scalar)
                    for x in transposed(e, rows):
                        e.store(x, target)
                        target = e.address(target, width, scalar)
        first = e.add(first, width)
        return e.compare("<", first, units), [first, shifted(e, slab, room)]

    e.repeat([e.i64(0), out], next_slab)


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

PACK_FIELDS = (
    "source",
    "offset",
    "batch_step",
    "unit",
    "depth_step",
    "units",
    "depth",
    "out",
    "out_offset",
    "out_batch",
    "width",
    "room",
    "groups",
    "group_units",
    "parts",
    "part_depth",
    "size",
)


@routine("packing", "ppnp", quick=True)
def packing(e: Emitter, fields: Any, block: Any, number: Any, pack: Any) -> None:
    """Task `number` of a packing: a part of a few slabs of one matrix of the batch. `fields` are
    PACK_FIELDS."""
    f = fields_of(e, fields, PACK_FIELDS)
    part, number = e.builder.urem(number, f["parts"]), e.builder.udiv(number, f["parts"])
    batch, group = e.builder.udiv(number, f["groups"]), e.builder.urem(number, f["groups"])
    k = e.mul(part, f["part_depth"])
    source = e.load(e.address(block, f["source"], e.i64), e.pointer)
    source = shifted(e, source, e.add(f["offset"], e.mul(batch, f["batch_step"])))
    first = e.mul(group, f["group_units"])
    source = shifted(e, source, e.add(e.mul(first, f["unit"]), e.mul(k, f["depth_step"])))
    out = e.load(e.address(block, f["out"], e.i64), e.pointer)
    out = shifted(e, out, e.add(f["out_offset"], e.mul(batch, f["out_batch"])))
    out = shifted(e, out, e.mul(e.builder.udiv(first, f["width"]), f["room"]))
    out = shifted(e, out, e.mul(e.mul(k, f["width"]), f["size"]))
    units = e.minimum(e.sub(f["units"], first), f["group_units"])
    depth = e.minimum(e.sub(f["depth"], k), f["part_depth"])
    e.call(callee(pack, PACK), [source, f["unit"], f["depth_step"], units, depth, out, f["width"], f["room"]])

"""The innermost kernels: tiles of a product one below the other, the sums of each in registers.

Strides are in bytes. A kernel computes and writes whole tiles: the caller gives it room for them, a panel of
the right operand that is whole, and for rows of the left operand that are not there the offset of one that
is.

The sums of an element are added in the order of the depth, in every kernel with vectors along the columns,
whatever the tile, and however the depth is cut into blocks: a block continues the sums of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....core.lazy import LazyModule
from ....plan.cost import FEW_LINES, MOST_OTHERS
from ..emitter import Emitter
from ..types import bits_of, vector
from .routines import element_named, routine

ir = LazyModule("llvmlite.ir")

# Arguments of a kernel: the left operand, the offsets of the rows of a tile of it, and from k to k + 1; how
# many segments the depth has, their offsets, the depth of each; the right operand, from k to k + 1, from
# column to column, how many columns are there; the result, from row to row, whether to add to what is there;
# how many tiles, and from tile to tile in the left operand, in the offsets of rows, and in the result; how
# far from the result other matrices are that go with it, and behind that the address of a row; whether to
# finish; how far ahead in the left operand lines are fetched, and from one to the next.
KERNEL = "ppnnpnpnnnpnnnnnnpnnn"

LINE = 64  # bytes that are fetched together

# What a kernel does with its sums in the end, before it stores them: steps of an instruction and what it
# takes besides, the row or the next of the other matrices.
NOTHING = "nothing"


def shifted(e: Emitter, pointer: Any, offset: Any) -> Any:
    """The address `offset` bytes on."""
    return e.address(pointer, offset, e.i8)


def rows_of(e: Emitter, pointer: Any, stride: Any, count: int) -> list[Any]:
    rows = [pointer]
    for _ in range(1, count):
        rows.append(shifted(e, rows[-1], stride))
    return rows


def offset_rows(e: Emitter, pointer: Any, offsets: Any, count: int) -> list[Any]:
    return [shifted(e, pointer, e.load(e.address(offsets, i, e.i64), e.i64)) for i in range(count)]


@routine("tile", KERNEL)
def tile(
    e: Emitter,
    left: Any,
    row_offsets: Any,
    left_depth: Any,
    segments: Any,
    offsets: Any,
    depth: Any,
    right: Any,
    right_depth: Any,
    right_column: Any,
    columns: Any,
    out: Any,
    out_row: Any,
    add: Any,
    tiles: Any,
    left_tile: Any,
    offsets_tile: Any,
    out_tile: Any,
    distances: Any,
    finish: Any,
    lead: Any,
    lead_step: Any,
    element: str,
    height: int,
    vectors: int,
    others: int,
    steps: str,
) -> None:
    """A column times a row, again and again, with vectors along the columns.

    `others`: how many other matrices go with the result, which the epilogue reads or writes. `steps`: how the
    sums are finished. The lines of all these, and of the result, are fetched in turn, one of each a step: if
    there are many, what the sums need would wait behind them.
    """
    scalar = element_named(element)
    size = bits_of(scalar) // 8
    lanes = e.target.lanes(size)
    kind = vector(scalar, lanes)
    row_lines = 1 << (-(-vectors * lanes * size // LINE) - 1).bit_length()  # of a row of the tile, or more
    in_turn = height * row_lines > FEW_LINES

    def side_by_side(pointer: Any) -> list[Any]:
        return [e.address(pointer, j * lanes, scalar) if j else pointer for j in range(vectors)]

    def each(left: Any, row_offsets: Any, out: Any) -> None:
        rows = offset_rows(e, left, row_offsets, height)
        places = [at for row in rows_of(e, out, out_row, height) for at in side_by_side(row)]
        matrices = [e.load(e.address(distances, other, e.i64), e.i64) for other in range(others)]
        for distance in [] if in_turn else matrices:
            for row in places[::vectors]:
                e.fetch(shifted(e, row, distance), vectors * lanes * size, write=True)
        sums = e.branch(
            e.compare("!=", add, 0),
            lambda: [e.load(at, kind) for at in places],
            lambda: [e.zero(kind)] * len(places),
        )

        def step(left_over: Any, offset: Any, panel: Any, ahead: Any, *more: Any) -> tuple[Any, list[Any]]:
            turn, sums = more[: len(first_turn)], more[len(first_turn) :]
            for number in turn:
                line = shifted(e, out, line_of(number))
                for distance in (0, *matrices):
                    e.fetch(shifted(e, line, distance), 1, write=True)
            b = [e.load(at, kind) for at in side_by_side(panel)]
            following = []
            for i, row in enumerate(rows):
                a = e.splat(e.load(shifted(e, row, offset), scalar), lanes)
                following += [e.mul_add(a, x, sums[i * vectors + j]) for j, x in enumerate(b)]
            e.fetch(ahead, 1, write=False)
            left_over = e.sub(left_over, 1)
            return e.compare(">", left_over, 0), [
                left_over,
                e.add(offset, left_depth),
                shifted(e, panel, right_depth),
                shifted(e, ahead, lead_step),
                *(e.add(number, 1) for number in turn),
                *following,
            ]

        def segment(number: Any, panel: Any, ahead: Any, *more: Any) -> tuple[Any, list[Any]]:
            start = e.load(e.address(offsets, number, e.i64), e.i64)
            _, _, *following = e.repeat([depth, start, panel, ahead, *more], step)
            number = e.add(number, 1)
            return e.compare("<", number, segments), [number, *following]

        first_turn = [e.i64(0)] if in_turn else []
        start = [e.i64(0), right, shifted(e, left, lead), *first_turn]
        sums = e.repeat([*start, *sums], segment)[len(start) :]
        if steps != NOTHING:
            sums = e.branch(
                e.compare("!=", finish, 0), lambda: finished(sums, places, matrices), lambda: sums
            )
        for x, at in zip(sums, places, strict=True):
            e.store(x, at)

    def line_of(number: Any) -> Any:
        """How far line `number` of a tile is from its start; after the last one, that again."""
        number = e.minimum(number, e.i64(height * row_lines - 1))
        bits = row_lines.bit_length() - 1
        return e.add(e.mul(e.shift_right(number, bits), out_row), e.mul(e.and_(number, row_lines - 1), LINE))

    def finished(sums: Sequence[Any], places: Sequence[Any], matrices: Sequence[Any]) -> list[Any]:
        found, distances_left = list(sums), iter(matrices)
        for step in steps.split("-"):
            operation = {"add": e.add, "mul": e.mul}[step[:3]]
            if step[3:] == "row":
                row = e.load(e.address(distances, MOST_OTHERS, e.i64), e.pointer)
                besides = [e.load(at, kind) for at in side_by_side(row)] * height
            else:
                distance = next(distances_left)
                besides = [e.load(shifted(e, at, distance), kind) for at in places]
            found = [operation(x, y) for x, y in zip(found, besides, strict=True)]
        return found

    _for_tiles(e, tiles, (left, left_tile), (row_offsets, offsets_tile), (out, out_tile), each)


def _for_tiles(
    e: Emitter,
    tiles: Any,
    left: tuple[Any, Any],
    offsets: tuple[Any, Any],
    out: tuple[Any, Any],
    each: Callable[[Any, Any, Any], None],
) -> None:
    """`each` with the pointers of one tile after the other; the pairs are pointers with their steps."""

    def one(left_over: Any, *pointers: Any) -> tuple[Any, list[Any]]:
        each(*pointers)
        left_over = e.sub(left_over, 1)
        steps = (left[1], offsets[1], out[1])
        return e.compare(">", left_over, 0), [
            left_over,
            *[shifted(e, pointer, step) for pointer, step in zip(pointers, steps, strict=True)],
        ]

    e.repeat([tiles, left[0], offsets[0], out[0]], one)


@routine("dot", KERNEL)
def dot(
    e: Emitter,
    left: Any,
    row_offsets: Any,
    left_depth: Any,
    segments: Any,
    offsets: Any,
    depth: Any,
    right: Any,
    right_depth: Any,
    right_column: Any,
    columns: Any,
    out: Any,
    out_row: Any,
    add: Any,
    tiles: Any,
    left_tile: Any,
    offsets_tile: Any,
    out_tile: Any,
    distances: Any,
    finish: Any,
    lead: Any,
    lead_step: Any,
    element: str,
    height: int,
    width: int,
) -> None:
    """Rows times columns, each contiguous, with vectors along the depth; one segment, nothing is added to.

    For columns that are not there the last one is computed again.
    """
    scalar = element_named(element)
    size = bits_of(scalar) // 8
    lanes = e.target.lanes(size)
    kind = vector(scalar, lanes)
    beside = [right]
    for j in range(1, width):
        beside.append(shifted(e, beside[-1], e.select(e.compare(">", columns, j), right_column, e.i64(0))))

    def each(left: Any, row_offsets: Any, out: Any) -> None:
        rows = offset_rows(e, left, row_offsets, height)

        def multiplied(load: Callable[[Any], Any], offset: Any, sums: Sequence[Any]) -> list[Any]:
            a = [load(shifted(e, row, offset)) for row in rows]
            following = list(sums)
            for j, column in enumerate(beside):
                b = load(shifted(e, column, offset))
                for i, x in enumerate(a):
                    at = i * width + j
                    following[at] = e.mul_add(x, b, following[at])
            return following

        sums: Sequence[Any] = [e.zero(kind)] * (height * width)
        whole = e.mul(e.and_(depth, -lanes), size)
        sums = e.fold(
            0,
            whole,
            lanes * size,
            sums,
            lambda offset, *state: multiplied(lambda at: e.load(at, kind), offset, state),
        )
        rest = e.and_(depth, lanes - 1)
        mask = e.tail_mask(rest, lanes)
        sums = e.branch(
            e.compare(">", rest, 0),
            lambda: multiplied(lambda at: e.load_masked(at, kind, mask), whole, sums),
            lambda: list(sums),
        )
        for i, row in enumerate(rows_of(e, out, out_row, height)):
            e.store(_lane_sums(e, sums[i * width : (i + 1) * width]), row)

    _for_tiles(e, tiles, (left, left_tile), (row_offsets, offsets_tile), (out, out_tile), each)


def _lane_sums(e: Emitter, vectors: Sequence[Any]) -> Any:
    """A vector of the sums of the lanes of each: neighbours are added while the vectors are interleaved."""
    lanes = vectors[0].type.count
    if len(vectors) not in (2, 4, 8) or len(vectors) > lanes:
        return e.concatenate([e.reduce(x, e.add) for x in vectors])
    parts, width = list(vectors), 1
    while len(parts) > 1:
        pair = (*range(width), *range(lanes, lanes + width))
        first = [group + lane for group in range(0, lanes, 2 * width) for lane in pair]
        second = [lane + width for lane in first]
        parts = [
            e.add(e.shuffle(a, first, b), e.shuffle(a, second, b))
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
        width *= 2
    total = parts[0]
    while (count := total.type.count) > len(vectors):
        total = e.add(e.shuffle(total, range(count // 2)), e.shuffle(total, range(count // 2, count)))
    return total


@routine("move", "pnpnnn")
def move(
    e: Emitter, source: Any, source_row: Any, target: Any, target_row: Any, rows: Any, words: Any
) -> None:
    """Copy rows of words of 4 bytes."""
    with e.loop(0, rows) as row:
        start, end = (
            shifted(e, at, e.mul(row, step)) for at, step in ((source, source_row), (target, target_row))
        )
        with e.loop(0, words) as word:
            e.store(e.load(e.address(start, word, e.i32), e.i32), e.address(end, word, e.i32))


@routine("clear", "pnnn")
def clear(e: Emitter, target: Any, target_row: Any, rows: Any, words: Any) -> None:
    """Fill rows of words of 4 bytes with zeros."""
    lanes = e.target.lanes(4)
    zeros = e.zero(vector(e.i32, lanes))
    whole = e.and_(words, -lanes)
    with e.loop(0, rows) as row:
        start = shifted(e, target, e.mul(row, target_row))
        with e.loop(0, whole, lanes) as word:
            e.store(zeros, e.address(start, word, e.i32))
        with e.loop(whole, words) as word:
            e.store(e.i32(0), e.address(start, word, e.i32))

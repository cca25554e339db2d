"""The innermost kernels: tiles of a product one below the other, the sums of each in registers.

Strides are in bytes. A kernel computes and writes whole tiles: the caller gives it room for them, a panel of
the right operand that is whole, and for rows of the left operand that are not there the offset of one that
is.

The terms of an element are added in the order of the depth, in every kernel with vectors along the columns,
whatever the tile: those of a run of RUN steps from zero, and then the sums of the runs. A long sum would round
to the precision of all that was added before at every step. Runs end where the depth is a multiple of RUN, and
with the block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....core.lazy import LazyModule
from ....plan.cost import MOST_OTHERS
from ....plan.product import fetches_in_turn
from ..emitter import Emitter
from ..memory import CACHE_LINE
from ..routines import element_named, routine
from ..struct import I64, Ptr, Struct
from ..types import bits_of, vector

ir = LazyModule("llvmlite.ir")

# What a kernel does with its sums in the end, before it stores them: steps of an instruction and what it
# takes besides, the row or the next of the other matrices.
NOTHING = "nothing"
RUN = 192  # steps of the depth that are summed on their own


class TileArgs(Struct):
    """A column of tiles: what a kernel is called with."""

    left: Ptr
    row_offsets: Ptr  # of the rows of a tile in the left operand
    left_depth: I64  # from k to k + 1 in the left operand
    segments: I64  # runs of k with one stride
    segment_offsets: Ptr
    depth: I64  # of a segment
    right: Ptr
    right_depth: I64  # from k to k + 1
    right_column: I64  # from column to column
    columns: I64  # that there are
    out: Ptr
    out_row: I64  # from row to row
    add: I64  # not 0: add to what is there
    tiles: I64
    left_tile: I64  # from tile to tile, in the left operand,
    offsets_tile: I64  # in the offsets of rows,
    out_tile: I64  # and in the result
    distances: Ptr  # from the result to other matrices that go with it, and behind them the address of a row
    finish: I64  # not 0: do the steps of the kernel before storing
    lead: I64  # bytes ahead in the left operand at which lines are fetched,
    lead_step: I64  # and from one to the next
    run: I64  # steps to the end of the first run


class MoveArgs(Struct):
    """Rows of words of 4 bytes, and the bytes from row to row."""

    source: Ptr
    source_row: I64
    target: Ptr
    target_row: I64
    rows: I64
    words: I64


class ClearArgs(Struct):
    """Rows of words of 4 bytes, and the bytes from row to row."""

    target: Ptr
    target_row: I64
    rows: I64
    words: I64


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


def for_tiles(e: Emitter, args: TileArgs, each: Callable[[Any, Any, Any], None]) -> None:
    """`each` with the left operand, the offsets of its rows and the result of one tile after the other."""

    def one(left_over: Any, *pointers: Any) -> tuple[Any, list[Any]]:
        each(*pointers)
        left_over = e.sub(left_over, 1)
        steps = (args.left_tile, args.offsets_tile, args.out_tile)
        return e.compare(">", left_over, 0), [
            left_over,
            *[shifted(e, pointer, step) for pointer, step in zip(pointers, steps, strict=True)],
        ]

    e.repeat([args.tiles, args.left, args.row_offsets, args.out], one)


# Vectors along the columns.


@routine("tile", TileArgs)
def tile(
    e: Emitter, args: TileArgs, element: str, height: int, vectors: int, others: int, steps: str
) -> None:
    """A column times a row, again and again, with vectors along the columns.

    `others`: how many other matrices go with the result, which the epilogue reads or writes. `steps`: how the
    sums are finished.
    """
    for_tiles(e, args, _ColumnTile(e, args, element, (height, vectors), others, steps).emit)


class _ColumnTile:
    """Emits one tile: `height` rows of `vectors` vectors of sums.

    The lines of the result and of other matrices are fetched in turn, one of each a step, if there are many:
    what the sums need would wait behind them.
    """

    def __init__(
        self, e: Emitter, args: TileArgs, element: str, shape: tuple[int, int], others: int, steps: str
    ) -> None:
        self.e, self.args, self.steps, self.others = e, args, steps, others
        self.height, self.vectors = shape
        self.scalar = element_named(element)
        size = bits_of(self.scalar) // 8
        self.lanes = e.target.lanes(size)
        self.kind = vector(self.scalar, self.lanes)
        self.row_bytes = self.vectors * self.lanes * size
        self.row_lines = (
            1 << (-(-self.row_bytes // CACHE_LINE) - 1).bit_length()
        )  # of a row of the tile, or more
        self.in_turn = fetches_in_turn(self.height, self.row_lines)

    def emit(self, left: Any, row_offsets: Any, out: Any) -> None:
        e, args = self.e, self.args
        self.out = out
        self.rows = offset_rows(e, left, row_offsets, self.height)
        self.places = [
            at for row in rows_of(e, out, args.out_row, self.height) for at in self._side_by_side(row)
        ]
        self.matrices = [
            e.load(e.address(args.distances, other, e.i64), e.i64) for other in range(self.others)
        ]
        if not self.in_turn:
            self._fetch_matrices()
        sums = self._multiply(left)
        if self.steps != NOTHING:
            sums = e.branch(e.compare("!=", args.finish, 0), lambda: self._finished(sums), lambda: sums)
        for x, at in zip(sums, self.places, strict=True):
            e.store(x, at)

    def _side_by_side(self, pointer: Any) -> list[Any]:
        """The addresses of the vectors of a row."""
        e = self.e
        return [
            e.address(pointer, j * self.lanes, self.scalar) if j else pointer for j in range(self.vectors)
        ]

    # Sums.

    def _multiply(self, left: Any) -> list[Any]:
        """The sums of all segments of the depth, and what is there already."""
        e, args = self.e, self.args
        turn = [e.i64(0)] if self.in_turn else []
        start = [e.i64(0), args.run, args.add, args.right, shifted(e, left, args.lead), *turn]
        zeros = [e.zero(self.kind)] * len(self.places)
        _, _, there, *rest = e.repeat([*start, *zeros], self._segment)
        return self._with_earlier(there, rest[len(start) - 3 :])

    def _with_earlier(self, there: Any, sums: Sequence[Any]) -> list[Any]:
        """The sums of a run and those of the runs before, if there are any in memory."""
        e = self.e
        return e.branch(
            e.compare("!=", there, 0),
            lambda: [e.add(e.load(at, self.kind), x) for x, at in zip(sums, self.places, strict=True)],
            lambda: list(sums),
        )

    def _segment(self, number: Any, *state: Any) -> tuple[Any, list[Any]]:
        e, args = self.e, self.args
        start = e.load(e.address(args.segment_offsets, number, e.i64), e.i64)
        _, _, *following = e.repeat([args.depth, start, *state], self._part)
        number = e.add(number, 1)
        return e.compare("<", number, args.segments), [number, *following]

    def _part(self, left_over: Any, offset: Any, run: Any, there: Any, *more: Any) -> tuple[Any, list[Any]]:
        """What a segment and a run have in common. `run` steps are left of the run; at its end its sums go to
        memory, and another one begins."""
        e = self.e
        others, sums = more[: -len(self.places)], list(more[-len(self.places) :])
        run, there, *sums = e.branch(
            e.compare("==", run, 0), lambda: self._next_run(there, sums), lambda: [run, there, *sums]
        )
        steps = e.minimum(left_over, run)
        _, offset, *following = e.repeat([steps, offset, *others, *sums], self._step)
        left_over = e.sub(left_over, steps)
        return e.compare(">", left_over, 0), [left_over, offset, e.sub(run, steps), there, *following]

    def _next_run(self, there: Any, sums: Sequence[Any]) -> list[Any]:
        e = self.e
        for x, at in zip(self._with_earlier(there, sums), self.places, strict=True):
            e.store(x, at)
        return [e.i64(RUN), e.i64(1), *[e.zero(self.kind)] * len(sums)]

    def _step(self, left_over: Any, offset: Any, panel: Any, ahead: Any, *more: Any) -> tuple[Any, list[Any]]:
        """One k: an element of each row times a row of the panel."""
        e, args = self.e, self.args
        turn, sums = more[: int(self.in_turn)], more[int(self.in_turn) :]
        for number in turn:
            self._fetch_line(number)
        b = [e.load(at, self.kind) for at in self._side_by_side(panel)]
        following = []
        for i, row in enumerate(self.rows):
            a = e.splat(e.load(shifted(e, row, offset), self.scalar), self.lanes)
            following += [e.mul_add(a, x, sums[i * self.vectors + j]) for j, x in enumerate(b)]
        e.fetch(ahead, 1, write=False)
        left_over = e.sub(left_over, 1)
        return e.compare(">", left_over, 0), [
            left_over,
            e.add(offset, args.left_depth),
            shifted(e, panel, args.right_depth),
            shifted(e, ahead, args.lead_step),
            *(e.add(number, 1) for number in turn),
            *following,
        ]

    def _finished(self, sums: Sequence[Any]) -> list[Any]:
        """The sums after the steps of the epilogue that kernels do in registers."""
        e, distances = self.e, iter(self.matrices)
        found = list(sums)
        for step in self.steps.split("-"):
            operation = {"add": e.add, "mul": e.mul}[step[:3]]
            if step[3:] == "row":
                row = e.load(e.address(self.args.distances, MOST_OTHERS, e.i64), e.pointer)
                besides = [e.load(at, self.kind) for at in self._side_by_side(row)] * self.height
            else:
                distance = next(distances)
                besides = [e.load(shifted(e, at, distance), self.kind) for at in self.places]
            found = [operation(x, y) for x, y in zip(found, besides, strict=True)]
        return found

    # Prefetching.

    def _fetch_matrices(self) -> None:
        """The lines of all matrices that go with the result at once."""
        for distance in self.matrices:
            for row in self.places[:: self.vectors]:
                self.e.fetch(shifted(self.e, row, distance), self.row_bytes, write=True)

    def _fetch_line(self, number: Any) -> None:
        """Line `number` of the tile, of the result and of what goes with it."""
        e = self.e
        line = shifted(e, self.out, self._line_of(number))
        for distance in (0, *self.matrices):
            e.fetch(shifted(e, line, distance), 1, write=True)

    def _line_of(self, number: Any) -> Any:
        """How far line `number` of a tile is from its start; after the last one, that again."""
        e, lines = self.e, self.row_lines
        number = e.minimum(number, e.i64(self.height * lines - 1))
        row = e.shift_right(number, lines.bit_length() - 1)
        return e.add(e.mul(row, self.args.out_row), e.mul(e.and_(number, lines - 1), CACHE_LINE))


# Vectors along the depth.


@routine("dot", TileArgs)
def dot(e: Emitter, args: TileArgs, element: str, height: int, width: int) -> None:
    """Rows times columns, each contiguous, with vectors along the depth; one segment, nothing is added to.

    For columns that are not there the last one is computed again.
    """
    for_tiles(e, args, _DepthTile(e, args, element, height, width).emit)


class _DepthTile:
    """Emits one tile: `height` rows times `width` columns, a vector of partial sums each."""

    def __init__(self, e: Emitter, args: TileArgs, element: str, height: int, width: int) -> None:
        self.e, self.args, self.height, self.width = e, args, height, width
        scalar = element_named(element)
        self.size = bits_of(scalar) // 8
        self.lanes = e.target.lanes(self.size)
        self.kind = vector(scalar, self.lanes)
        self.beside = [args.right]
        for j in range(1, width):
            there = e.compare(">", args.columns, j)
            self.beside.append(shifted(e, self.beside[-1], e.select(there, args.right_column, e.i64(0))))

    def emit(self, left: Any, row_offsets: Any, out: Any) -> None:
        e, kind = self.e, self.kind
        self.rows = offset_rows(e, left, row_offsets, self.height)
        sums: Sequence[Any] = [e.zero(kind)] * (self.height * self.width)
        whole = e.mul(e.and_(self.args.depth, -self.lanes), self.size)
        sums = e.fold(
            0,
            whole,
            self.lanes * self.size,
            sums,
            lambda offset, *state: self._multiplied(lambda at: e.load(at, kind), offset, state),
        )
        rest = e.and_(self.args.depth, self.lanes - 1)
        mask = e.tail_mask(rest, self.lanes)
        sums = e.branch(
            e.compare(">", rest, 0),
            lambda: self._multiplied(lambda at: e.load_masked(at, kind, mask), whole, sums),
            lambda: list(sums),
        )
        for i, row in enumerate(rows_of(e, out, self.args.out_row, self.height)):
            e.store(lane_sums(e, sums[i * self.width : (i + 1) * self.width]), row)

    def _multiplied(self, load: Callable[[Any], Any], offset: Any, sums: Sequence[Any]) -> list[Any]:
        """The partial sums after one vector of each row and each column."""
        e = self.e
        a = [load(shifted(e, row, offset)) for row in self.rows]
        following = list(sums)
        for j, column in enumerate(self.beside):
            b = load(shifted(e, column, offset))
            for i, x in enumerate(a):
                at = i * self.width + j
                following[at] = e.mul_add(x, b, following[at])
        return following


def lane_sums(e: Emitter, vectors: Sequence[Any]) -> Any:
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


# Edges and triangles.


@routine("move", MoveArgs)
def move(e: Emitter, args: MoveArgs) -> None:
    """Copy rows of words."""
    with e.loop(0, args.rows) as row:
        start, end = (
            shifted(e, at, e.mul(row, step))
            for at, step in ((args.source, args.source_row), (args.target, args.target_row))
        )
        with e.loop(0, args.words) as word:
            e.store(e.load(e.address(start, word, e.i32), e.i32), e.address(end, word, e.i32))


@routine("clear", ClearArgs)
def clear(e: Emitter, args: ClearArgs) -> None:
    """Fill rows of words with zeros."""
    lanes = e.target.lanes(4)
    zeros = e.zero(vector(e.i32, lanes))
    whole = e.and_(args.words, -lanes)
    with e.loop(0, args.rows) as row:
        start = shifted(e, args.target, e.mul(row, args.target_row))
        with e.loop(0, whole, lanes) as word:
            e.store(zeros, e.address(start, word, e.i32))
        with e.loop(whole, args.words) as word:
            e.store(e.i32(0), e.address(start, word, e.i32))

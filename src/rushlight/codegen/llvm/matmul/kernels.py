"""The innermost kernels: one tile of a product, all its sums in registers.

Each kernel is a function of its own, never inlined, made once a module for a dtype and a tile; strides and
depth come at run time, so products of any shape share it. Nothing outside of the tile is read or written:
columns that are left over at the edge of the matrix are masked, and for rows beyond the last one the last one
is computed and written again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....core.lazy import LazyModule
from ....runtime.target import Target
from ..emitter import Emitter
from ..types import bits_of, vector

ir = LazyModule("llvmlite.ir")


@dataclass(frozen=True)
class Tile:
    """Up to `rows` times `columns` of the result; `adds` if the kernel can add to what is there."""

    rows: int
    columns: int
    adds: bool


def define(module: Any, name: str, arguments: Sequence[Any], target: Target,
           body: Callable[..., None]) -> Any:
    """The function `name` of the module; made by `body(emitter, *arguments)` if there is none yet."""
    found = module.globals.get(name)
    if found is None:
        found = ir.Function(module, ir.FunctionType(ir.VoidType(), list(arguments)), name)
        found.linkage = "internal"
        found.attributes.add("noinline")
        found.attributes.add("nounwind")
        for argument in found.args:
            if isinstance(argument.type, ir.PointerType):
                argument.add_attribute("noalias")
        e = Emitter(ir.IRBuilder(found.append_basic_block("entry")), target)
        body(e, *found.args)
        e.builder.ret_void()
    return found


def lane_mask(count: int, lanes: int) -> Any:
    """True in the first `count` lanes."""
    return ir.Constant(ir.VectorType(ir.IntType(1), lanes), [int(lane < count) for lane in range(lanes)])


class Columns:
    """A run of columns as vectors, the last one masked if it is not whole."""

    def __init__(self, e: Emitter, element: Any, columns: int) -> None:
        self.e = e
        self.element = element
        self.lanes = e.target.lanes(bits_of(element) // 8)
        self.kind = vector(element, self.lanes)
        self.count = -(-columns // self.lanes)
        rest = columns % self.lanes
        self.mask = lane_mask(rest, self.lanes) if rest else None

    def _address(self, pointer: Any, number: int) -> Any:
        return self.e.address(pointer, number * self.lanes, self.element) if number else pointer

    def load(self, pointer: Any) -> list[Any]:
        vectors = []
        for number in range(self.count):
            address = self._address(pointer, number)
            if self.mask is not None and number == self.count - 1:
                vectors.append(self.e.load_masked(address, self.kind, self.mask))
            else:
                vectors.append(self.e.load(address, self.kind))
        return vectors

    def store(self, vectors: Sequence[Any], pointer: Any) -> None:
        for number, x in enumerate(vectors):
            address = self._address(pointer, number)
            if self.mask is not None and number == self.count - 1:
                self.e.store_masked(x, address, self.mask)
            else:
                self.e.store(x, address)


def rows_of(e: Emitter, pointer: Any, stride: Any, count: int, element: Any, last: Any = None) -> list[Any]:
    """The addresses of `count` rows, `stride` elements apart; after number `last` the same one again."""
    rows = [pointer]
    for i in range(1, count):
        step = stride if last is None else e.select(e.compare("<", last, i), e.i64(0), stride)
        rows.append(e.address(rows[-1], step, element))
    return rows


# Vectors along the columns.

def outer_kernel(module: Any, target: Target, element: Any, tile: Tile) -> Any:
    """A column times a row, again and again, with vectors along the columns.

    kernel(left, left row, left depth, right, right depth, out, out row, rows, depth, add): addresses, each
    followed by its strides, then numbers.
    """
    name = f"tile_{element}_{tile.rows}x{tile.columns}{'_add' if tile.adds else ''}"
    pointer, i64 = ir.PointerType(), ir.IntType(64)

    def body(e: Emitter, left: Any, left_row: Any, left_depth: Any, right: Any, right_depth: Any, out: Any,
             out_row: Any, count: Any, depth: Any, add: Any) -> None:
        columns = Columns(e, element, tile.columns)
        last = e.sub(count, 1)
        rows = rows_of(e, left, left_row, tile.rows, element, last)

        def step(left_over: Any, offset: Any, panel: Any, *sums: Any) -> tuple[Any, list[Any]]:
            b = columns.load(panel)
            following = []
            for i, row in enumerate(rows):
                a = e.splat(e.load(e.address(row, offset, element), element), columns.lanes)
                following += [e.mul_add(a, x, sums[i * columns.count + j]) for j, x in enumerate(b)]
            left_over = e.sub(left_over, 1)
            return e.compare(">", left_over, 0), [left_over, e.add(offset, left_depth),
                                                  e.address(panel, right_depth, element), *following]

        zeros = [e.zero(columns.kind)] * (tile.rows * columns.count)
        sums = e.repeat([depth, e.i64(0), right, *zeros], step)[3:]
        _write(e, columns, tile, sums, rows_of(e, out, out_row, tile.rows, element, last), add)

    return define(module, name, [pointer, i64, i64, pointer, i64, pointer, i64, i64, i64, i64], target, body)


def _write(e: Emitter, columns: Columns, tile: Tile, sums: Sequence[Any], rows: Sequence[Any],
           add: Any) -> None:
    count = columns.count

    def added() -> list[Any]:
        old = [x for row in rows for x in columns.load(row)]
        return [e.add(x, y) for x, y in zip(old, sums, strict=True)]

    if tile.adds:
        sums = e.branch(e.compare("!=", add, 0), added, lambda: list(sums))
    for i, row in enumerate(rows):
        columns.store(sums[i * count:(i + 1) * count], row)


# Vectors along the depth.

def dot_kernel(module: Any, target: Target, element: Any, tile: Tile, ragged: bool) -> Any:
    """Rows times columns, each contiguous, with vectors along the depth.

    kernel(left, left row, right, right column, out, out row, rows, depth). `ragged`: the depth is not a whole
    number of vectors.
    """
    name = f"dot_{element}_{tile.rows}x{tile.columns}{'_ragged' if ragged else ''}"
    pointer, i64 = ir.PointerType(), ir.IntType(64)

    def body(e: Emitter, left: Any, left_row: Any, right: Any, right_column: Any, out: Any, out_row: Any,
             count: Any, depth: Any) -> None:
        lanes = target.lanes(bits_of(element) // 8)
        kind = vector(element, lanes)
        last = e.sub(count, 1)
        rows = rows_of(e, left, left_row, tile.rows, element, last)
        columns = rows_of(e, right, right_column, tile.columns, element)

        def multiplied(load: Callable[[Any], Any], index: Any, sums: Sequence[Any]) -> list[Any]:
            a = [load(e.address(row, index, element)) for row in rows]
            following = list(sums)
            for j, column in enumerate(columns):
                b = load(e.address(column, index, element))
                for i, x in enumerate(a):
                    at = i * tile.columns + j
                    following[at] = e.mul_add(x, b, following[at])
            return following

        sums: Sequence[Any] = [e.zero(kind)] * (tile.rows * tile.columns)
        whole = e.and_(depth, -lanes)
        sums = e.fold(0, whole, lanes, sums,
                      lambda index, *state: multiplied(lambda at: e.load(at, kind), index, state))
        if ragged:
            mask = e.tail_mask(e.sub(depth, whole), lanes)
            sums = multiplied(lambda at: e.load_masked(at, kind, mask), whole, sums)
        for i, row in enumerate(rows_of(e, out, out_row, tile.rows, element, last)):
            _store_sums(e, sums[i * tile.columns:(i + 1) * tile.columns], row, element)

    return define(module, name, [pointer, i64, pointer, i64, pointer, i64, i64, i64], target, body)


def _store_sums(e: Emitter, vectors: Sequence[Any], pointer: Any, element: Any) -> None:
    """The sum over the lanes of each vector, one after the other."""
    if len(vectors) in (2, 4, 8) and len(vectors) <= vectors[0].type.count:
        e.store(lane_sums(e, vectors), pointer)
        return
    for j, x in enumerate(vectors):
        e.store(e.reduce(x, e.add), e.address(pointer, j, element))


def lane_sums(e: Emitter, vectors: Sequence[Any]) -> Any:
    """The sums of the lanes of 2, 4 or 8 vectors: neighbours are added while the vectors are interleaved."""
    lanes = vectors[0].type.count
    parts, width = list(vectors), 1
    while len(parts) > 1:
        pair = (*range(width), *range(lanes, lanes + width))
        first = [group + lane for group in range(0, lanes, 2 * width) for lane in pair]
        second = [lane + width for lane in first]
        parts = [e.add(e.shuffle(a, first, b), e.shuffle(a, second, b))
                 for a, b in zip(parts[::2], parts[1::2], strict=True)]
        width *= 2
    total = parts[0]
    while (count := total.type.count) > len(vectors):
        total = e.add(e.shuffle(total, range(count // 2)), e.shuffle(total, range(count // 2, count)))
    return total

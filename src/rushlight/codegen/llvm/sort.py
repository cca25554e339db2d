"""Sorting rows: by networks over eight rows at a time, by digits, or by selection of a few.

Every element becomes a number whose order is that of the elements, with its position below it (types of up
to 32 bits: one word) or beside it (64 bits: two words): no two are equal, and any way of sorting is stable.
- network: the rows of a batch lie side by side, and Batcher's merge exchange runs on vectors of eight words;
- radix: one row, digit by digit from the lowest, with digits that are the same everywhere left out;
- select: a row is read once, and the best `count` are kept in order; a vector with none better is skipped.

The passes of the first two are functions of their own, once in a module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...core.dtypes import Category, DType
from ...core.index import as_index
from ...core.lazy import LazyModule
from ...loops.kernels import Layout, SortShape
from ...loops.nest import SIZES, Buffer
from ...plan.cost import BATCH, DIGITS
from ...plan.sorting import SortMethod, SortPlan
from ...runtime.target import Target
from .emitter import Emitter
from .instructions import element_type, widened
from .launch import Task
from .phases import whole_end
from .records import task_function
from .types import bits_of, is_float, like, vector
from .values import Reports, ValueEmitter

ir = LazyModule("llvmlite.ir")

LANES = BATCH


def emit_sort(
    module: Any, plan: SortPlan, target: Target, slots: Mapping[Buffer, int], reports: Reports
) -> Task:
    """Add the task of a sort."""
    sort = plan.sort
    task, e = task_function(module, f"{sort.name}.task", target)
    block, number, _ = task.args

    def pointer(buffer: Buffer | None) -> Any:
        return None if buffer is None else e.load(e.address(block, slots[buffer], e.i64), e.pointer)

    sizes = ValueEmitter(e, {SIZES: pointer(SIZES)} if SIZES in slots else {}, reports)

    def size(given: Any) -> Any:
        """A number, as one of Python's or, where it changes, an i64."""
        return sizes.size(as_index(given))

    memory = _Memory(
        pointer(sort.source),
        pointer(sort.values),
        pointer(sort.positions),
        e.address(pointer(plan.scratch), e.mul(number, size(plan.words)), e.i64),
    )
    per_task = size(plan.rows_per_task)
    begin = e.mul(number, per_task)
    end = e.minimum(e.add(begin, per_task), e.value(size(plan.rows), e.i64))
    emitter = _SortEmitter(e, _sized(sort.shape, size), memory, plan.lanes)
    run = {
        SortMethod.NETWORK: emitter.by_network,
        SortMethod.RADIX: emitter.by_digits,
        SortMethod.SELECT: emitter.by_selection,
    }[plan.method]
    run(begin, end)
    e.builder.ret_void()
    return Task(task.name, plan.tasks, kernel=sort.name)


def _sized(shape: SortShape, size: Callable[[Any], Any]) -> SortShape:
    """The shape with what `size` makes of its numbers."""

    def laid_out(layout: Layout) -> Layout:
        return Layout(tuple(map(size, layout.strides)), size(layout.step), size(layout.offset))

    return replace(
        shape,
        rows=tuple(map(size, shape.rows)),
        length=size(shape.length),
        count=size(shape.count),
        source=laid_out(shape.source),
        values=laid_out(shape.values),
        positions=laid_out(shape.positions),
    )


@dataclass
class _Memory:
    source: Any
    values: Any  # None if nobody asks for them
    positions: Any
    scratch: Any


def _is(given: Any, number: int) -> bool:
    """Whether something is this number of Python's."""
    return isinstance(given, int) and given == number


class _SortEmitter:
    def __init__(self, e: Emitter, sort: SortShape, memory: _Memory, lanes: int) -> None:
        self.e = e
        self.lanes = lanes  # of a selection
        self.sort = sort
        self.memory = memory
        self.element = element_type(e, sort.dtype)
        self.wide = sort.dtype.itemsize > 4
        self.key = e.i64 if self.wide else e.i32

    # Rows.

    def _row_start(self, layout: Layout, row: Any) -> Any:
        """The position of the first element of a row, given by its row-major number."""
        e = self.e
        total: Any = e.value(layout.offset, e.i64)
        step: Any = 1
        pairs = [(n, s) for n, s in zip(self.sort.rows, layout.strides, strict=True) if not _is(n, 1)]
        for number, (size, stride) in enumerate(reversed(pairs)):
            if not _is(stride, 0):
                digit = row if _is(step, 1) else e.builder.udiv(row, e.value(step, e.i64))
                if number + 1 < len(pairs):
                    digit = e.builder.urem(digit, e.value(size, e.i64))
                total = e.add(total, e.mul(digit, stride))
            step = self._product(step, size)
        return total

    def _product(self, a: Any, b: Any) -> Any:
        """Of numbers that may be Python's."""
        return (
            a * b if isinstance(a, int) and isinstance(b, int) else self.e.mul(self.e.value(a, self.e.i64), b)
        )

    def _writer(self, row: Any) -> Callable[[Any, Any], None]:
        """`write(number, position)`: the element at a position of the row goes to the results as number."""
        e, memory, sort = self.e, self.memory, self.sort
        source, values, positions = (
            self._row_start(layout, row) for layout in (sort.source, sort.values, sort.positions)
        )

        def write(number: Any, position: Any) -> None:
            if memory.values is not None:
                kind = e.in_memory(self.element)
                at = e.add(source, e.mul(position, sort.source.step))
                value = e.load(e.address(memory.source, at, kind), kind)
                e.store(value, e.address(memory.values, e.add(values, e.mul(number, sort.values.step)), kind))
            if memory.positions is not None:
                at = e.add(positions, e.mul(number, sort.positions.step))
                e.store(position, e.address(memory.positions, at, e.i64))

        return write

    # Keys.

    def _ordered(self, x: Any) -> Any:
        """Elements as signed integers in their order: NaN last, -0.0 equal to 0.0; reversed if descending."""
        e, dtype = self.e, self.sort.dtype
        x = widened(e, x, dtype)
        key = self._ordered_float(x) if is_float(x.type) else self._ordered_integer(x, dtype)
        return e.not_(key) if self.sort.descending else key

    def _ordered_float(self, x: Any) -> Any:
        e = self.e
        clean = e.select(e.is_nan(x), float("nan"), e.add(x, 0.0))
        bits = e.bits(clean)
        width = bits_of(bits.type)
        sign = e.shift_right(bits, width - 1, signed=True)
        return e.xor(bits, e.and_(sign, (1 << (width - 1)) - 1))

    def _ordered_integer(self, x: Any, dtype: DType) -> Any:
        e = self.e
        if dtype.category is Category.BOOL or (not dtype.is_signed and dtype.itemsize < 4):
            return e.builder.zext(x, like(x.type, self.key))
        key = e.cast(x, self.key)
        return key if dtype.is_signed else e.xor(key, 1 << (bits_of(key.type) - 1))

    def _packed(self, key: Any, position: Any) -> Any:
        """A key of 32 bits and its position as one signed word."""
        e = self.e
        high = e.shift_left(e.builder.sext(key, like(key.type, e.i64)), 32)
        return e.or_(high, position)

    # Networks.

    def by_network(self, begin: Any, end: Any) -> None:
        """Rows in batches; the words of a batch are scratch[element][row], then the positions if apart."""
        e, n = self.e, self.sort.length
        keys = self.memory.scratch
        places = e.address(keys, self._product(n, LANES), e.i64)
        network = self._network()
        with e.loop(begin, end, LANES) as row:
            starts = []
            for lane in range(LANES):
                own = e.minimum(e.add(row, lane), e.sub(end, 1))  # what is left over is sorted again
                starts.append(self._row_start(self.sort.source, own))
            first = e.concatenate(starts)
            with e.loop(0, n) as i:
                at = e.add(first, e.splat(e.mul(i, self.sort.source.step), LANES))
                key = self._ordered(e.gather(self.memory.source, at, self.element))
                place = e.splat(i, LANES)
                words = key if self.wide else self._packed(key, place)
                here = e.mul(i, LANES)
                e.store(words, e.address(keys, here, e.i64), 64)
                if self.wide:
                    e.store(place, e.address(places, here, e.i64), 64)
            e.call(network, [keys, places, e.value(n, e.i64)])
            count = e.minimum(e.i64(LANES), e.sub(end, row))
            with e.loop(0, count) as lane:
                write = self._writer(e.add(row, lane))
                own = e.address(places if self.wide else keys, lane, e.i64)
                with e.loop(0, self.sort.count) as i:
                    position = e.load(e.address(own, e.mul(i, LANES), e.i64), e.i64)
                    write(i, position if self.wide else e.and_(position, 0xFFFFFFFF))

    def _network(self) -> Any:
        name = "sort_network_pairs" if self.wide else "sort_network"
        return self._function(name, [self.e.pointer, self.e.pointer, self.e.i64], None, self._emit_network)

    def _emit_network(self, e: Emitter, keys: Any, places: Any, n: Any) -> None:
        """Merge exchange (Knuth, volume 3, 5.2.2, algorithm M) of n vectors."""
        one = e.i64(1)
        bits = e.intrinsic("ctlz", e.i64, [e.sub(n, 1), e.i1(1)], [e.i64])  # n - 1 is not 0
        top = e.shift_left(one, e.sub(63, bits))

        def outer(p: Any) -> tuple[Any, list[Any]]:
            def inner(q: Any, r: Any, d: Any) -> tuple[Any, list[Any]]:
                # All i below n - d whose bit p is that of r, which is p or 0, by their number j.
                span, high = e.sub(e.sub(n, d), r), e.sub(0, p)
                turns = e.and_(span, e.shift_left(high, 1))
                count = e.add(e.shift_right(turns, 1), e.minimum(e.sub(span, turns), p))
                first, second = (e.address(keys, e.mul(at, LANES), e.i64) for at in (r, e.add(r, d)))
                others = [e.address(places, e.mul(at, LANES), e.i64) for at in (r, e.add(r, d))]
                with e.loop(e.i64(0), count) as j:
                    at = e.mul(e.add(j, e.and_(j, high)), LANES)
                    self._exchange(e, [(first, second), (others[0], others[1])], at)
                return e.compare("!=", q, p), [e.shift_right(q, 1), p, e.sub(q, p)]

            e.repeat([top, e.i64(0), p], inner)
            half = e.shift_right(p, 1)
            return e.compare(">", half, 0), [half]

        with e.when(e.compare(">", n, 1)):
            e.repeat([top], outer)

    def _exchange(self, e: Emitter, arrays: list[tuple[Any, Any]], at: Any) -> None:
        """The smaller words to the first of two places, the larger to the second."""
        kind = vector(e.i64, LANES)
        pairs = [[e.address(array, at, e.i64) for array in pair] for pair in arrays[: 1 + self.wide]]
        words = [[e.load(address, kind, 64) for address in pair] for pair in pairs]
        if not self.wide:
            (first, second), (a, b) = pairs[0], words[0]
            e.store(e.binary_intrinsic("smin", a, b), first, 64)
            e.store(e.binary_intrinsic("smax", a, b), second, 64)
            return
        (a, b), (p, q) = words
        swap = e.or_(e.compare("<", b, a), e.and_(e.compare("==", b, a), e.compare("<", q, p)))
        every = e.builder.sext(swap, kind)
        for (first, second), (x, y) in zip(pairs, words, strict=True):
            # Not by selects: to write back what was there becomes a masked store, which is slow.
            difference = e.and_(e.xor(x, y), every)
            e.store(e.xor(x, difference), first, 64)
            e.store(e.xor(y, difference), second, 64)

    # Digits.

    def by_digits(self, begin: Any, end: Any) -> None:
        """Row by row; scratch holds the counts of the digits and two copies of the words of a row."""
        e, n = self.e, self.sort.length
        digits = 8 if self.wide else 4
        counts = self.memory.scratch
        words = self._product(n, 2) if self.wide else n
        here = e.address(counts, digits * DIGITS, e.i64)
        there = e.address(here, words, e.i64)
        passes = self._passes()
        with e.loop(begin, end) as row:
            with e.loop(0, digits * DIGITS, 8) as i:
                e.store(e.zero(vector(e.i64, 8)), e.address(counts, i, e.i64))
            start = self._row_start(self.sort.source, row)
            with e.loop(0, n) as i:
                at = e.add(start, e.mul(i, self.sort.source.step))
                key = self._ordered(e.load(e.address(self.memory.source, at, self.element), self.element))
                key = e.xor(key, 1 << (bits_of(key.type) - 1))  # as unsigned
                word = key if self.wide else e.or_(e.shift_left(e.builder.zext(key, e.i64), 32), i)
                e.store(word, e.address(here, i, e.i64))
                if self.wide:
                    e.store(i, e.address(here, e.add(i, n), e.i64))
                for digit in range(digits):
                    value = e.and_(e.shift_right(key, 8 * digit), DIGITS - 1)
                    value = value if self.wide else e.builder.zext(value, e.i64)
                    counter = e.address(counts, e.add(value, digit * DIGITS), e.i64)
                    e.store(e.add(e.load(counter, e.i64), 1), counter)
            result = e.call(passes, [counts, here, there, e.value(n, e.i64)])
            write = self._writer(row)
            found = e.address(result, n if self.wide else 0, e.i64)
            with e.loop(0, self.sort.count) as i:
                position = e.load(e.address(found, i, e.i64), e.i64)
                write(i, position if self.wide else e.and_(position, 0xFFFFFFFF))

    def _passes(self) -> Any:
        name = "sort_digits_pairs" if self.wide else "sort_digits"
        pointer = self.e.pointer
        return self._function(name, [pointer, pointer, pointer, self.e.i64], pointer, self._emit_passes)

    def _emit_passes(self, e: Emitter, counts: Any, here: Any, there: Any, n: Any) -> Any:
        """The words sorted by all digits: where they are at last."""
        digits, low = (8, 0) if self.wide else (4, 32)

        def one(digit: Any, source: Any, target: Any) -> tuple[Any, list[Any]]:
            table = e.address(counts, e.mul(digit, DIGITS), e.i64)
            shift = e.add(e.mul(digit, 8), low)

            def value(word: Any) -> Any:
                return e.and_(e.builder.lshr(word, shift), DIGITS - 1)

            def counter(word: Any) -> Any:
                return e.address(table, value(word), e.i64)

            first = e.load(source, e.i64)
            all_equal = e.compare("==", e.load(counter(first), e.i64), n)

            def move() -> list[Any]:
                def start(i: Any, total: Any) -> list[Any]:
                    address = e.address(table, i, e.i64)
                    count = e.load(address, e.i64)
                    e.store(total, address)
                    return [e.add(total, count)]

                e.fold(0, DIGITS, 1, [e.i64(0)], start)
                with e.loop(e.i64(0), n) as i:
                    word = e.load(e.address(source, i, e.i64), e.i64)
                    place = counter(word)
                    at = e.load(place, e.i64)
                    e.store(e.add(at, 1), place)
                    e.store(word, e.address(target, at, e.i64))
                    if self.wide:
                        position = e.load(e.address(source, e.add(i, n), e.i64), e.i64)
                        e.store(position, e.address(target, e.add(at, n), e.i64))
                return [target, source]

            source, target = e.branch(all_equal, lambda: [source, target], move)
            following = e.add(digit, 1)
            return e.compare("<", following, digits), [following, source, target]

        return e.repeat([e.i64(0), here, there], one)[1]

    # Selection.

    def by_selection(self, begin: Any, end: Any) -> None:
        """Row by row; scratch holds the best keys so far, in order, and their positions."""
        e, n, k, lanes = self.e, self.sort.length, self.sort.count, self.lanes
        step = self.sort.source.step
        keys, places = self.memory.scratch, e.address(self.memory.scratch, k, e.i64)
        last = e.sub(e.value(k, e.i64), 1)
        whole = whole_end(e, k, n, lanes)
        with e.loop(begin, end) as row:
            start = self._row_start(self.sort.source, row)

            def key_at(i: Any, lanes: int, start: Any = start) -> Any:
                address = e.address(self.memory.source, e.add(start, e.mul(i, step)), self.element)
                return self._ordered(e.load(address, vector(self.element, lanes)))

            with e.loop(0, k) as i:
                self._insert(keys, places, key_at(i, 1), i, i)

            def last_key() -> Any:
                return e.load(e.address(keys, last, self.key), self.key)

            def consider(i: Any) -> None:
                key = key_at(i, 1)
                with e.when(e.compare("<", key, last_key())):
                    self._insert(keys, places, key, i, last)

            if lanes > 1:
                with e.loop(k, whole, lanes) as i:
                    better = e.compare("<", key_at(i, lanes), e.splat(last_key(), lanes))
                    chosen = e.builder.zext(e.builder.bitcast(better, ir.IntType(lanes)), e.i64)

                    def each(lanes_left: Any, i: Any = i) -> tuple[Any, list[Any]]:
                        lane = e.intrinsic("cttz", e.i64, [lanes_left, e.i1(1)], [e.i64])
                        consider(e.add(i, lane))
                        rest = e.and_(lanes_left, e.sub(lanes_left, 1))
                        return e.compare("!=", rest, 0), [rest]

                    with e.when(e.compare("!=", chosen, 0)):
                        e.repeat([chosen], each)
            with e.loop(whole if lanes > 1 else k, n) as i:
                consider(i)
            write = self._writer(row)
            with e.loop(0, k) as i:
                write(i, e.load(e.address(places, i, e.i64), e.i64))

    def _insert(self, keys: Any, places: Any, key: Any, position: Any, hole: Any) -> None:
        """Put a key among those before `hole`, behind its equals, moving greater ones up."""
        e = self.e
        i64 = e.i64

        def above(j: Any) -> Any:
            return e.and_(
                e.compare(">", j, 0),
                e.compare(">", e.load(e.address(keys, e.maximum(e.sub(j, 1), 0), self.key), self.key), key),
            )

        def shift(j: Any) -> tuple[Any, list[Any]]:
            before = e.sub(j, 1)
            for array, kind in ((keys, self.key), (places, i64)):
                e.store(e.load(e.address(array, before, kind), kind), e.address(array, j, kind))
            return above(before), [before]

        (at,) = e.branch(above(hole), lambda: e.repeat([hole], shift), lambda: [hole])
        e.store(key, e.address(keys, at, self.key))
        e.store(position, e.address(places, at, i64))

    def _function(self, name: str, arguments: list[Any], result: Any, body: Callable[..., Any]) -> Any:
        """An internal function, once a module."""
        found = self.e.module.globals.get(name)
        if found is None:
            kind = ir.FunctionType(result or ir.VoidType(), arguments)
            found = ir.Function(self.e.module, kind, name)
            found.linkage = "internal"
            for attribute in ("noinline", "nounwind"):
                found.attributes.add(attribute)
            inner = Emitter(ir.IRBuilder(found.append_basic_block("entry")), self.e.target)
            value = body(inner, *found.args)
            if result is None:
                inner.builder.ret_void()
            else:
                inner.builder.ret(value)
        return found

"""Lanes and memory: building vectors, reading and writing them, and reducing them to one value."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...core.lazy import LazyModule
from .constants import literal, splat_text
from .conversion import Conversion
from .types import bits_of, element_of, is_bool, lanes_of, like, vector

ir = LazyModule("llvmlite.ir")

CACHE_LINE = 64  # bytes


def alignment(kind: Any) -> int:
    """That of one element, in bytes; complex numbers are aligned as their parts."""
    return min(8, bits_of(kind) // 8)


def poison(kind: Any) -> Any:
    """A value that nobody reads."""
    return literal(kind, "poison")


@functools.lru_cache(1024)
def _mask(lanes: tuple[int, ...]) -> Any:
    """The lanes that a shuffle takes."""
    return ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))


class Memory(Conversion):
    """Vectors to and from memory. Addresses are opaque pointers; bools are bytes in memory."""

    # Lanes.

    def splat(self, x: Any, lanes: int) -> Any:
        """The scalar `x` in every lane."""
        if lanes == 1:
            return x
        kind = vector(x.type, lanes)
        if isinstance(x, ir.FormattedConstant):
            return literal(kind, splat_text(str(x.type), x.constant, lanes))
        if bits_of(x.type) > 64:  # no machine has such lanes: copies of their halves
            halves = self.builder.bitcast(x, vector(self.i64, bits_of(x.type) // 64))
            every = self.shuffle(halves, list(range(lanes_of(halves.type))) * lanes)
            return self.builder.bitcast(every, kind)
        first = self.builder.insert_element(poison(kind), x, self.i32(0))
        return self.shuffle(first, [0] * lanes)

    def extract(self, x: Any, lane: Any) -> Any:
        """One lane, by a number or an integer value; of a scalar, itself."""
        if lanes_of(x.type) == 1:
            return x
        return self.builder.extract_element(x, self.i32(lane) if isinstance(lane, int) else lane)

    def insert(self, x: Any, scalar: Any, lane: Any) -> Any:
        if lanes_of(x.type) == 1:
            return scalar
        return self.builder.insert_element(x, scalar, self.i32(lane) if isinstance(lane, int) else lane)

    def shuffle(self, a: Any, lanes: Sequence[int], b: Any = None) -> Any:
        """A vector of lanes of `a`, then of `b` counted on; a single lane gives a scalar."""
        count = lanes_of(a.type)
        if len(lanes) == 1:
            return self.extract(a, lanes[0]) if lanes[0] < count else self.extract(b, lanes[0] - count)
        if count == 1:
            return self.concatenate([a if lane == 0 else b for lane in lanes])
        return self.builder.shuffle_vector(a, poison(a.type) if b is None else b, _mask(tuple(lanes)))

    def concatenate(self, parts: Sequence[Any]) -> Any:
        """Parts of equal type one after the other, as one vector; their number is a power of two, or they are
        scalars."""
        if lanes_of(parts[0].type) == 1:
            result = poison(vector(parts[0].type, len(parts)))
            for lane, part in enumerate(parts):
                result = self.insert(result, part, lane)
            return result if len(parts) > 1 else parts[0]
        while len(parts) > 1:
            lanes = range(2 * lanes_of(parts[0].type))
            parts = [self.shuffle(a, lanes, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def transpose(self, rows: Sequence[Any]) -> list[Any]:
        """The columns of a square of lanes, whose number is a power of two: blocks beside the diagonal are
        exchanged, of one lane first, then of two, and so on."""
        lanes = lanes_of(rows[0].type)
        found, distance = list(rows), 1
        while distance < lanes:
            first = [lane + lanes - distance if lane & distance else lane for lane in range(lanes)]
            second = [lane + lanes if lane & distance else lane + distance for lane in range(lanes)]
            for i in range(lanes):
                if not i & distance:
                    a, b = found[i], found[i | distance]
                    found[i], found[i | distance] = self.shuffle(a, first, b), self.shuffle(a, second, b)
            distance *= 2
        return found

    def reduce(self, x: Any, combine: Callable[[Any, Any], Any]) -> Any:
        """All lanes combined into a scalar, halving the vector each time: the order is the same on every
        machine.

        e.reduce(x, e.add), e.reduce(x, e.mul); with e.maximum or e.minimum the result is NaN if any lane is.
        """
        leftovers = []
        while (lanes := lanes_of(x.type)) > 1:
            half = lanes // 2
            if lanes % 2:
                leftovers.append(self.extract(x, lanes - 1))
            x = combine(self.shuffle(x, range(half)), self.shuffle(x, range(half, 2 * half)))
        for leftover in reversed(leftovers):
            x = combine(x, leftover)
        return x

    def any(self, mask: Any) -> Any:
        """Whether some lane of a mask is true."""
        lanes = lanes_of(mask.type)
        return mask if lanes == 1 else self.compare("!=", self.builder.bitcast(mask, ir.IntType(lanes)), 0)

    def all(self, mask: Any) -> Any:
        lanes = lanes_of(mask.type)
        return mask if lanes == 1 else self.compare("==", self.builder.bitcast(mask, ir.IntType(lanes)), -1)

    # Memory.

    def address(self, pointer: Any, index: Any, element: Any) -> Any:
        """The address of element number `index`; with a vector of indices, a vector of addresses."""
        element = self.in_memory(element)
        if isinstance(index, int):
            index = self.i64(index)
        if lanes_of(index.type) > 1 and lanes_of(pointer.type) == 1:
            pointer = self.splat(pointer, lanes_of(index.type))
        return self.builder.gep(pointer, [index], source_etype=element, inbounds=True)

    def in_memory(self, element: Any) -> Any:
        """The element type that memory holds."""
        return self.i8 if is_bool(element) else element

    def local(self, kind: Any) -> Any:
        """Memory on the stack for one value of a type, reserved once for the whole function."""
        with self.builder.goto_entry_block():
            slot = self.builder.alloca(kind)
        return literal(self.pointer, slot.get_reference())  # llvmlite's own pointer would still have a type

    def load(self, pointer: Any, kind: Any, align: int | None = None) -> Any:
        """Contiguous lanes of a type; `align` in bytes, that of one element if not given."""
        stored = like(kind, self.in_memory(element_of(kind)))
        x = self.builder.load(pointer, align=align or alignment(stored), typ=stored)
        return self._from_memory(x, kind)

    def fetch(self, address: Any, count: int, *, write: bool) -> None:
        """Ask for the cache lines of `count` bytes, to be read or written soon; it cannot fault."""
        prefetch = self.declare("llvm.prefetch.p0", ir.VoidType(), [self.pointer, *[self.i32] * 3])
        for line in range(0, count, CACHE_LINE):
            at = self.address(address, line, self.i8) if line else address
            self.builder.call(prefetch, [at, self.i32(int(write)), self.i32(3), self.i32(1)])  # to stay; data

    def store(self, x: Any, pointer: Any, align: int | None = None) -> Any:
        x = self._to_memory(x)
        return self.builder.store(x, pointer, align=align or alignment(x.type))

    def store_streamed(self, x: Any, pointer: Any) -> None:
        """Store a vector past the caches. Its address must be a multiple of its size, or of a register's if
        it has several."""
        align = min(lanes_of(x.type) * bits_of(x.type) // 8, self.target.vector_bytes)
        kind = self.module.add_metadata([self.i32(1)])
        self.builder.store(x, pointer, align=align).set_metadata("nontemporal", kind)

    def _from_memory(self, x: Any, kind: Any) -> Any:
        return self.compare("!=", x, 0) if is_bool(kind) else x

    def _to_memory(self, x: Any) -> Any:
        return self.builder.zext(x, like(x.type, self.i8)) if is_bool(x.type) else x

    def load_masked(
        self, pointer: Any, kind: Any, mask: Any, align: int | None = None, other: Any = None
    ) -> Any:
        """The lanes where `mask` is true, 0 or `other` in the rest, whose memory is not touched.

        Quick where target.has_masked_memory; elsewhere LLVM makes a branch a lane of it.
        """
        stored = like(kind, self.in_memory(element_of(kind)))
        rest = self.zero(stored) if other is None else self._to_memory(other)
        if lanes_of(kind) == 1:
            return self.branch(
                mask, lambda: [self.load(pointer, kind, align)], lambda: [self._from_memory(rest, kind)]
            )[0]
        arguments = [pointer, self.i32(align or alignment(stored)), mask, rest]
        x = self.intrinsic("masked.load", stored, arguments, [stored, pointer.type])
        return self._from_memory(x, kind)

    def store_masked(self, x: Any, pointer: Any, mask: Any, align: int | None = None) -> None:
        x = self._to_memory(x)
        if lanes_of(x.type) == 1:
            with self.when(mask):
                self.store(x, pointer, align)
            return
        arguments = [x, pointer, self.i32(align or alignment(x.type)), mask]
        self.intrinsic("masked.store", ir.VoidType(), arguments, [x.type, pointer.type])

    def gather(self, pointer: Any, index: Any, element: Any, mask: Any = None) -> Any:
        """Element index[k] in lane k; 0 where `mask` is false, whose memory is not touched."""
        kind = like(index.type, element)
        if lanes_of(kind) == 1:
            address = self.address(pointer, index, element)
            return self.load(address, kind) if mask is None else self.load_masked(address, kind, mask)
        stored = like(kind, self.in_memory(element))
        addresses = self.address(pointer, index, element)
        mask = self.true(index) if mask is None else mask
        arguments = [addresses, self.i32(alignment(stored)), mask, self.zero(stored)]
        return self._from_memory(
            self.intrinsic("masked.gather", stored, arguments, [stored, addresses.type]), kind
        )

    def scatter(self, x: Any, pointer: Any, index: Any, mask: Any = None) -> None:
        """Lane k to element index[k]; of equal indices the last lane is kept."""
        if lanes_of(x.type) == 1:
            address = self.address(pointer, index, x.type)
            if mask is None:
                self.store(x, address)
            else:
                self.store_masked(x, address, mask)
            return
        addresses = self.address(pointer, index, element_of(x.type))
        x = self._to_memory(x)
        mask = self.true(x) if mask is None else mask
        arguments = [x, addresses, self.i32(alignment(x.type)), mask]
        self.intrinsic("masked.scatter", ir.VoidType(), arguments, [x.type, addresses.type])

    def load_strided(self, pointer: Any, stride: int | Any, kind: Any) -> Any:
        """Lanes that are `stride` elements apart, a number or an i64 value."""
        lanes = lanes_of(kind)
        if isinstance(stride, int) and abs(stride) <= 1:
            if stride == 0:
                return self.splat(self.load(pointer, element_of(kind)), lanes)
            if stride == 1:
                return self.load(pointer, kind)
            first = self.address(pointer, 1 - lanes, element_of(kind))
            return self.shuffle(self.load(first, kind), range(lanes - 1, -1, -1))
        element = element_of(kind)
        addresses = self._strided(pointer, stride, element, lanes)
        return self.concatenate([self.load(address, element) for address in addresses])

    def store_strided(self, x: Any, pointer: Any, stride: int | Any) -> None:
        lanes, element = lanes_of(x.type), element_of(x.type)
        if isinstance(stride, int) and stride == 1:
            self.store(x, pointer)
            return
        for lane, address in enumerate(self._strided(pointer, stride, element, lanes)):
            self.store(self.extract(x, lane), address)

    def _strided(self, pointer: Any, stride: int | Any, element: Any, lanes: int) -> list[Any]:
        if isinstance(stride, int):
            steps: list[Any] = [lane * stride for lane in range(lanes)]
        else:
            steps = [self.mul(stride, lane) for lane in range(lanes)]
        return [self.address(pointer, step, element) for step in steps]

    def tail_mask(self, remaining: Any, lanes: int) -> Any:
        """True in the first `remaining` lanes, an integer value that may exceed their number."""
        if lanes == 1:
            return self.compare(">", remaining, 0)
        # Narrow lanes compare as wide as the data they mask; the number is cut down before it is.
        few = self.select(self.compare("<", remaining, lanes), remaining, lanes)
        narrow = self.cast(few, self.i32)
        return self.compare("<", self.iota(vector(self.i32, lanes)), self.splat(narrow, lanes))

    # Control that memory operations of one lane need; defined in control.py.

    def branch(
        self, condition: Any, then: Callable[[], Sequence[Any]], otherwise: Callable[[], Sequence[Any]]
    ) -> list[Any]:
        raise NotImplementedError

    def when(self, condition: Any) -> Any:
        raise NotImplementedError

"""Tensors in the course of lowering.

A `Lowered` is a function from an index to the expression of that element. Views and pointwise operators only
compose such functions, so they cost nothing; `realize` turns one into a `Map` definition that computes a
buffer, and `reduce` makes a `Reduction`. A `Lowerer` collects the definitions of one graph in order. Nothing
here decides how loops run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.atoms import Dim
from ..core.dtypes import DTYPES, DType
from ..core.index import Index, Quotient, Remainder, Var, as_index, dot
from ..core.quiet import quietly
from ..core.shapes import (
    Spec,
    contiguous_strides,
    memory_order,
    numel,
    reduced_shape,
    strides_in_order,
    surely_dense,
)
from ..core.symbols import exact, hint, hint_of, is_size, size_of
from ..kernels.creation import filled
from ..loops.definitions import Definition, Map, Reduction
from ..loops.expr import Expr, NotRecordable, Recorder, cost, loads_in, operands_of
from ..loops.native import has_native_code
from ..loops.nest import Buffer, Combine, MemoryKind
from .cost import CHEAP, CHEAP_INDEX, CHEAPER_THAN_MEMORY, LARGE, MANY_TIMES

Indices = tuple[Index, ...]
Element = Callable[[Indices], Expr]


class Lowerer:
    """The definitions of one graph, in an order in which they may run."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.definitions: list[Definition] = []
        self.buffers: list[Buffer] = []
        self._points: dict[tuple[Any, ...], tuple[Var, ...]] = {}
        self._checked: set[Expr] = set()
        self.permuted: set[Buffer] = set()  # that lie in another order than their tensor's strides say
        # copies of operands of products, by shape and element at the sample point
        self.operands: dict[tuple[tuple[int, ...], Expr], tuple[Buffer, tuple[int, ...], int]] = {}

    def fresh_buffer(
        self,
        dtype: DType,
        shape: Sequence[int],
        memory: MemoryKind = MemoryKind.TEMPORARY,
        name: str | None = None,
    ) -> Buffer:
        size = as_index(1)
        for extent in shape:
            size = size * extent
        buffer = Buffer(name or f"buf{len(self.buffers)}", dtype, size, memory)
        self.buffers.append(buffer)
        return buffer

    def check(self, expr: Expr) -> None:
        """Raise NotRecordable if `expr` has an instruction without native code."""
        left = [expr]
        while left:
            node = left.pop()
            if node not in self._checked:
                if not has_native_code(node):
                    raise NotRecordable(f"{node.op} of {node.dtype.name}")
                self._checked.add(node)
                left.extend(operands_of(node))

    def variables(self, shape: Sequence[int], letter: str = "i") -> tuple[Var, ...]:
        """Loop variables that run over `shape`, the same ones each time: what is worked out for one definition,
        or for a look at an element, is then known for others. Loops of one definition that run over different
        dimensions have different letters."""
        key = (letter, *shape)
        found = self._points.get(key)
        if found is None:
            found = tuple(Var(f"{letter}{d}", extent) for d, extent in enumerate(shape))
            self._points[key] = found
        return found

    def sample_point(self, shape: Sequence[int]) -> tuple[Var, ...]:
        """Loop variables over `shape`, for expressions that are only looked at."""
        return self.variables(shape)

    def stored(
        self,
        buffer: Buffer,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        offset: int = 0,
        *,
        dense: bool = False,
    ) -> Lowered:
        """The tensor that `buffer` holds; `dense`: it is known to fill it."""
        steps = contiguous_strides(shape) if strides is None else tuple(strides)
        whole = exact(offset) == 0 and (dense or strides is None or surely_dense(shape, steps))
        return Lowered(
            self,
            tuple(shape),
            buffer.dtype,
            lambda index: self.recorder.load_at(buffer, dot(index, steps, offset), buffer.dtype),
            buffer if whole else None,
            steps if whole else None,
        )

    def generated(self, shape: Sequence[int], dtype: DType, element: Element) -> Lowered:
        """The tensor whose elements are `element(index)`."""
        return Lowered(self, tuple(shape), dtype, element)

    def full(self, shape: Sequence[int], value: Any, dtype: DType) -> Lowered:
        """`value`, converted as the eager kernels convert it, in every element."""
        if is_size(value):
            ops = self.recorder
            size = ops.cast(ops.number(value, DTYPES["int64"]), dtype)
            return self.generated(shape, dtype, lambda index: size)
        number = self.recorder.number(quietly(filled, Spec((), dtype), value).item(), dtype)
        return self.generated(shape, dtype, lambda index: number)


def _is_number(index: Index) -> bool:
    """Whether an index is the same everywhere: a number, or an expression of sizes."""
    return all(isinstance(atom, Dim | Quotient | Remainder) for atom in index.atoms())


def _in_order(shape: Sequence[int]) -> tuple[int, ...]:
    """Contiguous strides; of sizes that change, without a question whether one is 0 or 1."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size if is_size(size) else max(size, 1)
    return tuple(reversed(strides))


class Lowered:
    """A tensor as a function of its index."""

    __slots__ = ("_element", "_expanded", "_loaded", "buffer", "dtype", "owner", "shape", "strides")

    def __init__(
        self,
        owner: Lowerer,
        shape: tuple[int, ...],
        dtype: DType,
        element: Element,
        buffer: Buffer | None = None,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.owner = owner
        self.shape = shape
        self.dtype = dtype
        self._element = element
        self._loaded: dict[Indices, Expr] = {}
        self._expanded: dict[tuple[int, ...], Lowered] = {}
        self.buffer = buffer  # holds all of it, laid out by `strides`
        # how it is, or should be, laid out
        self.strides = _in_order(shape) if strides is None else strides

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def load(self, index: Sequence[Any]) -> Expr:
        """The element at `index`.

        Asked for again, it is not worked out again, so long chains cost no more than short.
        """
        key = tuple([i if type(i) is Index else as_index(i) for i in index])
        found = self._loaded.get(key)
        if found is None:
            found = self._loaded[key] = self._element(key)
        return found

    def know(self, index: Indices, element: Expr) -> None:
        """The element at `index` was worked out already."""
        self._loaded[index] = element

    # Functions of functions.

    def reindex(self, shape: Sequence[int], function: Callable[[Indices], Sequence[Any]]) -> Lowered:
        """The tensor of `shape` whose element at i is this tensor's at function(i)."""
        return Lowered(self.owner, tuple(shape), self.dtype, lambda index: self.load(function(index)))

    def gathered(self, shape: Sequence[int], function: Callable[[Indices], Sequence[Index]]) -> Lowered:
        """As `reindex`, at indices that are data, all of which are checked."""

        def element(index: Indices) -> Expr:
            places = function(index)
            return self.owner.recorder.keep_checks(self.load(places), places)

        return Lowered(self.owner, tuple(shape), self.dtype, element)

    def expand(self, shape: Sequence[int]) -> Lowered:
        """Broadcast to `shape`.

        What is costly to compute is stored first, since each element is used many times.
        """
        whole = exact(tuple(shape))
        if whole == exact(self.shape):
            return self
        known = self._expanded.get(whole)
        if known is not None:
            return known
        lead = len(shape) - self.ndim
        source = self.cheap()
        if source.buffer is None and hint(numel(shape)) >= MANY_TIMES * hint(numel(self.shape)):
            expr = self.example()
            if cost(expr) >= CHEAP and loads_in(expr):
                source = source.realize()
        result = source.reindex(
            shape, lambda index: [0 if source.shape[d] == 1 else index[lead + d] for d in range(source.ndim)]
        )
        if source is self:  # a rule that gives up takes back what it has stored
            self._expanded[whole] = result
        return result

    def map(self, function: Callable[..., Expr], dtype: DType, *others: Lowered) -> Lowered:
        """Elementwise: function(ops, self element, other elements...); all of one shape."""
        return Lowered(
            self.owner,
            self.shape,
            dtype,
            lambda index: function(
                self.owner.recorder, self.load(index), *[other.load(index) for other in others]
            ),
        )

    def cast(self, dtype: DType) -> Lowered:
        return self if dtype is self.dtype else self.map(lambda ops, x: ops.cast(x, dtype), dtype)

    def reshape(self, shape: Sequence[int]) -> Lowered:
        """The same elements in row-major order under another shape."""
        if exact(tuple(shape)) == exact(self.shape):
            return self
        strides, sizes = contiguous_strides(shape), self.shape
        steps = contiguous_strides(sizes)

        def position(index: Indices) -> list[Index]:
            flat = dot(index, strides)
            return [
                flat // step % size if size > 1 else as_index(0)
                for step, size in zip(steps, sizes, strict=True)
            ]

        return self.reindex(shape, position)

    # Definitions.

    def example(self) -> Expr:
        """An element at a symbolic index, to look at."""
        return self.load(self.owner.sample_point(self.shape))

    def placed(self) -> tuple[Buffer, tuple[int, ...], int] | None:
        """(buffer, strides, offset) if this is a strided view of one stored buffer, else None."""
        variables = self.owner.variables(self.shape)
        expr = self.load(variables)
        if expr.op != "load" or expr.data.indirect:
            return None
        index = expr.data.index
        steps = [index.stride(var) for var in variables]
        offset = index.substitute(dict.fromkeys(variables, 0))
        if not _is_number(offset) or any(step is None or not _is_number(step) for step in steps):
            return None
        return expr.data.buffer, tuple(size_of(step) for step in steps if step is not None), size_of(offset)

    def cheap(self) -> Lowered:
        """Itself if an element is cheap to compute again, else a stored copy."""
        if self.buffer is not None:
            return self
        expr = self.example()
        return self if cost(expr) <= (CHEAP if loads_in(expr) else CHEAP_INDEX) else self.realize()

    def shared(self, users: int) -> Lowered:
        """For a value with several users: stored unless it is cheap and reads little."""
        if self.buffer is not None or users <= 1:
            return self
        expr = self.example()
        if cost(expr) <= CHEAP and len(loads_in(expr)) <= 1:
            return self
        return self if self._is_light(expr) else self.realize()

    def _is_light(self, expr: Expr) -> bool:
        """Whether computing a large tensor again, of little more than one that lies in memory anyway, beats
        storing and reading it. What a product makes in its epilogue costs no memory traffic, so only tensors
        beyond those count."""
        elements, loads = hint(numel(self.shape)), loads_in(expr)
        large = {access.buffer for access in loads if 2 * hint_of(access.buffer.size) >= elements}
        return (
            elements >= LARGE
            and len(large) == 1
            and large <= self.owner.permuted
            and (cost(expr) <= CHEAPER_THAN_MEMORY and not any(access.indirect for access in loads))
        )

    def laid_out(self, strides: tuple[int, ...]) -> Lowered:
        """The same tensor, to be stored with these (dense) strides if it is stored."""
        if self.buffer is not None or exact(self.strides) == exact(strides):
            return self
        result = Lowered(self.owner, self.shape, self.dtype, self._element, None, strides)
        result._loaded = self._loaded  # the elements are the same
        return result

    def realize(self, buffer: Buffer | None = None) -> Lowered:
        """Computed into a buffer (the given one, or a new temporary), in the memory order of `strides`."""
        if self.buffer is not None and buffer is None:
            return self
        owner = self.owner
        target = buffer or owner.fresh_buffer(self.dtype, self.shape)
        order = memory_order(self.shape, self.strides)
        variables = owner.variables([self.shape[d] for d in order])
        index = [variables[order.index(d)] for d in range(self.ndim)]
        owner.definitions.append(Map(target, variables, self.load(index)))
        return owner.stored(target, self.shape, strides_in_order(self.shape, order), dense=True)

    def contiguous(self) -> Lowered:
        """In a buffer of its own, contiguous."""
        if self.buffer is not None and self.strides == contiguous_strides(self.shape):
            return self
        return Lowered(self.owner, self.shape, self.dtype, self.load).realize()

    def reduce(
        self, dims: Sequence[int], combine: Combine, keepdim: bool, dtype: DType | None = None
    ) -> Lowered:
        """Folded over `dims` (wrapped).

        ARG_ reductions give the row-major position inside the reduced dimensions.
        """
        owner = self.owner
        wide = self.dtype.opmath
        if wide is not self.dtype:  # narrow floats are folded as floats, and rounded once
            folded = self.cast(wide).reduce(dims, combine, keepdim)
            return folded.cast(dtype or self.dtype) if folded.dtype is wide else folded
        kept = [d for d in range(self.ndim) if d not in dims]
        outer = owner.variables([self.shape[d] for d in kept])
        inner = owner.variables([self.shape[d] for d in dims], "k")
        index: list[Any] = [0] * self.ndim
        for d, var in zip(kept, outer, strict=True):
            index[d] = var
        for d, var in zip(dims, inner, strict=True):
            index[d] = var
        result = (
            DTYPES["int64"] if combine in (Combine.ARG_MAXIMUM, Combine.ARG_MINIMUM) else dtype or self.dtype
        )
        shape = reduced_shape(self.shape, tuple(dims), keepdim)
        target = owner.fresh_buffer(result, shape)
        value = self.load(index)
        owner.check(value)
        owner.definitions.append(Reduction(target, outer, inner, combine, value))
        return owner.stored(target, shape)

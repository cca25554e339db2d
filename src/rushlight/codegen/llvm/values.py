"""The values of expressions at a point of the loops, or at as many points as there are lanes.

`ValueEmitter` knows where the loops are (`env`), which of them runs in vectors and how many lanes a vector has,
and emits loads, stores, index arithmetic and instructions for that place. With a `mask`, only the lanes where
it is true touch memory or report errors.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from ...core.atoms import Dim
from ...core.dtypes import DType
from ...core.index import Below, Index, Indirect, Quotient, Remainder, Var, as_index
from ...core.lazy import LazyModule
from ...loops.expr import Access, Expr, IndexCheck, walk
from ...loops.nest import ERRORS, SIZES, Buffer, Store
from ...plan.sharing import Instructions, is_costly
from .constants import integer_of
from .emitter import Emitter
from .instructions import COMPARE, constant, element_type, emit_instruction
from .sizes import load_size, position_of
from .types import lanes_of, mangle, vector

ir = LazyModule("llvmlite.ir")

FAR = 1 << 30  # more than lanes of one vector are apart
NEAR = FAR // 4  # so that twice that, less that, is not far
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

Memo = dict[Expr, Any]


class Reports:
    """Errors that generated code may find, by number; 0 stands for none."""

    def __init__(self) -> None:
        self.errors: list[tuple[type[Exception], str]] = []

    def number(self, check: IndexCheck) -> int:
        """Of an index that is out of range."""
        return self.number_of(check.error, f"{check.place}: {check.message}")

    def number_of(self, error: type[Exception], message: str) -> int:
        if (error, message) not in self.errors:
            self.errors.append((error, message))
        return self.errors.index((error, message)) + 1


def compares_places(node: Expr) -> bool:
    """Whether an index is compared with an integer."""
    return (
        node.op in COMPARE
        and any(a.op == "index" for a in node.args)
        and all(a.dtype.name == "int64" for a in node.args)
    )


class ValueEmitter:
    """Emits values and memory accesses for the loops of one nest."""

    def __init__(
        self, e: Emitter, pointers: dict[Buffer, Any], reports: Reports, shared: Instructions = frozenset()
    ) -> None:
        self.e = e
        self.pointers = pointers
        self.reports = reports
        self.shared = shared  # (instruction, dtype) whose code the module has once
        self.env: dict[Any, Any] = {}
        self.vector_var: Var | None = None
        self.lanes = 1
        self.mask: Any = None
        self.reduced: dict[str, Any] = {}
        self.streamed: Collection[Buffer] = ()  # whose vectors are whole, and are stored past the caches
        self.innermost: Var | None = None
        self.starts: dict[tuple[Buffer, Index], Any] = {}  # addresses where the innermost loop begins

    def place(self, var: Var, index: Any, lanes: int, mask: Any = None) -> None:
        """From here on `var` is at `index`, and in the lanes after the first at what follows."""
        self.env[var] = index
        self.vector_var, self.lanes, self.mask = var, lanes, mask

    def leave(self) -> None:
        """No loop runs in vectors from here on."""
        self.vector_var, self.lanes, self.mask = None, 1, None

    # Values.

    def evaluate(self, expr: Expr, memo: Memo) -> Any:
        if expr in memo:
            return memo[expr]
        for node in walk(expr):
            if node not in memo:
                memo[node] = self._emit(node, memo)
        return memo[expr]

    def spread(self, value: Any) -> Any:
        """`value` in every lane of the loop that runs in vectors."""
        return value if lanes_of(value.type) > 1 else self.e.splat(value, self.lanes)

    def _emit(self, node: Expr, memo: Memo) -> Any:
        e = self.e
        if node.op == "constant":
            return constant(e, node.data[1], node.dtype)
        if node.op == "load":
            return self._load(node.data, node.dtype, memo)
        if node.op == "index":
            lanes = self.vector_var is not None and node.data.depends_on(self.vector_var)
            value = self.index_lanes(node.data) if lanes else self.index(node.data)
            return e.cast(value, element_type(e, node.dtype))
        if node.op == "reduced":
            return self.reduced[node.data]
        if node.op == "checked_index":
            return self._checked(memo[node.args[0]], *node.data)
        if node.op == "checked_divisor":
            return self._checked_divisor(memo[node.args[0]])
        if node.op == "checked":
            value, allowed = (memo[a] for a in node.args)
            self.report(e.not_(allowed), self.reports.number_of(RuntimeError, node.data))
            return value
        if compares_places(node):
            found = self._compared_places(node, memo)
            if found is not None:
                return found
        values = [memo[a] for a in node.args]
        lanes = max(lanes_of(v.type) for v in values)
        # A condition that is the same in all lanes chooses between vectors, by a branch.
        whole = 1 if node.op == "where" and not node.dtype.is_complex else 0
        values = [
            v if i < whole or lanes_of(v.type) == lanes else e.splat(v, lanes) for i, v in enumerate(values)
        ]
        if (node.op, node.dtype) in self.shared and is_costly(node):
            return self._call_shared(node, values)
        return emit_instruction(e, node, values)

    def _compared_places(self, node: Expr, memo: Memo) -> Any:
        """Indices that change from lane to lane by one number compared with each other or with a number that
        is the same in all lanes; None if that is not what is compared.

        In lanes of 32 bits, of which as many fit in a register as of floats: what is far from 0 in the first
        lane is so in all.
        """
        e = self.e
        left, right = node.args
        if left.op == right.op:
            return self._compared_with_zero(COMPARE[node.op], left.data - right.data)
        place, other = (left, right) if left.op == "index" else (right, left)
        number, (low, high) = memo[other], place.data.bounds()
        if lanes_of(number.type) > 1 or low < -NEAR or high > NEAR:
            return None
        op = COMPARE[node.op] if place is left else MIRRORED[COMPARE[node.op]]
        return self._compared_with_zero(op, place.data, e.clamp_integer(number, -2 * NEAR, 2 * NEAR))

    def _compared_with_zero(self, op: str, index: Index, less: Any = None) -> Any:
        """An index, less a number, compared with 0; None unless lanes differ by the same number each."""
        e, step = self.e, self.stride(index)
        if self.lanes == 1 or not step or abs(step) * self.lanes >= FAR:
            return None
        first = self.index(index)
        if less is not None:
            first = e.sub(first, less)
        elif index.bounds()[0] < -FAR or index.bounds()[1] > FAR:
            first = e.clamp_integer(first, -FAR, FAR)
        return e.compare(
            op,
            e.splat(e.cast(first, e.i32), self.lanes),
            e.constant_lanes([-step * lane for lane in range(self.lanes)], e.i32),
        )

    def _call_shared(self, node: Expr, values: list[Any]) -> Any:
        """A call of the function that the module has for an instruction."""
        kinds = [v.type for v in values]
        name = f"{node.op}.{'.'.join(map(mangle, kinds))}"
        function = self.e.module.globals.get(name)
        if function is None:
            function = ir.Function(self.e.module, ir.FunctionType(kinds[0], kinds), name)
            function.linkage = "internal"
            for attribute in ("noinline", "nounwind"):
                function.attributes.add(attribute)
            inner = Emitter(ir.IRBuilder(function.append_basic_block("entry")), self.e.target)
            inner.builder.ret(emit_instruction(inner, node, list(function.args)))
        return self.e.call(function, values)

    def _checked(self, value: Any, extent: int, check: IndexCheck) -> Any:
        """An index brought into 0..extent-1.

        One that was outside of it is reported, and 0 is used in its place.
        """
        e = self.e
        limit = self.size(as_index(extent))
        extent = limit if isinstance(limit, int) else e.splat(limit, lanes_of(value.type))
        wrapped = e.select(e.compare("<", value, 0), e.add(value, extent), value) if check.negative else value
        inside = e.compare("<", wrapped, extent, signed=False)
        self.report(e.not_(inside), self.reports.number(check))
        return e.select(inside, wrapped, 0)

    def _checked_divisor(self, value: Any) -> Any:
        """An integer divisor; where it is 0, which is reported, 1."""
        zero = self.e.compare("==", value, 0)
        self.report(
            zero,
            self.reports.number_of(RuntimeError, "ZeroDivisionError: integer division or modulo by zero"),
        )
        return self.e.select(zero, 1, value)

    def report(self, wrong: Any, number: int) -> None:
        """Where any lane is wrong, that is what the program reports."""
        e = self.e
        if self.mask is not None and lanes_of(wrong.type) > 1:
            wrong = e.and_(wrong, self.mask)
        with e.when(e.any(wrong)):
            e.store(e.constant(number, e.i64), self.pointers[ERRORS])

    # Memory.

    def stride(self, index: Index) -> int | None:
        """Elements between lanes: 0 for one lane, None if it is not the same everywhere, or no number."""
        if self.vector_var is None or self.lanes == 1:
            return 0
        step = index.stride(self.vector_var)
        return None if step is None else step.constant_value()

    def _load(self, access: Access, dtype: DType, memo: Memo) -> Any:
        e = self.e
        pointer, element = self.pointers[access.buffer], element_type(e, dtype)
        for atom, expr in access.indirect:
            self.env[atom] = memo[expr]
        stride = self.stride(access.index)
        if any(lanes_of(memo[expr].type) > 1 for _, expr in access.indirect):
            stride = None
        if stride is None:
            return e.gather(pointer, self.index_lanes(access.index), element, self.mask)
        address = self._address(access)
        if stride == 0:
            return e.load(address, element)
        kind = vector(element, self.lanes)
        if self.mask is not None:
            return (
                e.load_masked(address, kind, self.mask)
                if stride == 1
                else e.gather(pointer, self.index_lanes(access.index), element, self.mask)
            )
        return e.load_strided(address, stride, kind)

    def store(self, statement: Store, value: Any, memo: Memo) -> None:
        e = self.e
        access = statement.access
        for atom, expr in access.indirect:
            self.env[atom] = self.evaluate(expr, memo)
        stride = self.stride(access.index)
        if stride == 0:
            e.store(e.extract(value, 0), self._address(access))
            return
        value = self.spread(value)
        if stride is None or (self.mask is not None and stride != 1):
            e.scatter(value, self.pointers[access.buffer], self.index_lanes(access.index), self.mask)
            return
        address = self._address(access)
        if self.mask is not None:
            e.store_masked(value, address, self.mask)
        elif access.buffer in self.streamed:
            e.store_streamed(value, address)
        else:
            e.store_strided(value, address, stride)

    def fetch(self, access: Access, lanes: int, *, write: bool) -> None:
        """Ask for the cache lines that so many lanes will read or write."""
        self.e.fetch(self._address(access), lanes * access.buffer.dtype.itemsize, write=write)

    @contextlib.contextmanager
    def along(self, var: Var, accesses: Iterable[Access]) -> Iterator[None]:
        """`with values.along(var, accesses):` the innermost loop, along `var`.

        What does not change in it of the addresses is computed before it: LLVM would not always see that.
        """
        e = self.e
        self.innermost = var
        for access in accesses:
            still, _ = _parted(access.index, var)
            inside = still.terms and still.bounds()[0] >= 0  # where alone it is an address in the buffer
            if inside and not access.indirect and (access.buffer, still) not in self.starts:
                self.starts[access.buffer, still] = e.address(
                    self.pointers[access.buffer], self.index(still), element_type(e, access.buffer.dtype)
                )
        yield
        self.innermost, self.starts = None, {}

    def _address(self, access: Access) -> Any:
        """Of an access, at the first lane."""
        index, start = access.index, None
        if self.innermost is not None:
            still, moving = _parted(index, self.innermost)
            start = self.starts.get((access.buffer, still))
            index = index if start is None else moving
        return self.e.address(
            self.pointers[access.buffer] if start is None else start,
            self.index(index),
            element_type(self.e, access.buffer.dtype),
        )

    # Index arithmetic.

    def index(self, index: Index) -> Any:
        """An index at the first lane, as an i64."""
        return self._polynomial(index, self._atom)

    def _atom(self, atom: Any) -> Any:
        e = self.e
        if isinstance(atom, Quotient):
            return _floor_divided(e, self.index(atom.value), self._divisor(atom.divisor), atom.value)
        if isinstance(atom, Remainder):
            return _remainder(e, self.index(atom.value), self._divisor(atom.divisor), atom.value)
        return e.value(self._place_of(atom), e.i64)

    def _divisor(self, divisor: Index) -> Any:
        """A divisor; where a size that is data may be 0, and no loop over it runs, 1 in its place: the division
        may be done all the same."""
        value = self.index(divisor)
        return value if divisor.bounds()[0] > 0 else self.e.maximum(value, self.e.constant(1, self.e.i64))

    def _place_of(self, atom: Any) -> Any:
        """Where a loop is, or the size that a symbol stands for."""
        if isinstance(atom, Dim) and atom not in self.env:
            with self.e.builder.goto_entry_block():
                self.env[atom] = load_size(self.e, self.pointers[SIZES], position_of(atom))
        return self.env[atom]

    def size(self, index: Index) -> Any:
        """An expression of sizes: a Python number if it is one, else an i64."""
        number = index.constant_value()
        return self.index(index) if number is None else number

    def index_lanes(self, index: Index) -> Any:
        """An index in each lane, as a vector of i64."""
        e, lanes = self.e, self.lanes
        if lanes == 1:
            return self.index(index)
        stride = self.stride(index)
        if stride is not None and not self._loaded_in_lanes(index):
            first = e.splat(self.index(index), lanes)
            return first if stride == 0 else e.add(first, e.mul(e.iota(vector(e.i64, lanes)), stride))
        return self._polynomial(index, self._atom_lanes, lanes)

    def _loaded_in_lanes(self, index: Index) -> bool:
        """Whether an index that was loaded differs from lane to lane."""
        return any(isinstance(atom, Indirect) and lanes_of(self.env[atom].type) > 1 for atom in index.atoms())

    def _atom_lanes(self, atom: Any) -> Any:
        e, lanes = self.e, self.lanes
        if isinstance(atom, Quotient):
            divisor = e.splat(self._divisor(atom.divisor), lanes)
            return _floor_divided(e, self.index_lanes(atom.value), divisor, atom.value)
        if isinstance(atom, Remainder):
            divisor = e.splat(self._divisor(atom.divisor), lanes)
            return _remainder(e, self.index_lanes(atom.value), divisor, atom.value)
        value = e.value(self._place_of(atom), e.i64)
        if lanes_of(value.type) > 1:
            return value
        value = e.splat(value, lanes)
        return e.add(value, e.iota(vector(e.i64, lanes))) if atom == self.vector_var else value

    def _polynomial(self, index: Index, atom_value: Callable[[Any], Any], lanes: int = 1) -> Any:
        e = self.e
        if not index.fixed:
            return self._with_sizes(index, atom_value, lanes)
        total: Any = None
        for monomial, coefficient in index.ordered():
            if not monomial:
                continue
            term: Any = None
            for atom in monomial:
                value = atom_value(atom)
                term = value if term is None else e.mul(term, value)
            if coefficient != 1:
                term = e.mul(term, coefficient)
            total = term if total is None else e.add(total, term)
        if total is None:
            return e.constant(index.constant, vector(e.i64, lanes))
        return e.add(total, index.constant) if index.constant else total

    def _with_sizes(self, index: Index, atom_value: Callable[[Any], Any], lanes: int) -> Any:
        """The same where sizes change: terms with the same loops have one factor, which is worked out once."""
        e = self.e
        total: Any = None
        for loops, factor in _by_loops(index):
            size = self._size(factor)
            term: Any = size if isinstance(size, int) else e.splat(size, lanes)
            if loops:
                product = functools.reduce(e.mul, map(atom_value, loops))
                term = product if size == 1 else e.mul(product, term)
            total = term if total is None else e.add(total, term)
        return total

    def _size(self, index: Index) -> Any:
        """An expression of sizes alone: a Python number, or an i64 that is computed where the function begins."""
        number = index.constant_value()
        if number is not None:
            return number
        if index not in self.env:
            total: Any = None
            for monomial, coefficient in index.ordered():
                factors = [self._size_atom(atom) for atom in monomial]
                with self.e.builder.goto_entry_block():
                    if not factors:
                        term = self.e.constant(coefficient, self.e.i64)
                    else:
                        term = functools.reduce(self.e.mul, factors)
                        term = term if coefficient == 1 else self.e.mul(term, coefficient)
                    total = term if total is None else self.e.add(total, term)
            self.env[index] = total
        return self.env[index]

    def _size_atom(self, atom: Any) -> Any:
        if isinstance(atom, Dim):
            return self._place_of(atom)
        if atom not in self.env:
            operands = (self._size(atom.value), self._size(atom.divisor))
            value, divisor = (self.e.value(operand, self.e.i64) for operand in operands)
            with self.e.builder.goto_entry_block():
                if atom.divisor.bounds()[0] <= 0:
                    divisor = self.e.maximum(divisor, self.e.constant(1, self.e.i64))
                divide = _floor_divided if isinstance(atom, Quotient) else _remainder
                self.env[atom] = divide(self.e, value, divisor, atom.value)
        return self.env[atom]


def _by_loops(index: Index) -> list[tuple[tuple[Any, ...], Index]]:
    """The parts of an index that change with the same loops, and what of sizes each is multiplied with; first
    those that have any."""
    found: dict[tuple[Any, ...], dict[tuple[Any, ...], int]] = {}
    for monomial, coefficient in index.ordered():
        loops = tuple([atom for atom in monomial if not _of_sizes(atom)])
        sizes = tuple([atom for atom in monomial if _of_sizes(atom)])
        found.setdefault(loops, {})[sizes] = coefficient
    return sorted(((loops, Index(sizes)) for loops, sizes in found.items()), key=lambda part: not part[0])


def _of_sizes(atom: Any) -> bool:
    """Whether an atom is the same at every point of the loops."""
    inner = atom.inner()
    return isinstance(atom, Dim) if not inner else not any(isinstance(a, Below) for a in inner)


def _parted(index: Index, var: Var) -> tuple[Index, Index]:
    """What does not change along `var`, and the rest, with the constant: that costs nothing in an address."""
    still: dict[Any, int] = {}
    moving: dict[Any, int] = {}
    for monomial, coefficient in index.ordered():
        fixed = monomial and not Index({monomial: 1}).depends_on(var)
        (still if fixed else moving)[monomial] = coefficient
    return Index(still), Index(moving)


def _exponent(divisor: Any) -> int | None:
    """k where the divisor is the constant 2**k, k > 0: what LLVM makes of those is not to be trusted (see
    math/integers.py)."""
    number = integer_of(divisor) or 0
    return number.bit_length() - 1 if number > 1 and not number & (number - 1) else None


def _floor_divided(e: Emitter, value: Any, divisor: Any, source: Index) -> Any:
    if source.bounds()[0] >= 0:
        return e.builder.udiv(value, divisor)
    power = _exponent(divisor)
    if power is not None:
        return e.shift_right(value, power, signed=True)
    quotient = e.builder.sdiv(value, divisor)
    rest = e.builder.srem(value, divisor)
    return e.sub(quotient, e.cast(e.compare("<", rest, 0), e.i64, signed_from=False))


def _remainder(e: Emitter, value: Any, divisor: Any, source: Index) -> Any:
    power = _exponent(divisor)
    if power is not None:
        return e.and_(value, (1 << power) - 1)
    rest = e.builder.urem(value, divisor) if source.bounds()[0] >= 0 else e.builder.srem(value, divisor)
    if source.bounds()[0] >= 0:
        return rest
    return e.select(e.compare("<", rest, 0), e.add(rest, divisor), rest)

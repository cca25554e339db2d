"""The native function that computes arithmetic on small tensors: operands, memory for the result, the tensor.

Operands are contiguous, or rows of contiguous elements in the usual order, so that the result is contiguous; the
second may also be a number, or be broadcast to the first. What is more is refused.
"""

from __future__ import annotations

from typing import Any

from ...core.lazy import LazyModule
from .native_arithmetic import COMPARISONS, DTYPES, OPERATIONS
from .native_record import RecordEmitter
from .python_objects import WRITEABLE, PyArray
from .types import Callee

ir = LazyModule("llvmlite.ir")

LARGEST = 4096  # elements of what is computed here; for more the kernels are quicker
MOST_RANK = 6
CONTIGUOUS, ALIGNED = 0x0001, 0x0100  # flags of arrays


def kernel_type() -> Any:
    pointer, word = ir.PointerType(), ir.IntType(64)
    return ir.FunctionType(ir.VoidType(), [pointer, pointer, pointer, word, word])


class ComputeEmitter(RecordEmitter):
    """Emits `compute` and `rows`."""

    held: Any
    which: Any

    def emit_rows(self, function: Any) -> None:
        """`rows(kernel, out, out_step, a, b, step, array, b_steps)`: run a kernel on every row of `array`, an
        operand, whose other dimensions `b` goes along by `b_steps`."""
        b = self.builder
        kernel, out, out_step, first, second, step, array, second_steps = function.args
        fields = PyArray.at(self, array)
        outer = self.sub(b.sext(fields.rank, self.i64), 1)
        dims, steps = fields.dims, fields.strides
        inner = self.word(dims, outer)
        (rows,) = self.fold(0, outer, 1, [self.i64(1)], lambda k, n: (self.mul(n, self.word(dims, k)),))
        index = self.local(ir.ArrayType(self.i64, MOST_RANK))
        with self.loop(0, outer) as k:
            self.store(self.i64(0), self.word_address(index, k))
        places = [self.local(self.pointer) for _ in range(2)]
        for place, start in zip(places, (first, second), strict=True):
            self.store(start, place)

        def move(place: Any, by: Any) -> None:
            self.store(b.gep(self.load(place, self.pointer), [by], source_etype=self.i8), place)

        def carry(k: Any) -> tuple[Any, tuple[Any]]:
            """Go on along dimension k; if it is at its end, back to its beginning, and along the one before."""
            size, at = self.word(dims, k), self.word_address(index, k)
            count = self.add(self.load(at, self.i64), 1)
            ended = self.compare("==", count, size)
            self.store(self.select(ended, self.i64(0), count), at)
            back = self.select(ended, self.sub(1, size), self.i64(1))
            for place, by in zip(places, (steps, second_steps), strict=True):
                move(place, self.mul(self.word(by, k), back))
            return self.and_(ended, self.compare(">", k, 0)), (self.sub(k, 1),)

        with self.loop(0, rows) as row:
            to = b.gep(out, [self.mul(row, self.mul(inner, out_step))], source_etype=self.i8)
            x, y = (self.load(place, self.pointer) for place in places)
            self.call(Callee(kernel, kernel_type()), [to, x, y, inner, step])
            self.repeat([self.sub(outer, 1)], carry)
        b.ret_void()

    def emit_compute(self, function: Any, layout: Any, kernels: Any, rows: Any) -> None:
        """`compute(table, args)`: the result of an operation on small arrays, or the object `refused`."""
        b = self.builder
        self.table_address, self.args = function.args
        self.table = layout.at(self, self.table_address)
        refused, release, failed = self.blocks("refused", "release", "failed")
        self.held = self.local(ir.ArrayType(self.i64, 2))
        for i in range(2):
            self.put_word(self.i64(0), self.word_address(self.held, i))
        self._check_settings(release)
        first = self._array_of(0, release)
        array = PyArray.at(self, first)
        count = self._elements(first, release)
        self.which = self._which_dtype(array.descr, release)
        entry = self.add(self.mul(self.table.operation, len(DTYPES)), self.which)
        kernel = self.word(self._kernel_table(kernels), entry, self.pointer)
        self.require_object(kernel, release)
        second, step, steps = self._second(first, release)
        compares = self.compare(">=", self.table.operation, OPERATIONS.index(next(iter(COMPARISONS))))
        descr = self.select(compares, self.object("descr_bool"), array.descr)
        made = self._memory(first, descr, compares, release, failed)
        data = PyArray.at(self, made).data
        flat = self.and_(self._is_whole(first), self.is_null(steps))
        with self.when(flat):
            self.call(Callee(kernel, kernel_type()), [data, array.data, second, count, step])
        with self.when(self.not_(flat)):
            wide = self.compare("!=", self.which, DTYPES.index("float32"))
            size = self.select(compares, self.i64(1), self.select(wide, self.i64(8), self.i64(4)))
            along = self.select(self.is_null(steps), array.strides, steps)
            self.call(rows, [kernel, data, size, array.data, second, step, first, along])
        with self.when(self.is_true(self.table.inplace)):
            self.api("Py_DecRef", made)
            self._drop()
            b.ret(self._written(self.word(self.args, 0, self.pointer)))
            b.position_at_end(b.append_basic_block("never"))
        place = self.word_address(self.objects_table(), self.objects.index("dtype_float32"))
        dtype = self.word(place, self.which, self.pointer)
        self._finish(made, self.select(compares, self.object("dtype_bool"), dtype), failed)
        b.position_at_end(failed)
        self._drop()
        b.ret(self.null)
        b.position_at_end(release)
        self._drop()
        b.branch(refused)
        b.position_at_end(refused)
        self.api("PyErr_Clear")
        b.ret(self.object("refused"))

    # The result.

    def _memory(self, first: Any, descr: Any, compares: Any, release: Any, failed: Any) -> Any:
        """The array to write to, which is held: a new one, or that of the first operand."""

        def own() -> list[Any]:
            self.require(self.not_(compares), release)
            self._require_alone(first, release)
            return [self._taken(first)]

        def new() -> list[Any]:
            array = PyArray.at(self, first)
            self.api("Py_IncRef", descr)
            shape = (array.rank, array.dims, self.null)
            made = self.api(
                "array_new", self.object("ndarray"), descr, *shape, self.null, self.i32(0), self.null
            )
            self.require_object(made, failed)
            return [made]

        return self.branch(self.is_true(self.table.inplace), own, new)[0]

    def _require_alone(self, first: Any, release: Any) -> None:
        """Go on if the first operand may be written to: contiguous, no view, no memory of the second."""
        flags = CONTIGUOUS | ALIGNED | WRITEABLE
        found = self.and_(PyArray.at(self, first).flags, flags)
        self.require(self.compare("==", found, flags), release)
        target = self.word(self.args, 0, self.pointer)
        self.require_attribute(target, "_base", self.object("none"), release)
        with self.when(self.has_bit(self.table.tensors, 2)):
            other = self.word(self.args, 1, self.pointer)
            storage = self.get(target, "_storage")
            self.require_object(storage, release)
            self.api("Py_DecRef", storage)
            shared = self.get(other, "_storage")
            self.require_object(shared, release)
            self.api("Py_DecRef", shared)
            apart = self.or_(
                self.is_same(storage, self.object("none")), self.not_(self.is_same(storage, shared))
            )
            self.require(self.or_(apart, self.is_same(target, other)), release)
            self._require_apart(first, self.word(self.held, 1, self.pointer), release)

    def _require_apart(self, first: Any, second: Any, release: Any) -> None:
        """Go on if writing to the first array leaves what is still to be read of the second as it is: they do not
        overlap, or each element is read where it is written."""
        a, b = PyArray.at(self, first), PyArray.at(self, second)
        starts = [self.builder.ptrtoint(fields.data, self.i64) for fields in (a, b)]
        ends = [self._end(fields, start) for fields, start in zip((a, b), starts, strict=True)]
        same = self.and_(self.is_same(*starts), self.and_(self._is_whole(second), self._alike(first, second)))
        before, after = self.compare("<=", ends[1], starts[0]), self.compare(">=", starts[1], ends[0])
        self.require(self.or_(same, self.or_(before, after)), release)

    def _end(self, fields: Any, start: Any) -> Any:
        """An address behind the last element."""
        rank = self.builder.sext(fields.rank, self.i64)

        def along(k: Any, end: Any) -> tuple[Any]:
            return (
                self.add(end, self.mul(self.sub(self.word(fields.dims, k), 1), self.word(fields.strides, k))),
            )

        return self.fold(0, rank, 1, [self.add(start, 8)], along)[0]

    def _written(self, target: Any) -> Any:
        """Count a write to a tensor, which is the result then; null if there was an error."""
        failed, done = self.blocks("failed", "counted")
        result = self.local(self.pointer)
        self.store(self.null, result)
        counter = self.get(target, "version_counter")
        self.require_object(counter, done)
        before = self.get(counter, "value")
        self.require_object(before, failed)
        after = self.api("PyNumber_Add", before, self.object("one"))
        self.api("Py_DecRef", before)
        self.require_object(after, failed)
        kept = self.set(counter, "value", after)
        self.api("Py_DecRef", after)
        self.require(self.compare("==", kept, 0), failed)
        self.store(self._taken(target), result)
        self.builder.branch(failed)
        self.builder.position_at_end(failed)
        self.api("Py_DecRef", counter)
        self.builder.branch(done)
        self.builder.position_at_end(done)
        return self.load(result, self.pointer)

    def _finish(self, array: Any, dtype: Any, failed: Any) -> None:
        """Return a tensor that owns `array`."""
        b = self.builder
        broken, lost = self.blocks("broken", "lost")
        tensor = self.api("PyType_GenericAlloc", self.object("Tensor"), self.i64(0))
        self.require_object(tensor, lost)
        first = self.set(tensor, "_array", array)
        self.api("Py_DecRef", array)
        second = self.set(tensor, "dtype", dtype)
        self._drop()
        self.require(self.compare("==", self.or_(first, second), 0), broken)
        b.ret(tensor)
        b.position_at_end(broken)
        self.api("Py_DecRef", tensor)
        b.ret(self.null)
        b.position_at_end(lost)
        self.api("Py_DecRef", array)
        b.branch(failed)

    def _drop(self) -> None:
        for i in range(2):
            held = self.word(self.held, i, self.pointer)
            with self.when(self.not_(self.is_null(held))):
                self.api("Py_DecRef", held)

    # Operands.

    def _check_settings(self, release: Any) -> None:
        """Go on if what is no operand has its default."""
        with self.loop(0, self.table.settings) as i:
            pair = self.word_address(self.table_address, self.add(self.table.setting_table, self.mul(i, 2)))
            given = self.word(self.args, self.word(pair, 0))
            self.require(self.is_same(given, self.word(pair, 1)), release)

    def _array_of(self, i: int, release: Any) -> Any:
        """The array of an argument, which is held: contiguous, or ordered rows."""
        found = self.get(self.word(self.args, i, self.pointer), "_array")
        self.require_object(found, release)
        self.put_word(found, self.word_address(self.held, i))
        self.require(self.is_same(self.type_of(found), self.object("ndarray")), release)
        self.require(
            self.has_bit(self.builder.zext(PyArray.at(self, found).flags, self.i64), ALIGNED), release
        )
        with self.when(self.not_(self._is_whole(found))):
            self._require_rows(found, release)
        return found

    def _is_whole(self, array: Any) -> Any:
        return self.has_bit(self.builder.zext(PyArray.at(self, array).flags, self.i64), CONTIGUOUS)

    def _require_rows(self, array: Any, release: Any) -> None:
        """Go on if rows of contiguous elements lie one after the other, and no size is 1."""
        fields = PyArray.at(self, array)
        rank = self.builder.sext(fields.rank, self.i64)
        self.require(self.and_(self.compare(">=", rank, 2), self.compare("<=", rank, MOST_RANK)), release)
        last = self.sub(rank, 1)
        with self.loop(0, rank) as k:
            self.require(self.compare(">", self.word(fields.dims, k), 1), release)
        with self.loop(0, last) as k:
            following = self.mul(
                self.word(fields.strides, self.add(k, 1)), self.word(fields.dims, self.add(k, 1))
            )
            self.require(self.compare(">=", self.word(fields.strides, k), following), release)
        descr = fields.descr
        narrow = self.is_same(descr, self.object("descr_float32"))
        size = self.select(narrow, self.i64(4), self.i64(8))
        self.require(self.is_same(self.word(fields.strides, last), size), release)

    def _elements(self, array: Any, release: Any) -> Any:
        fields = PyArray.at(self, array)
        rank = self.builder.sext(fields.rank, self.i64)
        (count,) = self.fold(
            0, rank, 1, [self.i64(1)], lambda k, n: (self.mul(n, self.word(fields.dims, k)),)
        )
        self.require(self.compare("<=", count, LARGEST), release)
        return count

    def _which_dtype(self, descr: Any, release: Any) -> Any:
        """Its number among DTYPES."""
        number = self.i64(-1)
        for i, name in enumerate(DTYPES):
            number = self.select(self.is_same(descr, self.object(f"descr_{name}")), self.i64(i), number)
        self.require(self.compare(">=", number, 0), release)
        return number

    def _second(self, first: Any, release: Any) -> tuple[Any, Any, Any]:
        """Where the second operand is, by how many elements it advances in a row, and from row to row; null: as
        the first, or not at all."""
        b = self.builder
        spread = self.local(ir.ArrayType(self.i64, 4))
        none = self.local(ir.ArrayType(self.i64, MOST_RANK))
        place, step, steps = self.local(self.pointer), self.local(self.i64), self.local(self.pointer)
        self.store(PyArray.at(self, first).data, place)
        self.store(self.i64(1), step)
        self.store(self.null, steps)
        two, tensor, number, constant, done = self.blocks("two", "tensor", "number", "constant", "done")
        b.cbranch(self.compare("!=", self.table.operation, OPERATIONS.index("neg")), two, done)
        b.position_at_end(two)
        b.cbranch(self.has_bit(self.table.tensors, 2), tensor, number)
        b.position_at_end(tensor)
        second = self._array_of(1, release)
        self.require(self.is_same(PyArray.at(self, first).descr, PyArray.at(self, second).descr), release)
        self.store(PyArray.at(self, second).data, place)
        alike = self._alike(first, second)
        whole = self.and_(self._is_whole(first), self._is_whole(second))
        with self.when(self.not_(self.and_(alike, whole))):
            self._go_along(first, second, alike, none, release)
            self.store(none, steps)
        b.branch(done)
        b.position_at_end(number)
        self._spread(self.word(self.args, 1, self.pointer), spread, release)
        b.branch(constant)
        b.position_at_end(constant)
        self.store(spread, place)
        self.store(self.i64(0), step)
        with self.when(self.not_(self._is_whole(first))):
            for k in range(MOST_RANK):
                self.store(self.i64(0), self.word_address(none, k))
            self.store(none, steps)
        b.branch(done)
        b.position_at_end(done)
        return self.load(place, self.pointer), self.load(step, self.i64), self.load(steps, self.pointer)

    def _alike(self, first: Any, second: Any) -> Any:
        """Whether two arrays have the same shape."""
        a, b = PyArray.at(self, first), PyArray.at(self, second)

        def compare() -> list[Any]:
            return self.fold(
                0,
                self.builder.sext(a.rank, self.i64),
                1,
                [self.i1(1)],
                lambda k, same: (self.and_(same, self.is_same(self.word(a.dims, k), self.word(b.dims, k))),),
            )

        return self.branch(self.compare("==", a.rank, b.rank), compare, lambda: [self.i1(0)])[0]

    def _go_along(self, first: Any, second: Any, alike: Any, steps: Any, release: Any) -> None:
        """How far the second operand goes from row to row of the first: both are rows of the same shape, or both
        are contiguous and it is broadcast along leading dimensions."""
        a, b = PyArray.at(self, first), PyArray.at(self, second)
        rank, other = (self.builder.sext(fields.rank, self.i64) for fields in (a, b))
        self.require(self.and_(self.compare(">=", rank, 2), self.compare("<=", rank, MOST_RANK)), release)
        self.require(self.and_(self.compare(">=", other, 1), self.compare("<=", other, rank)), release)
        with self.when(self.not_(alike)):
            whole = self.and_(self._is_whole(first), self._is_whole(second))
            self.require(whole, release)
            tensor = self.word(self.args, 1, self.pointer)
            self.require_attribute(tensor, "_strides", self.object("none"), release)
        with self.when(alike):  # sizes of 1 decide about the order of rows that are not contiguous
            with self.loop(0, rank) as k:
                self.require(self.compare(">", self.word(a.dims, k), 1), release)
        lead = self.sub(rank, other)
        with self.loop(0, lead) as k:
            self.store(self.i64(0), self.word_address(steps, k))
        with self.loop(lead, rank) as k:
            at = self.sub(k, lead)
            mine, its = self.word(a.dims, k), self.word(b.dims, at)
            last = self.compare("==", k, self.sub(rank, 1))
            same = self.is_same(mine, its)
            spread = self.and_(self.compare("==", its, 1), self.not_(last))
            self.require(self.or_(same, spread), release)
            step = self.select(same, self.word(b.strides, at), self.i64(0))
            self.store(step, self.word_address(steps, k))

    def _spread(self, value: Any, place: Any, release: Any) -> None:
        """A number, in a vector of equal elements."""
        b = self.builder
        whole, real, done = self.blocks("whole", "real", "spread")
        is_int, is_float = (self.is_same(self.type_of(value), self.object(n)) for n in ("int", "float"))
        integral = self.compare("==", self.which, DTYPES.index("int64"))
        self.require(self.or_(is_int, self.and_(is_float, self.not_(integral))), release)
        b.cbranch(integral, whole, real)
        b.position_at_end(whole)
        overflow = self.local(self.i32)
        word = self.api("PyLong_AsLongLongAndOverflow", value, overflow)
        self.require(self.compare("==", self.load(overflow, self.i32), 0), release)
        for k in range(4):
            self.store(word, self.word_address(place, k))
        b.branch(done)
        b.position_at_end(real)
        number = self.api("PyFloat_AsDouble", value)
        self.require(self.is_null(self.api("PyErr_Occurred")), release)
        wide = self.compare("==", self.which, DTYPES.index("float64"))
        narrow = b.fptrunc(number, ir.FloatType())
        for k in range(4):
            self.store(number, self.word_address(place, k))
        with self.when(self.not_(wide)):
            for k in range(8):
                self.store(narrow, self.address(place, k, ir.FloatType()))
        b.branch(done)
        b.position_at_end(done)

    def _kernel_table(self, kernels: dict[tuple[str, str], Any]) -> Any:
        """The addresses of kernels, by operation and dtype; 0 where there is none."""
        kind = ir.ArrayType(self.pointer, len(OPERATIONS) * len(DTYPES))
        table = ir.GlobalVariable(self.module, kind, "kernels")
        table.linkage, table.global_constant = "internal", True
        found = [kernels.get((operation, dtype)) for operation in OPERATIONS for dtype in DTYPES]
        table.initializer = ir.Constant(
            kind, [ir.Constant(self.pointer, None) if f is None else f for f in found]
        )
        return self.builder.gep(table, [self.i64(0)], source_etype=self.pointer)

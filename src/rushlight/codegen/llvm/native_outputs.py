"""The outputs of a native call: their memory, the tensors around them, and the gradients that they become."""

from __future__ import annotations

from typing import Any

from .python_objects import BEHAVED, ObjectEmitter, PyArray
from .struct import I64, Ptr, Struct

ALIGNMENT = 64  # bytes, of an output that is to be aligned


class OutputRecord(Struct):
    """An output of the program."""

    descr: Ptr
    rank: I64
    dims: I64  # place of the sizes
    strides: I64  # place of the strides; 0: contiguous
    slot: I64
    aligned_bytes: I64  # its size, if it is to be aligned; else 0
    dtype: Ptr  # the tensor's
    is_gradient: I64  # whether it becomes the gradient of a tensor
    which: I64  # which argument that is; -1: a constant object
    owner: Ptr
    home: I64  # the source that its contents are copied to; -1: none
    copied_bytes: I64


class Outputs(ObjectEmitter):
    """What a native call does with outputs. `table` is its table, `block` the addresses that the program
    takes, `held` and `made` the objects that it holds of inputs and outputs."""

    table: Any
    table_address: Any
    args: Any
    block: Any
    held: Any
    made: Any
    error: Any
    looks: Any
    outputs: Any
    owned: Any

    def record(self, kind: type[Struct], field: str, i: Any) -> Any:
        """Record `i` of those that a field of the table says the place of."""
        place = self.add(getattr(self.table, field), self.mul(i, kind.word_count()))
        return kind.at(self, self.word_address(self.table_address, place))

    def require_array(
        self, array: Any, descr: Any, rank: Any, dims: Any, strides: Any, otherwise: Any
    ) -> None:
        """Go on if it is an array of that dtype, and lies in memory like that."""
        found = PyArray.at(self, array)
        self.require(self.is_same(found.type, self.object("ndarray")), otherwise)
        self.require(self.is_same(found.descr, descr), otherwise)
        self.require(self.is_same(self.builder.sext(found.rank, self.i64), rank), otherwise)
        for actual, expected in ((found.dims, dims), (found.strides, strides)):
            with self.loop(0, rank) as k:
                self.require(self.is_same(self.word(actual, k), self.word(expected, k)), otherwise)

    def drop(self, objects: Any, count: Any) -> None:
        """Let go of objects, of those that there are."""
        with self.loop(0, count) as i:
            held = self.word(objects, i, self.pointer)
            with self.when(self.not_(self.is_null(held))):
                self.api("Py_DecRef", held)

    # Before the program runs.

    def take_gradient(self, i: Any, failed: Any) -> None:
        """Let go of the gradient that an output replaces. Its memory is the output's if nobody else can reach
        it.
        """
        b, record = self.builder, self._output(i)
        with self.when(self.has_bit(record.is_gradient, 1)):
            owner = self._owner(record)
            old = self.get(owner, "_grad")
            self.require_object(old, failed)
            alone, taken, unfit, done = self.blocks("alone", "taken", "unfit", "done")
            is_tensor = self.is_same(self.type_of(old), self.object("Tensor"))
            b.cbranch(b.and_(is_tensor, self.has_references(old, 2)), alone, done)
            b.position_at_end(alone)
            array = self.get(old, "_array")
            b.cbranch(self.not_(self.is_null(array)), taken, failed)
            b.position_at_end(taken)
            self.put_word(array, self.word_address(self.made, i))
            dims, strides = (self._place(place) for place in (record.dims, record.strides))
            self.require_array(array, record.descr, record.rank, dims, strides, unfit)
            mask = self.select(self.is_true(record.aligned_bytes), self.i64(ALIGNMENT - 1), self.i64(0))
            address = b.ptrtoint(PyArray.at(self, array).data, self.i64)
            self.require(self.compare("==", self.and_(address, mask), 0), unfit)
            self.require(self.call(self.owned, [old, array]), unfit)
            b.branch(done)
            b.position_at_end(unfit)
            self.put_word(self.i64(0), self.word_address(self.made, i))
            self.api("Py_DecRef", array)
            b.branch(done)
            b.position_at_end(done)
            gone = self.set(owner, "_grad", self.object("none"))
            self.api("Py_DecRef", old)
            self.require(self.compare("==", gone, 0), failed)

    def place_output(self, i: Any, failed: Any) -> None:
        """Memory for an output that has none, and its address for the program."""
        record = self._output(i)
        with self.when(self.compare("<", record.home, 0)):
            with self.when(self.compare("==", self.word(self.made, i), 0)):
                self._make(i, record, failed)
            array = self.word(self.made, i, self.pointer)
            self.put_word(PyArray.at(self, array).data, self.word_address(self.block, record.slot))

    def _make(self, i: Any, record: Any, failed: Any) -> None:
        b = self.builder
        layout = record.strides
        strides = b.select(self.is_true(layout), self._place(layout), self.null)
        shape = (b.trunc(record.rank, self.i32), self._place(record.dims), strides)
        descr, size = record.descr, record.aligned_bytes
        aligned, small, done = self.blocks("aligned", "small", "done")
        self.api("Py_IncRef", descr)
        b.cbranch(self.is_true(size), aligned, small)
        b.position_at_end(small)
        self._keep(i, self._new_array(descr, *shape, self.null, self.i32(0)), failed)
        b.branch(done)
        b.position_at_end(aligned)
        self._make_aligned(i, descr, shape, size, failed)
        b.branch(done)
        b.position_at_end(done)

    def _make_aligned(self, i: Any, descr: Any, shape: tuple[Any, Any, Any], size: Any, failed: Any) -> None:
        """An array at an aligned address inside a longer one."""
        b = self.builder
        length = self.local(self.i64)
        self.store(self.add(size, ALIGNMENT), length)
        bytes_type = self.object("bytes_type")
        self.api("Py_IncRef", bytes_type)
        memory = self._new_array(bytes_type, self.i32(1), length, self.null, self.null, self.i32(0))
        self.require_object(memory, failed)
        start = b.ptrtoint(PyArray.at(self, memory).data, self.i64)
        data = b.inttoptr(self.and_(self.add(start, ALIGNMENT - 1), -ALIGNMENT), self.pointer)
        array = self._new_array(descr, *shape, data, self.i32(BEHAVED))
        self._keep(i, array, failed)
        self.api("array_set_base", array, memory)

    def _new_array(self, descr: Any, rank: Any, dims: Any, strides: Any, data: Any, flags: Any) -> Any:
        ndarray = self.object("ndarray")
        return self.api("array_new", ndarray, descr, rank, dims, strides, data, flags, self.null)

    def _keep(self, i: Any, array: Any, failed: Any) -> None:
        self.require_object(array, failed)
        self.put_word(array, self.word_address(self.made, i))

    def wrap(self, i: Any, failed: Any) -> None:
        """Replace an array by a tensor that owns it."""
        array = self.word(self.made, i, self.pointer)
        with self.when(self.not_(self.is_null(array))):
            tensor = self.api("PyType_GenericAlloc", self.object("Tensor"), self.i64(0))
            self.require_object(tensor, failed)
            self.put_word(tensor, self.word_address(self.made, i))
            first = self.set(tensor, "_array", array)
            self.api("Py_DecRef", array)
            second = self.set(tensor, "dtype", self._output(i).dtype)
            self.require(self.compare("==", self.or_(first, second), 0), failed)

    # When it has run.

    def copy_home(self, i: Any) -> None:
        """Copy a small output to the memory of the input that it is the new contents of."""
        record = self._output(i)
        home = record.home
        with self.when(self.compare(">=", home, 0)):
            target = PyArray.at(self, self.word(self.held, home, self.pointer)).data
            source = self.word(self.block, record.slot, self.pointer)
            with self.loop(0, record.copied_bytes) as k:
                self.store(
                    self.load(self.address(source, k, self.i8), self.i8), self.address(target, k, self.i8)
                )

    def finish(self) -> None:
        """Return the number of an error, or a tensor, or a list of tensors or arrays."""
        b = self.builder
        broken, good, lost, single, several = self.blocks("broken", "good", "lost", "single", "several")
        number = self.load(self.error, self.i64)
        b.cbranch(self.is_true(number), broken, good)
        b.position_at_end(broken)
        self.drop(self.made, self.outputs)
        b.ret(self.api("PyLong_FromLongLong", number))
        b.position_at_end(good)
        with self.when(self.looks), self.loop(0, self.outputs) as i:
            self._give(i, lost)
        b.cbranch(self.is_true(self.table.single), single, several)
        b.position_at_end(single)
        b.ret(self.word(self.made, 0, self.pointer))
        b.position_at_end(several)
        listed = self.table.listed
        results = self.api("PyList_New", listed)
        self.require_object(results, lost)
        with self.loop(0, listed) as i:
            self.api("PyList_SetItem", results, i, self.word(self.made, i, self.pointer))
        b.ret(results)
        b.position_at_end(lost)
        self.drop(self.made, self.outputs)
        b.ret(self.null)

    def _give(self, i: Any, lost: Any) -> None:
        """Set a gradient."""
        record = self._output(i)
        with self.when(self.has_bit(record.is_gradient, 1)):
            new = self.word(self.made, i, self.pointer)
            given = self.set(self._owner(record), "_grad", new)
            self.require(self.compare("==", given, 0), lost)
            self.put_word(self.i64(0), self.word_address(self.made, i))
            self.api("Py_DecRef", new)

    def _output(self, i: Any) -> Any:
        return self.record(OutputRecord, "output_table", i)

    def _owner(self, record: Any) -> Any:
        """The tensor whose gradient an output becomes."""
        which = record.which
        given = self.compare(">=", which, 0)
        place = self.select(given, self.word_address(self.args, which), record.address_of("owner"))
        return self.load(place, self.pointer)

    def _place(self, place: Any) -> Any:
        return self.word_address(self.table_address, place)

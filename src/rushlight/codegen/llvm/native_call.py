"""The native function behind the callables of runtime/invoke.py, and the tables that it reads.

`invoke(self, args, nargs)` has the signature of a function of Python's. One function serves all programs: what
distinguishes them is a table, the data of the array `self`. It begins with a `CallTable`; the records and
numbers that this refers to, by their places in words, follow.

A call looks whether the arguments and everything else are what the program was compiled for, makes the outputs,
runs the program and wraps the results. Until the program runs it can refuse, with NotImplemented, and nothing
is done.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Any

from ...core.lazy import LazyModule
from ...runtime.target import Target
from .native_outputs import Outputs
from .python_objects import PyArray, emit_may_write, emit_owned
from .struct import I64, Ptr, Struct
from .types import Callee

ir = LazyModule("llvmlite.ir")

METH_FASTCALL = 0x0080
METH_O = 0x0008


class CallTable(Struct):
    """What a table begins with. Fields that end in _table are places in the table, in words."""

    arguments: I64  # how many
    tensors: I64  # whether results are tensors; else arrays
    release: I64  # whether other threads of Python may run meanwhile
    busy: Ptr  # a word that is not 0 while a call uses the memory that the template has addresses in
    shared: I64  # whether there is such memory
    slots: I64  # how many addresses the program takes
    sources: I64
    outputs: I64
    segments: I64
    template: I64  # place of the addresses that are the same in every call
    source_table: I64
    output_table: I64
    segment_table: I64
    any_mode: I64  # whether modes do not matter
    grad: Ptr  # what they must be otherwise
    inference: Ptr
    single: I64  # whether the result is one tensor; else a list
    listed: I64  # how many outputs are in the list, the first ones
    look: I64  # whether a call without arguments looks at the constants alone
    whole: I64  # whether other calls look at them, too
    versions: I64
    version_table: I64
    locations: I64
    location_table: I64
    sizes: I64
    size_table: I64


class Look(IntFlag):
    """What is looked at of a source."""

    IS_TENSOR = 1  # else it is an array
    NO_BASE = 2  # its `_base` is None
    SETTLED = 4  # it begins where its memory does
    OWNED = 8  # nobody else can reach its memory, which may be written
    RECORDED = 16  # it is a leaf with that `_requires_grad`, which `_keys` do not tell if they are not 0
    FREE = (
        32  # it has no history: its `_keys` are 0, or those of its `_base`, if it has the others and no node
    )


class SourceRecord(Struct):
    """An input of the program, or an argument that it does not use."""

    which: I64  # the argument; -1: a constant object
    constant: Ptr
    type: Ptr
    look: I64  # bits of `Look`
    keys: Ptr
    requires_grad: Ptr
    descr: Ptr
    rank: I64
    dims: I64  # place of the sizes and strides
    slot: I64  # -1: none


class LocationKind(IntEnum):
    """What holds the object that a guard expects."""

    DICT = 0
    ITEMS = 1  # another container that has items
    CELL = 2  # a variable of a function
    VALUES = 3  # all that is in a dictionary, in its order


class LocationRecord(Struct):
    """A location of Python's, and the object that must be there."""

    kind: I64
    container: Ptr
    key: I64  # an object; of VALUES how many there are
    expected: I64  # an object; of VALUES the place of their addresses, 0: any object


class SizeRecord(Struct):
    """How much must be in a container."""

    container: Ptr
    size: I64


class VersionRecord(Struct):
    """A tensor whose writes are counted: how many a call counts, and the same below zero."""

    tensor: Ptr
    count: Ptr
    less: Ptr


def emit_native_call(target: Target) -> str:
    """The text of a module with `invoke` and `may_write`."""
    module = ir.Module("rushlight_invoke")
    owned = emit_owned(module, target)
    emit_may_write(module, target, owned)
    pointer = ir.PointerType()
    kind = ir.FunctionType(pointer, [pointer, pointer, ir.IntType(64)])
    function = ir.Function(module, kind, "invoke")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    NativeCallEmitter(builder, target).emit(function, owned)
    return str(module)


class NativeCallEmitter(Outputs):
    """Emits the body of `invoke`."""

    def emit(self, function: Any, owned: Any) -> None:
        b, self.owned = self.builder, owned
        own, self.args, given = function.args
        refused, release, failed, looked, go = self.blocks("refused", "release", "failed", "looked", "go")
        self.table_address = PyArray.at(self, own).data
        self.table = CallTable.at(self, self.table_address)
        self.slots, self.sources, self.outputs = self.table.slots, self.table.sources, self.table.outputs
        # without arguments it looks whether the constants are right, in tables that ask for it
        self.looks, self.whole = (self.has_bit(bits, 1) for bits in (self.table.look, self.table.whole))
        self.looking = self.and_(
            self.is_same(given, self.i64(0)), self.and_(self.looks, self.not_(self.whole))
        )
        self.require(self.or_(self.looking, self.is_same(given, self.table.arguments)), refused)
        self._check_modes(refused)
        self._check_locations(refused)
        self._reserve()
        with self.loop(0, self.sources) as i:
            self._check_source(i, release)
        b.cbranch(self.looking, looked, go)
        b.position_at_end(go)
        self._lock(release)
        self._run_between_effects(failed)
        self._unlock()
        self.drop(self.held, self.sources)
        self.finish()

        b.position_at_end(failed)  # an exception is set
        self._unlock()
        self.drop(self.held, self.sources)
        self.drop(self.made, self.outputs)
        b.ret(self.null)
        b.position_at_end(looked)
        self.drop(self.held, self.sources)
        self.return_object("none")
        b.position_at_end(release)
        self.drop(self.held, self.sources)
        b.branch(refused)
        b.position_at_end(refused)
        self.api("PyErr_Clear")
        self.return_object("refused")

    def _reserve(self) -> None:
        """Memory of this call: what it holds, the addresses that the program takes, what it made, an error."""
        self.held = self.stack_words(self.add(self.sources, 1))
        with self.loop(0, self.sources) as i:
            self.put_word(self.i64(0), self.word_address(self.held, i))
        self.block = self.stack_words(self.slots)
        self.made = self.stack_words(self.add(self.outputs, 1))
        self.error = self.stack_words(self.i64(1))
        template = self.word_address(self.table_address, self.table.template)
        with self.loop(0, self.slots) as i:
            self.put_word(self.word(template, i), self.word_address(self.block, i))
        with self.loop(0, self.outputs) as i:
            self.put_word(self.i64(0), self.word_address(self.made, i))
        self.put_word(self.i64(0), self.error)
        self.put_word(self.error, self.word_address(self.block, 1))

    def _run_between_effects(self, failed: Any) -> None:
        """Make the outputs, count the writes, run the program, and copy what is to be copied."""
        with self.when(self.looks), self.loop(0, self.outputs) as i:
            self.take_gradient(i, failed)
        with self.loop(0, self.outputs) as i:
            self.place_output(i, failed)
        # What can be done before the program runs is: it leaves nothing of Python's objects in the caches.
        with self.when(self.is_true(self.table.tensors)), self.loop(0, self.outputs) as i:
            self.wrap(i, failed)
        with self.loop(0, self.table.versions) as i:
            self._count(i, "count", failed)
        self._run()
        fine = self.compare("==", self.load(self.error, self.i64), 0)
        with self.when(self.and_(fine, self.looks)), self.loop(0, self.outputs) as i:
            self.copy_home(i)
        with self.when(self.not_(fine)), self.loop(0, self.table.versions) as i:
            self._count(i, "less", failed)

    # Guards.

    def _check_modes(self, refused: Any) -> None:
        with self.when(self.not_(self.is_true(self.table.any_mode))):
            self.require_attribute(self.object("ambient"), "keys", self.object("zero"), refused)
            self.require_attribute(self.object("modes"), "grad", self.table.grad, refused)
            self.require_attribute(self.object("modes"), "inference", self.table.inference, refused)

    def _check_locations(self, refused: Any) -> None:
        with self.loop(0, self.table.sizes) as i:
            record: Any = self.record(SizeRecord, "size_table", i)
            self.require(self.is_same(self.api("PyObject_Size", record.container), record.size), refused)
        with self.loop(0, self.table.locations) as i:
            self._check_location(self.record(LocationRecord, "location_table", i), refused)

    def _check_location(self, record: Any, refused: Any) -> None:
        """Look whether the expected object is at a location of Python's."""
        b = self.builder
        container, key, expected = record.container, record.as_pointer("key"), record.as_pointer("expected")
        named, items, cell, values, done = self.blocks("named", "items", "cell", "values", "done")
        cases = b.switch(record.kind, items)
        for kind, block in (
            (LocationKind.DICT, named),
            (LocationKind.CELL, cell),
            (LocationKind.VALUES, values),
        ):
            cases.add_case(self.i64(int(kind)), block)
        b.position_at_end(named)
        found = self.api("PyDict_GetItemWithError", container, key)  # which is not held for the caller
        self.require(self.is_same(found, expected), refused)
        b.branch(done)
        for block, name, arguments in (
            (items, "PyObject_GetItem", (container, key)),
            (cell, "PyCell_Get", (container,)),
        ):
            b.position_at_end(block)
            found = self.api(name, *arguments)
            self.require_object(found, refused)
            self.api("Py_DecRef", found)
            self.require(self.is_same(found, expected), refused)
            b.branch(done)
        b.position_at_end(values)
        self._check_values(record, refused)
        b.branch(done)
        b.position_at_end(done)

    def _check_values(self, record: Any, refused: Any) -> None:
        """Look whether the expected objects are all that is in a dictionary."""
        container, count = record.container, record.key
        expected = self.word_address(self.table_address, record.expected)
        self.require(self.is_same(self.api("PyObject_Size", container), count), refused)
        position, key, value = (self.local(self.i64) for _ in range(3))
        self.put_word(self.i64(0), position)
        with self.loop(0, count) as k:
            there = self.api("PyDict_Next", container, position, key, value)
            self.require(self.compare("!=", there, 0), refused)
            wanted = self.word(expected, k)
            same = self.is_same(self.load(value, self.i64), wanted)
            self.require(self.or_(same, self.is_same(wanted, self.i64(0))), refused)

    def _check_source(self, i: Any, refused: Any) -> None:
        record: Any = self.record(SourceRecord, "source_table", i)
        which = record.which
        given = self.compare(">=", which, 0)
        with self.when(self.not_(self.and_(self.looking, given))):
            place = self.select(given, self.word_address(self.args, which), record.address_of("constant"))
            self._look_at(i, self.load(place, self.pointer), record, refused)

    def _look_at(self, i: Any, object_: Any, record: Any, refused: Any) -> None:
        """Look whether an input is as expected; hold its array, and give its address to the program."""
        b = self.builder
        self.require(self.is_same(self.type_of(object_), record.type), refused)
        bits = record.look
        is_tensor, bare, checked = self.blocks("is_tensor", "bare", "checked")
        b.cbranch(self.has_bit(bits, Look.IS_TENSOR), is_tensor, bare)
        b.position_at_end(is_tensor)
        array = self.get(object_, "_array")
        self.require_object(array, refused)
        self.put_word(array, self.word_address(self.held, i))
        self._check_attributes(object_, record, bits, refused)
        b.branch(checked)
        b.position_at_end(bare)
        self.api("Py_IncRef", object_)
        self.put_word(object_, self.word_address(self.held, i))
        b.branch(checked)
        b.position_at_end(checked)
        array = self.word(self.held, i, self.pointer)
        dims, rank = self.word_address(self.table_address, record.dims), record.rank
        self.require_array(array, record.descr, rank, dims, self.word_address(dims, rank), refused)
        with self.when(self.and_(self.has_bit(bits, Look.OWNED), self.not_(self.looking))):
            self.require(self.call(self.owned, [object_, array]), refused)
        slot = record.slot
        with self.when(self.compare(">=", slot, 0)):  # inputs that no kernel reads have no slot
            self.put_word(PyArray.at(self, array).data, self.word_address(self.block, slot))

    def _check_attributes(self, tensor: Any, record: Any, bits: Any, refused: Any) -> None:
        settled = self.has_bit(bits, Look.SETTLED)
        # or a call without arguments looked at it before this one
        with self.when(self.or_(self.or_(self.looking, self.whole), self.not_(settled))):
            free = self.has_bit(bits, Look.FREE)
            with self.when(free):
                self._check_view(tensor, record, refused)
            with self.when(self.not_(free)):
                self.require_attribute(tensor, "_keys", record.keys, refused)
            with self.when(self.has_bit(bits, Look.NO_BASE)):
                self.require_attribute(tensor, "_base", self.object("none"), refused)
            with self.when(self.has_bit(bits, Look.RECORDED)):
                self.require_attribute(tensor, "_requires_grad", record.requires_grad, refused)
                self.require_attribute(tensor, "_node", self.object("none"), refused)
            with self.when(settled):
                self.require_attribute(tensor, "_offset", self.object("zero"), refused)

    def _check_view(self, tensor: Any, record: Any, refused: Any) -> None:
        """A tensor without history, or a view of one."""
        keys = self.get(tensor, "_keys")
        self.require_object(keys, refused)
        self.api("Py_DecRef", keys)  # the tensor holds it
        with self.when(self.not_(self.is_same(keys, self.object("zero")))):
            self.require(self.is_same(keys, record.keys), refused)
            self.require_attribute(tensor, "_requires_grad", self.object("false"), refused)
            self.require_attribute(tensor, "_node", self.object("none"), refused)
            self.require_attribute(tensor, "_tangents", self.object("none"), refused)
            base = self.get(tensor, "_base")
            self.require_object(base, refused)
            self.api("Py_DecRef", base)
            self.require(self.not_(self.is_same(base, self.object("none"))), refused)
            self.require_attribute(base, "_keys", self.object("zero"), refused)

    # Running.

    def _lock(self, refused: Any) -> None:
        """Take the workspace, if the program has one."""
        b = self.builder
        take, go = self.blocks("take", "free")
        b.cbranch(self.is_true(self.table.shared), take, go)
        b.position_at_end(take)
        before = b.atomic_rmw("xchg", self.table.busy, self.i64(1), "acq_rel")
        b.cbranch(self.compare("==", before, 0), go, refused)
        b.position_at_end(go)

    def _unlock(self) -> None:
        with self.when(self.is_true(self.table.shared)):
            self.builder.atomic_rmw("xchg", self.table.busy, self.i64(0), "acq_rel")

    def _run(self) -> None:
        state = self.local(self.pointer)
        self.store(self.null, state)
        release = self.is_true(self.table.release)
        with self.when(release):
            self.store(self.api("PyEval_SaveThread"), state)
        kind = ir.FunctionType(ir.VoidType(), [self.pointer])
        with self.loop(0, self.table.segments) as i:
            with self.when(self.compare("==", self.load(self.error, self.i64), 0)):
                place = self.add(self.table.segment_table, i)
                segment = self.word(self.table_address, place, self.pointer)
                self.call(Callee(segment, kind), [self.block])
        with self.when(release):
            self.api("PyEval_RestoreThread", self.load(state, self.pointer))

    def _count(self, i: Any, field: str, failed: Any) -> None:
        """Count the writes to a tensor, or take them back."""
        record: Any = self.record(VersionRecord, "version_table", i)
        tensor, count = record.tensor, getattr(record, field)
        place = self.local(self.pointer)
        self.store(self.get(tensor, "_versions"), place)
        none = self.object("none")
        with self.when(self.is_same(self.load(place, self.pointer), none)):
            self.api("Py_DecRef", none)
            self.store(self.get(tensor, "version_counter"), place)
        counter = self.load(place, self.pointer)
        self.require_object(counter, failed)
        old = self.get(counter, "value")
        self.require_object(old, failed)
        new = self.api("PyNumber_Add", old, count)
        self.require_object(new, failed)
        kept = self.set(counter, "value", new)
        for object_ in (counter, old, new):
            self.api("Py_DecRef", object_)
        self.require(self.compare("==", kept, 0), failed)

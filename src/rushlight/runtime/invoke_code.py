"""The native function behind `invoke.Invoker`, as LLVM IR, and the layout of the tables that it reads."""

from __future__ import annotations

from typing import Any

from .engine import Callee
from .object_code import (
    ARRAY_DESCR,
    ARRAY_DIMS,
    ARRAY_RANK,
    ARRAY_STRIDES,
    DATA,
    WRITEABLE,
    ObjectEmitter,
    ir,
)

# Fields of the table.
(
    ARGUMENTS,
    TENSORS,
    RELEASE,
    BUSY,
    SHARED,
    SLOTS,
    SOURCES,
    OUTPUTS,
    SEGMENTS,
    TEMPLATE,
    SOURCE_TABLE,
    OUTPUT_TABLE,
    SEGMENT_TABLE,
    GRAD,
    INFERENCE,
    SINGLE,
    LISTED,
    LOOK,
    WHOLE,
    VERSIONS,
    VERSION_TABLE,
    PLACES,
    PLACE_TABLE,
    SIZES,
    SIZE_TABLE,
    FIELDS,
) = range(26)
# Fields of a source: which argument (-1: a constant object), that object, its type, what is looked at,
# `_keys`, `_requires_grad`, dtype object, rank, where its sizes and strides are, its slot (-1: none).
(WHICH, OBJECT, KIND, LOOKED_AT, KEYS, FLAG, DESCR, RANK, DIMS, SLOT, SOURCE_FIELDS) = range(11)
# What is looked at, by bits: it is a tensor (else an array); its `_base` is None; it begins where its memory
# does; nobody else can reach its memory, which may be written; it is a leaf with that `_requires_grad`, which
# its `_keys` do not tell if they are not 0.
IS_TENSOR, NO_BASE, SETTLED, OWNED, RECORDED = 1, 2, 4, 8, 16
# Fields of an output: dtype object, rank, where its sizes and strides are (or 0: contiguous), slot, bytes of
# an output that is to be aligned (else 0), the tensor's dtype; whether it becomes the gradient of a tensor,
# which argument that is (-1: a constant object), that object; the source that its contents are copied to
# (-1: none), and how many bytes.
(
    OUT_DESCR,
    OUT_RANK,
    OUT_DIMS,
    OUT_STRIDES,
    OUT_SLOT,
    OUT_BYTES,
    OUT_DTYPE,
    OUT_GRADIENT,
    OUT_WHICH,
    OUT_OWNER,
    OUT_HOME,
    OUT_COPIED,
    OUTPUT_FIELDS,
) = range(13)

# Fields of a place of Python's: what kind of container it is in, that, the key, the object that must be
# there; of VALUES how many there are, and where they are (0: any object). Of a size: the container, the size.
PLACE_KIND, PLACE_OF, PLACE_KEY, PLACE_VALUE, PLACE_FIELDS = range(5)
SIZE_OF, SIZE, SIZE_FIELDS = range(3)
# Kinds of containers: a dictionary, another that has items, a variable of a function, all that is in a
# dictionary, in its order.
DICT, ITEMS, CELL, VALUES = range(4)
# Fields of a version: the tensor, how many writes to count, and the same below zero.
VERSION_OF, COUNT, LESS, VERSION_FIELDS = range(4)

ALIGNMENT = 64
BEHAVED = WRITEABLE | 0x0100  # and aligned
METH_FASTCALL = 0x0080


class Emitter(ObjectEmitter):
    """The function `invoke(self, args, nargs)`."""

    # The function.

    def build(self) -> str:
        self.owned = self.owned_function()
        kind = ir.FunctionType(self.pointer, [self.pointer, self.pointer, self.i64])
        self.function = function = ir.Function(self.module, kind, "invoke")
        self.entry = function.append_basic_block("entry")
        self.b = ir.IRBuilder(self.entry)
        start = function.append_basic_block("start")
        self.b.position_at_end(start)
        own, self.args, given = function.args
        refused, release, failed = (function.append_basic_block(n) for n in ("refused", "release", "failed"))
        table = self.table = self.field(own, DATA)
        self.slots, self.sources, self.outputs = (self.word(table, f) for f in (SLOTS, SOURCES, OUTPUTS))
        b = self.b
        # without arguments it looks whether the constants are right, in tables that ask for it
        self.looks = self.chosen(self.word(table, LOOK), 1)  # what has effects does
        self.whole = self.chosen(self.word(table, WHOLE), 1)
        self.looking = b.and_(self.equal(given, self.i64(0)), b.and_(self.looks, b.not_(self.whole)))
        self.unless(b.or_(self.looking, self.equal(given, self.word(table, ARGUMENTS))), refused)
        self.is_attribute(self.constant("ambient"), "keys", self.constant("zero"), refused)
        self.is_attribute(self.constant("modes"), "grad", self.word(table, GRAD), refused)
        self.is_attribute(self.constant("modes"), "inference", self.word(table, INFERENCE), refused)
        self.loop(self.word(table, SIZES), lambda i: self._size(i, refused))
        self.loop(self.word(table, PLACES), lambda i: self._place(i, refused))
        b = self.b
        self.held = self.words(b.add(self.sources, self.i64(1)))
        self.loop(self.sources, lambda i: self.put(self.i64(0), self.at(self.held, i)))
        self.block = self.words(self.slots)
        self.made = self.words(b.add(self.outputs, self.i64(1)))
        error = self.words(self.i64(1))
        template = self.at(table, self.word(table, TEMPLATE))
        self.loop(self.slots, lambda i: self.put(self.word(template, i), self.at(self.block, i)))
        self.loop(self.outputs, lambda i: self.put(self.i64(0), self.at(self.made, i)))
        self.put(self.i64(0), error)
        self.put(self.b.ptrtoint(error, self.i64), self.at(self.block, self.i64(1)))
        self.loop(self.sources, lambda i: self._source(i, release))
        looked, go = (function.append_basic_block(n) for n in ("looked", "go"))
        self.b.cbranch(self.looking, looked, go)
        self.b.position_at_end(go)
        self._lock(release)
        with self.b.if_then(self.looks):
            self.loop(self.outputs, lambda i: self._take(i, failed))
        self.loop(self.outputs, lambda i: self._output(i, failed))
        # What can be done before the program runs is: it leaves nothing of Python's objects in the caches.
        with self.b.if_then(self.b.icmp_signed("!=", self.word(table, TENSORS), self.i64(0))):
            self.loop(self.outputs, lambda i: self._wrap(i, failed))
        self.loop(self.word(table, VERSIONS), lambda i: self._count(i, COUNT, failed))
        self._run(error)
        fine = self.b.icmp_signed("==", self.b.load(error, typ=self.i64), self.i64(0))
        with self.b.if_else(fine) as (then, otherwise):
            with then, self.b.if_then(self.looks):
                self.loop(self.outputs, self._copy_home)
            with otherwise:
                self.loop(self.word(table, VERSIONS), lambda i: self._count(i, LESS, failed))
        self._unlock()
        self._drop(self.held, self.sources)
        self._finish(error)

        self.b.position_at_end(failed)  # an exception is set
        self._unlock()
        self._drop(self.held, self.sources)
        self._drop(self.made, self.outputs)
        self.b.ret(self.pointer(None))
        self.b.position_at_end(looked)
        self._drop(self.held, self.sources)
        right = self.constant("none")
        self.call("Py_IncRef", right)
        self.b.ret(right)
        self.b.position_at_end(release)
        self._drop(self.held, self.sources)
        self.b.branch(refused)
        self.b.position_at_end(refused)
        self.call("PyErr_Clear")
        answer = self.constant("refused")
        self.call("Py_IncRef", answer)
        self.b.ret(answer)
        self.b.position_at_end(self.entry)
        self.b.branch(start)
        return str(self.module)

    def _size(self, i: Any, refused: Any) -> None:
        """Look whether as much as expected is in a container."""
        record = self._entry_of(SIZE_TABLE, i, SIZE_FIELDS)
        size = self.call("PyObject_Size", self.word(record, SIZE_OF, self.pointer))
        self.unless(self.equal(size, self.word(record, SIZE)), refused)

    def _place(self, i: Any, refused: Any) -> None:
        """Look whether the expected object is at a place of Python's."""
        b = self.b
        record = self._entry_of(PLACE_TABLE, i, PLACE_FIELDS)
        container, key = (self.word(record, k, self.pointer) for k in (PLACE_OF, PLACE_KEY))
        expected, kind = self.word(record, PLACE_VALUE, self.pointer), self.word(record, PLACE_KIND)
        items, cell, values, done = (b.append_basic_block(n) for n in ("items", "cell", "values", "done"))
        named = b.append_basic_block("named")
        cases = b.switch(kind, items)
        for number, block in ((DICT, named), (CELL, cell), (VALUES, values)):
            cases.add_case(self.i64(number), block)
        b.position_at_end(named)
        found = self.call("PyDict_GetItemWithError", container, key)  # which is not held for the caller
        self.unless(self.equal(found, expected), refused)
        b.branch(done)
        for block, name, arguments in (
            (items, "PyObject_GetItem", (container, key)),
            (cell, "PyCell_Get", (container,)),
        ):
            b.position_at_end(block)
            found = self.call(name, *arguments)
            self.unless(b.icmp_unsigned("!=", found, self.pointer(None)), refused)
            self.call("Py_DecRef", found)
            self.unless(self.equal(found, expected), refused)
            b.branch(done)
        b.position_at_end(values)
        self._values(
            container,
            self.word(record, PLACE_KEY),
            self.at(self.table, self.word(record, PLACE_VALUE)),
            refused,
        )
        self.b.branch(done)
        b.position_at_end(done)

    def _values(self, container: Any, count: Any, expected: Any, refused: Any) -> None:
        """Look whether the expected objects are all that is in a dictionary."""
        b = self.b
        self.unless(self.equal(self.call("PyObject_Size", container), count), refused)
        position, key, value = (self.counter() for _ in range(3))
        self.put(self.i64(0), position)

        def look(k: Any) -> None:
            there = self.call("PyDict_Next", container, position, key, value)
            self.unless(b.icmp_signed("!=", there, self.i32(0)), refused)
            wanted = self.word(expected, k)
            self.unless(
                b.or_(self.equal(b.load(value, typ=self.i64), wanted), self.equal(wanted, self.i64(0))),
                refused,
            )

        self.loop(count, look)

    def _entry_of(self, field: int, i: Any, words: int) -> Any:
        """Entry `i` of the table that a field says the place of."""
        b = self.b
        return self.at(self.table, b.add(self.word(self.table, field), b.mul(i, self.i64(words))))

    def _source(self, i: Any, refused: Any) -> None:
        b = self.b
        record = self._entry_of(SOURCE_TABLE, i, SOURCE_FIELDS)
        which = self.word(record, WHICH)
        given = b.icmp_signed(">=", which, self.i64(0))
        with b.if_then(b.not_(b.and_(self.looking, given))):
            place = b.select(given, self.at(self.args, which), self.at(record, self.i64(OBJECT)))
            self._looked_at(i, b.load(place, typ=self.pointer), record, refused)

    def _looked_at(self, i: Any, object_: Any, record: Any, refused: Any) -> None:
        b = self.b
        self.unless(self.equal(self.field(object_, 8), self.word(record, KIND)), refused)
        bits = self.word(record, LOOKED_AT)
        is_tensor, bare, checked = (b.append_basic_block(n) for n in ("is_tensor", "bare", "checked"))
        b.cbranch(self.chosen(bits, IS_TENSOR), is_tensor, bare)
        b.position_at_end(is_tensor)
        array = self.call("PyObject_GetAttr", object_, self.constant("name__array"))
        self.unless(b.icmp_unsigned("!=", array, self.pointer(None)), refused)
        self.put(array, self.at(self.held, i))
        settled = self.chosen(bits, SETTLED)
        with b.if_then(b.or_(b.or_(self.looking, self.whole), b.not_(settled))):  # or it came before the call
            self.is_attribute(object_, "_keys", self.word(record, KEYS), refused)
            with b.if_then(self.chosen(bits, NO_BASE)):
                self.is_attribute(object_, "_base", self.constant("none"), refused)
            with b.if_then(self.chosen(bits, RECORDED)):
                self.is_attribute(object_, "_requires_grad", self.word(record, FLAG), refused)
                self.is_attribute(object_, "_node", self.constant("none"), refused)
            with b.if_then(settled):
                self.is_attribute(object_, "_offset", self.constant("zero"), refused)
        b.branch(checked)
        b.position_at_end(bare)
        self.call("Py_IncRef", object_)
        self.put(object_, self.at(self.held, i))
        b.branch(checked)
        b.position_at_end(checked)
        array = b.load(self.at(self.held, i), typ=self.pointer)
        expected = self.at(self.table, self.word(record, DIMS))
        rank = self.word(record, RANK)
        self._check_array(array, self.word(record, DESCR), rank, expected, self.at(expected, rank), refused)
        with b.if_then(b.and_(self.chosen(bits, OWNED), b.not_(self.looking))):
            self.unless(b.call(self.owned, [object_, array]), refused)
        slot = self.word(record, SLOT)
        # inputs that no kernel reads have no slot
        with b.if_then(b.icmp_signed(">=", slot, self.i64(0))):
            self.put(self.field(array, DATA), self.at(self.block, slot))

    def _check_array(
        self, array: Any, descr: Any, rank: Any, dims: Any, strides: Any, otherwise: Any
    ) -> None:
        """Go on if it is an array of that dtype, and lies in memory like that."""
        b = self.b
        self.unless(self.equal(self.field(array, 8), self.constant("ndarray")), otherwise)
        self.unless(self.equal(self.field(array, ARRAY_DESCR), descr), otherwise)
        self.unless(self.equal(b.sext(self.field(array, ARRAY_RANK, self.i32), self.i64), rank), otherwise)
        for offset, expected in ((ARRAY_DIMS, dims), (ARRAY_STRIDES, strides)):
            actual = self.field(array, offset)
            self.loop(
                rank,
                lambda k, a=actual, e=expected: self.unless(
                    self.equal(self.word(a, k), self.word(e, k)), otherwise
                ),
            )

    def _lock(self, refused: Any) -> None:
        """Take the workspace, if the program has one."""
        b = self.b
        take, go = (b.append_basic_block(n) for n in ("take", "go"))
        b.cbranch(b.icmp_signed("!=", self.word(self.table, SHARED), self.i64(0)), take, go)
        b.position_at_end(take)
        before = b.atomic_rmw("xchg", self.word(self.table, BUSY, self.pointer), self.i64(1), "acq_rel")
        b.cbranch(b.icmp_signed("==", before, self.i64(0)), go, refused)
        b.position_at_end(go)

    def _unlock(self) -> None:
        with self.b.if_then(self.b.icmp_signed("!=", self.word(self.table, SHARED), self.i64(0))):
            self.b.atomic_rmw("xchg", self.word(self.table, BUSY, self.pointer), self.i64(0), "acq_rel")

    def _record(self, i: Any) -> Any:
        return self._entry_of(OUTPUT_TABLE, i, OUTPUT_FIELDS)

    def _owner(self, record: Any) -> Any:
        """The tensor whose gradient an output becomes."""
        which = self.word(record, OUT_WHICH)
        place = self.b.select(
            self.b.icmp_signed(">=", which, self.i64(0)),
            self.at(self.args, which),
            self.at(record, self.i64(OUT_OWNER)),
        )
        return self.b.load(place, typ=self.pointer)

    def _take(self, i: Any, failed: Any) -> None:
        """Let go of the gradient that an output replaces. Its memory is the output's if nobody else can reach
        it.
        """
        b, null = self.b, self.pointer(None)
        record = self._record(i)
        with b.if_then(self.chosen(self.word(record, OUT_GRADIENT), 1)):
            owner = self._owner(record)
            old = self.call("PyObject_GetAttr", owner, self.constant("name__grad"))
            self.unless(b.icmp_unsigned("!=", old, null), failed)
            alone, taken, unfit, done = (b.append_basic_block(n) for n in ("alone", "taken", "unfit", "done"))
            b.cbranch(
                b.and_(self.equal(self.field(old, 8), self.constant("Tensor")), self.references(old, 2)),
                alone,
                done,
            )
            b.position_at_end(alone)
            array = self.call("PyObject_GetAttr", old, self.constant("name__array"))
            b.cbranch(b.icmp_unsigned("!=", array, null), taken, failed)
            b.position_at_end(taken)
            self.put(array, self.at(self.made, i))
            dims = self.at(self.table, self.word(record, OUT_DIMS))
            strides = self.at(self.table, self.word(record, OUT_STRIDES))
            self._check_array(
                array, self.word(record, OUT_DESCR), self.word(record, OUT_RANK), dims, strides, unfit
            )
            wanted = b.select(
                b.icmp_signed("!=", self.word(record, OUT_BYTES), self.i64(0)),
                self.i64(ALIGNMENT - 1),
                self.i64(0),
            )
            self.unless(self.equal(b.and_(self.field(array, DATA, self.i64), wanted), self.i64(0)), unfit)
            self.unless(b.call(self.owned, [old, array]), unfit)
            b.branch(done)
            b.position_at_end(unfit)
            self.put(self.i64(0), self.at(self.made, i))
            self.call("Py_DecRef", array)
            b.branch(done)
            b.position_at_end(done)
            gone = self.call("PyObject_SetAttr", owner, self.constant("name__grad"), self.constant("none"))
            self.call("Py_DecRef", old)
            self.unless(b.icmp_signed("==", gone, self.i32(0)), failed)

    def _output(self, i: Any, failed: Any) -> None:
        """Memory for an output that has none."""
        b = self.b
        record = self._record(i)
        with b.if_then(b.icmp_signed("<", self.word(record, OUT_HOME), self.i64(0))):
            with b.if_then(b.icmp_signed("==", self.word(self.made, i), self.i64(0))):
                self._make(i, record, failed)
            array = self.word(self.made, i, self.pointer)
            self.put(self.field(array, DATA), self.at(self.block, self.word(record, OUT_SLOT)))

    def _make(self, i: Any, record: Any, failed: Any) -> None:
        b, table, null = self.b, self.table, self.pointer(None)
        descr = self.word(record, OUT_DESCR, self.pointer)
        rank = b.trunc(self.word(record, OUT_RANK), self.i32)
        dims = self.at(table, self.word(record, OUT_DIMS))
        layout = self.word(record, OUT_STRIDES)
        strides = b.select(b.icmp_signed("!=", layout, self.i64(0)), self.at(table, layout), null)
        size = self.word(record, OUT_BYTES)
        kind = self.constant("ndarray")
        aligned, small, done = (b.append_basic_block(n) for n in ("aligned", "small", "done"))
        self.call("Py_IncRef", descr)
        b.cbranch(b.icmp_signed("!=", size, self.i64(0)), aligned, small)
        b.position_at_end(small)
        array = self.call("array_new", kind, descr, rank, dims, strides, null, self.i32(0), null)
        self.unless(b.icmp_unsigned("!=", array, null), failed)
        self.put(array, self.at(self.made, i))
        b.branch(done)
        b.position_at_end(aligned)
        self._aligned(i, descr, rank, dims, strides, size, failed)
        b.branch(done)
        b.position_at_end(done)

    def _aligned(
        self, i: Any, descr: Any, rank: Any, dims: Any, strides: Any, size: Any, failed: Any
    ) -> None:
        """An array at an aligned address inside a longer one."""
        b, null, kind = self.b, self.pointer(None), self.constant("ndarray")
        length = self.counter()
        self.put(b.add(size, self.i64(ALIGNMENT)), length)
        bytes_type = self.constant("bytes_type")
        self.call("Py_IncRef", bytes_type)
        memory = self.call("array_new", kind, bytes_type, self.i32(1), length, null, null, self.i32(0), null)
        self.unless(b.icmp_unsigned("!=", memory, null), failed)
        start = self.field(memory, DATA, self.i64)
        data = b.and_(b.add(start, self.i64(ALIGNMENT - 1)), self.i64(-ALIGNMENT))
        array = self.call(
            "array_new",
            kind,
            descr,
            rank,
            dims,
            strides,
            b.inttoptr(data, self.pointer),
            self.i32(BEHAVED),
            null,
        )
        self.unless(b.icmp_unsigned("!=", array, null), failed)
        self.put(array, self.at(self.made, i))
        self.call("array_set_base", array, memory)

    def _run(self, error: Any) -> None:
        b, table = self.b, self.table
        state = self.words(self.i64(1))
        self.put(self.pointer(None), state)
        with b.if_then(b.icmp_signed("!=", self.word(table, RELEASE), self.i64(0))):
            self.put(self.call("PyEval_SaveThread"), state)
        segment_type = ir.FunctionType(self.void, [self.pointer])

        def run(i: Any) -> None:
            place = self.b.add(self.word(table, SEGMENT_TABLE), i)
            clean = self.b.icmp_signed("==", self.b.load(error, typ=self.i64), self.i64(0))
            with self.b.if_then(clean):
                function = self.word(table, place, self.pointer)
                self.b.call(Callee(function, segment_type), [self.block])

        self.loop(self.word(table, SEGMENTS), run)
        with self.b.if_then(self.b.icmp_signed("!=", self.word(table, RELEASE), self.i64(0))):
            self.call("PyEval_RestoreThread", self.b.load(state, typ=self.pointer))

    def _copy_home(self, i: Any) -> None:
        """Copy a small output to the memory of the input that it is the new contents of."""
        b = self.b
        record = self._record(i)
        home = self.word(record, OUT_HOME)
        with b.if_then(b.icmp_signed(">=", home, self.i64(0))):
            target = self.field(self.word(self.held, home, self.pointer), DATA)
            source = self.word(self.block, self.word(record, OUT_SLOT), self.pointer)
            byte = ir.IntType(8)
            self.loop(
                self.word(record, OUT_COPIED),
                lambda k: self.b.store(
                    self.b.load(self.b.gep(source, [k], source_etype=byte), typ=byte),
                    self.b.gep(target, [k], source_etype=byte),
                ),
            )

    def _count(self, i: Any, field: int, failed: Any) -> None:
        """Count the writes to a tensor, or take them back."""
        b, null = self.b, self.pointer(None)
        record = self._entry_of(VERSION_TABLE, i, VERSION_FIELDS)
        tensor, count = (self.word(record, k, self.pointer) for k in (VERSION_OF, field))
        place = self.counter()
        self.put(self.call("PyObject_GetAttr", tensor, self.constant("name__versions")), place)
        with b.if_then(self.equal(b.load(place, typ=self.pointer), self.constant("none"))):
            self.call("Py_DecRef", self.constant("none"))
            self.put(self.call("PyObject_GetAttr", tensor, self.constant("name_version_counter")), place)
        counter = b.load(place, typ=self.pointer)
        self.unless(b.icmp_unsigned("!=", counter, null), failed)
        old = self.call("PyObject_GetAttr", counter, self.constant("name_value"))
        self.unless(b.icmp_unsigned("!=", old, null), failed)
        new = self.call("PyNumber_Add", old, count)
        self.unless(b.icmp_unsigned("!=", new, null), failed)
        kept = self.call("PyObject_SetAttr", counter, self.constant("name_value"), new)
        for object_ in (counter, old, new):
            self.call("Py_DecRef", object_)
        self.unless(b.icmp_signed("==", kept, self.i32(0)), failed)

    def _drop(self, objects: Any, count: Any) -> None:
        def drop(i: Any) -> None:
            held = self.b.load(self.at(objects, i), typ=self.pointer)
            with self.b.if_then(self.b.icmp_unsigned("!=", held, self.pointer(None))):
                self.call("Py_DecRef", held)

        self.loop(count, drop)

    def _finish(self, error: Any) -> None:
        """The number of an error, or a tensor, or a list of tensors or arrays."""
        b, table, null = self.b, self.table, self.pointer(None)
        broken, good, lost = (b.append_basic_block(n) for n in ("broken", "good", "lost"))
        number = b.load(error, typ=self.i64)
        b.cbranch(b.icmp_signed("!=", number, self.i64(0)), broken, good)
        b.position_at_end(broken)
        self._drop(self.made, self.outputs)
        b.ret(self.call("PyLong_FromLongLong", number))

        b.position_at_end(good)
        with b.if_then(self.looks):
            self.loop(self.outputs, lambda i: self._give(i, lost))
        single, several = (b.append_basic_block(n) for n in ("single", "several"))
        b.cbranch(b.icmp_signed("!=", self.word(table, SINGLE), self.i64(0)), single, several)
        b.position_at_end(single)
        b.ret(self.word(self.made, 0, self.pointer))
        b.position_at_end(several)
        listed = self.word(table, LISTED)
        results = self.call("PyList_New", listed)
        self.unless(b.icmp_unsigned("!=", results, null), lost)
        self.loop(
            listed,
            lambda i: self.call(
                "PyList_SetItem", results, i, self.b.load(self.at(self.made, i), typ=self.pointer)
            ),
        )
        b.ret(results)
        b.position_at_end(lost)
        self._drop(self.made, self.outputs)
        b.ret(null)

    def _wrap(self, i: Any, lost: Any) -> None:
        """Replace an array by a tensor that owns it."""
        b, null = self.b, self.pointer(None)
        array = b.load(self.at(self.made, i), typ=self.pointer)
        with b.if_then(b.icmp_unsigned("!=", array, null)):
            tensor = self.call("PyType_GenericAlloc", self.constant("Tensor"), self.i64(0))
            self.unless(b.icmp_unsigned("!=", tensor, null), lost)
            self.put(tensor, self.at(self.made, i))
            first = self.call("PyObject_SetAttr", tensor, self.constant("name__array"), array)
            self.call("Py_DecRef", array)
            dtype = self.word(self._record(i), OUT_DTYPE, self.pointer)
            second = self.call("PyObject_SetAttr", tensor, self.constant("name_dtype"), dtype)
            self.unless(b.icmp_signed("==", b.or_(first, second), self.i32(0)), lost)

    def _give(self, i: Any, lost: Any) -> None:
        """Set a gradient."""
        b = self.b
        record = self._record(i)
        with b.if_then(self.chosen(self.word(record, OUT_GRADIENT), 1)):
            new = self.word(self.made, i, self.pointer)
            given = self.call("PyObject_SetAttr", self._owner(record), self.constant("name__grad"), new)
            self.unless(b.icmp_signed("==", given, self.i32(0)), lost)
            self.put(self.i64(0), self.at(self.made, i))
            self.call("Py_DecRef", new)

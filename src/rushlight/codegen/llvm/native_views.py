"""The native function that makes views of plain tensors whose geometry is known.

A table of a view operator has slots. Each says, for a signature (the geometry of the source and the numbers among
the arguments), where the view lies: runtime/native_views.py fills it when Python has made the first such view.
"""

from __future__ import annotations

from typing import Any

from ...core.lazy import LazyModule
from .native_record import RecordEmitter
from .python_objects import BEHAVED, PyArray
from .struct import I64, Ptr, Struct

ir = LazyModule("llvmlite.ir")

SLOTS_OF_VIEWS = 128  # of a table, a power of two; a signature has a pair of them to be in
MOST_DIMS = 6  # of sources and views
MOST_WORDS = 32  # of a signature
HASH = 0x9E3779B97F4A7C15  # an odd number whose bits look random
HASH_SHIFT = 40
MISSING = -(2**62) - 1  # stands for None in a signature


class ViewSlot(Struct):
    """A signature, of as many words as `count` says, and what is to be made of it."""

    count: I64  # 0: there is none
    rank: I64
    strides: Ptr  # a tuple, in elements
    offset: Ptr  # a number: how far after the source it begins, in elements
    offset_bytes: I64
    counted: I64  # whether writes to it are writes to the source
    tracked: I64  # whether it is a view in the eyes of autograd
    differentiable: I64


DIMS_AT = ViewSlot.word_count()  # words in a slot before the sizes, steps and the signature
STEPS_AT = DIMS_AT + MOST_DIMS
SIGNATURE_AT = STEPS_AT + MOST_DIMS
SLOT_WORDS = SIGNATURE_AT + MOST_WORDS


class ViewEmitter(RecordEmitter):
    """Emits `view`."""

    def emit_view(self, function: Any, layout: Any) -> None:
        """`view(table, args, values, slots)`: the view, or an error, or the object `refused`."""
        b = self.builder
        self.table_address, self.args, self.values_given, slots = function.args
        self.table = layout.at(self, self.table_address)
        self.given = self.table.given
        refused, release, unheld = self.blocks("refused", "release", "unheld")
        source = self.word(self.args, 0, self.pointer)
        array = self.get(source, "_array")
        self.require_object(array, refused)
        self.require(self.is_same(self.type_of(array), self.object("ndarray")), unheld)
        storage = self._made(source, "_storage", "storage_object", unheld)
        # from here to the copy of the slot no other thread runs, which could fill it anew
        signature = self.local(ir.ArrayType(self.i64, MOST_WORDS + 1))
        count, mixed = self._sign(source, array, storage, signature, release)
        number = self.and_(self.shift_right(mixed, HASH_SHIFT), SLOTS_OF_VIEWS - 1)
        place, other = self.local(self.pointer), b.append_basic_block("other")
        found = b.append_basic_block("found")
        for which, otherwise in ((number, other), (self.xor(number, 1), release)):
            slot = self.word_address(slots, self.mul(which, SLOT_WORDS))
            self.store(slot, place)
            self.require(self.is_same(ViewSlot.at(self, slot).count, count), otherwise)
            with self.loop(0, count) as i:
                mine = self.word(signature, i)
                self.require(self.is_same(mine, self.word(slot, self.add(i, SIGNATURE_AT))), otherwise)
            b.branch(found)
            if otherwise is other:
                b.position_at_end(other)
        b.position_at_end(found)
        copy = self.local(ir.ArrayType(self.i64, SIGNATURE_AT))
        slot = self.load(place, self.pointer)
        with self.loop(0, SIGNATURE_AT) as i:
            self.store(self.word(slot, i), self.word_address(copy, i))
        known = ViewSlot.at(self, copy)
        for held in (known.strides, known.offset):
            self.api("Py_IncRef", held)
        self._make(source, array, storage, copy, known)
        b.position_at_end(release)
        self.api("Py_DecRef", storage)
        b.branch(unheld)
        b.position_at_end(unheld)
        self.api("Py_DecRef", array)
        b.branch(refused)
        b.position_at_end(refused)
        self.api("PyErr_Clear")
        b.ret(self.object("refused"))

    # The signature.

    def _sign(self, source: Any, array: Any, storage: Any, words: Any, release: Any) -> tuple[Any, Any]:
        """Write the signature; how many words it has, and a mixture of them."""
        fields = PyArray.at(self, array)
        rank = self.builder.sext(fields.rank, self.i64)
        self.require(self.compare("<=", rank, MOST_DIMS), release)
        strides = self.get(source, "_strides")
        self.require_object(strides, release)
        self.api("Py_DecRef", strides)  # the tensor holds it
        count, mixed = self.local(self.i64), self.local(self.i64)
        self.store(self.i64(0), count)
        self.store(self.i64(0), mixed)

        def put(word: Any) -> None:
            at = self.load(count, self.i64)
            self.require(self.compare("<", at, MOST_WORDS), release)
            if str(word.type) != "i64":
                word = self.builder.ptrtoint(word, self.i64)
            self.store(word, self.word_address(words, at))
            self.store(self.mul(self.xor(self.load(mixed, self.i64), word), self.i64(HASH)), mixed)
            self.store(self.add(at, 1), count)

        put(fields.descr)
        put(rank)
        with self.loop(0, rank) as k:
            put(self.word(fields.dims, k))
            put(self.word(fields.strides, k))
        self._put_argument(strides, put, release)
        with self.loop(1, self.given) as i:
            self._put_argument(self.word(self.args, i, self.pointer), put, release)
        with self.when(self.is_true(self.table.reaches_storage)):
            self._put_place(array, storage, put, release)
        return self.load(count, self.i64), self.load(mixed, self.i64)

    def _put_place(self, array: Any, storage: Any, put: Any, release: Any) -> None:
        """How many bytes after the beginning of its storage a source begins, and how large that is."""
        buffer = self.get(storage, "buffer")
        self.require_object(buffer, release)
        self.api("Py_DecRef", buffer)  # the storage holds it
        self.require(self.is_same(self.type_of(buffer), self.object("ndarray")), release)
        memory = PyArray.at(self, buffer)
        ends = (self.builder.ptrtoint(fields.data, self.i64) for fields in (PyArray.at(self, array), memory))
        put(self.sub(*ends))
        put(self.word(memory.dims, 0))

    def _put_argument(self, value: Any, put: Any, release: Any) -> None:
        b = self.builder
        kind = self.type_of(value)
        number, several, other, missing, done = self.blocks("number", "several", "other", "missing", "done")
        b.cbranch(self.is_same(kind, self.object("int")), number, other)
        b.position_at_end(number)
        put(self._long(value, release))
        b.branch(done)
        b.position_at_end(other)
        b.cbranch(self.is_same(value, self.object("none")), missing, several)
        b.position_at_end(missing)
        put(self.i64(MISSING))
        b.branch(done)
        b.position_at_end(several)
        self.require(self.is_same(kind, self.object("tuple")), release)
        size = self.api("PyTuple_Size", value)
        put(size)
        with self.loop(0, size) as k:
            item = self.api("PyTuple_GetItem", value, k)
            self.require(self.is_same(self.type_of(item), self.object("int")), release)
            put(self._long(item, release))
        b.branch(done)
        b.position_at_end(done)

    def _long(self, value: Any, release: Any) -> Any:
        overflow = self.local(self.i32)
        word = self.api("PyLong_AsLongLongAndOverflow", value, overflow)
        self.require(self.compare("==", self.load(overflow, self.i32), 0), release)
        return word

    # The view.

    def _make(self, source: Any, array: Any, storage: Any, slot: Any, known: Any) -> None:
        b = self.builder
        done, broken = self.blocks("done", "broken")
        result = self.local(self.pointer)
        self.store(self.null, result)
        made = self._new_array(array, slot, known, done)
        tensor = self.api("PyType_GenericAlloc", self.object("Tensor"), self.i64(0))
        lost = b.append_basic_block("lost")
        self.require_object(tensor, lost)
        self._give(tensor, "_array", made, broken)
        self._give(tensor, "dtype", self.get(source, "dtype"), broken)
        self._put(tensor, "_storage", storage, broken)
        self._put(tensor, "_strides", known.strides, broken)
        self._set_offset(tensor, source, known, broken)
        with self.when(self.is_true(known.counted)):
            self._count(tensor, source, broken)
        with self.when(self.is_true(known.tracked)):
            self._track(tensor, source, known, broken)
        self.store(tensor, result)
        b.branch(done)
        b.position_at_end(lost)
        self.api("Py_DecRef", made)
        b.branch(done)
        b.position_at_end(broken)
        self.api("Py_DecRef", tensor)
        b.branch(done)
        b.position_at_end(done)
        for held in (known.strides, known.offset, storage, array):
            self.api("Py_DecRef", held)
        b.ret(self.load(result, self.pointer))

    def _give(self, object_: Any, name: str, value: Any, failed: Any) -> None:
        """Set an attribute to something that a reference is held of, which is let go; null is an error."""
        self.require_object(value, failed)
        done = self.set(object_, name, value)
        self.api("Py_DecRef", value)
        self.require(self.compare("==", done, 0), failed)

    def _put(self, object_: Any, name: str, value: Any, failed: Any) -> None:
        self.require(self.compare("==", self.set(object_, name, value), 0), failed)

    def _new_array(self, array: Any, slot: Any, known: Any, failed: Any) -> Any:
        """An array over the memory of another one, which it keeps."""
        fields = PyArray.at(self, array)
        descr = fields.descr
        self.api("Py_IncRef", descr)
        made = self.api(
            "array_new",
            self.object("ndarray"),
            descr,
            self.builder.trunc(known.rank, self.i32),
            self.word_address(slot, DIMS_AT),
            self.word_address(slot, STEPS_AT),
            self.builder.gep(fields.data, [known.offset_bytes], source_etype=self.i8),
            self.and_(fields.flags, BEHAVED),
            self.null,
        )
        self.require_object(made, failed)
        self.api("array_set_base", made, self._taken(array))
        return made

    def _set_offset(self, tensor: Any, source: Any, known: Any, failed: Any) -> None:
        before = self.get(source, "_offset")
        self.require_object(before, failed)
        self.api("Py_DecRef", before)
        zero = self.object("zero")
        both = self.and_(self.is_same(before, zero), self.is_same(known.offset, zero))
        with self.when(self.not_(both)):
            self._give(tensor, "_offset", self.api("PyNumber_Add", before, known.offset), failed)

    def _count(self, tensor: Any, source: Any, failed: Any) -> None:
        self._give(tensor, "_versions", self._made(source, "_versions", "version_counter", failed), failed)

    def _made(self, tensor: Any, name: str, way: str, failed: Any) -> Any:
        """What a tensor keeps under `name`; where it is None, the property `way` makes it."""
        kept = self.get(tensor, name)
        self.require_object(kept, failed)
        none = self.is_same(kept, self.object("none"))

        def new() -> list[Any]:
            self.api("Py_DecRef", kept)
            return [self.get(tensor, way)]

        (found,) = self.branch(none, new, lambda: [kept])
        self.require_object(found, failed)
        return found

    def _track(self, tensor: Any, source: Any, known: Any, failed: Any) -> None:
        none = self.object("none")
        found = self.get(source, "_base")
        self.require_object(found, failed)
        self.api("Py_DecRef", found)
        base = self.select(self.is_same(found, none), source, found)
        self._put(tensor, "_base", base, failed)
        values = self.all_arguments(failed)
        op = self.table.op
        self.api("Py_IncRef", op)
        self._give(tensor, "_view_of", self.tuple_of([op, values], failed), failed)
        with self.when(self.is_true(known.differentiable)):
            self._put(tensor, "_keys", self.object("one"), failed)
            node = self.get(base, "_node")
            self.require_object(node, failed)
            self.api("Py_DecRef", node)
            with self.when(self.not_(self.is_same(node, none))):
                self._put(tensor, "_seen", node, failed)
            self._restrict(tensor, source, failed)

    def _restrict(self, tensor: Any, source: Any, failed: Any) -> None:
        """Note in which way it was made, where that forbids writes to become part of its history."""
        modes = self.get(self.object("modes"), "__dict__")
        self.require_object(modes, failed)
        self.api("Py_DecRef", modes)
        found = self.api("PyDict_GetItemWithError", modes, self.attribute_name("grad"))
        grad = self.or_(self.is_null(found), self.is_same(found, self.object("true")))
        (creation,) = self.branch(
            grad, lambda: [self.get(source, "_creation")], lambda: [self._taken(self.object("name_no_grad"))]
        )
        self.require_object(creation, failed)
        with self.when(self.not_(self.is_same(creation, self.object("none")))):
            self._put(tensor, "_creation", creation, failed)
            counter = self._made(tensor, "_versions", "version_counter", failed)
            self._give(tensor, "_seen_version", self.get(counter, "value"), failed)
            self.api("Py_DecRef", counter)
        self.api("Py_DecRef", creation)

"""The native function behind `invoke.Invoker`, as LLVM IR, and the layout of the tables that it reads."""

from __future__ import annotations

from typing import Any

from ..core.lazy import LazyModule
from .engine import Callee

ir = LazyModule("llvmlite.ir")

# Fields of the table.
(ARGUMENTS, TENSORS, RELEASE, BUSY, SHARED, SLOTS, SOURCES, OUTPUTS, SEGMENTS, TEMPLATE, SOURCE_TABLE,
 OUTPUT_TABLE, SEGMENT_TABLE, GRAD, INFERENCE, SINGLE, FIELDS) = range(17)
# Fields of a source: which argument (-1: a constant object), that object, its type, `_keys`, whether `_base`
# must be None, dtype object, rank, where its sizes and strides are, its slot (-1: none).
(WHICH, OBJECT, KIND, KEYS, NO_BASE, DESCR, RANK, DIMS, SLOT, SOURCE_FIELDS) = range(10)
# Fields of an output: dtype object, rank, where its sizes and strides are (or 0: contiguous), slot, bytes of
# an output that is to be aligned (else 0), the tensor's dtype.
(OUT_DESCR, OUT_RANK, OUT_DIMS, OUT_STRIDES, OUT_SLOT, OUT_BYTES, OUT_DTYPE, OUTPUT_FIELDS) = range(8)

# PyArrayObject: the header of an object, then data, nd, dimensions, strides, base, descr.
DATA, ARRAY_RANK, ARRAY_DIMS, ARRAY_STRIDES, ARRAY_DESCR = 16, 24, 32, 40, 56
NEW_FROM_DESCR, SET_BASE_OBJECT = 94, 282  # places in the table of NumPy's C interface
ALIGNMENT = 64
BEHAVED = 0x0400 | 0x0100  # writeable, aligned
METH_FASTCALL = 0x0080
# Python objects that it refers to, in the order of their addresses in a table.
OBJECTS = ("Tensor", "ndarray", "ambient", "modes", "zero", "none", "refused", "bytes_type", "name__array",
           "name__keys", "name__base", "name_dtype", "name_keys", "name_grad", "name_inference")


class Emitter:
    """The function `invoke(self, args, nargs)`."""

    def __init__(self, functions: list[str]) -> None:
        self.module = ir.Module("rushlight_invoke")
        self.i32, self.i64, self.pointer, self.void = (
            ir.IntType(32), ir.IntType(64), ir.PointerType(), ir.VoidType())
        p, i64, i32 = self.pointer, self.i64, self.i32
        signatures = {
            "PyObject_GetAttr": (p, [p, p]), "PyObject_SetAttr": (i32, [p, p, p]),
            "PyType_GenericAlloc": (p, [p, i64]), "PyErr_Clear": (self.void, []),
            "Py_IncRef": (self.void, [p]), "Py_DecRef": (self.void, [p]), "PyEval_SaveThread": (p, []),
            "PyEval_RestoreThread": (self.void, [p]), "PyLong_FromLongLong": (p, [i64]),
            "PyList_New": (p, [i64]), "PyList_SetItem": (i32, [p, i64, p]),
            "array_new": (p, [p, p, i32, p, p, p, i32, p]), "array_set_base": (i32, [p, p])}
        self.functions = {
            name: ir.Function(self.module, ir.FunctionType(result, arguments), name)
            for name, (result, arguments) in signatures.items() if name in functions}
        self.objects = ir.GlobalVariable(self.module, ir.ArrayType(self.i64, len(OBJECTS)), "objects")
        self.objects.linkage = "external"

    # Helpers.

    def call(self, name: str, *arguments: Any) -> Any:
        return self.b.call(self.functions[name], list(arguments))

    def word(self, base: Any, index: Any, kind: Any = None) -> Any:
        """Word `index` of the words at `base`."""
        index = self.i64(index) if isinstance(index, int) else index
        return self.b.load(self.b.gep(base, [index], source_etype=self.i64), typ=kind or self.i64)

    def at(self, base: Any, index: Any) -> Any:
        return self.b.gep(base, [index], source_etype=self.i64)

    def field(self, object_: Any, offset: int, kind: Any = None) -> Any:
        place = self.b.gep(object_, [self.i64(offset)], source_etype=ir.IntType(8))
        return self.b.load(place, typ=kind or self.pointer)

    def constant(self, name: str) -> Any:
        return self.word(self.objects, OBJECTS.index(name), self.pointer)

    def unless(self, condition: Any, target: Any) -> None:
        """Go on if `condition`, else to the block `target`."""
        following = self.b.append_basic_block("next")
        self.b.cbranch(condition, following, target).set_weights((1000, 1))
        self.b.position_at_end(following)

    def loop(self, count: Any, body: Any) -> None:
        """`body(i)` for i from 0 to count - 1; it may leave for another block."""
        counter = self.counter()
        self.b.store(self.i64(0), counter)
        test, inside, after = (self.b.append_basic_block(n) for n in ("test", "inside", "after"))
        self.b.branch(test)
        self.b.position_at_end(test)
        index = self.b.load(counter, typ=self.i64)
        self.b.cbranch(self.b.icmp_signed("<", index, count), inside, after)
        self.b.position_at_end(inside)
        body(index)
        self.b.store(self.b.add(self.b.load(counter, typ=self.i64), self.i64(1)), counter)
        self.b.branch(test)
        self.b.position_at_end(after)

    def counter(self) -> Any:
        with self.b.goto_block(self.entry):
            return self.words(self.i64(1))

    def words(self, count: Any) -> Any:
        """Memory of this call."""
        return self.b.alloca(self.i64, count)

    def put(self, value: Any, place: Any) -> None:
        """Store a word, which may be a pointer."""
        self.b.store(value if str(value.type) == "i64" else self.b.ptrtoint(value, self.i64), place)

    def equal(self, a: Any, b: Any) -> Any:
        if str(a.type) != str(b.type):
            a, b = (x if str(x.type) == "ptr" else self.b.inttoptr(x, self.pointer) for x in (a, b))
        return self.b.icmp_unsigned("==", a, b)

    def is_attribute(self, object_: Any, name: str, expected: Any, otherwise: Any) -> None:
        """Go on if the attribute is the very object `expected`."""
        found = self.call("PyObject_GetAttr", object_, self.constant(f"name_{name}"))
        self.unless(self.b.icmp_unsigned("!=", found, self.pointer(None)), otherwise)
        same = self.equal(found, expected)
        self.call("Py_DecRef", found)
        self.unless(same, otherwise)

    # The function.

    def build(self) -> str:
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
        self.unless(self.equal(given, self.word(table, ARGUMENTS)), refused)
        self.is_attribute(self.constant("ambient"), "keys", self.constant("zero"), refused)
        self.is_attribute(self.constant("modes"), "grad", self.word(table, GRAD), refused)
        self.is_attribute(self.constant("modes"), "inference", self.word(table, INFERENCE), refused)
        b = self.b
        self.block = self.words(self.slots)
        self.held = self.words(b.add(self.sources, self.i64(1)))
        self.made = self.words(b.add(self.outputs, self.i64(1)))
        error = self.words(self.i64(1))
        template = self.at(table, self.word(table, TEMPLATE))
        self.loop(self.slots, lambda i: self.put(self.word(template, i), self.at(self.block, i)))
        self.loop(self.sources, lambda i: self.put(self.i64(0), self.at(self.held, i)))
        self.loop(self.outputs, lambda i: self.put(self.i64(0), self.at(self.made, i)))
        self.put(self.i64(0), error)
        self.put(self.b.ptrtoint(error, self.i64), self.at(self.block, self.i64(1)))
        self.loop(self.sources, lambda i: self._source(i, release))
        self._lock(release)
        self.loop(self.outputs, lambda i: self._output(i, failed))
        self._run(error)
        self._unlock()
        self._drop(self.held, self.sources)
        self._finish(error)

        self.b.position_at_end(failed)  # an exception is set
        self._unlock()
        self._drop(self.held, self.sources)
        self._drop(self.made, self.outputs)
        self.b.ret(self.pointer(None))
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

    def _source(self, i: Any, refused: Any) -> None:
        b, table = self.b, self.table
        record = self.at(table, b.add(self.word(table, SOURCE_TABLE), b.mul(i, self.i64(SOURCE_FIELDS))))
        which = self.word(record, WHICH)
        given = b.icmp_signed(">=", which, self.i64(0))
        place = b.select(given, self.at(self.args, which), self.at(record, self.i64(OBJECT)))
        object_ = b.load(place, typ=self.pointer)
        self.unless(self.equal(self.field(object_, 8), self.word(record, KIND)), refused)
        is_tensor, bare, checked = (b.append_basic_block(n) for n in ("is_tensor", "bare", "checked"))
        b.cbranch(b.icmp_signed("!=", self.word(table, TENSORS), self.i64(0)), is_tensor, bare)
        b.position_at_end(is_tensor)
        array = self.call("PyObject_GetAttr", object_, self.constant("name__array"))
        self.unless(b.icmp_unsigned("!=", array, self.pointer(None)), refused)
        self.put(array, self.at(self.held, i))
        self.is_attribute(object_, "_keys", self.word(record, KEYS), refused)
        base, plain = (b.append_basic_block(n) for n in ("base", "plain"))
        b.cbranch(b.icmp_signed("!=", self.word(record, NO_BASE), self.i64(0)), base, plain)
        b.position_at_end(base)
        self.is_attribute(object_, "_base", self.constant("none"), refused)
        b.branch(plain)
        b.position_at_end(plain)
        b.branch(checked)
        b.position_at_end(bare)
        self.call("Py_IncRef", object_)
        self.put(object_, self.at(self.held, i))
        b.branch(checked)
        b.position_at_end(checked)
        array = b.load(self.at(self.held, i), typ=self.pointer)
        self._check_array(array, record, refused)
        slot = self.word(record, SLOT)
        # inputs that no kernel reads have no slot: their address goes to the place of the error's, set again
        with b.if_then(b.icmp_signed(">=", slot, self.i64(0))):
            self.put(self.field(array, DATA), self.at(self.block, slot))

    def _check_array(self, array: Any, record: Any, refused: Any) -> None:
        b = self.b
        self.unless(self.equal(self.field(array, 8), self.constant("ndarray")), refused)
        self.unless(self.equal(self.field(array, ARRAY_DESCR), self.word(record, DESCR)), refused)
        rank = b.sext(self.field(array, ARRAY_RANK, self.i32), self.i64)
        self.unless(self.equal(rank, self.word(record, RANK)), refused)
        expected = self.at(self.table, self.word(record, DIMS))
        for offset, first in ((ARRAY_DIMS, self.i64(0)), (ARRAY_STRIDES, rank)):
            actual = self.field(array, offset)
            self.loop(rank, lambda k, a=actual, f=first: self.unless(
                self.equal(self.word(a, k), self.word(expected, self.b.add(k, f))), refused))

    def _lock(self, refused: Any) -> None:
        """Take the workspace, if the program has one."""
        b = self.b
        take, go = (b.append_basic_block(n) for n in ("take", "go"))
        b.cbranch(b.icmp_signed("!=", self.word(self.table, SHARED), self.i64(0)), take, go)
        b.position_at_end(take)
        before = b.atomic_rmw("xchg", self.at(self.table, self.i64(BUSY)), self.i64(1), "acq_rel")
        b.cbranch(b.icmp_signed("==", before, self.i64(0)), go, refused)
        b.position_at_end(go)

    def _unlock(self) -> None:
        with self.b.if_then(self.b.icmp_signed("!=", self.word(self.table, SHARED), self.i64(0))):
            self.b.atomic_rmw("xchg", self.at(self.table, self.i64(BUSY)), self.i64(0), "acq_rel")

    def _output(self, i: Any, failed: Any) -> None:
        b, table, null = self.b, self.table, self.pointer(None)
        record = self.at(table, b.add(self.word(table, OUTPUT_TABLE), b.mul(i, self.i64(OUTPUT_FIELDS))))
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
        array = b.load(self.at(self.made, i), typ=self.pointer)
        self.put(self.field(array, DATA), self.at(self.block, self.word(record, OUT_SLOT)))

    def _aligned(self, i: Any, descr: Any, rank: Any, dims: Any, strides: Any, size: Any,
                 failed: Any) -> None:
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
        array = self.call("array_new", kind, descr, rank, dims, strides, b.inttoptr(data, self.pointer),
                          self.i32(BEHAVED), null)
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
        with b.if_then(b.icmp_signed("!=", self.word(table, TENSORS), self.i64(0))):
            self.loop(self.outputs, lambda i: self._wrap(i, lost))
        single, several = (b.append_basic_block(n) for n in ("single", "several"))
        b.cbranch(b.icmp_signed("!=", self.word(table, SINGLE), self.i64(0)), single, several)
        b.position_at_end(single)
        b.ret(self.word(self.made, 0, self.pointer))
        b.position_at_end(several)
        results = self.call("PyList_New", self.outputs)
        self.unless(b.icmp_unsigned("!=", results, null), lost)
        self.loop(self.outputs, lambda i: self.call(
            "PyList_SetItem", results, i, self.b.load(self.at(self.made, i), typ=self.pointer)))
        b.ret(results)
        b.position_at_end(lost)
        self._drop(self.made, self.outputs)
        b.ret(null)

    def _wrap(self, i: Any, lost: Any) -> None:
        """Replace an array by a tensor that owns it."""
        b, table, null = self.b, self.table, self.pointer(None)
        array = b.load(self.at(self.made, i), typ=self.pointer)
        tensor = self.call("PyType_GenericAlloc", self.constant("Tensor"), self.i64(0))
        self.unless(b.icmp_unsigned("!=", tensor, null), lost)
        self.put(tensor, self.at(self.made, i))
        first = self.call("PyObject_SetAttr", tensor, self.constant("name__array"), array)
        self.call("Py_DecRef", array)
        record = b.add(self.word(table, OUTPUT_TABLE), b.mul(i, self.i64(OUTPUT_FIELDS)))
        dtype = self.word(self.at(table, record), OUT_DTYPE, self.pointer)
        second = self.call("PyObject_SetAttr", tensor, self.constant("name_dtype"), dtype)
        self.unless(b.icmp_signed("==", b.or_(first, second), self.i32(0)), lost)

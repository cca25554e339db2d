"""Emitting code, as LLVM IR, that reads and makes Python's objects: the layout of arrays, and helpers."""

from __future__ import annotations

from typing import Any

from ..core.lazy import LazyModule

ir = LazyModule("llvmlite.ir")

# PyArrayObject: the header of an object, then data, nd, dimensions, strides, base, descr, flags.
DATA, ARRAY_RANK, ARRAY_DIMS, ARRAY_STRIDES, ARRAY_BASE, ARRAY_DESCR, ARRAY_FLAGS = 16, 24, 32, 40, 48, 56, 64
WRITEABLE = 0x0400
NEW_FROM_DESCR, SET_BASE_OBJECT = 94, 282  # places in the table of NumPy's C interface
# Python objects that it refers to, in the order of their addresses in a table.
NAMES = (
    "_array",
    "_keys",
    "_base",
    "dtype",
    "keys",
    "grad",
    "inference",
    "_requires_grad",
    "_node",
    "_offset",
    "_storage",
    "buffer",
    "_grad",
    "_versions",
    "version_counter",
    "value",
)
OBJECTS = (
    "Tensor",
    "Storage",
    "ndarray",
    "ambient",
    "modes",
    "zero",
    "none",
    "refused",
    "bytes_type",
    *(f"name_{name}" for name in NAMES),
)


class ObjectEmitter:
    """A module whose functions look at tensors and arrays; `b` is where code is emitted."""

    b: Any
    entry: Any  # the block of the function that is emitted where its variables are made

    def __init__(self, functions: list[str]) -> None:
        self.module = ir.Module("rushlight_invoke")
        self.i32, self.i64, self.pointer, self.void = (
            ir.IntType(32),
            ir.IntType(64),
            ir.PointerType(),
            ir.VoidType(),
        )
        p, i64, i32 = self.pointer, self.i64, self.i32
        signatures = {
            "PyObject_GetAttr": (p, [p, p]),
            "PyObject_SetAttr": (i32, [p, p, p]),
            "PyType_GenericAlloc": (p, [p, i64]),
            "PyErr_Clear": (self.void, []),
            "Py_IncRef": (self.void, [p]),
            "Py_DecRef": (self.void, [p]),
            "PyEval_SaveThread": (p, []),
            "PyEval_RestoreThread": (self.void, [p]),
            "PyLong_FromLongLong": (p, [i64]),
            "PyList_New": (p, [i64]),
            "PyList_SetItem": (i32, [p, i64, p]),
            "PyNumber_Add": (p, [p, p]),
            "PyObject_Size": (i64, [p]),
            "PyObject_GetItem": (p, [p, p]),
            "PyDict_GetItemWithError": (p, [p, p]),
            "PyDict_Next": (i32, [p, p, p, p]),
            "PyCell_Get": (p, [p]),
            "array_new": (p, [p, p, i32, p, p, p, i32, p]),
            "array_set_base": (i32, [p, p]),
        }
        self.functions = {
            name: ir.Function(self.module, ir.FunctionType(result, arguments), name)
            for name, (result, arguments) in signatures.items()
            if name in functions
        }
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

    def chosen(self, bits: Any, bit: int) -> Any:
        return self.b.icmp_signed("!=", self.b.and_(bits, self.i64(bit)), self.i64(0))

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

    def references(self, object_: Any, expected: Any) -> Any:
        """Whether that many references to an object are held."""
        expected = self.i32(expected) if isinstance(expected, int) else expected
        return self.b.icmp_unsigned("==", self.field(object_, 0, self.i32), expected)

    def owned_function(self) -> Any:
        """A function of a tensor and its array that tells whether the memory may be written, and be reached
        through this tensor alone (as `may_update` of compiler/native_call.py). The caller holds one reference
        to the array.

        Every way to share memory holds a reference: views and detached tensors to the Storage, NumPy and
        DLPack to the array or to the array that owns its bytes.
        """
        kind = ir.FunctionType(ir.IntType(1), [self.pointer, self.pointer])
        function = ir.Function(self.module, kind, "owned")
        function.linkage = "internal"
        tensor, array = function.args
        self.entry = function.append_basic_block("entry")
        b = self.b = ir.IRBuilder(self.entry)
        null, ndarray = self.pointer(None), self.constant("ndarray")
        no, stored, free, buffered, unstored, known = (
            function.append_basic_block(n) for n in ("no", "stored", "free", "buffered", "unstored", "known")
        )
        base = self.field(array, ARRAY_BASE)
        owns = b.icmp_unsigned("==", base, null)
        root = b.select(owns, array, base)
        flags = self.field(array, ARRAY_FLAGS, self.i32)
        self.unless(b.icmp_signed("!=", b.and_(flags, self.i32(WRITEABLE)), self.i32(0)), no)
        storage = self.call("PyObject_GetAttr", tensor, self.constant("name__storage"))
        self.unless(b.icmp_unsigned("!=", storage, null), no)
        b.cbranch(self.equal(storage, self.constant("none")), free, stored)
        b.position_at_end(stored)
        self.unless(self.equal(self.field(storage, 8), self.constant("Storage")), unstored)
        self.unless(self.references(storage, 2), unstored)
        buffer = self.call("PyObject_GetAttr", storage, self.constant("name_buffer"))
        self.unless(b.icmp_unsigned("!=", buffer, null), unstored)
        is_array = self.equal(self.field(buffer, 8), ndarray)
        looked = b.select(is_array, buffer, array)
        same = self.equal(self.field(looked, ARRAY_BASE), root)
        alone = b.and_(b.and_(is_array, same), self.references(buffer, 2))
        self.call("Py_DecRef", buffer)
        self.call("Py_DecRef", storage)
        b.cbranch(alone, buffered, no)
        b.position_at_end(buffered)
        b.branch(known)
        b.position_at_end(free)
        self.call("Py_DecRef", storage)
        b.branch(known)
        b.position_at_end(unstored)
        self.call("Py_DecRef", storage)
        b.branch(no)
        b.position_at_end(no)
        self.call("PyErr_Clear")
        b.ret(ir.IntType(1)(0))
        b.position_at_end(known)
        held = b.phi(self.i32)  # references by the storage
        held.add_incoming(self.i32(1), buffered)
        held.add_incoming(self.i32(0), free)
        mine, others = (function.append_basic_block(n) for n in ("mine", "others"))
        b.cbranch(owns, mine, others)
        b.position_at_end(mine)
        b.ret(self.references(array, b.add(held, self.i32(2))))
        b.position_at_end(others)
        self.unless(self.equal(self.field(base, 8), ndarray), no)
        self.unless(self.equal(self.field(base, ARRAY_BASE), null), no)
        b.ret(b.and_(self.references(array, 2), self.references(base, b.add(held, self.i32(1)))))
        return function

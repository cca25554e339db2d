"""Generated code that reads and makes Python's objects: the layout of arrays, and helpers.

`ObjectEmitter` is the emitter of a function that looks at tensors and arrays: it calls the C interfaces of
Python and NumPy, which are imported by name, and reaches objects that every process has (classes, names of
attributes) through a table of their addresses, so that the code is the same in every process.
`emit_may_write` emits the one answer to the question whether a program may write to the memory of a tensor.
"""

from __future__ import annotations

from typing import Any

from ...core.lazy import LazyModule
from ...runtime.target import Target
from .constants import literal
from .emitter import Emitter
from .struct import I32, Ptr, Struct

ir = LazyModule("llvmlite.ir")


class PyObject(Struct):
    """What every object begins with."""

    references: I32  # the lower half of the count
    type: Ptr


class PyArray(Struct):
    """An ndarray: PyArrayObject_fields of NumPy."""

    references: I32
    type: Ptr
    data: Ptr
    rank: I32
    dims: Ptr
    strides: Ptr
    base: Ptr
    descr: Ptr
    flags: I32


WRITEABLE = 0x0400  # among the flags of an array
BEHAVED = WRITEABLE | 0x0100  # and aligned
NEW_FROM_DESCR, SET_BASE_OBJECT = 94, 282  # places in the table of NumPy's C interface
# Names of attributes, and other objects, in the order of their addresses in the table.
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
    "_tangents",
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
    "true",
    "false",
    "refused",
    "bytes_type",
    *(f"name_{name}" for name in NAMES),
)
# The C functions: result and arguments. p: an address, n: 64 bits, i: 32 bits, v: nothing.
PYTHON_API = {
    "PyObject_GetAttr": ("p", "pp"),
    "PyObject_SetAttr": ("i", "ppp"),
    "PyType_GenericAlloc": ("p", "pn"),
    "PyErr_Clear": ("v", ""),
    "Py_IncRef": ("v", "p"),
    "Py_DecRef": ("v", "p"),
    "PyEval_SaveThread": ("p", ""),
    "PyEval_RestoreThread": ("v", "p"),
    "PyLong_FromLongLong": ("p", "n"),
    "PyList_New": ("p", "n"),
    "PyList_SetItem": ("i", "pnp"),
    "PyNumber_Add": ("p", "pp"),
    "PyObject_Size": ("n", "p"),
    "PyObject_GetItem": ("p", "pp"),
    "PyDict_GetItemWithError": ("p", "pp"),
    "PyDict_Next": ("i", "pppp"),
    "PyCell_Get": ("p", "p"),
}
NUMPY_API = {"array_new": ("p", "ppipppip"), "array_set_base": ("i", "pp")}


class ObjectEmitter(Emitter):
    """Emits a function that looks at tensors and arrays."""

    objects: tuple[str, ...] = OBJECTS  # what the table has the addresses of
    functions: dict[str, tuple[str, str]] = PYTHON_API | NUMPY_API

    def objects_table(self) -> Any:
        """The address of the table of objects, which is imported."""
        name = "objects"
        found = self.module.globals.get(name)
        if found is None:
            found = ir.GlobalVariable(self.module, ir.ArrayType(self.i64, len(self.objects)), name)
            found.linkage = "external"
        return literal(self.pointer, found.get_reference())

    def object(self, name: str) -> Any:
        """An object that every process has."""
        return self.word(self.objects_table(), self.objects.index(name), self.pointer)

    def attribute_name(self, name: str) -> Any:
        return self.object(f"name_{name}")

    def api(self, name: str, *arguments: Any) -> Any:
        """Call a C function of Python or NumPy."""
        result, kinds = self.functions[name]
        types = {"p": self.pointer, "n": self.i64, "i": self.i32, "d": ir.DoubleType(), "v": ir.VoidType()}
        function = self.declare(name, types[result], [types[kind] for kind in kinds])
        return self.call(function, list(arguments))

    # Words.

    def word(self, base: Any, index: Any, kind: Any = None) -> Any:
        """Word `index` of the words at `base`."""
        return self.load(self.word_address(base, index), kind or self.i64)

    def word_address(self, base: Any, index: Any) -> Any:
        index = self.i64(index) if isinstance(index, int) else index
        return self.builder.gep(base, [index], source_etype=self.i64)

    def put_word(self, value: Any, place: Any) -> None:
        """Store a word, which may be a pointer."""
        self.store(value if str(value.type) == "i64" else self.builder.ptrtoint(value, self.i64), place)

    def stack_words(self, count: Any) -> Any:
        """Memory of this call, as many words as a value says."""
        return self.builder.alloca(self.i64, count)

    # Conditions.

    def is_true(self, word: Any) -> Any:
        return self.compare("!=", word, 0)

    def has_bit(self, bits: Any, bit: int) -> Any:
        return self.is_true(self.and_(bits, bit))

    def is_same(self, a: Any, b: Any) -> Any:
        """Whether two words, or addresses, are equal."""
        if str(a.type) != str(b.type):
            a, b = (x if str(x.type) == "ptr" else self.builder.inttoptr(x, self.pointer) for x in (a, b))
        return self.builder.icmp_unsigned("==", a, b)

    def is_null(self, pointer: Any) -> Any:
        return self.is_same(pointer, self.null)

    @property
    def null(self) -> Any:
        return self.zero(self.pointer)

    def require(self, condition: Any, otherwise: Any) -> None:
        """Go on if `condition`, else to the block `otherwise`."""
        following = self.builder.append_basic_block("next")
        self.builder.cbranch(condition, following, otherwise).set_weights((1000, 1))
        self.builder.position_at_end(following)

    def require_object(self, pointer: Any, otherwise: Any) -> None:
        """Go on if a C function gave an object."""
        self.require(self.builder.icmp_unsigned("!=", pointer, self.null), otherwise)

    def blocks(self, *names: str) -> list[Any]:
        return [self.builder.append_basic_block(name) for name in names]

    # Objects.

    def get(self, object_: Any, name: str) -> Any:
        """An attribute, of which a reference is held then; null if there is none."""
        return self.api("PyObject_GetAttr", object_, self.attribute_name(name))

    def set(self, object_: Any, name: str, value: Any) -> Any:
        """Set an attribute; 0 if that could be done."""
        return self.api("PyObject_SetAttr", object_, self.attribute_name(name), value)

    def require_attribute(self, object_: Any, name: str, expected: Any, otherwise: Any) -> None:
        """Go on if the attribute is the very object `expected`."""
        found = self.get(object_, name)
        self.require_object(found, otherwise)
        same = self.is_same(found, expected)
        self.api("Py_DecRef", found)
        self.require(same, otherwise)

    def type_of(self, object_: Any) -> Any:
        return PyObject.at(self, object_).type

    def has_references(self, object_: Any, expected: Any) -> Any:
        """Whether that many references to an object are held."""
        return self.compare("==", PyObject.at(self, object_).references, expected, signed=False)

    def return_object(self, name: str) -> None:
        """Return an object that every process has."""
        answer = self.object(name)
        self.api("Py_IncRef", answer)
        self.builder.ret(answer)


def object_function(
    module: Any, target: Target, name: str, arguments: list[Any], result: Any
) -> tuple[Any, ObjectEmitter]:
    """A new function of the module, and what emits its body."""
    function = ir.Function(module, ir.FunctionType(result, arguments), name)
    return function, ObjectEmitter(ir.IRBuilder(function.append_basic_block("entry")), target)


def emit_owned(module: Any, target: Target) -> Any:
    """The function `owned(tensor, array)`: whether the memory may be written, and is reached through this
    tensor alone. The caller holds one reference to the array, which is the tensor's.

    Every way to share memory holds a reference: views and detached tensors to the Storage, NumPy and DLPack
    to the array or to the array that owns its bytes.
    """
    pointer = ir.PointerType()
    function, e = object_function(module, target, "owned", [pointer, pointer], ir.IntType(1))
    function.linkage = "internal"
    tensor, array = function.args
    b = e.builder
    no, stored, free, buffered, unstored, known, mine, others = e.blocks(
        "no", "stored", "free", "buffered", "unstored", "known", "mine", "others"
    )
    ndarray, base = e.object("ndarray"), PyArray.at(e, array).base
    owns = e.is_null(base)
    e.require(e.compare("!=", e.and_(PyArray.at(e, array).flags, WRITEABLE), 0), no)
    storage = e.get(tensor, "_storage")
    e.require_object(storage, no)
    b.cbranch(e.is_same(storage, e.object("none")), free, stored)
    b.position_at_end(stored)
    alone = _emit_buffer_alone(e, storage, b.select(owns, array, base), array, unstored)
    e.api("Py_DecRef", storage)
    b.cbranch(alone, buffered, no)
    for block, following in ((buffered, known), (free, known), (unstored, no)):
        b.position_at_end(block)
        if block is not buffered:
            e.api("Py_DecRef", storage)
        b.branch(following)
    b.position_at_end(no)
    e.api("PyErr_Clear")
    b.ret(e.i1(0))
    b.position_at_end(known)
    held = b.phi(e.i32)  # references by the storage
    held.add_incoming(e.i32(1), buffered)
    held.add_incoming(e.i32(0), free)
    b.cbranch(owns, mine, others)
    b.position_at_end(mine)
    b.ret(e.has_references(array, e.add(held, 2)))
    b.position_at_end(others)
    e.require(e.is_same(e.type_of(base), ndarray), no)
    e.require(e.is_null(PyArray.at(e, base).base), no)
    b.ret(b.and_(e.has_references(array, 2), e.has_references(base, e.add(held, 1))))
    return function


def _emit_buffer_alone(e: ObjectEmitter, storage: Any, root: Any, array: Any, otherwise: Any) -> Any:
    """Whether a storage belongs to one tensor, and its buffer is over the memory of `root` and used by nobody
    else."""
    e.require(e.is_same(e.type_of(storage), e.object("Storage")), otherwise)
    e.require(e.has_references(storage, 2), otherwise)
    buffer = e.get(storage, "buffer")
    e.require_object(buffer, otherwise)
    is_array = e.is_same(e.type_of(buffer), e.object("ndarray"))
    looked_at = e.builder.select(is_array, buffer, array)
    same = e.is_same(PyArray.at(e, looked_at).base, root)
    alone = e.builder.and_(e.builder.and_(is_array, same), e.has_references(buffer, 2))
    e.api("Py_DecRef", buffer)
    return alone


def emit_may_write(module: Any, target: Target, owned: Any) -> None:
    """The function `may_write(self, tensor)` as Python calls it: whether the memory of a tensor may be written
    by a program, because it is reached through that tensor alone and begins with it."""
    pointer = ir.PointerType()
    function, e = object_function(module, target, "may_write", [pointer, pointer], pointer)
    b, tensor = e.builder, function.args[1]
    no, yes = e.blocks("no", "yes")
    e.require_attribute(tensor, "_base", e.object("none"), no)
    e.require_attribute(tensor, "_offset", e.object("zero"), no)
    array = e.get(tensor, "_array")
    e.require_object(array, no)
    is_array = e.is_same(e.type_of(array), e.object("ndarray"))
    (found,) = e.branch(is_array, lambda: [e.call(owned, [tensor, array])], lambda: [e.i1(0)])
    e.api("Py_DecRef", array)
    b.cbranch(found, yes, no)
    b.position_at_end(yes)
    e.return_object("true")
    b.position_at_end(no)
    e.api("PyErr_Clear")
    e.return_object("false")

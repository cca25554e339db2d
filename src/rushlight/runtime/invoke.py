"""Calling a compiled program from Python at the cost of a C function.

`Invoker` is a Python callable made of native code: it takes the arguments of a call as they come (tensors, or
arrays), looks whether they are what the program was compiled for, makes the outputs, runs the program and
wraps the results. Anything else than the expected kind of call makes it return NotImplemented, with nothing
done, and the caller takes the long way.

One native function serves all programs; what distinguishes them is a table of 64-bit words, which is the
function's `self` (an ndarray; see `_Table` for its fields). It reads ndarrays through NumPy's C structure and
makes them through NumPy's C interface; both are tried at first use, and `available()` is False where they are
not what is expected, so that programs run without it.

Threads: addresses of a call live on its own stack. The workspace of the program belongs to one call at a
time; a call that finds it taken is refused. Long work releases the interpreter lock.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.dispatch import AMBIENT
from ..core.lazy import LazyModule
from ..core.modes import MODES
from ..core.tensor import Tensor
from .engine import Library, engine

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
_DATA, _RANK, _DIMS, _STRIDES, _DESCR = 16, 24, 32, 40, 56
_NEW_FROM_DESCR, _SET_BASE_OBJECT = 94, 282  # places in the table of NumPy's C interface
_ALIGNMENT = 64
_BEHAVED = 0x0400 | 0x0100  # writeable, aligned
_METH_FASTCALL = 0x0080


@dataclass(frozen=True)
class Source:
    """An input of the program: argument number `which`, or `constant`."""

    which: int
    constant: Any
    example: Any  # a tensor, or array, like those to expect
    slot: int | None


@dataclass(frozen=True)
class Output:
    slot: int
    dtype: Any  # the tensor's
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in bytes; None: contiguous


class _Words(np.ndarray):
    """The table: as the callable's `self` it lives as long as the callable, and `kept` with it."""

    kept: Any = None


class Invoker:
    """A native callable. `call` is the function; it keeps alive what it refers to."""

    def __init__(self, arguments: int, sources: Sequence[Source], outputs: Sequence[Output],
                 segments: Sequence[int], template: np.ndarray, *, tensors: bool, single: bool, release: bool,
                 shared: bool, keep: Any) -> None:
        table = _Table(FIELDS)
        table.fields.update({
            ARGUMENTS: arguments, TENSORS: int(tensors), RELEASE: int(release), BUSY: 0, SHARED: int(shared),
            SLOTS: len(template), SOURCES: len(sources), OUTPUTS: len(outputs), SEGMENTS: len(segments),
            TEMPLATE: table.append(template), GRAD: id(MODES.grad), INFERENCE: id(MODES.inference),
            SINGLE: int(single)})
        table.fields[SEGMENT_TABLE] = table.append(segments)
        table.fields[SOURCE_TABLE] = table.append([w for s in sources for w in _source_words(s, table)])
        table.fields[OUTPUT_TABLE] = table.append([w for o in outputs for w in _output_words(o, table)])
        words = table.finish().view(_Words)
        # what the table refers to by address, but not the examples, whose memory is the caller's
        words.kept = (keep, [(s.constant, type(s.example), _array_of(s.example).dtype) for s in sources],
                      [o.dtype for o in outputs])
        self.call = _native().make(words)


class _Table:
    """Words: the fields, then whatever is appended."""

    def __init__(self, fields: int) -> None:
        self.fields: dict[int, int] = {}
        self._rest: list[int] = []
        self._size = fields

    def append(self, words: Any) -> int:
        at = self._size + len(self._rest)
        self._rest.extend(int(w) for w in words)
        return at

    def finish(self) -> np.ndarray:
        head = [self.fields[i] for i in range(self._size)]
        return np.array([w & (2**64 - 1) for w in (*head, *self._rest)], np.uint64).view(np.int64)


def _source_words(source: Source, table: _Table) -> list[int]:
    example = source.example
    array = _array_of(example)
    keys = 0 if array is example else example._keys
    return [source.which, id(source.constant), id(type(example)), id(keys), int(keys != 0), id(array.dtype),
            array.ndim, table.append((*array.shape, *array.strides)),
            -1 if source.slot is None else source.slot]


def _array_of(example: Any) -> np.ndarray:
    array: np.ndarray = example if isinstance(example, np.ndarray) else example._array
    return array


def _output_words(output: Output, table: _Table) -> list[int]:
    dtype = output.dtype.numpy
    count = int(np.prod(output.shape, dtype=np.int64))
    size = count * dtype.itemsize
    strides = 0 if output.strides is None or count == 0 else table.append(output.strides)
    return [id(dtype), len(output.shape), table.append(output.shape), strides, output.slot,
            size if size >= 4096 else 0, id(output.dtype)]


class _MethodDef(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p)]


class _Native:
    """The native function and what makes Python callables of it."""

    def __init__(self) -> None:
        self._names = [sys.intern(name) for name in ("_array", "_keys", "_base", "dtype", "keys", "grad",
                                                     "inference")]
        addresses = _addresses()
        constants = {"Tensor": Tensor, "ndarray": np.ndarray, "ambient": AMBIENT, "modes": MODES, "zero": 0,
                     "none": None, "refused": NotImplemented, "bytes_type": _BYTES,
                     **{f"name_{name}": name for name in self._names}}
        # Objects are reached through a table of their addresses: the code is the same in every process.
        self._objects = np.array([id(constants[name]) for name in _OBJECTS], np.int64)
        self._library: Library = engine().build_named(
            "invoke", lambda: _Emitter(list(addresses)).build(), ("invoke",),
            {**addresses, "objects": self._objects.__array_interface__["data"][0]})
        self._method = _MethodDef(b"compiled", self._library.addresses["invoke"], _METH_FASTCALL, None)
        self._new = ctypes.pythonapi.PyCFunction_NewEx
        self._new.restype = ctypes.py_object
        self._new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]

    def make(self, table: np.ndarray) -> Any:
        return self._new(ctypes.addressof(self._method), table, None)


_OBJECTS = ("Tensor", "ndarray", "ambient", "modes", "zero", "none", "refused", "bytes_type", "name__array",
            "name__keys", "name__base", "name_dtype", "name_keys", "name_grad", "name_inference")
_BYTES = np.dtype(np.uint8)
_PYTHON = ("PyObject_GetAttr", "PyObject_SetAttr", "PyType_GenericAlloc", "PyErr_Clear", "Py_IncRef",
           "Py_DecRef", "PyEval_SaveThread", "PyEval_RestoreThread", "PyLong_FromLongLong", "PyList_New",
           "PyList_SetItem")


def _addresses() -> dict[str, int]:
    found = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
             for name in _PYTHON}
    capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = (ctypes.c_void_p * (_SET_BASE_OBJECT + 1)).from_address(get(capsule, None))
    return {**found, "array_new": table[_NEW_FROM_DESCR] or 0, "array_set_base": table[_SET_BASE_OBJECT] or 0}


@functools.cache
def available() -> bool:
    """Whether the interpreter and NumPy are laid out as this module expects."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.getsizeof(object()) != 16:
        return False
    probe = np.empty((3, 5), np.float32).T
    def word(offset: int, kind: Any = ctypes.c_int64) -> int:
        return int(kind.from_address(id(probe) + offset).value)
    if word(_DATA) != probe.__array_interface__["data"][0] or word(_RANK, ctypes.c_int32) != 2:
        return False
    if word(_DESCR) != id(probe.dtype):
        return False
    for offset, expected in ((_DIMS, probe.shape), (_STRIDES, probe.strides)):
        if tuple((ctypes.c_int64 * 2).from_address(word(offset))) != expected:
            return False
    try:
        return _makes_arrays()
    except (AttributeError, ValueError):
        return False


def _makes_arrays() -> bool:
    """Try the entries of NumPy's interface that are used here."""
    addresses = _addresses()
    pointer, thing, number = ctypes.c_void_p, ctypes.py_object, ctypes.c_int
    kind = ctypes.PYFUNCTYPE(thing, thing, thing, number, pointer, pointer, pointer, number, pointer)
    dims = (ctypes.c_int64 * 2)(4, 2)
    dtype = np.dtype(np.float64)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))  # the reference that the function takes over
    made = kind(addresses["array_new"])(np.ndarray, dtype, 2, dims, None, None, 0, None)
    if type(made) is not np.ndarray or made.shape != (4, 2) or made.dtype is not dtype:
        return False
    set_base = ctypes.PYFUNCTYPE(number, thing, thing)(addresses["array_set_base"])
    base = np.empty(64, np.uint8)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(base))
    return bool(set_base(made, base) == 0 and made.base is base)


@functools.cache
def _native() -> _Native:
    return _Native()


class _Emitter:
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
        self.objects = ir.GlobalVariable(self.module, ir.ArrayType(self.i64, len(_OBJECTS)), "objects")
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
        return self.word(self.objects, _OBJECTS.index(name), self.pointer)

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
        table = self.table = self.field(own, _DATA)
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
            self.put(self.field(array, _DATA), self.at(self.block, slot))

    def _check_array(self, array: Any, record: Any, refused: Any) -> None:
        b = self.b
        self.unless(self.equal(self.field(array, 8), self.constant("ndarray")), refused)
        self.unless(self.equal(self.field(array, _DESCR), self.word(record, DESCR)), refused)
        rank = b.sext(self.field(array, _RANK, self.i32), self.i64)
        self.unless(self.equal(rank, self.word(record, RANK)), refused)
        expected = self.at(self.table, self.word(record, DIMS))
        for offset, first in ((_DIMS, self.i64(0)), (_STRIDES, rank)):
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
        self.put(self.field(array, _DATA), self.at(self.block, self.word(record, OUT_SLOT)))

    def _aligned(self, i: Any, descr: Any, rank: Any, dims: Any, strides: Any, size: Any,
                 failed: Any) -> None:
        """An array at an aligned address inside a longer one."""
        b, null, kind = self.b, self.pointer(None), self.constant("ndarray")
        length = self.counter()
        self.put(b.add(size, self.i64(_ALIGNMENT)), length)
        bytes_type = self.constant("bytes_type")
        self.call("Py_IncRef", bytes_type)
        memory = self.call("array_new", kind, bytes_type, self.i32(1), length, null, null, self.i32(0), null)
        self.unless(b.icmp_unsigned("!=", memory, null), failed)
        start = self.field(memory, _DATA, self.i64)
        data = b.and_(b.add(start, self.i64(_ALIGNMENT - 1)), self.i64(-_ALIGNMENT))
        array = self.call("array_new", kind, descr, rank, dims, strides, b.inttoptr(data, self.pointer),
                          self.i32(_BEHAVED), null)
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
                self.b.call(_Callee(function, segment_type), [self.block])

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


class _Callee:
    """A function pointer with its type, in the form that llvmlite's `call` wants."""

    def __init__(self, pointer: Any, function_type: Any) -> None:
        self._pointer = pointer
        self.function_type = self.ftype = function_type
        self.type = pointer.type
        self.attributes = ()
        self.args = ()
        self.name = pointer.name

    def get_reference(self) -> str:
        return str(self._pointer.get_reference())

"""Calling a compiled program from Python at the cost of a C function.

`Invoker` is a Python callable made of native code: it takes the arguments of a call as they come (tensors, or
arrays), looks whether they are what the program was compiled for, makes the outputs, runs the program and
wraps the results. Anything else than the expected kind of call makes it return NotImplemented, with nothing
done, and the caller takes the long way.

One native function serves all programs; what distinguishes them is a table of 64-bit words, which is the
function's `self`: an ndarray that begins with a `CallTable` (codegen/llvm/native_call.py has the function and
its tables). It reads ndarrays through NumPy's C structure and makes them through NumPy's C interface; both are
tried at first use, and `available()` is False where they are not what is expected, so that programs run without
it.

A program with effects on the caller's tensors is called like that, too (compiler/native_call.py). Inputs that
it writes to must be tensors whose memory nobody else can reach. Outputs that become gradients take over the
memory of those that they replace, where nobody else can reach it, and small outputs that are the new contents
of an input are copied there. The gradients are let go before the program runs, and set if it reports no
error.

Threads: addresses of a call live on its own stack. The workspace of the program belongs to one call at a
time; a call that finds it taken is refused. Long work releases the interpreter lock.
"""

from __future__ import annotations

import ctypes
import math
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..codegen.llvm.native_call import (
    METH_FASTCALL,
    METH_O,
    CallTable,
    LocationKind,
    LocationRecord,
    Look,
    SizeRecord,
    SourceRecord,
    VersionRecord,
    emit_native_call,
)
from ..codegen.llvm.native_outputs import OutputRecord
from ..codegen.llvm.python_objects import (
    NAMES,
    NEW_FROM_DESCR,
    NUMPY_API,
    OBJECTS,
    PYTHON_API,
    SET_BASE_OBJECT,
    WRITEABLE,
    PyArray,
)
from ..core.dispatch import AMBIENT
from ..core.modes import MODES
from ..core.once import Once
from ..core.storage import Storage
from ..core.tensor import AUTOGRAD, PROFILED, Tensor
from .engine import Library, engine

ALIGNED = 4096  # bytes from which outputs begin at an aligned address


class Source(NamedTuple):
    """An input of the program: argument number `which`, or `constant`."""

    which: int
    constant: Any
    example: Any  # a tensor, or array, like those to expect
    slot: int | None
    settled: bool = False  # of a tensor: a leaf, its flag and where it begins in its memory are the example's
    owned: bool = False  # of a tensor: it is written to, and nobody else may reach its memory


class GradientTarget(NamedTuple):
    """Whose gradient an output becomes: argument number `which`, or `constant`."""

    which: int
    constant: Any


class Output(NamedTuple):
    slot: int
    dtype: Any  # the tensor's
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in bytes; None: contiguous
    target: GradientTarget | None = None  # an output that becomes a gradient; it has strides
    home: int = -1  # the source that the contents are copied to; the template has their address

    @property
    def listed(self) -> bool:
        return self.target is None and self.home < 0


class LocationGuards(NamedTuple):
    """What must be found at locations of Python's before a call."""

    # (kind of container, that, key, the object); of VALUES None and a list of what is there (None: anything)
    locations: Sequence[tuple[LocationKind, Any, Any, Any]] = ()
    sizes: Sequence[tuple[Any, int]] = ()  # containers, and how much is in them


NO_GUARDS = LocationGuards()


class _Words(np.ndarray):
    """The table: as the callable's `self` it lives as long as the callable, and `kept` with it."""

    kept: Any = None


class NativeProgram(NamedTuple):
    """What of a program a call runs."""

    segments: Sequence[int]  # addresses of functions, in order
    template: np.ndarray  # the addresses that they take: those that are the same in every call
    busy: np.ndarray  # a word that is not 0 while a call uses the memory that the template has addresses in
    shared: bool  # whether there is such memory
    release: bool  # whether other threads of Python may run meanwhile
    keep: Any  # what lives as long as the callable


class Effects(NamedTuple):
    """What a call does to tensors of the caller.

    Of outputs, by their place among those of the program, `targets` tells whose gradient one becomes, and
    `homes` which of the sources it is the new contents of. `versions` are tensors, and how many writes to each
    a call counts. With `look`, a call without arguments looks at the constants alone, and returns None if they
    are right; other calls do not look at all of them again. With `whole`, too, every call does. With `any_mode`,
    a call does not look at the modes: it computes below all that they decide.
    """

    targets: Mapping[int, GradientTarget] = MappingProxyType({})
    homes: Mapping[int, int] = MappingProxyType({})
    versions: Sequence[tuple[Any, int]] = ()
    look: bool = False
    whole: bool = False
    any_mode: bool = False


NO_EFFECTS = Effects()


class Invoker:
    """A native callable. `call` is the function; it keeps alive what it refers to. `tensors`: results are
    tensors, else arrays. `single`: the result is one of these, else a list. What `guards` expect must be there.
    """

    def __init__(
        self,
        arguments: int,
        sources: Sequence[Source],
        outputs: Sequence[Output],
        program: NativeProgram,
        *,
        tensors: bool,
        single: bool,
        effects: Effects,
        guards: LocationGuards,
    ) -> None:
        outputs = sorted(outputs, key=lambda output: not output.listed)
        table = _Table()
        counts = [(tensor, count, -count) for tensor, count in effects.versions]
        table.head = CallTable.words(
            arguments=arguments,
            tensors=tensors,
            single=single,
            listed=sum(output.listed for output in outputs),
            any_mode=effects.any_mode,
            grad=id(MODES.grad),
            inference=id(MODES.inference),
            look=effects.look,
            whole=effects.whole,
            sources=len(sources),
            source_table=table.append_records(_source_words(s, table) for s in sources),
            outputs=len(outputs),
            output_table=table.append_records(_output_words(o, table) for o in outputs),
            versions=len(counts),
            version_table=table.append_records(
                VersionRecord.words(tensor=id(tensor), count=id(count), less=id(less))
                for tensor, count, less in counts
            ),
            **_program_fields(program, table),
            **_guard_fields(guards, table),
        )
        words = table.finish().view(_Words)
        # what the table refers to by address, but not the examples, whose memory is the caller's
        words.kept = (
            program,
            counts,
            guards,
            [(o.dtype, o.target) for o in outputs],
            [(s.constant, type(s.example), _array_of(s.example).dtype) for s in sources],
        )
        self.call = _native().make(words)


def unseen(native: Callable[..., Any]) -> Callable[..., Any]:
    """A native callable of a program with clocks, which a profiler does not keep from being called: it sees calls
    of operators, and there are none inside. Other callables refuse under any mode."""

    def call(*args: Any) -> Any:
        if AMBIENT.keys != PROFILED:
            return native(*args)
        AMBIENT.keys = 0
        try:
            return native(*args)
        finally:
            AMBIENT.keys = PROFILED

    return call


class _Table:
    """Words: a CallTable, then whatever is appended."""

    def __init__(self) -> None:
        self.head: list[int] = []
        self._rest: list[int] = []

    def append(self, words: Any) -> int:
        """The place of the words, in words from the beginning of the table."""
        words = [int(w) for w in words]
        at = CallTable.word_count() + len(self._rest)
        self._rest.extend(words)
        return at

    def append_records(self, records: Iterable[list[int]]) -> int:
        return self.append([word for record in records for word in record])

    def finish(self) -> np.ndarray:
        return np.array([w & (2**64 - 1) for w in (*self.head, *self._rest)], np.uint64).view(np.int64)


def _program_fields(program: NativeProgram, table: _Table) -> dict[str, int]:
    return {
        "release": program.release,
        "busy": program.busy.__array_interface__["data"][0],
        "shared": program.shared,
        "slots": len(program.template),
        "template": table.append(program.template),
        "segments": len(program.segments),
        "segment_table": table.append(program.segments),
    }


def _guard_fields(guards: LocationGuards, table: _Table) -> dict[str, int]:
    return {
        "locations": len(guards.locations),
        "location_table": table.append_records(_location_words(*found, table) for found in guards.locations),
        "sizes": len(guards.sizes),
        "size_table": table.append_records(
            SizeRecord.words(container=id(of), size=size) for of, size in guards.sizes
        ),
    }


def _source_words(source: Source, table: _Table) -> list[int]:
    example = source.example
    array = _array_of(example)
    is_tensor = array is not example
    keys, flag = (example._keys, example._requires_grad) if is_tensor else (0, False)
    free = is_tensor and not source.settled and not example.requires_grad
    look = (
        Look.IS_TENSOR * is_tensor
        | Look.FREE * free
        | Look.NO_BASE * (not free and (keys != 0 or source.settled))
        | Look.SETTLED * source.settled
        | Look.RECORDED * (source.settled and keys != 0)
        | Look.OWNED * source.owned
    )
    return SourceRecord.words(
        which=source.which,
        constant=id(source.constant),
        type=id(type(example)),
        look=int(look),
        keys=id(AUTOGRAD if free else keys),
        requires_grad=id(flag),
        descr=id(array.dtype),
        rank=array.ndim,
        dims=table.append((*array.shape, *array.strides)),
        slot=-1 if source.slot is None else source.slot,
    )


def _location_words(kind: LocationKind, container: Any, key: Any, value: Any, table: _Table) -> list[int]:
    if kind is LocationKind.VALUES:
        there = table.append([0 if known is None else id(known) for known in value])
        return LocationRecord.words(kind=kind, container=id(container), key=len(value), expected=there)
    return LocationRecord.words(kind=kind, container=id(container), key=id(key), expected=id(value))


def _array_of(example: Any) -> np.ndarray:
    array: np.ndarray = example if isinstance(example, np.ndarray) else example._array
    return array


def _output_words(output: Output, table: _Table) -> list[int]:
    dtype = output.dtype.numpy
    count = math.prod(output.shape)
    size = count * dtype.itemsize
    target = output.target
    return OutputRecord.words(
        descr=id(dtype),
        rank=len(output.shape),
        dims=table.append(output.shape),
        strides=0 if output.strides is None or count == 0 else table.append(output.strides),
        slot=output.slot,
        aligned_bytes=size if size >= ALIGNED else 0,
        dtype=id(output.dtype),
        is_gradient=target is not None,
        which=-1 if target is None else target.which,
        owner=0 if target is None else id(target.constant),
        home=output.home,
        copied_bytes=size,
    )


class MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _Native:
    """The native function and what makes Python callables of it."""

    def __init__(self) -> None:
        self._names = [sys.intern(name) for name in NAMES]
        addresses = c_functions((*PYTHON_API, *NUMPY_API))
        constants = {
            "Tensor": Tensor,
            "Storage": Storage,
            "ndarray": np.ndarray,
            "ambient": AMBIENT,
            "modes": MODES,
            "zero": 0,
            "none": None,
            "true": True,
            "false": False,
            "refused": NotImplemented,
            "bytes_type": _BYTES,
            **{f"name_{name}": name for name in self._names},
        }
        # Objects are reached through a table of their addresses: the code is the same in every process.
        self._objects = np.array([id(constants[name]) for name in OBJECTS], np.int64)
        self._library: Library = engine().build_named(
            "invoke",
            lambda: emit_native_call(engine().target),
            ("invoke", "may_write"),
            {**addresses, "objects": self._objects.__array_interface__["data"][0]},
        )
        found = self._library.addresses
        self._method = MethodDef(b"compiled", found["invoke"], METH_FASTCALL, None)
        self._may_write = MethodDef(b"may_write", found["may_write"], METH_O, None)
        self._new = ctypes.pythonapi.PyCFunction_NewEx
        self._new.restype = ctypes.py_object
        self._new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]

        self.may_write: Any = self._new(ctypes.addressof(self._may_write), None, None)

    def make(self, table: np.ndarray) -> Any:
        return self._new(ctypes.addressof(self._method), table, None)


_BYTES = np.dtype(np.uint8)


def c_functions(names: Iterable[str]) -> dict[str, int]:
    """The addresses of functions of Python's and NumPy's."""
    numpy = _numpy_functions()
    return {
        name: numpy[name]
        if name in numpy
        else ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
        for name in names
    }


def _numpy_functions() -> dict[str, int]:
    capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = (ctypes.c_void_p * (SET_BASE_OBJECT + 1)).from_address(get(capsule, None))
    return {"array_new": table[NEW_FROM_DESCR] or 0, "array_set_base": table[SET_BASE_OBJECT] or 0}


@Once
def available() -> bool:
    """Whether the interpreter and NumPy are laid out as this module expects."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.getsizeof(object()) != 16:
        return False
    if not _arrays_are_laid_out():
        return False
    try:
        return _makes_arrays()
    except (AttributeError, ValueError):
        return False


def _arrays_are_laid_out() -> bool:
    """Whether the fields of an array are where `PyArray` says."""
    probe = np.empty((3, 5), np.float32).T

    def field(name: str, kind: Any = ctypes.c_int64) -> int:
        return int(kind.from_address(id(probe) + PyArray.offset_of(name)).value)

    if field("data") != probe.__array_interface__["data"][0] or field("rank", ctypes.c_int32) != 2:
        return False
    if field("descr") != id(probe.dtype) or field("base") != id(probe.base):
        return False
    more = [probe] * 5
    counted = field("references", ctypes.c_int32)
    more.clear()
    if counted - field("references", ctypes.c_int32) != 5:
        return False
    for writeable in (False, True):
        probe.flags.writeable = writeable
        if bool(field("flags", ctypes.c_int32) & WRITEABLE) != writeable:
            return False
    return all(
        tuple((ctypes.c_int64 * 2).from_address(field(name))) == expected
        for name, expected in (("dims", probe.shape), ("strides", probe.strides))
    )


def may_write(tensor: Tensor) -> bool:
    """Whether a program may write to the memory of `tensor`: it is reached through this tensor alone."""
    return bool(available() and _native().may_write(tensor))


def _makes_arrays() -> bool:
    """Try the entries of NumPy's interface that are used here."""
    addresses = _numpy_functions()
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


def prepare() -> None:
    """Have the function behind native callables ready: from the object cache, or compiled."""
    if available():
        _native()


@Once
def _native() -> _Native:
    native = _Native()
    # Callables look at their definition when they are freed, and some are freed after all modules: it stays.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))
    return native

"""Structs: fields by name in parameters, in memory and in tables, where C would put them."""

from __future__ import annotations

import ctypes

import llvmlite.ir as ir
import pytest

from rushlight.codegen.llvm.emitter import Emitter
from rushlight.codegen.llvm.native_call import CallTable, LocationRecord
from rushlight.codegen.llvm.python_objects import PyArray
from rushlight.codegen.llvm.struct import I32, I64, I64Line, Ptr, Struct
from rushlight.codegen.llvm.thread_pool import PoolState
from rushlight.core.errors import InternalError

from .conftest import Kernels


class Base(Struct):
    out: Ptr
    first: I64


class Derived(Base):
    second: I64


class Numbers(Struct):
    a: I64
    b: I64


class Mixed(Struct):
    a: I32
    b: Ptr
    c: I32
    d: I32
    e: I64Line
    f: I64


def test_fields_of_a_base_come_first() -> None:
    assert list(Derived.FIELDS) == ["out", "first", "second"]
    assert str(Derived.function_type()) == "void (ptr, i64, i64)"
    assert Derived.of([1, 2, 3]).values() == [1, 2, 3]


@pytest.mark.parametrize("fields", [{"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "d": 2}])
def test_missing_and_unknown_fields_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(InternalError, match="Numbers: fields that are missing or unknown"):
        Numbers(**fields)


def test_fields_are_aligned_as_in_c() -> None:
    assert [Mixed.offset_of(name) for name in "abcdef"] == [0, 8, 16, 20, 64, 72]
    assert Mixed.byte_count() == 128  # a whole number of cache lines, as the widest field asks for


def test_the_layouts_that_others_rely_on() -> None:
    assert (PyArray.offset_of("data"), PyArray.offset_of("flags")) == (16, 64)
    assert PoolState.offset_of("generation") == 0  # workers sleep on the first word
    lines = [
        PoolState.offset_of(name) // 64 for name in ("remaining", "finished", "busy", "sleepers", "last")
    ]
    assert len(set(lines)) == len(lines)
    assert CallTable.byte_count() == 8 * len(CallTable.__annotations__)


def test_words_are_in_the_order_of_the_fields() -> None:
    words = LocationRecord.words(expected=4, key=3, container=2, kind=1)
    assert words == [1, 2, 3, 4]
    with pytest.raises(InternalError, match="expected"):
        LocationRecord.words(kind=1, container=2, key=3)


@pytest.mark.parametrize("field", [("x", "float"), ("put", "I64")])
def test_wrong_declarations_are_refused(field: tuple[str, str]) -> None:
    with pytest.raises(InternalError, match="no field of a Struct"):
        type("Wrong", (Struct,), {"__annotations__": dict([field])})


def test_in_memory(kernels: Kernels) -> None:
    """A function loads and stores fields of one at an address."""
    module = ir.Module("test")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.PointerType()]), "run")
    e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), kernels.target)
    there = Derived.at(e, function.args[0])
    there.put(second=e.add(there.first, e.i64(1)), first=e.i64(5))
    with pytest.raises(AttributeError, match="Derived has no field third"):
        _ = there.third
    e.builder.ret_void()
    library = kernels.engine.build(str(module), ["run"], use_cache=False)
    words = (ctypes.c_int64 * Derived.word_count())(*Derived.words(out=0, first=7, second=3))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.addresses["run"])(ctypes.addressof(words))
    assert list(words) == [0, 5, 8]


def test_parameters_and_loads(kernels: Kernels) -> None:
    """A function of a struct loads another from memory, and writes what it finds."""
    module = ir.Module("test")
    function = ir.Function(module, Derived.function_type(), "run")
    e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), kernels.target)
    args = Derived.of(function.args)
    memory = e.local(ir.ArrayType(e.i64, Numbers.word_count()))
    Numbers.at(e, memory).put(a=e.i64(100), b=e.i64(20))
    numbers = Numbers.load(e, memory)
    e.store(e.sub(e.add(args.first, numbers.a), e.mul(args.second, numbers.b)), args.out)
    e.builder.ret_void()
    library = kernels.engine.build(str(module), ["run"], use_cache=False)
    out = ctypes.c_int64()
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(library.addresses["run"])
    run(ctypes.addressof(out), 7, 3)
    assert out.value == 7 + 100 - 3 * 20

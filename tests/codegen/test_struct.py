"""Structs: fields by name in parameters, in memory and as constants."""

from __future__ import annotations

import ctypes

import llvmlite.ir as ir
import pytest

from rushlight.codegen.llvm.emitter import Emitter
from rushlight.codegen.llvm.struct import I64, Ptr, Struct
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


def test_fields_of_a_base_come_first() -> None:
    assert list(Derived.FIELDS) == ["out", "first", "second"]
    assert str(Derived.function_type()) == "void (ptr, i64, i64)"
    assert Derived.of([1, 2, 3]).values() == [1, 2, 3]


@pytest.mark.parametrize("fields", [{"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "d": 2}])
def test_missing_and_unknown_fields_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(InternalError, match="Numbers: fields that are missing or unknown"):
        Numbers(**fields)


def test_a_field_is_a_pointer_or_a_number() -> None:
    with pytest.raises(InternalError, match="a field is a Ptr or an I64"):
        type("Wrong", (Struct,), {"__annotations__": {"x": "float"}})


def test_parameters_and_constants(kernels: Kernels) -> None:
    """A function of a struct reads another from constant memory, and writes what it finds."""
    module = ir.Module("test")
    function = ir.Function(module, Derived.function_type(), "run")
    e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), kernels.target)
    args = Derived.of(function.args)
    numbers = Numbers.load(e, Numbers(a=100, b=20).constant(e, "numbers"))
    e.store(e.sub(e.add(args.first, numbers.a), e.mul(args.second, numbers.b)), args.out)
    e.builder.ret_void()
    library = kernels.engine.build(str(module), ["run"], use_cache=False)
    out = ctypes.c_int64()
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(library.addresses["run"])
    run(ctypes.addressof(out), 7, 3)
    assert out.value == 7 + 100 - 3 * 20

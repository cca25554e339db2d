"""Records in memory: fields lie where C would put them, and every one must be named."""

from __future__ import annotations

import pytest

from rushlight.codegen.llvm.native_call import CallTable, LocationRecord
from rushlight.codegen.llvm.python_objects import PyArray
from rushlight.codegen.llvm.records import I32, I64, I64Line, Ptr, Record
from rushlight.codegen.llvm.thread_pool import PoolState


class Mixed(Record):
    a: I32
    b: Ptr
    c: I32
    d: I32
    e: I64Line
    f: I64


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
    with pytest.raises(TypeError, match="expected"):
        LocationRecord.words(kind=1, container=2, key=3)


def test_wrong_declarations_are_refused() -> None:
    with pytest.raises(TypeError, match="no field of a Record"):
        type("Wrong", (Record,), {"__annotations__": {"x": "float"}})
    with pytest.raises(TypeError, match="no field of a Record"):
        type("Wrong", (Record,), {"__annotations__": {"words": "I64"}})

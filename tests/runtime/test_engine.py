"""The engine: compiled code runs, comes back from the cache, and missing symbols raise."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from rushlight.runtime.cache import SUFFIX, ObjectCache
from rushlight.runtime.engine import Engine

ADD = "define i64 @plus(i64 %a, i64 %b) {\n  %c = add i64 %a, %b\n  ret i64 %c\n}\n"


def call(address: int, a: int, b: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)(a, b)


def test_compiles_and_caches(tmp_path: Path) -> None:
    engine = Engine(ObjectCache(tmp_path))
    first = engine.build(ADD, ["plus"])
    second = engine.build(ADD, ["plus"])
    assert call(first.addresses["plus"], 2, 3) == call(second.addresses["plus"], 2, 3) == 5
    assert "emit" in first.seconds
    assert "cache" in second.seconds
    assert first.object_code == second.object_code


def test_a_damaged_object_is_compiled_again(tmp_path: Path) -> None:
    engine = Engine(ObjectCache(tmp_path))
    engine.build(ADD, ["plus"])
    for path in tmp_path.glob("*" + SUFFIX):
        path.write_bytes(path.read_bytes()[:-4] + b"gone")
    again = engine.build(ADD, ["plus"])
    assert "emit" in again.seconds
    assert call(again.addresses["plus"], 40, 2) == 42


def test_unresolved_symbols_raise(tmp_path: Path) -> None:
    engine = Engine(ObjectCache(tmp_path))
    text = (
        "declare i64 @nowhere(i64)\n"
        "define i64 @f(i64 %a) {\n  %c = call i64 @nowhere(i64 %a)\n  ret i64 %c\n}\n"
    )
    with pytest.raises(RuntimeError, match="Failed to materialize"):
        engine.build(text, ["f"])


def test_invalid_ir_raises(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="parsing error"):
        Engine(ObjectCache(tmp_path)).build("define i64 @f(i64 %a) {\n  ret i32 0\n}\n", ["f"])


def test_assembly_can_be_read(tmp_path: Path) -> None:
    assert "plus" in Engine(ObjectCache(tmp_path)).assembly(ADD)

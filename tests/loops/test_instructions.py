"""The instruction table against the NumPy handler, the recorder and the LLVM code."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from rushlight.codegen.llvm import instructions as native
from rushlight.codegen.llvm.math import BOUNDS, EXTERN, FUNCTIONS
from rushlight.codegen.llvm.packed import PACKED, supports_complex
from rushlight.core.dtypes import DTYPES
from rushlight.core.errors import InternalError
from rushlight.kernels.handler import NumpyHandler
from rushlight.loops.expr import Recorder, result_dtype
from rushlight.loops.instructions import INSTRUCTIONS, OperandTypes, ResultType, Role
from rushlight.loops.native import MOVES

# Not instructions of a value: a number, and what a body asks about one.
QUESTIONS = {"constant", "dtype"}
# Code that other functions are made of; no body can ask for it.
HELPERS = {"frexp", "ldexp", "reciprocal", "rsqrt"}

BODY = {row.name for row in INSTRUCTIONS.values() if row.role is Role.BODY}


def emitted() -> set[str]:
    tables: list[Any] = [
        native.WITH_DTYPES,
        native.COMPARE,
        native.LOGIC,
        native.BOOL_ARITHMETIC,
        native.SIGNED,
        native.SIMPLE,
        native.EXACT_ANSWERS,
        FUNCTIONS,
    ]
    return {name for table in tables for name in table}


def test_the_handler_has_what_bodies_may_use() -> None:
    assert {name for name in dir(NumpyHandler) if not name.startswith("_")} - QUESTIONS == BODY


@pytest.mark.parametrize("name", sorted(BODY - {"cast", "iterate", "frexp"}))
def test_the_handler_takes_as_many_operands(name: str) -> None:
    function, arity = getattr(NumpyHandler, name), INSTRUCTIONS[name].arity
    if isinstance(function, np.ufunc):
        assert function.nin == arity
    elif function is not np.where:
        given = inspect.signature(function).parameters.values()
        assert any(p.kind is p.VAR_POSITIONAL for p in given) or len(given) == arity


def test_there_is_code_for_every_instruction() -> None:
    leaves = {row.name for row in INSTRUCTIONS.values() if row.role in (Role.LEAF, Role.CHECK)}
    assert leaves == native.LEAVES
    missing = INSTRUCTIONS.keys() - emitted() - leaves - {"frexp"}  # recorded as its two results
    assert all(supports_complex(name) for name in missing), missing
    assert emitted() - INSTRUCTIONS.keys() <= HELPERS
    assert PACKED.keys() - INSTRUCTIONS.keys() == {"truth"}  # a cast to bool


def test_what_is_not_exact_has_a_bound() -> None:
    inexact = {row.name for row in INSTRUCTIONS.values() if not row.exact}
    assert BOUNDS.keys() - HELPERS <= inexact
    # SciPy's own error; one rounding or two; bits that a function makes a number of
    assert inexact - BOUNDS.keys() == {*EXTERN, "fma", "random_normal"}


def test_the_recorder_knows_the_dtype_of_results() -> None:
    ops = Recorder()
    x = ops.number(1.5, DTYPES["float32"])
    z = ops.complex(x, x)
    assert z.dtype is DTYPES["complex64"]
    assert ops.abs(z).dtype is ops.real(z).dtype is ops.exp(x).dtype is DTYPES["float32"]
    assert ops.lt(x, x).dtype is ops.logical_not(x).dtype is DTYPES["bool"]
    assert ops.where(ops.lt(x, x), z, z).dtype is DTYPES["complex64"]
    row = INSTRUCTIONS["where"]
    assert (row.result, row.operands) == (ResultType.SECOND, OperandTypes.CHOICE)
    assert result_dtype(row, (ops.lt(x, x), z, z)) is DTYPES["complex64"]


def test_an_unknown_instruction_raises_at_once() -> None:
    ops = Recorder()
    x = ops.number(1.0, DTYPES["float32"])
    with pytest.raises(AttributeError, match=r"no instruction 'logaritm1p'; did you mean log1p"):
        ops.logaritm1p(x)
    with pytest.raises(AttributeError, match=r"no instruction 'qqq'\. All of them"):
        ops.qqq(x)
    with pytest.raises(AttributeError):
        ops.sigmoid(x)  # the compiler's own
    with pytest.raises(InternalError, match="tan takes 1 values"):
        ops.tan(x, x)


def test_the_table_knows_what_code_there_is() -> None:
    """`Instruction.on` is what the tables of the code generator have, by the kind of the operands."""
    any_real = {*native.WITH_DTYPES, *native.COMPARE, *native.LOGIC}
    on_real = {*any_real, *native.SIGNED, *native.SIMPLE, *FUNCTIONS, *native.EXACT_ANSWERS}
    on_bool = {*any_real, *native.BOOL_ARITHMETIC, *native.EXACT_ANSWERS}
    for row in INSTRUCTIONS.values():
        moves = row.role in (Role.LEAF, Role.CHECK) or row.name in (*MOVES, "cast", "iterate", "frexp")
        if not moves:
            name = row.name
            assert ("r" in row.on) == (name in on_real), name
            assert ("b" in row.on) == (name in on_bool or name.startswith("bitwise_")), name
            assert ("c" in row.on) == supports_complex(name), name

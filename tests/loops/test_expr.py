"""Expressions as they are recorded: what is recognised."""

from __future__ import annotations

from rushlight.core.dtypes import DTYPES
from rushlight.loops.expr import Recorder

FLOAT, COMPLEX = DTYPES["float32"], DTYPES["complex64"]


def test_powers_that_are_no_numbers_above_one() -> None:
    ops = Recorder()
    x, y = (ops.make("reduced", (), FLOAT, name) for name in "xy")
    square, half = ops.mul(x, x), ops.number(-0.5, FLOAT)
    for value in (ops.mul(square, half), ops.mul(half, square), ops.neg(square)):
        assert ops.exp(value).op == "exp_nonpositive"
    for value in (square, ops.mul(square, ops.number(0.5, FLOAT)), ops.mul(ops.mul(x, y), half), ops.neg(x)):
        assert ops.exp(value).op == "exp"
    z = ops.make("reduced", (), COMPLEX, "z")
    assert ops.exp(ops.neg(ops.mul(z, z))).op == "exp"


def test_sigmoid_of_a_square() -> None:
    ops = Recorder()
    x, one = ops.make("reduced", (), FLOAT, "x"), ops.number(1, FLOAT)
    square = ops.mul(x, x)
    assert ops.div(one, ops.add(one, ops.exp(ops.neg(square)))).op == "sigmoid"

"""The graph passes: what each removes, and that it never changes a value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.capture.partition import extract
from rushlight.capture.program import capture_call
from rushlight.graph.ir import verify
from rushlight.graph.passes import GRAPH_PASSES, _holds

SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.5, -2.5, 1e-45, 3.4e38]


def simplified(program, *args) -> list[str]:
    """The operators that are left of a program."""
    call = capture_call(program, args, {})
    graph = extract(call.graph, list(call.graph.inputs), list(call.graph.outputs))
    for step in GRAPH_PASSES:
        step.run(graph)
        verify(graph)
    return [node.op.name for node in graph.nodes]


def special(dtype=rl.float32) -> rl.Tensor:
    return rl.tensor(SPECIAL, dtype=dtype)


FLOAT_PROGRAMS = {
    "one": (lambda x: (x * 1) / 1.0, 0),
    "minus zero": (lambda x: x - 0, 0),
    "plus negative zero": (lambda x: x + -0.0, 0),
    "plus zero is not nothing": (lambda x: x + 0.0, 1),
    "minus negative zero is not nothing": (lambda x: x - (-0.0), 1),
    "first power": (lambda x: x**1, 0),
    "floor of a quotient": (lambda x: rl.div(x, 1, rounding_mode="floor"), 1),
    "twice negative": (lambda x: -(-x), 0),
    "three times negative": (lambda x: -(-(-x)), 1),
    "twice absolute": (lambda x: x.abs().abs(), 1),
    "twice rectified": (lambda x: x.relu().relu(), 1),
    "same cast": (lambda x: x.to(rl.float32).float(), 0),
    "wide and back": (lambda x: x.double().float(), 0),
    "narrow and back": (lambda x: x.half().float(), 2),
    "copies": (lambda x: x.clone().contiguous(), 0),
    "common": (lambda x: (x * 2).sin() + (x * 2).sin(), 3),
    "not common": (lambda x: x * 2 + x * 2.5, 3),
    "dead": (lambda x: (x.exp(), x + 1)[1], 1),
    "constants": (lambda x: x * (rl.zeros(9) + 2), 2),
    "zero times": (lambda x: x * 0, 1),
}


@pytest.mark.parametrize("name", FLOAT_PROGRAMS)
def test_simplification_is_exact(name: str) -> None:
    program, left = FLOAT_PROGRAMS[name]
    operators = simplified(lambda x: program(x) if left else program(x) * 3, special())
    assert len(operators) == left + (not left), operators
    found = rl.compile(program, fullgraph=True)(special()).numpy()
    expected = program(special()).numpy()
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    if name not in ("common",):
        ordinary = ~np.isnan(expected)
        assert np.array_equal(found[ordinary], expected[ordinary])
        assert np.array_equal(np.signbit(found[ordinary]), np.signbit(expected[ordinary]))


INTEGER_PROGRAMS = {
    "zero": (lambda x: x + 0 - 0, 0),
    "negative": (lambda x: -(-x), 0),
    "wide and back": (lambda x: x.to(rl.int64).to(rl.int32), 0),
    "through floats": (lambda x: x.to(rl.float32).to(rl.int32), 2),
    "through wide floats": (lambda x: x.to(rl.float64).to(rl.int32), 0),
}


@pytest.mark.parametrize("name", INTEGER_PROGRAMS)
def test_integers(name: str) -> None:
    program, left = INTEGER_PROGRAMS[name]
    x = rl.tensor([0, 1, -1, 2**31 - 1, -(2**31), 16777217], dtype=rl.int32)
    assert len(simplified(lambda x: program(x) if left else program(x) * 3, x)) == left + (not left)
    if name != "through floats":  # 2**31 has no int32
        assert rl.compile(program, fullgraph=True)(x).tolist() == program(x).tolist()


def test_views_become_one() -> None:
    x = rl.randn(4, 6)
    assert simplified(lambda x: x.t().t() * 2, x) == ["mul.Scalar"]
    several = simplified(lambda x: x.view(2, 2, 6).permute(2, 0, 1)[1:].squeeze() * 2, x)
    assert several == ["as_strided", "mul.Scalar"]
    assert simplified(lambda x: x.view(24).view(4, 6) * 2, x) == ["mul.Scalar"]
    # the same view reached in two ways is one
    assert (
        simplified(lambda x: x.t()[1] + x[:, 1], x) == ["as_strided", "add.Tensor"]
        or len(simplified(lambda x: x.t()[1] + x[:, 1], x)) <= 3
    )


def test_conjugation_is_not_lost() -> None:
    z = rl.tensor([1 + 2j, -3.5j])
    for program in (
        lambda z: z.conj().conj() * 1,
        lambda z: z.conj().view(2, 1).t(),
        lambda z: z.conj().imag + 1,
    ):
        assert rl.compile(program, fullgraph=True)(z).tolist() == program(z).tolist()


@pytest.mark.parametrize(
    "names",
    [
        ("float64", "float32", True),
        ("float32", "float64", False),
        ("float32", "float16", True),
        ("float32", "bfloat16", True),
        ("float16", "bfloat16", False),
        ("bfloat16", "float16", False),
        ("int64", "int32", True),
        ("int32", "int64", False),
        ("int16", "uint8", True),
        ("uint8", "int8", False),
        ("float32", "int32", False),
        ("float64", "int32", True),
        ("float64", "int64", False),
        ("complex64", "float32", True),
        ("float32", "complex64", False),
        ("int8", "bool", True),
    ],
)
def test_which_dtype_holds_which(names: tuple[str, str, bool]) -> None:
    wide, narrow, expected = names
    assert _holds(getattr(rl, wide), getattr(rl, narrow)) is expected


def test_an_operator_of_a_program_is_not_taken_for_its_namesake() -> None:
    """Passes ask for traits, which an operator has where it is defined, and not for names."""
    with rl.library._scoped_library("tests_traits", "FRAGMENT") as library:

        @rl.library.pointwise("tests_traits::neg(Tensor self) -> Tensor", lib=library)
        def half(ops: Any, self: Any) -> Any:
            return ops.div(self, ops.constant(2, like=self))

        program = rl.compile(lambda x: half(half(x)), fullgraph=True)
        assert program(rl.ones(2)).tolist() == [0.25, 0.25]

"""Derivatives of elementwise operators: at ties and singular points, of second order, and what they save."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.core.dispatch import run_name

inf, nan = math.inf, math.nan
EDGES = [-inf, -2.5, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 2.5, inf, nan]
PLANE = [complex(a, b) for a in (-1.5, -0.5, 0.0, 0.5, 1.5) for b in (-1.0, 0.0, 0.7)]
UNARY = [
    "abs",
    "acos",
    "angle",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "deg2rad",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "frac",
    "log",
    "log10",
    "log1p",
    "log2",
    "logit",
    "nan_to_num",
    "neg",
    "rad2deg",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]
REAL_ONLY = {
    "ceil",
    "deg2rad",
    "floor",
    "frac",
    "logit",
    "nan_to_num",
    "rad2deg",
    "relu",
    "round",
    "sign",
    "trunc",
}
WITH_NUMBERS = [
    "x.clamp(-0.5, 1)",
    "x.clamp(1, -0.5)",
    "x.clamp(min=0.5)",
    "x.clamp(max=0.5)",
    "x.clamp_min(1)",
    "x.clamp_max(1)",
    "x ** 0",
    "x ** 1",
    "x ** 2",
    "x ** 3",
    "x ** -1",
    "x ** 2.5",
    "0 ** x",
    "2.0 ** x",
    "(-2.0) ** x",
    "1.0 ** x",
    "lib.frexp(x)[0]",
    "x.round(decimals=1)",
    "x % 2",
    "x.fmod(2)",
    "2 - x",
    "2 / x",
    "x / 2",
    "x.div(2, rounding_mode='floor')",
    "x.div(2, rounding_mode=None)",
    "lib.where(x > 0, x, 3.0)",
    "lib.where(x > 0, 3.0, x)",
    "lib.where(x > 0, x.log(), 0 * x)",
    "lib.xlogy(x, 2.0)",
    "lib.xlogy(2.0, x)",
    "lib.xlogy(0.0, x)",
    "lib.xlogy(x, 0.0)",
    "lib.sub(x, 2 * x, alpha=3)",
    "lib.rsub(x, x, alpha=2)",
    "lib.rsub(x, 5, 3)",
]

POINTS: list[tuple[str, Any]] = [
    *[(f"x.{name}()", EDGES) for name in UNARY if name != "logit"],
    # at -0.0 the sign of PyTorch's infinite slope depends on whether a vector or a scalar computes it
    ("x.logit()", [x for x in EDGES if str(x) != "-0.0"]),
    *[(f"x.{name}()", PLANE) for name in UNARY if name not in REAL_ONLY],
    *[(expression, EDGES) for expression in WITH_NUMBERS],
    ("x.logit(0.25)", EDGES[:-1]),  # PyTorch's formulas disagree at NaN
    ("x.acosh()", [0.5, 1.0, 2.0, inf, nan]),  # below -1 PyTorch's slope is not NaN, although acosh is
    ("x.acosh()", PLANE),
    ("x.sgn()", PLANE),
    *[(f"x ** {exponent}", PLANE) for exponent in ("0", "2", "-1", "0.5", "(1 + 1j)")],
    ("(1 + 2j) ** x", PLANE),
    ("x.relu()", 0.0),
    ("x.tanh()", []),
]


@pytest.mark.parametrize(("expression", "value"), POINTS)
def test_special_points(first_order: Callable[..., None], expression: str, value: Any) -> None:
    first_order(expression, value)


NUMBERS = [-inf, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, inf, nan]
PAIRS = [list(column) for column in zip(*itertools.product(NUMBERS, NUMBERS), strict=True)]
FINITE = [list(column) for column in zip(*itertools.product(NUMBERS[1:-2], NUMBERS[1:-2]), strict=True)]
COMPLEX = [0j, 1 + 0j, -1 + 0.5j, 2j]
COMPLEX_PAIRS = [list(column) for column in zip(*itertools.product(COMPLEX, COMPLEX), strict=True)]
TRIPLES = [list(column) for column in zip(*itertools.product([-1.0, 0.0, 1.0, 2.0], repeat=3), strict=True)]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "atan2",
    "fmax",
    "fmin",
    "maximum",
    "minimum",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "xlogy",
    "pow",
    "float_power",
    "clamp_min",
    "clamp_max",
    "nextafter",
    "fmod",
    "remainder",
    "ldexp",
]
BINARY_POINTS: list[tuple[str, Any]] = [
    *[(f"lib.{name}(x[0], x[1])", PAIRS) for name in BINARY],
    *[(f"lib.{name}(x[0], x[1])", COMPLEX_PAIRS) for name in ("add", "sub", "mul", "div", "logaddexp")],
    ("lib.pow(x[0] + 2, x[1])", COMPLEX_PAIRS),  # PyTorch's complex 0 ** 0 is NaN
    ("lib.copysign(x[0], x[1])", FINITE),  # at infinities PyTorch's is NaN
    ("lib.clamp(x[0], x[1], x[2])", TRIPLES),
    ("lib.clamp(x[0], max=x[1])", TRIPLES),
    ("lib.lerp(x[0], x[1], x[2])", TRIPLES),
    ("lib.lerp(x[0], x[1], 0.25)", TRIPLES),
    ("lib.addcmul(x[0], x[1], x[2], value=2)", TRIPLES),
    ("lib.addcdiv(x[0], x[1], x[2], value=2)", TRIPLES),
    ("lib.where(x[0] > 0, x[1], x[2])", TRIPLES),
    ("lib.complex(x[0], x[1]).abs()", FINITE),
    ("lib.complex(x[0], x[1]).angle()", FINITE),
]


@pytest.mark.parametrize(("expression", "value"), BINARY_POINTS)
def test_ties_and_corners(first_order: Callable[..., None], expression: str, value: Any) -> None:
    first_order(expression, value, modes="reverse")


def float64(*values: float) -> rushlight.Tensor:
    return rushlight.tensor(list(values), dtype=rushlight.float64, requires_grad=True)


ADJOINT = [
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "clamp_min",
    "clamp_max",
    "pow",
    "xlogy",
    "atan2",
    "copysign",
    "nextafter",
    "heaviside",
    "floor_divide",
    "hypot",
    "logaddexp",
]


@pytest.mark.parametrize("name", ADJOINT)
def test_forward_mode_is_the_transpose_of_reverse(name: str) -> None:
    """At ties too, where PyTorch's tangents of fmax are not."""
    function = getattr(rushlight, name)
    a, b = float64(1.0, 2.0, 0.0, 0.5), float64(1.0, 1.0, 0.0, 3.0)
    gradients = rushlight.autograd.grad(function(a, b).sum(), [a, b])
    for i, gradient in enumerate(gradients):
        with rushlight.autograd.forward_ad.dual_level():
            inputs = [a.detach(), b.detach()]
            inputs[i] = rushlight.autograd.forward_ad.make_dual(inputs[i], rushlight.ones_like(inputs[i]))
            tangent = rushlight.autograd.forward_ad.unpack_dual(function(*inputs)).tangent
        assert tangent.tolist() == pytest.approx(gradient.tolist(), nan_ok=True)


@pytest.mark.parametrize("call", ["clamp_min(x, {})", "clamp_max(x, {})", "clamp(x, {})", "clamp(x, max={})"])
def test_tangents_of_bounds_at_ties(first_order: Callable[..., None], call: str) -> None:
    """Those of clamp by a tensor are the bound's, as PyTorch's are, and those of clamp_min the element's."""
    bound = "lib.tensor([1.0, 1.0, 0.0, 3.0], dtype=lib.float64)"
    first_order("lib." + call.format(bound), [1.0, 2.0, 0.0, 0.5])


def second(expression: str, *values: float) -> list[float]:
    """The derivatives of the gradient by all arguments, summed."""
    inputs = [rushlight.tensor(value, dtype=rushlight.float64, requires_grad=True) for value in values]
    names = dict(zip("xyz", inputs, strict=False))
    first = rushlight.autograd.grad(eval(expression, {"lib": rushlight, **names}), inputs, create_graph=True)
    total = sum(gradient for gradient in first if gradient.requires_grad)
    return [g.item() for g in rushlight.autograd.grad(total, inputs, materialize_grads=True)]


SECOND = [
    # d/dx and d/dy of (d/dx + d/dy) f.
    ("x ** y", (2.0, 0.0), (0.0 + 0.5, 0.5 + math.log(2) ** 2)),
    ("x ** y", (0.0, 3.0), (0.0, 0.0)),
    ("x.sinc()", (0.0,), (-(math.pi**2) / 3,)),
    ("x.abs()", (0.0,), (0.0,)),
    ("x ** 2", (0.0,), (2.0,)),
    ("lib.atan2(x, y)", (0.0, 0.0), (0.0, 0.0)),
    ("lib.logaddexp(x, y)", (-inf, 0.0), (0.0, 0.0)),
    ("lib.logaddexp(x, y)", (1000.0, -1000.0), (0.0, 0.0)),
    ("lib.where(x > 0, x.sqrt(), x)", (1.0,), (-0.25,)),
    ("x.clamp(0, 1) ** 2", (1.0,), (2.0,)),
    ("x.relu() ** 2", (0.0,), (0.0,)),
    ("x.logit()", (0.25,), ((2 * 0.25 - 1) / (0.25 * 0.75) ** 2,)),
    ("x.logit(0.3)", (0.25,), (0.0,)),
    ("lib.hypot(x, y)", (3.0, 4.0), (0.032, -0.024)),
]


@pytest.mark.parametrize(("expression", "values", "expected"), SECOND)
def test_second_order(expression: str, values: Any, expected: Any) -> None:
    assert second(expression, *values) == pytest.approx(expected, abs=1e-12)


def complex128(*values: complex) -> rushlight.Tensor:
    return rushlight.tensor(list(values), dtype=rushlight.complex128, requires_grad=True)


BEYOND = [
    (
        "polar of lengths that are zero or negative",
        lambda a, b: rushlight.polar(a, b),
        lambda: (float64(-1.0, 0.0, 2.0), float64(0.5, 1.0, -2.0)),
    ),
    (
        "heaviside in its values",
        lambda a, b: rushlight.heaviside(a, b),
        lambda: (float64(-1.0, 0.5, 2.0), float64(0.5, 1.0, -2.0)),
    ),
    ("remainder of a number", lambda a: rushlight.remainder(7.3, a), lambda: (float64(1.3, -0.7, 2.0),)),
    ("a complex power of a negative number", lambda a: (-2.0) ** a, lambda: (complex128(1 + 1j, -0.5j),)),
    ("sgn", lambda a: a.sgn(), lambda: (complex128(1 + 1j, -0.5j, -2 + 0j),)),
    ("acosh in the left half plane", lambda a: a.acosh(), lambda: (complex128(-1 + 1j, -2 - 0.5j),)),
    (
        "sigmoid_backward",
        lambda a, b: run_name("sigmoid_backward", a, b),
        lambda: (complex128(1 + 1j, -0.5j), complex128(0.3 - 1j, 2j)),
    ),
    (
        "tanh_backward",
        lambda a, b: run_name("tanh_backward", a, b),
        lambda: (complex128(1 + 1j, -0.5j), complex128(0.3 - 1j, 2j)),
    ),
    (
        "logit_backward",
        lambda a, b: run_name("logit_backward", a, b, 0.1),
        lambda: (float64(1.0, 2.0, 3.0), float64(0.3, 0.05, 0.8)),
    ),
    (
        "threshold_backward",
        lambda a, b: run_name("threshold_backward", a, b, 0.5),
        lambda: (float64(1.0, 2.0, 3.0), float64(0.3, 0.7, 0.8)),
    ),
]


@pytest.mark.parametrize(("what", "function", "inputs"), BEYOND, ids=[row[0] for row in BEYOND])
def test_against_finite_differences(what: str, function: Any, inputs: Any) -> None:
    assert gradcheck(function, inputs(), check_forward_ad=True)
    assert gradgradcheck(function, inputs())


SAVED = [
    *[(f"lib.{name}(x)", 1) for name in [*UNARY, "acosh", "sgn"]],
    *[(f"lib.{name}(x, y)", 2) for name in [*BINARY, "copysign"]],
    ("lib.erfinv(x)", 1),
    ("lib.lgamma(x)", 1),
    ("lib.special.ndtri(x)", 1),
    ("lib.special.erfcx(x)", 1),
    *[(f"lib.{name}(x, y, z)", 3) for name in ("clamp", "lerp", "addcmul", "addcdiv")],
    ("lib.where(x > 0, y, z)", 3),
]


def survives(lib: Any, expression: str, count: int, written: str) -> bool:
    """Whether backward works after an argument or the result was written in place."""
    leaf = lib.tensor([0.25, 0.5], dtype=lib.float64, requires_grad=True)
    names = {name: leaf.clone() for name in "xyz"[:count]}
    result = eval(expression, {"lib": lib, **names})
    {**names, "result": result}[written].mul_(1)
    try:
        result.sum().backward()
    except RuntimeError as error:
        if "modified by an inplace operation" in str(error):
            return False
        raise
    return True


@pytest.mark.parametrize(("expression", "count"), SAVED)
def test_what_is_saved(expression: str, count: int) -> None:
    """What may be written between forward and backward is what PyTorch lets one write."""
    for written in ("x", "y", "z")[:count] + ("result",):
        expected = survives(torch, expression, count, written)
        assert survives(rushlight, expression, count, written) == expected, written


def test_no_gradient_through_comparisons() -> None:
    x = float64(1.0, 2.0)
    for result in (x == x, x < 2, x.isnan(), x.signbit(), rushlight.logical_not(x)):
        assert not result.requires_grad

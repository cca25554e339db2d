"""Vector mathematics of floats: error bounds, special values, every number of lanes, and exactness where it is
promised."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import ml_dtypes
import mpmath as mp
import numpy as np
import pytest
import scipy.special

from rushlight.codegen.llvm.complex import COMPLEX_FUNCTIONS
from rushlight.codegen.llvm.math import BOUNDS, EXTERN, FUNCTIONS, coefficients
from rushlight.codegen.llvm.math.rounding import ldexp, nextafter_bfloat16
from rushlight.kernels.handler import NumpyHandler

from . import references
from .derive_coefficients import TABLES

FLOATS = ["float32", "float64"]
LANES = 8
UNARY = sorted({*references.ELEMENTARY, *references.SPECIAL})


def bound(name: str, dtype: str) -> float:
    if name not in BOUNDS:
        return 0.5
    return BOUNDS[name].single if dtype == "float32" else BOUNDS[name].double


@pytest.fixture(scope="module")
def unary(kernels: Any) -> dict[str, dict[str, Any]]:
    """All functions of one float, compiled for both types."""
    return {
        dtype: kernels.compile({name: FUNCTIONS[name] for name in UNARY}, [dtype], [dtype], LANES)
        for dtype in FLOATS
    }


@pytest.fixture(scope="module")
def binary(kernels: Any) -> dict[str, dict[str, Any]]:
    names = (
        "atan2",
        "hypot",
        "pow",
        "fmod",
        "remainder",
        "floor_div",
        "trunc_div",
        "nextafter",
        "copysign",
        "zeta",
    )
    return {
        dtype: kernels.compile({name: FUNCTIONS[name] for name in names}, [dtype] * 2, [dtype], LANES)
        for dtype in FLOATS
    }


def assert_within(name: str, dtype: str, errors: np.ndarray, *points: np.ndarray) -> None:
    worst = int(np.argmax(errors))
    assert errors[worst] <= bound(name, dtype), (
        f"{name} of {[float(p[worst]) for p in points]} is off by {errors[worst]} ulp, more than stated"
    )


# Completeness.


def test_every_instruction_of_the_handler_can_be_emitted() -> None:
    names = {n for n in dir(NumpyHandler) if not n.startswith("_")} - {"constant", "cast", "dtype"}
    assert not names - set(FUNCTIONS) - set(COMPLEX_FUNCTIONS)


def test_bounds_are_as_good_as_asked_for() -> None:
    for name in ("exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "rsqrt"):
        assert BOUNDS[name].single <= 2
        assert BOUNDS[name].double <= 4
    assert set(BOUNDS) <= set(FUNCTIONS)
    for bounds in BOUNDS.values():
        assert bounds.single <= 4


# Error bounds.


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", references.ELEMENTARY)
def test_elementary_functions(unary: Any, name: str, dtype: str) -> None:
    ranges = [(-1, 1), (0, 2), (-4, 4), (-20, 20), (-100, 100), (-750, 750)]
    x = np.concatenate(
        [
            references.edge_values(dtype),
            references.all_patterns(dtype, 20000, 1),
            references.scattered(dtype, ranges, 4000, 2),
        ]
    )
    if name == "sigmoid":  # as eager code, whose e**-x is infinite there
        flushed = x < (-89 if dtype == "float32" else -710)
        (got,) = unary[dtype][name](x[flushed])
        assert len(got) and not got.any()
        x = x[~flushed]
    if name == "exp_nonpositive":
        x = x[~(x > 0)]
    (got,) = unary[dtype][name](x)
    with np.errstate(all="ignore"):
        exact = references.ELEMENTARY[name](x.astype(np.longdouble))
    assert_within(name, dtype, references.ulps(got, exact), x)
    zeros = (exact == 0) & (x == 0)
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(exact[zeros]))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", references.SPECIAL)
def test_special_functions(unary: Any, name: str, dtype: str) -> None:
    x = references.scattered(dtype, references.RANGES[name], 40, 3)
    if name in ("ndtri", "lgamma", "digamma") or "_" in name:
        x = x[x > 0]
    if name == "ndtri":
        x = x[x < 1]
        x = np.concatenate([x, (10.0 ** -np.arange(1, 38)).astype(dtype)])
    if name[0] == "i" or name.startswith("bessel_j"):
        x = np.where(np.arange(len(x)) % 2, x, -x)
    (got,) = unary[dtype][name](x)
    exact = references.SPECIAL[name](x)
    oscillates = name[:-1] in ("bessel_j", "bessel_y")
    floor = np.sqrt(2 / np.pi / np.maximum(np.abs(x), 1)) if oscillates else None
    if name in ("ndtr", "density"):
        floor = np.full(x.shape, 0.5)
    assert_within(name, dtype, references.ulps(got, exact, floor), x)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", references.BINARY)
def test_functions_of_two(binary: Any, name: str, dtype: str) -> None:
    rng = np.random.default_rng(4)
    edges = [v.ravel() for v in np.meshgrid(references.edge_values(dtype), references.edge_values(dtype))]
    count = 20000
    x, y = (
        np.concatenate(
            [
                edge,
                references.all_patterns(dtype, count, seed),
                references.scattered(dtype, [(-9, 9)], count, seed),
            ]
        )
        for seed, edge in enumerate(edges)
    )
    size = min(len(x), len(y))
    x, y = x[:size], y[:size]
    if name == "pow":  # results that are neither 0 nor infinite, with bases near and far from 1
        x[-count:] = np.exp(rng.uniform(-80, 80, count) * rng.choice([1e-4, 0.01, 1], count))
        largest = 88 if dtype == "float32" else 700
        y[-count:] = rng.uniform(-largest, largest, count) / np.abs(np.log(x[-count:]))
    (got,) = binary[dtype][name](x, y)
    with np.errstate(all="ignore"):
        exact = references.BINARY[name](x.astype(np.longdouble), y.astype(np.longdouble))
    assert_within(name, dtype, references.ulps(got, exact), x, y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeta(binary: Any, dtype: str) -> None:
    x = references.scattered(dtype, [(1.05, 3), (2, 30)], 40, 5)
    q = references.scattered(dtype, [(0.05, 2), (1, 50)], 40, 6)
    (got,) = binary[dtype]["zeta"](x, q)
    assert_within("zeta", dtype, references.ulps(got, references.from_mpmath(references.zeta)(x, q)), x, q)
    values = np.array([0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 1.5, -1.5, math.nan])
    x, q = (v.ravel() for v in np.meshgrid(values, values))
    (got,) = binary["float64"]["zeta"](x, q)
    np.testing.assert_allclose(got, scipy.special.zeta(x, q), rtol=1e-14)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_large_angles_are_reduced_exactly(unary: Any, name: str, dtype: str) -> None:
    """Beyond the reach of the quick reduction, near multiples of pi/2, and at the largest numbers."""
    info = np.finfo(dtype)
    multiples = (np.random.default_rng(8).integers(1, 10**6, 300) * (math.pi / 2)).astype(dtype)
    x = np.concatenate(
        [
            multiples,
            10.0 ** np.linspace(4, 38 if dtype == "float32" else 308, 300),
            [
                info.max,
                99999.5,
                1e5,
                100000.5,
                2.0**30,
                2.0**30 + 1,
                6381956970095103 * 2.0**797 if dtype == "float64" else 3.0e38,
            ],
        ]
    ).astype(dtype)
    (got,) = unary[dtype][name](x)
    exact = references.from_mpmath(lambda v: _at_digits(400, getattr(mp, name), v))(x)
    assert_within(name, dtype, references.ulps(got, exact), x)


def _at_digits(digits: int, function: Any, x: Any) -> Any:
    with mp.workdps(digits):
        return +function(x)


# Special values.

INF, NAN = math.inf, math.nan
EDGES: dict[str, dict[float, float]] = {
    "erf": {INF: 1, -INF: -1},
    "erfc": {INF: 0, -INF: 2, 0.0: 1},
    "erfcx": {INF: 0, -INF: INF, 0.0: 1},
    "erfinv": {1.0: INF, -1.0: -INF, 1.5: NAN, -INF: NAN},
    "ndtr": {INF: 1, -INF: 0, 0.0: 0.5, 100.0: 1, -100.0: 0, 1e30: 1, -1e30: 0},
    "density": {INF: 0, -INF: 0, 100.0: 0, -1e30: 0},
    "ndtri": {0.0: -INF, 1.0: INF, 0.5: 0, -1.0: NAN, 2.0: NAN},
    "lgamma": {0.0: INF, -1.0: INF, -5.0: INF, 1.0: 0, 2.0: 0, INF: INF, -INF: INF},
    "digamma": {0.0: -INF, -1.0: NAN, -5.0: NAN, INF: INF, -INF: NAN, 5e-324: -INF, -5e-324: INF},
    "i0": {0.0: 1, INF: INF, -INF: INF},
    "i0e": {0.0: 1, INF: 0, -INF: 0},
    "i1": {INF: INF, -INF: -INF},
    "i1e": {INF: 0, -INF: 0},
    "bessel_j0": {0.0: 1, INF: 0},
    "bessel_j1": {INF: 0},
    **{f"bessel_{name}": {0.0: INF, INF: 0, -1.0: NAN} for name in ("k0", "k1", "k0e", "k1e")},
    **{f"bessel_{name}": {0.0: -INF, INF: 0, -1.0: NAN} for name in ("y0", "y1")},
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", EDGES)
def test_special_functions_at_the_edges(unary: Any, name: str, dtype: str) -> None:
    """Poles, ends of domains and infinities."""
    x = np.array(list(EDGES[name]), dtype)
    with np.errstate(under="ignore"):
        kept = (x != 0) | (np.array(list(EDGES[name])) == 0)  # the least double is no float
    np.testing.assert_array_equal(unary[dtype][name](x)[0][kept], np.array(list(EDGES[name].values()))[kept])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["erf", "erfinv", "i1", "i1e", "bessel_j1"])
def test_odd_special_functions_keep_the_sign_of_zero(unary: Any, name: str, dtype: str) -> None:
    (got,) = unary[dtype][name](np.array([0.0, -0.0], dtype))
    assert got.tolist() == [0, 0]
    assert np.signbit(got).tolist() == [False, True]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_any_nan_gives_nan(unary: Any, name: str, dtype: str) -> None:
    """Whatever its sign and payload: bits of a NaN must not leak into exponents."""
    bits = 8 * np.dtype(dtype).itemsize
    mantissa = np.finfo(dtype).nmant
    rng = np.random.default_rng(9)
    payload = rng.integers(1, 2**mantissa, 400, f"u{bits // 8}")
    sign = rng.integers(0, 2, 400, f"u{bits // 8}") << (bits - 1)
    quiet = 1 << (mantissa - 1)
    nans = (payload | sign | quiet | ((2 ** (bits - mantissa - 1) - 1) << mantissa)).view(dtype)
    assert np.isnan(unary[dtype][name](nans)[0]).all()


def test_negative_arguments_of_gamma_functions(unary: Any) -> None:
    """There the error is relative to the terms of the reflection formula."""
    x = -np.random.default_rng(10).uniform(0.05, 40, 100)
    exact = {"lgamma": lambda v: mp.re(mp.loggamma(v)), "digamma": lambda v: mp.psi(0, v)}
    terms = {"lgamma": scipy.special.gammaln(-x), "digamma": np.abs(np.pi / np.tan(np.pi * x)) + np.log(-x)}
    for name, function in exact.items():
        (got,) = unary["float64"][name](x)
        want = references.from_mpmath(function)(x)
        error = np.abs(got - want) / (np.abs(want) + np.abs(terms[name]) + 1)
        assert error.max() < 4 * np.finfo("float64").eps


def test_gelu_keeps_its_negative_tail(kernels: Any) -> None:
    """0.5 x erfc(-x / sqrt 2) does not cancel where 0.5 x (1 + erf(x / sqrt 2)) would be 0."""

    def gelu(e: Any, x: Any) -> Any:
        return e.mul(e.mul(x, 0.5), FUNCTIONS["erfc"](e, e.mul(x, -math.sqrt(0.5))))

    x = -np.linspace(0.1, 12.5, 500).astype("float32")
    (got,) = kernels.run(gelu, [x], ["float32"], 8)
    want = x.astype("float64") * scipy.special.ndtr(x.astype("float64"))
    np.testing.assert_allclose(got[x > -6], want[x > -6], rtol=4e-6)
    np.testing.assert_allclose(got, want, rtol=2e-5)
    assert (got[x > -12.4] < 0).all()


# Lanes and targets.


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_results_do_not_depend_on_lanes(kernels: Any, unary: Any, lanes: int, dtype: str) -> None:
    x = np.concatenate(
        [
            references.edge_values(dtype),
            np.array([1e6, -1e20, 3e30], dtype),
            references.scattered(dtype, [(-10, 10), (0, 1)], 40, 11),
        ]
    )
    others = kernels.compile({name: FUNCTIONS[name] for name in UNARY}, [dtype], [dtype], lanes)
    for name in UNARY:
        np.testing.assert_array_equal(others[name](x)[0], unary[dtype][name](x)[0], err_msg=name)


@pytest.mark.parametrize("dtype", FLOATS)
def test_without_fma(kernels: Any, dtype: str) -> None:
    """Emulated where it matters: no more than two more units, and large angles still right."""
    target = dataclasses.replace(kernels.target, has_fma=False)
    names = ("exp", "log", "tanh", "sin", "cos", "erfc", "log1p", "asin")
    near, far = ([(-1, 1), (-9, 9)], [(-1e4, 1e4), (0, 1e15)])
    compiled = kernels.compile({name: FUNCTIONS[name] for name in names}, [dtype], [dtype], 8, target)
    for name in names:
        x = references.scattered(dtype, near + far if name in ("sin", "cos") else near, 300, 12)
        (got,) = compiled[name](x)
        with np.errstate(all="ignore"):
            exact = {**references.ELEMENTARY, **references.SPECIAL}[name](x.astype(np.longdouble))
        assert references.ulps(got, exact).max() <= bound(name, dtype) + 2, name


# Exact functions of floats.


@pytest.mark.parametrize("dtype", FLOATS)
def test_remainders_and_neighbours_are_exact(binary: Any, dtype: str) -> None:
    edges = [v.ravel() for v in np.meshgrid(references.edge_values(dtype), references.edge_values(dtype))]
    x, y = (
        np.concatenate(
            [
                edge,
                references.all_patterns(dtype, 20000, seed)[:15000],
                references.scattered(dtype, [(-100, 100)], 5000, seed),
            ]
        )
        for seed, edge in enumerate(edges, 20)
    )
    y[-1000:] = np.round(y[-1000:])
    x[-500:] = y[-500:] * np.arange(500)
    wanted = {
        "fmod": np.fmod,
        "remainder": np.remainder,
        "floor_div": np.floor_divide,
        "nextafter": np.nextafter,
        "copysign": np.copysign,
        "trunc_div": lambda a, b: np.trunc(a / b),
    }
    for name, reference in wanted.items():
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(binary[dtype][name](x, y)[0], reference(x, y), err_msg=name)


@pytest.mark.parametrize("dtype", FLOATS)
def test_parts_of_numbers(kernels: Any, dtype: str) -> None:
    x = np.concatenate([references.edge_values(dtype), references.all_patterns(dtype, 20000, 30)])
    mantissa, exponent = kernels.run(FUNCTIONS["frexp"], [x], [dtype, "int32"], 8)
    for got, want in zip((mantissa, exponent), np.frexp(x), strict=True):
        np.testing.assert_array_equal(got, want)
    n = np.random.default_rng(31).integers(-2300, 2300, len(x), "int32")
    n[:2] = np.iinfo("int32").max, np.iinfo("int32").min
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(kernels.run(ldexp, [x, n], [dtype], 8)[0], np.ldexp(x, n))
    names = ("floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite", "signbit")
    results = kernels.run(
        lambda e, v: tuple(FUNCTIONS[n](e, v) for n in names), [x], [dtype] * 4 + ["bool"] * 4, 8
    )
    for name, got in zip(names, results, strict=True):
        np.testing.assert_array_equal(got, getattr(np, {"round": "rint"}.get(name, name))(x), err_msg=name)


def test_neighbours_of_narrow_floats(kernels: Any) -> None:
    every = np.arange(65536, dtype="uint16")
    towards = np.roll(every, 777)
    half, other = every.view("float16"), towards.view("float16")
    (got,) = kernels.run(FUNCTIONS["nextafter"], [half, other], ["float16"], 8)
    np.testing.assert_array_equal(got, np.nextafter(half, other))
    brain, other = every.view(ml_dtypes.bfloat16), towards.view(ml_dtypes.bfloat16)
    (got,) = kernels.run(nextafter_bfloat16, [brain, other], ["bfloat16"], 8)
    with np.errstate(invalid="ignore"):
        want = np.nextafter(brain, other)
    np.testing.assert_array_equal(got.astype("float32"), want.astype("float32"))


# External functions, recurrences and coefficients.


def test_extern_functions_call_scipy(kernels: Any) -> None:
    rng = np.random.default_rng(50)
    a, x = rng.uniform(0.1, 20, 200), rng.uniform(0, 30, 200)
    assert set(EXTERN) == {"igamma", "igammac", "airy_ai"}
    for name, want in (("igamma", scipy.special.gammainc), ("igammac", scipy.special.gammaincc)):
        np.testing.assert_array_equal(kernels.run(FUNCTIONS[name], [a, x], ["float64"], 4)[0], want(a, x))
        short = a.astype("f4"), x.astype("f4")
        (single,) = kernels.run(FUNCTIONS[name], short, ["float32"], 8)
        np.testing.assert_array_equal(single, want(*[v.astype("f8") for v in short]).astype("f4"))
    airy = kernels.compile({"airy": FUNCTIONS["airy_ai"]}, ["float64"], ["float64"], 4)["airy"]
    np.testing.assert_array_equal(airy(a - 10)[0], scipy.special.airy(a - 10)[0])
    far = np.array([1.1e6, -1.1e6, -3e8, math.nan])
    np.testing.assert_allclose(airy(far)[0], NumpyHandler.airy_ai(far), rtol=1e-6)


@pytest.mark.parametrize("lanes", [1, 8])
def test_iterate_stops_each_lane_by_itself(kernels: Any, lanes: int) -> None:
    """Fibonacci numbers by a recurrence whose length differs from lane to lane; k counts in the type of the
    state."""

    def emit(e: Any, count: Any, zero: Any) -> tuple[Any, Any]:
        one = e.add(zero, 1.0)
        a, _, total = FUNCTIONS["iterate"](
            e, count, (zero, one, zero), lambda k, a, b, s: (b, e.add(a, b), e.add(s, k))
        )
        return a, total

    count = np.array([0, 1, 5, 10, -3, 2, 7, 3], "int64")
    fibonacci, total = kernels.run(emit, [count, np.zeros(8)], ["float64"] * 2, lanes)
    assert fibonacci.tolist() == [0, 1, 5, 55, 0, 1, 13, 2]
    assert total.tolist() == [n * (n - 1) / 2 if n > 0 else 0 for n in count.tolist()]


def test_coefficients_come_from_the_tool() -> None:
    for name, bits in (("EXP2", 32), ("SIN", 32), ("POW_EXP2", 32), ("DENSITY", 32)):
        assert tuple(TABLES[name][bits].coefficients()[0]) == getattr(coefficients, name)[bits]
    assert set(TABLES) == {name for name in dir(coefficients) if name.isupper()}

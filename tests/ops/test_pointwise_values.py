"""Special values of every elementwise and special function, in every dtype, against PyTorch.

Unary functions see zeros, infinities, NaN, ties, tiny and huge numbers; binary ones every pair of them. The
tables `DIFFERENT_REAL` and `DIFFERENT_COMPLEX` list what differs on purpose, and why.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import torch

import rushlight

nan, inf = float("nan"), float("inf")
REALS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3.0,
    -3.0,
    1e-30,
    1e30,
    -1e30,
    100.0,
    -100.0,
    0.1,
    7.3,
    -7.3,
    20.0,
    -20.0,
    inf,
    -inf,
    nan,
]
PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, inf, -inf, nan]
VALUES = {
    "float32": REALS,
    "float64": REALS,
    "bfloat16": REALS,
    "float16": REALS,
    "int64": [0, 1, -1, 2, -2, 3, 7, -7, 63, 64, 100, 2**62, 2**63 - 1],
    "int8": [0, 1, -1, 2, -2, 3, 7, -7, 8, 9, 100, 127],
    "uint8": [0, 1, 2, 3, 7, 8, 9, 200, 255],
    "bool": [True, False],
    "complex64": [complex(*pair) for pair in itertools.product(PARTS, PARTS)],
    "complex128": [complex(*pair) for pair in itertools.product(PARTS, PARTS)],
}
UNARY = """
abs acos acosh asin asinh atan atanh ceil floor round trunc frac exp exp2 expm1 log log2 log10 log1p sqrt
rsqrt square reciprocal neg positive sign sgn signbit sin cos tan sinh cosh tanh sinc sigmoid logit erf erfc
erfinv lgamma digamma i0 isnan isinf isfinite isposinf isneginf isreal nan_to_num deg2rad rad2deg angle
conj_physical logical_not bitwise_not relu frexp special.entr special.erfcx special.log_ndtr special.ndtr
special.ndtri special.i0e special.i1 special.i1e special.bessel_j0 special.bessel_j1 special.bessel_y0
special.bessel_y1 special.modified_bessel_k0 special.modified_bessel_k1 special.scaled_modified_bessel_k0
special.scaled_modified_bessel_k1 special.spherical_bessel_j0 special.airy_ai special.psi special.round
"""
BINARY = """
add sub mul div pow float_power atan2 hypot copysign heaviside ldexp maximum minimum fmax fmin eq ne lt le
gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift
bitwise_right_shift logaddexp logaddexp2 xlogy isclose floor_divide fmod remainder igamma igammac
special.zeta special.xlog1py special.chebyshev_polynomial_t special.chebyshev_polynomial_u
special.chebyshev_polynomial_v special.chebyshev_polynomial_w special.hermite_polynomial_h
special.hermite_polynomial_he special.laguerre_polynomial_l special.legendre_polynomial_p
special.shifted_chebyshev_polynomial_t
"""
HALF = (torch.float16, torch.bfloat16)
TOLERANCE = {"float64": {"rtol": 1e-7, "atol": 1e-14}, "complex128": {"rtol": 1e-7, "atol": 1e-7}}


def finite(*tensors):
    return torch.stack([torch.isfinite(t) for t in tensors]).all(0)


def numbers(*tensors):
    return ~torch.stack([torch.isnan(t) for t in tensors]).any(0)


EXACT = "PyTorch's own result is off by more than the tolerance; SciPy's or NumPy's is right"
ROUNDED_ONCE = "PyTorch rounds intermediate results to the half type; here half types round once, at the end"
NAN_STAYS = "PyTorch gives a number for some NaN operands"
INFINITE_PARTS = "what becomes of infinite parts of complex numbers depends on the order of operations"
# name -> why, and which inputs are compared all the same
DIFFERENT_REAL = {
    "special.ndtr": (EXACT + ". " + ROUNDED_ONCE, lambda x: x > (-2 if x.dtype in HALF else -7)),
    "special.erfcx": (EXACT, lambda x: (x < -8) | (x > -7)),
    "special.airy_ai": (EXACT, lambda x: (x > -2) | ((x < -3) & (x > -1e6))),
    "special.bessel_j1": (EXACT, lambda x: (x != 7.3) & (x != -7.3)),
    "special.bessel_y0": (EXACT, lambda x: x != 7.3),
    "fmod": (EXACT, lambda x, y: ~((x / y).abs() > 2**24) | (not x.is_floating_point())),
    "remainder": (EXACT, lambda x, y: ~((x / y).abs() > 2**24) | (not x.is_floating_point())),
    "igamma": (NAN_STAYS, numbers),
    "igammac": (NAN_STAYS + ". " + EXACT, lambda x, y: numbers(x, y) & ~((x > 0) & (x < 1e-9))),
    "special.zeta": ("the limit at infinity is 0, not NaN", lambda x, y: finite(y) & (y < 2**62)),
}
for _name in BINARY.split():
    if "polynomial" in _name:
        DIFFERENT_REAL[_name] = (NAN_STAYS, lambda x, y: ~torch.isnan(x) & (y <= 100) & (y >= -100))
DIFFERENT_COMPLEX = {
    "sgn": (INFINITE_PARTS, finite),
    "log1p": (NAN_STAYS, numbers),
    "logaddexp": (NAN_STAYS, finite),
    "add": (INFINITE_PARTS, finite),
    "sub": (INFINITE_PARTS, finite),
    "mul": (INFINITE_PARTS, finite),
    "pow": (INFINITE_PARTS, lambda x, y: finite(x, y) & (x != 0)),
    "float_power": (INFINITE_PARTS, lambda x, y: finite(x, y) & (x != 0)),
}


def function(module, name):
    for part in name.split("."):
        module = getattr(module, part)
    return module


def ours(tensor):
    if tensor.dtype is torch.bfloat16:
        return rushlight.from_numpy(tensor.float().numpy()).to(rushlight.bfloat16)
    return rushlight.from_numpy(tensor.numpy().copy())


def theirs(value):
    if isinstance(value, rushlight.Tensor):
        name = value.dtype.name
        array = np.array(value.float().numpy() if name == "bfloat16" else value.numpy())
        return torch.from_numpy(array).to(getattr(torch, name))
    return tuple(theirs(v) for v in value) if isinstance(value, tuple) else value


def compared(name, *inputs):
    """The inputs for which PyTorch is the judge."""
    table = DIFFERENT_COMPLEX if inputs[0].is_complex() else DIFFERENT_REAL
    if name not in table:
        return inputs
    keep = table[name][1](*inputs)
    return tuple(x[keep] for x in inputs)


def agree(name, *inputs):
    """The same values and dtypes, or the same type of error; PyTorch's missing half types may be there."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = function(torch, name)(*inputs)
    except Exception as error:
        if inputs[0].dtype not in HALF:
            with pytest.raises(type(error)):
                function(rushlight, name)(*map(ours, inputs))
        return
    actual = theirs(function(rushlight, name)(*map(ours, inputs)))
    expected = tuple(expected) if isinstance(expected, tuple) else expected
    dtype = str((expected[0] if isinstance(expected, tuple) else expected).dtype).removeprefix("torch.")
    assert not dtype.startswith("complex") or actual.dtype is expected.dtype
    if dtype.startswith("complex"):  # by parts, so that a finite part beside an infinite one is compared
        actual, expected = torch.view_as_real(actual), torch.view_as_real(expected.resolve_conj())
    tolerance = TOLERANCE.get(dtype, {})
    if "chebyshev" in name and dtype in ("float32", "float64"):
        # cos(n arccos x), for n up to 100: what the arc cosine is rounded by counts n times
        eps = torch.finfo(expected.dtype).eps
        tolerance = {"rtol": max(1e-7, 8 * eps), "atol": 100 * np.pi * eps}
    torch.testing.assert_close(actual, expected, equal_nan=True, **tolerance)


@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("name", UNARY.split())
def test_unary(name, dtype):
    x = torch.tensor(VALUES[dtype], dtype=getattr(torch, dtype))
    agree(name, *compared(name, x))


@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("name", BINARY.split())
def test_binary(name, dtype):
    values = VALUES[dtype][::5] if dtype.startswith("complex") else VALUES[dtype]
    pairs = torch.tensor(list(itertools.product(values, values)), dtype=getattr(torch, dtype))
    x, y = pairs[:, 0].contiguous(), pairs[:, 1].contiguous()
    x, y = compared(name, x, y)
    if name in ("floor_divide", "fmod", "remainder") and not x.is_floating_point():
        x, y = x[y != 0], y[y != 0]
    agree(name, x, y)


def test_bessel_functions_satisfy_their_wronskian():
    """Where PyTorch is not exact enough, an identity is the judge: J1 Y0 - J0 Y1 = 2 / (pi x)."""
    x = rushlight.linspace(0.1, 40, 500, dtype=rushlight.float64)
    special = rushlight.special
    left = special.bessel_j1(x) * special.bessel_y0(x) - special.bessel_j0(x) * special.bessel_y1(x)
    np.testing.assert_allclose((left * x).numpy(), 2 / np.pi, rtol=1e-12)


def test_ndtr_keeps_its_tail():
    x = rushlight.tensor([-8.0, -20.0, -37.0], dtype=rushlight.float64)
    logarithm = rushlight.special.log_ndtr(x)
    np.testing.assert_allclose(rushlight.special.ndtr(x).log().numpy(), logarithm.numpy(), rtol=1e-12)


def test_polynomials_of_high_degree_cost_nothing_inside_the_interval():
    x = rushlight.linspace(-0.9, 0.9, 7, dtype=rushlight.float64)
    n = 10_000_000
    expected = np.cos(n * np.arccos(x.numpy()))
    np.testing.assert_allclose(rushlight.special.chebyshev_polynomial_t(x, n).numpy(), expected)


def test_polynomial_degrees_may_differ_by_element():
    x, n = torch.tensor([[0.3], [2.0]]), torch.tensor([-1, 0, 1, 2.7, 9, nan])
    actual = rushlight.special.legendre_polynomial_p(ours(x), ours(n))
    torch.testing.assert_close(theirs(actual), torch.special.legendre_polynomial_p(x, n))

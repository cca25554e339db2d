"""Elementwise operators against PyTorch: promotion, values, errors, in-place and out=, Python's operators.

Most cases are expressions that are evaluated twice, once with `rl` standing for rushlight and once for torch.
Both must give the same dtypes and values, or raise the same type of error.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import rushlight
from rushlight.core.registry import REGISTRY

nan, inf = float("nan"), float("inf")


def names(module):
    """What the expressions may refer to."""
    tensor = module.tensor
    return {
        "rl": module,
        "np": np,
        "nan": nan,
        "inf": inf,
        "b": tensor([True, False]),
        "i": tensor([7, -7, 0]),
        "f": tensor([1.0, 2.0]),
        "c": tensor([1 + 1j]),
        "u": tensor([200], dtype=module.uint8),
        "j": tensor([7, -7], dtype=module.int32),
        "h": tensor([1.5], dtype=module.float16),
        "g": tensor([0.1], dtype=module.bfloat16),
        "d": tensor([1.0, 2.0], dtype=module.float64),
    }


def to_torch(value):
    if isinstance(value, rushlight.Tensor):
        name = value.dtype.name
        array = np.array(value.float().numpy() if name == "bfloat16" else value.resolve_conj().numpy())
        return torch.from_numpy(array).to(getattr(torch, name))
    if isinstance(value, tuple):
        return tuple(to_torch(item) for item in value)
    return value


def outcome(expression, module):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return eval(expression, names(module)), None
    except Exception as error:
        return None, error


def agree(expression):
    expected, expected_error = outcome(expression, torch)
    actual, error = outcome(expression, rushlight)
    if expected_error is not None:
        assert error is not None, f"{expression} gave {actual}, PyTorch raises {expected_error!r}"
        assert isinstance(error, type(expected_error)), f"{expression}: {error!r}, not {expected_error!r}"
        return
    assert error is None, f"{expression}: {error!r}, PyTorch gives {expected}"
    actual = to_torch(actual)
    if isinstance(expected, tuple | torch.Tensor):
        expected = tuple(expected) if isinstance(expected, tuple) else expected
        torch.testing.assert_close(actual, expected, equal_nan=True, msg=lambda text: f"{expression}: {text}")
    else:
        assert (actual, type(actual)) == (expected, type(expected)), expression


PROMOTION = """
b + b; b * b; b / b; b + 1; b + 1.5; i + 1.5; i / 2; i + np.float64(2); f + d;
f + rl.tensor(1.0, dtype=rl.float64); i + rl.tensor(1.0, dtype=rl.float64); rl.tensor(3) / 2;
rl.tensor(True) + 1; u + 2.5; u + 300; u == 300; u < -1;
rl.tensor([1], dtype=rl.int8) + rl.tensor([1], dtype=rl.uint8); rl.tensor([100], dtype=rl.int8) + 100;
rl.tensor([1], dtype=rl.int8) + rl.tensor(300); h + g; f * 1j; d * 1j; g * 0.1; g + 0.1; g == 0.1; g / 3;
3 / g; rl.eq(i, 1.5); rl.tensor([2**53 + 1]) == 2.0**53; rl.pow(b, 2); rl.square(b); rl.square(j);
rl.sqrt(b); rl.exp(i); rl.sign(b); rl.sgn(b); rl.abs(c); rl.angle(b); rl.angle(i); rl.float_power(i, 2);
rl.float_power(2, i); rl.float_power(c, 2); rl.float_power(f, f); rl.true_divide(i, 2); rl.clamp(i, 0.5);
rl.clamp(b, 0); rl.clamp(i, 0, 1.5); rl.clamp(i, rl.tensor([0.5, 1.0, 2.0])); rl.clamp_min(i, 1.5);
rl.xlogy(i, 2); rl.copysign(i, i); rl.copysign(i, -0.0); rl.atan2(i, i); rl.where(b, 1, 2);
rl.where(b, 1.5, 2); rl.where(b, f, 2); rl.where(b, i[:2], 2.5); rl.where(b, j, f); rl.where(b, True, 2);
rl.where(b, 1j, 2); rl.where(b, h, 1e10); rl.where(b, rl.tensor(1.0), rl.tensor(2)); rl.where(b, d, f);
rl.logical_and(f, j); rl.logical_not(c); rl.isposinf(i); rl.signbit(b); rl.signbit(i); rl.ldexp(i, i);
rl.hypot(f, d); rl.nextafter(f, d); rl.igamma(f, d); rl.addcmul(i, f[0], f[0], value=2);
rl.addcdiv(i, f[0], f[0]); rl.deg2rad(i); rl.lerp(f, f, rl.tensor(0.5, dtype=rl.float64));
rl.addcmul(i, i, i, value=1.5); rl.div(i, 2, rounding_mode=None)
"""

INTEGERS = """
i // 2; i % 3; i % -3; i // -3; rl.fmod(i, 3); rl.fmod(i, -3); rl.div(i, 2, rounding_mode='trunc');
rl.div(i, -2, rounding_mode='floor'); rl.tensor([-5, 5]) // rl.tensor([3, -3]);
rl.tensor([-5, 5]) % rl.tensor([3, -3]); rl.fmod(rl.tensor([-5, 5]), rl.tensor([3, -3]));
rl.div(rl.tensor([-5, 5]), rl.tensor([3, -3]), rounding_mode='trunc'); i // 0; i % 0; rl.fmod(i, 0);
rl.div(i, 0, rounding_mode='trunc'); rl.div(i, 0, rounding_mode='floor'); rl.div(i, 0);
j // rl.tensor([0, 1], dtype=rl.int32); i ** -1; i ** rl.tensor(-1); 2 ** rl.tensor([-1, 2]); i ** 2;
i ** 0; rl.tensor([1, -1, 2, 0]) ** rl.tensor([-1, -1, -1, -1]); rl.tensor([-1, -1]) ** rl.tensor([-2, -3]);
i << 2; i << 70; i >> 70; i << -1; i >> -1; 1 << rl.tensor([0, 3, 64]); 100 >> rl.tensor([0, 3, 64]);
u << 1; u >> 9; ~i; ~b; ~u; rl.gcd(i, rl.tensor([21, 14, 3])); rl.lcm(i, i);
rl.lcm(i, rl.tensor([21, 14, 3])); rl.ceil(i); rl.round(i); rl.trunc(u); b & True; b & 1; b ^ b; i & 3;
3 & i; i ^ 5; rl.bitwise_and(5, i); rl.relu(i); rl.abs(rl.tensor([-128], dtype=rl.int8));
rl.tensor([2**62]) * 4; rl.tensor([127], dtype=rl.int8) + 1; -u; rl.nan_to_num(i); rl.nan_to_num(b);
rl.sign(u); b | b; i | 8; u | 7; b | 1
"""

VALUES = """
rl.tensor([-5., 5., 1.]) // 0.; rl.tensor([-5., 5.]) % 0.; rl.tensor([5., -5.]) % inf;
rl.tensor([5., -5.]) // rl.tensor([3., -3.]); rl.tensor([-5., 5.]) // -3.;
rl.div(rl.tensor([-7., 7.]), 2., rounding_mode='trunc'); rl.sign(rl.tensor([nan, -0.0, inf]));
rl.sgn(rl.tensor([3 + 4j, 0j])); rl.angle(rl.tensor([-1., 0., nan, -0.0]));
rl.angle(rl.tensor([1j, -1 + 0j, complex(-1, -0.0)]));
rl.heaviside(rl.tensor([-1., 0., nan, 2.]), rl.tensor([0.5])); rl.heaviside(b, b);
rl.signbit(rl.tensor([-0.0, 0.0, -1., nan])); rl.hypot(rl.tensor([3., inf]), rl.tensor([4., nan]));
rl.copysign(rl.tensor([1.]), rl.tensor([-0.0])); rl.relu(rl.tensor([nan, -1., 2.]));
rl.xlogy(rl.tensor([0., 0., 1.]), rl.tensor([0., nan, 0.]));
rl.logaddexp(rl.tensor([inf, -inf, 1.]), rl.tensor([inf, -inf, 2.])); rl.sinc(rl.tensor([0., 1., 0.5]));
rl.sigmoid(rl.tensor([-1000., 1000., 0.])); rl.maximum(rl.tensor([nan, 1.]), rl.tensor([1., nan]));
rl.fmax(rl.tensor([nan, 1., nan]), rl.tensor([1., nan, nan])); rl.clamp(rl.tensor([nan]), 0, 1);
rl.clamp(f, nan, 1); rl.clamp(f, 3, 0); rl.clamp(f, max=rl.tensor([1.5, 0.5]), min=rl.tensor([1.6]));
rl.clamp(f, min=rl.tensor(0.), max=1); rl.round(rl.tensor([0.5, 1.5, 2.5, -0.5]));
rl.round(rl.tensor([1.2345, 5.5555]), decimals=2); rl.round(rl.tensor([12345.]), decimals=-2);
rl.frexp(rl.tensor([0., 1., -3.5, inf])); rl.frexp(h); rl.logit(rl.tensor([0., 0.5, 1.]), eps=0.1);
rl.logit(i); rl.nan_to_num(rl.tensor([nan, inf, -inf]), nan=1., posinf=2., neginf=3.);
rl.nan_to_num(g * inf); rl.nan_to_num(h * -inf); rl.nan_to_num(rl.tensor([complex(nan, inf)]));
rl.nextafter(g, g + 1); rl.tensor([0j]) ** 0; rl.tensor([1j]) ** 2; rl.tensor([1j]) ** 0.5;
rl.tensor([-8.]) ** (1 / 3); rl.tensor([2.]) ** 1j; rl.polar(f, f); rl.isreal(rl.tensor([1 + 0j, 1j]));
rl.lerp(f, f + 1, 0.25); rl.lerp(f, f + 1, rl.tensor([0.25, 0.75])); rl.lerp(c, c + 1, 0.5j);
rl.lerp(g, g + 1, 0.1); rl.logaddexp(c, c); rl.tensor([nan]).isclose(rl.tensor([nan]), equal_nan=True);
rl.isclose(rl.tensor([1., nan, inf]), rl.tensor([1.00001, nan, inf]));
rl.isclose(rl.tensor([inf]), rl.tensor([-inf])); rl.isclose(i, i, rtol=0, atol=0); rl.isclose(b, b);
rl.isclose(c, c); rl.equal(rl.tensor([nan]), rl.tensor([nan])); rl.equal(f, d); rl.equal(f, rl.ones(3));
rl.equal(f, rl.tensor([1, 2])); rl.allclose(f, f + 1e-9);
rl.allclose(rl.tensor([nan]), rl.tensor([nan]), equal_nan=True); rl.is_nonzero(rl.tensor([0.]));
rl.is_nonzero(rl.tensor(1j)); rl.is_same_size(f, i); rl.where(b); rl.where(rl.tensor(True)); f.where(b, 0);
f.where(b, f * 2); rl.exp(rl.tensor([])); rl.add(rl.ones(2, 1), rl.ones(3)); rl.sub(f, f, alpha=2);
rl.rsub(f, 1); rl.rsub(f, f, alpha=3); rl.add(b, b, alpha=True); rl.add(b, b, alpha=2);
rl.addcmul(f, f, f, value=2); rl.addcdiv(f, f, f, value=2.5); f.polygamma(1); rl.max(f, rl.tensor([1.5]));
rl.min(f, f[0]); f.max(f); rl.clip(f, 1.5); f.clip(max=1.5); rl.mvlgamma(i, 2); rl.digamma(i);
rl.pow(self=2, exponent=f); rl.add(input=f, other=f); rl.pow(input=f, exponent=f);
rl.where(condition=b, input=f, other=f)
"""

NUMBERS = """
rl.add(1, f); rl.sub(1, f); rl.sub(2.5, i); rl.mul(2, c); rl.div(1, i); rl.true_divide(3, f);
rl.floor_divide(5, f); rl.add(1, h); rl.add(1, rl.tensor(2, dtype=rl.uint8)); rl.remainder(5, f);
rl.pow(2, f); 5 // i[:2]; 5.5 // f; 7 % i[:2]; 2 / f; 2 / i; 2 - f; True + f; 1j * f; 2 ** f; 2 ** i;
f ** 2; 3 ^ i; True & b; 1 >> i.abs(); f + np.float32(2); np.float32(2) + f; np.float64(2) * i;
i + np.float64(2); np.int64(3) - i; i * np.int32(2); np.float64(2) - f; np.float64(2) / f;
f == np.float32(1); f > np.float64(1); np.float64(1) < f; abs(-f); +f; -f; f == None; f != 'x'; 3 | i
"""

ERRORS = """
b - b; b - 1; 1 - b; rl.rsub(b, 1); -b; +b; b // b; b % b; b ** b; abs(b); rl.floor(b); rl.round(b); ~f;
f << 1; f & 1; c < c; c.sign(); rl.floor(c); rl.maximum(c, c); rl.fmax(c, c); rl.clamp(c, 0); rl.relu(c);
rl.relu(b); rl.clamp(f); rl.lgamma(c); rl.signbit(c); rl.isposinf(c); rl.logaddexp2(c, c);
rl.logaddexp(i, i); rl.frac(i); rl.round(i, decimals=1); rl.gcd(f, f); rl.gcd(b, b); rl.igamma(i, i);
rl.hypot(i, i); rl.nextafter(i, i); rl.frexp(i); rl.bitwise_not(f); rl.bitwise_and(f, f);
rl.bitwise_left_shift(f, f); rl.add(f, f, alpha=1j); rl.add(i, i, alpha=1.5); rl.add(i, i, alpha=True);
rl.sub(i, i, alpha=1.5); rl.rsub(i, i, alpha=1.5); rl.addcmul(b, b, b); rl.addcdiv(i, i, i);
rl.lerp(f, d, 0.5); rl.lerp(i, i, 0.5); rl.lerp(f, f, 0.5j); rl.heaviside(f, j); rl.heaviside(c, c);
rl.div(i, 2, rounding_mode='bad'); rl.isclose(f, d); rl.isclose(f, f, rtol=-1); rl.allclose(f, d);
rl.polar(f, d); rl.polar(i, i); rl.complex(f, d); rl.complex(i, i); rl.complex(g, g); rl.is_nonzero(f);
rl.is_nonzero(rl.tensor([])); rl.where(f, f, f); rl.mvlgamma(f, 0); rl.polygamma(-1, f); rl.maximum(f, 1);
rl.fmod(5, f); rl.logical_and(f, 1); rl.float_power(2, 3); f + None; f + 'x'; f + [1, 2]; f < None;
rl.add(f); rl.add(f, f, f, f); rl.add(f, f, beta=2); rl.sin(1.0); rl.sin('x'); u * 2**70;
rl.ones(2, 3) + rl.ones(3, 2); rl.add(rl.ones(2, 3), rl.ones(4)); rl.max(c, c); rl.clamp(i, 0, 1j)
"""

WRITES = """
f.add_(1); i.add_(1.5); i.div_(2); i.floor_divide_(2); f.lt_(2); b.add_(1); f.pow_(2); i.pow_(2);
f.float_power_(2); d.float_power_(2); f.clamp_(min=1.5); f.copysign_(-1); f.remainder_(1.5);
f.bitwise_and_(1); i.bitwise_left_shift_(1); f.logical_not_(); f.sin_(); i.sin_(); f.polygamma_(1);
c.abs_(); f.mul_(d); f.mul_(1j); i.sub_(True); f.add_(rl.ones(3, 2)); f.heaviside_(f); f.nan_to_num_();
f.sigmoid_(); f.lerp_(f, 0.5); f.addcmul_(f, f, value=2); rl.exp_(f); f.subtract_(1);
rl.add(f, f, out=rl.empty(2)); rl.add(f, f, out=rl.empty(2, dtype=rl.int64)); rl.eq(f, f, out=rl.empty(2));
rl.abs(c, out=rl.empty(1)); rl.sin(i, out=rl.empty(3, dtype=rl.int64));
rl.sin(i, out=rl.empty(3, dtype=rl.float64)); rl.add(f, f, out=rl.empty(0));
rl.complex(f, f, out=rl.empty(2, dtype=rl.complex128));
rl.frexp(f, out=(rl.empty(2), rl.empty(2, dtype=rl.int32)))
"""


def expressions(table):
    return [text.strip() for text in table.replace("\n", " ").split(";")]


@pytest.mark.parametrize("expression", expressions(PROMOTION))
def test_promotion(expression):
    agree(expression)


@pytest.mark.parametrize("expression", expressions(INTEGERS))
def test_integers_and_bits(expression):
    agree(expression)


@pytest.mark.parametrize("expression", expressions(VALUES))
def test_values(expression):
    agree(expression)


@pytest.mark.parametrize("expression", expressions(NUMBERS))
def test_numbers_and_python_operators(expression):
    agree(expression)


@pytest.mark.parametrize("expression", expressions(ERRORS))
def test_errors(expression):
    assert outcome(expression, torch)[1] is not None, "not an error in PyTorch"
    agree(expression)


@pytest.mark.parametrize("expression", expressions(WRITES))
def test_writes(expression):
    agree(expression)


@pytest.mark.parametrize("statement", ["x += 1", "x -= y", "x *= 2", "x /= 4", "x //= 2", "x %= 3"])
def test_augmented_assignment_writes_in_place(statement):
    results = []
    for module in (rushlight, torch):
        scope = {"x": module.tensor([5.0, -7.0]), "y": module.tensor([2.0])}
        before = scope["x"]
        exec(statement, scope)
        assert scope["x"] is before
        results.append(to_torch(before))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("statement", ["x &= 6", "x |= 8", "x ^= 5", "x <<= 2", "x >>= 1"])
def test_augmented_assignment_of_bits(statement):
    results = []
    for module in (rushlight, torch):
        scope = {"x": module.tensor([5, -7])}
        before = scope["x"]
        exec(statement, scope)
        assert scope["x"] is before
        results.append(to_torch(before))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("name", ["radd", "rsub", "rmul", "rdiv", "rtruediv", "rfloordiv", "rmod", "rpow"])
def test_reflected_operators(name):
    method = f"__{name}__"
    expected = getattr(torch.tensor([2.0, -3.0]), method)(5)
    actual = getattr(rushlight.tensor([2.0, -3.0]), method)(5)
    torch.testing.assert_close(to_torch(actual), expected)
    assert getattr(rushlight.tensor([2.0]), method)("text") is NotImplemented


# Messages.


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("b - b", "logical_xor"),
        ("b - 1", "invert a mask"),
        ("-b", "logical_not"),
        ("rl.ones(2, 3) + rl.ones(4)", r"add: shapes \(2, 3\), \(4,\) cannot be broadcast together"),
        ("rl.gcd(f, f)", "\"gcd\" not implemented for 'Float'; it takes int16"),
        ("rl.lerp(f, d, 0.5)", "lerp: expected self and end to have the same dtype"),
        ("rl.complex(i, i)", "Half, Float or Double"),
        ("i // 0", "ZeroDivisionError"),
        ("rl.add(i, i, alpha=1.5)", "alpha must not be a floating point number"),
    ],
)
def test_messages(expression, message):
    error = outcome(expression, rushlight)[1]
    with pytest.raises(type(error), match=message):
        raise error


# Memory.


@pytest.mark.parametrize(
    "expression",
    [
        "rl.ceil(i)",
        "rl.sign(b)",
        "rl.nan_to_num(i)",
        "rl.sgn(b)",
        "rl.clamp(f, 0)",
        "rl.where(b, f, f)",
        "rl.add(f, 0)",
        "rl.abs(u)",
        "rl.isreal(f)",
        "rl.round(i)",
        "rl.trunc(i)",
        "rl._conj_physical(c)",
    ],
)
def test_results_own_their_memory(expression):
    scope = names(rushlight)
    result = eval(expression, scope)
    for value in scope.values():
        if isinstance(value, rushlight.Tensor):
            assert not np.may_share_memory(value.numpy_array(), result.numpy_array())
    result.zero_()


@pytest.mark.parametrize("expression", ["rl.positive(f)", "rl.conj_physical(f)"])
def test_identities_return_the_tensor_itself(expression):
    scope = names(rushlight)
    assert eval(expression, scope) is scope["f"]


@pytest.mark.parametrize("name", ["isreal", "isposinf", "isneginf"])
def test_constant_results_have_the_full_shape(name):
    result = getattr(rushlight, name)(rushlight.ones(2, 3, dtype=rushlight.int32))
    assert tuple(result.shape) == (2, 3) and result.dtype is rushlight.bool
    result[0, 0] = False


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3)])
@pytest.mark.parametrize("name", ["add", "where", "lerp", "heaviside", "clamp", "nan_to_num", "isreal"])
def test_shapes(name, shape):
    calls = {
        "add": lambda m, x: m.add(x, x, alpha=2),
        "where": lambda m, x: m.where(x > 0, x, 0.0),
        "lerp": lambda m, x: m.lerp(x, x + 1, 0.3),
        "heaviside": lambda m, x: m.heaviside(x, x),
        "clamp": lambda m, x: m.clamp(x, -0.5, 0.5),
        "nan_to_num": lambda m, x: m.nan_to_num(x),
        "isreal": lambda m, x: m.isreal(x),
    }
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    expected = calls[name](torch, torch.from_numpy(array.copy()))
    torch.testing.assert_close(to_torch(calls[name](rushlight, rushlight.from_numpy(array))), expected)


@pytest.mark.parametrize("name", ["add", "mul", "maximum", "atan2", "eq", "lerp"])
def test_layouts(name):
    """Transposed, strided and expanded operands; the result follows the memory order of its inputs."""
    array = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)

    def run(module, base):
        x, y = base.t(), base[:, ::2].t().expand(2, 3, 4)[0].repeat(2, 1)
        return module.lerp(x, y, 0.5) if name == "lerp" else getattr(module, name)(x, y)

    actual, expected = run(rushlight, rushlight.from_numpy(array)), run(torch, torch.from_numpy(array.copy()))
    torch.testing.assert_close(to_torch(actual), expected)
    assert actual.stride() == expected.stride()


def test_lazy_conjugate_and_negative_operands():
    values = [1 + 2j, 3 - 4j]
    x, y = rushlight.tensor(values).conj(), torch.tensor(values).conj()
    for result, expected in ((x * x, y * y), (x + 1j, y + 1j), (x.imag + 1, y.imag + 1), (x.sgn(), y.sgn())):
        torch.testing.assert_close(to_torch(result), expected.resolve_conj())


def test_no_floating_point_warning_reaches_the_user():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = rushlight.tensor([0.0, inf, nan, -1.0, 3e38])
        x.log(), x / 0, x * 1e30, x.sqrt(), x + 1e300, x.to(rushlight.float16) * 2, x.sinc(), x.digamma()
        rushlight.tensor([1], dtype=rushlight.int8) + 300


def test_default_dtype_decides_afresh():
    before = rushlight.get_default_dtype()
    x = rushlight.tensor([1, 2])
    try:
        assert (x / 2).dtype is rushlight.float32 and (x + 1.5).dtype is rushlight.float32
        rushlight.set_default_dtype(rushlight.float64)
        assert (x / 2).dtype is rushlight.float64 and (x + 1.5).dtype is rushlight.float64
    finally:
        rushlight.set_default_dtype(before)
    assert x.sin().dtype is rushlight.float32


def test_zero_dimensional_operands_are_weak_after_dimensioned_ones_were_seen():
    """A remembered promotion of (float32, float64) must not be used for 0-d tensors of the same dtypes."""
    single, double = rushlight.ones(2), rushlight.ones(2, dtype=rushlight.float64)
    assert (single + double).dtype is rushlight.float64
    assert (single + double[0]).dtype is rushlight.float32
    assert (single[0] + double[0]).dtype is rushlight.float64
    assert (single[0] + double).dtype is rushlight.float64


def test_numbers_keep_the_precision_of_the_computation_where_pytorch_does():
    values = torch.linspace(0.3, 7, 400).to(torch.bfloat16)
    x = rushlight.from_numpy(values.float().numpy()).to(rushlight.bfloat16)
    for name in ("mul", "div", "floor_divide", "add", "sub", "pow", "fmod", "remainder", "eq", "lt"):
        for number in (0.1, 1.3, 2.7):
            expected = getattr(torch, name)(values, number)
            assert torch.equal(to_torch(getattr(rushlight, name)(x, number)), expected), (name, number)


# Every name.


def test_aliases_are_the_operators_they_stand_for():
    for name, alias in {
        "abs": "absolute",
        "acos": "arccos",
        "atan2": "arctan2",
        "clamp": "clip",
        "div": "divide",
        "mul": "multiply",
        "ne": "not_equal",
        "trunc": "fix",
    }.items():
        overloads = [op for op in REGISTRY if op.schema.name == name and "Scalar_Tensor" not in op.name]
        for op in overloads:
            twin = REGISTRY[alias + op.name[len(name) :]]
            assert twin.schema.arguments == op.schema.arguments and twin.schema.returns == op.schema.returns


def test_exposed_as_in_pytorch():
    """Functions, methods and in-place forms exist exactly where PyTorch has them."""
    wrong = []
    for op in REGISTRY:
        if op.family not in ("pointwise", "special"):
            continue
        theirs, ours = (torch.special, rushlight.special) if op.namespace == "special" else (torch, rushlight)
        wanted = [(theirs, ours, op.public_name)]
        if not op.namespace:
            wanted += [
                (torch, rushlight, f"{op.public_name}_"),
                (torch.Tensor, rushlight.Tensor, op.public_name),
                (torch.Tensor, rushlight.Tensor, f"{op.public_name}_"),
            ]
        wrong += [f"{a.__name__}.{n}" for a, b, n in wanted if hasattr(a, n) != hasattr(b, n)]
    assert not wrong

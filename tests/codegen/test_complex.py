"""Complex arithmetic and functions against NumPy in a wider type; branch cuts, special values, memory."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import llvmlite.ir as ir
import numpy as np
import pytest

from rushlight.codegen.llvm import complex as complex_code
from rushlight.codegen.llvm.complex import COMPLEX_FUNCTIONS, Complex
from rushlight.codegen.llvm.emitter import Emitter
from rushlight.codegen.llvm.types import vector

PARTS = {"complex64": "float32", "complex128": "float64"}
WIDER = {"complex64": "complex128", "complex128": "clongdouble"}
UNARY: dict[str, Callable[..., np.ndarray]] = {
    "neg": np.negative,
    "conj": np.conj,
    "reciprocal": np.reciprocal,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "expm1": np.expm1,
    "exp2": lambda z: np.exp(z * np.log(z.real.dtype.type(2))),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "rsqrt": lambda z: 1 / np.sqrt(z),
}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "pow": np.power}
# Errors of the whole number in units of eps |z|; that of pow grows with |y log x|.
BOUND = {"pow": 40.0, "exp2": 40.0}
OTHER_BOUND = 4.0


def emit_parts(name: str) -> Callable[..., Any]:
    """The function on separate arrays of real and imaginary parts."""

    def emit(e: Emitter, *parts: Any) -> Any:
        values = [Complex(parts[i], parts[i + 1]) for i in range(0, len(parts), 2)]
        result = COMPLEX_FUNCTIONS[name](e, *values)
        return tuple(result) if isinstance(result, Complex) else result

    return emit


def parts_of(*arrays: np.ndarray) -> list[np.ndarray]:
    return [part.copy() for array in arrays for part in (array.real, array.imag)]


def points(dtype: str, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-3, 1, (2, count))
    return (rng.normal(size=count) * scale[0] + 1j * rng.normal(size=count) * scale[1]).astype(dtype)


def joined(real: np.ndarray, imag: np.ndarray, dtype: str) -> np.ndarray:
    result = np.empty(len(real), dtype)
    result.real, result.imag = real, imag
    return result


def check(name: str, dtype: str, got: np.ndarray, exact: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        error = np.abs(got - exact) / np.abs(exact) / np.finfo(PARTS[dtype]).eps
    finite = np.isfinite(exact) & (exact != 0)
    assert error[finite].max() <= BOUND.get(name, OTHER_BOUND)
    np.testing.assert_array_equal(got[exact == 0], 0)


@pytest.mark.parametrize("dtype", PARTS)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_values(kernels: Any, name: str, dtype: str) -> None:
    x = points(dtype, 4000, 1)
    arguments = [x] if name in UNARY else [x, points(dtype, 4000, 2) / 3]
    real, imag = kernels.run(emit_parts(name), parts_of(*arguments), [PARTS[dtype]] * 2, 8)
    reference = UNARY[name] if name in UNARY else BINARY[name]
    with np.errstate(all="ignore"):
        exact = reference(*[a.astype(WIDER[dtype]) for a in arguments])
    check(name, dtype, joined(real, imag, WIDER[dtype]), exact)


@pytest.mark.parametrize(
    "name", ["sqrt", "log", "asin", "acos", "atan", "asinh", "acosh", "atanh", "exp", "sinh", "tanh"]
)
def test_branch_cuts_and_signed_zeros(kernels: Any, name: str) -> None:
    """On the axes the sign of a zero decides the side of the cut, and results keep their signs."""
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0]
    x = np.array([complex(a, b) for a in values for b in values])
    real, imag = kernels.run(emit_parts(name), parts_of(x), ["float64"] * 2, 4)
    with np.errstate(all="ignore"):
        want = UNARY[name](x)
    for got, expected in ((real, want.real), (imag, want.imag)):
        np.testing.assert_allclose(got, expected, rtol=1e-15, atol=1e-15)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("dtype", PARTS)
def test_results_do_not_depend_on_lanes(kernels: Any, dtype: str, lanes: int) -> None:
    x = points(dtype, 50, 3)
    names = ["sqrt", "log1p", "tanh", "acosh", "exp"]
    kind = PARTS[dtype]
    some = kernels.compile({n: emit_parts(n) for n in names}, [kind] * 2, [kind] * 2, lanes)
    eight = kernels.compile({n: emit_parts(n) for n in names}, [kind] * 2, [kind] * 2, 8)
    for name in names:
        for got, want in zip(some[name](*parts_of(x)), eight[name](*parts_of(x)), strict=True):
            np.testing.assert_array_equal(got, want, err_msg=name)


@pytest.mark.parametrize("dtype", PARTS)
def test_no_needless_overflow(kernels: Any, dtype: str) -> None:
    """Quotients, roots and sizes whose squares overflow or vanish."""
    kind = PARTS[dtype]
    info = np.finfo(kind)
    large, tiny = info.max / 2, info.tiny * 8
    least = info.smallest_subnormal
    x = np.array([complex(large, large), complex(tiny, -tiny), complex(-large, tiny), complex(0, least)])
    x = x.astype(dtype)
    real, imag = kernels.run(emit_parts("div"), parts_of(x, x), [kind] * 2, 4)
    np.testing.assert_allclose(real, 1, rtol=1e-6)
    np.testing.assert_allclose(imag, 0, atol=1e-6)
    real, imag = kernels.run(emit_parts("sqrt"), parts_of(x), [kind] * 2, 4)
    want = np.sqrt(x.astype("clongdouble"))
    with np.errstate(under="ignore"):
        np.testing.assert_allclose(real, want.real.astype(kind), rtol=1e-6)
        np.testing.assert_allclose(imag, want.imag.astype(kind), rtol=1e-6)
    (size,) = kernels.run(emit_parts("abs"), parts_of(x), [kind], 4)
    np.testing.assert_allclose(size, np.abs(x.astype("clongdouble")).astype(kind), rtol=1e-6)


def test_exp_where_its_size_overflows(kernels: Any) -> None:
    """e**(710 + i pi/2): the real part is finite though e**710 is not."""
    quarter, inf = math.pi / 2, math.inf
    x = np.array(
        [
            complex(710, quarter),
            complex(720, quarter),
            complex(-800, 1),
            complex(inf, 0),
            complex(-inf, inf),
            complex(1, math.nan),
        ]
    )
    real, imag = kernels.run(emit_parts("exp"), parts_of(x), ["float64"] * 2, 4)
    with np.errstate(all="ignore"):
        exact = np.exp(x[:2].astype("clongdouble"))
    np.testing.assert_allclose(real[:2], exact.real.astype("float64"), rtol=1e-15)
    assert imag[:2].tolist() == [math.inf, math.inf]
    assert (real[2:5].tolist(), imag[2:4].tolist()) == ([0, math.inf, 0], [0, 0])
    assert math.isnan(real[5])


def test_special_values(kernels: Any) -> None:
    zero, one, i = 0j, 1 + 0j, 1j
    x, y = np.array([zero, one, zero, 2 + 1j]), np.array([zero, zero, one + i, zero])
    real, imag = kernels.run(emit_parts("pow"), parts_of(x, y), ["float64"] * 2, 4)
    assert joined(real, imag, "complex128").tolist() == [1, 1, 0, 1]
    real, imag = kernels.run(
        emit_parts("div"), parts_of(np.array([1 - 2j, 3j]), np.zeros(2, complex)), ["float64"] * 2, 1
    )
    assert (real[0], imag[0], imag[1]) == (math.inf, -math.inf, math.inf)
    inf = math.inf
    root = np.array([complex(inf, 1), complex(-inf, 1), complex(3, -inf), complex(math.nan, inf)])
    real, imag = kernels.run(emit_parts("sqrt"), parts_of(root), ["float64"] * 2, 4)
    np.testing.assert_array_equal(real, np.sqrt(root).real)
    np.testing.assert_array_equal(imag, np.sqrt(root).imag)


def test_product_with_the_conjugate_is_real(kernels: Any) -> None:
    x = points("complex64", 500, 4)
    _, imag = kernels.run(emit_parts("mul"), parts_of(x, np.conj(x)), ["float32"] * 2, 8)
    np.testing.assert_array_equal(imag, 0)


def test_comparison_and_truth(kernels: Any) -> None:
    values = [0.0, -0.0, 1.0, math.nan, math.inf]
    x = np.array([complex(a, b) for a in values for b in values])
    y = np.roll(x, 3)
    for name, want in (
        ("eq", x == y),
        ("ne", x != y),
        ("logical_and", np.logical_and(x, y)),
        ("logical_xor", np.logical_xor(x, y)),
    ):
        (got,) = kernels.run(emit_parts(name), parts_of(x, y), ["bool"], 8)
        np.testing.assert_array_equal(got, want, err_msg=name)
    for name, want in (
        ("isnan", np.isnan(x)),
        ("isinf", np.isinf(x)),
        ("isfinite", np.isfinite(x)),
        ("logical_not", np.logical_not(x)),
    ):
        (got,) = kernels.run(emit_parts(name), parts_of(x), ["bool"], 8)
        np.testing.assert_array_equal(got, want, err_msg=name)


@pytest.mark.parametrize("lanes", [1, 4, 8])
@pytest.mark.parametrize("dtype", PARTS)
def test_interleaved_memory(kernels: Any, dtype: str, lanes: int) -> None:
    element = ir.FloatType() if dtype == "complex64" else ir.DoubleType()
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.PointerType()] * 2), "f")
    e = Emitter(ir.IRBuilder(function.append_basic_block()), kernels.target)
    x = complex_code.load(e, function.args[0], vector(element, lanes))
    complex_code.store(e, Complex(x.imag, e.mul(x.real, 2.0)), function.args[1])
    e.builder.ret_void()
    library = kernels.engine.build(str(module), ["f"], use_cache=False)
    source, target = points(dtype, lanes, 5), np.zeros(lanes, dtype)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.addresses["f"])(
        source.ctypes.data, target.ctypes.data
    )
    np.testing.assert_array_equal(target, joined(source.imag, source.real * 2, dtype))

"""Complex numbers: a pair of floats, (real, imag), with the functions of the NumPy handler on them.

In:  an emitter and `Complex` values (or floats, for `complex`).
Out: a `Complex`, a float (abs, real, imag) or a bool, from `COMPLEX_FUNCTIONS[name](emitter, *values)`.

Branch cuts follow C99's annex G, with signed zeros; the inverse functions are Kahan's ("Branch cuts for
complex elementary functions", 1987). The error of a result is a few eps times its size, that of one part may
be larger; for pow in double it grows with |y log x|. A product may be NaN where one factor is infinite, as
with PyTorch's vectorised kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .emitter import Emitter
from .math.exponential import exp_parts, scale_fully, sinh_cosh
from .math.exponential import expm1 as real_expm1
from .math.inverse import atan2
from .math.logarithm import INFINITY, asinh, log, log1p_inside
from .math.power import hypot
from .math.trigonometric import sin_cos
from .types import bits_of, element_of, lanes_of, vector


class Complex(NamedTuple):
    """The value real + i imag."""

    real: Any
    imag: Any


COMPLEX_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def _function(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(emit: Callable[..., Any]) -> Callable[..., Any]:
        for name in names or (emit.__name__,):
            COMPLEX_FUNCTIONS[name] = emit
        return emit

    return register


# Memory: real and imaginary parts alternate.


def load(e: Emitter, pointer: Any, kind: Any, align: int | None = None) -> Complex:
    """Complex numbers in a row, whose parts have the type `kind`."""
    lanes = lanes_of(kind)
    both = e.load(pointer, vector(element_of(kind), 2 * lanes), align)
    return Complex(e.shuffle(both, range(0, 2 * lanes, 2)), e.shuffle(both, range(1, 2 * lanes, 2)))


def store(e: Emitter, x: Complex, pointer: Any, align: int | None = None) -> None:
    lanes = lanes_of(x.real.type)
    alternating = [lane for i in range(lanes) for lane in (i, lanes + i)]
    e.store(e.shuffle(x.real, alternating, x.imag), pointer, align)


# Parts and selection.


@_function("complex")
def make(e: Emitter, real: Any, imag: Any) -> Complex:
    return Complex(real, imag)


_function("real")(lambda e, x: x.real)
_function("imag")(lambda e, x: x.imag)


@_function()
def conj(e: Emitter, x: Complex) -> Complex:
    return Complex(x.real, e.neg(x.imag))


@_function()
def where(e: Emitter, condition: Any, x: Complex, y: Complex) -> Complex:
    return Complex(e.select(condition, x.real, y.real), e.select(condition, x.imag, y.imag))


@_function()
def eq(e: Emitter, x: Complex, y: Complex) -> Any:
    return e.and_(e.compare("==", x.real, y.real), e.compare("==", x.imag, y.imag))


@_function()
def ne(e: Emitter, x: Complex, y: Complex) -> Any:
    return e.not_(eq(e, x, y))


def truth(e: Emitter, x: Complex) -> Any:
    """Whether x is not zero."""
    return e.or_(e.compare("!=", x.real, 0.0), e.compare("!=", x.imag, 0.0))


_function("logical_and")(lambda e, x, y: e.and_(truth(e, x), truth(e, y)))
_function("logical_or")(lambda e, x, y: e.or_(truth(e, x), truth(e, y)))
_function("logical_xor")(lambda e, x, y: e.xor(truth(e, x), truth(e, y)))
_function("logical_not")(lambda e, x: e.not_(truth(e, x)))


@_function()
def isnan(e: Emitter, x: Complex) -> Any:
    return e.builder.fcmp_unordered("uno", x.real, x.imag)


@_function()
def isinf(e: Emitter, x: Complex) -> Any:
    return e.or_(*[e.compare("==", e.abs(part), INFINITY) for part in x])


@_function()
def isfinite(e: Emitter, x: Complex) -> Any:
    return e.and_(*[e.compare("<", e.abs(part), INFINITY) for part in x])


# Arithmetic.


@_function()
def add(e: Emitter, x: Complex, y: Complex) -> Complex:
    return Complex(e.add(x.real, y.real), e.add(x.imag, y.imag))


@_function()
def sub(e: Emitter, x: Complex, y: Complex) -> Complex:
    return Complex(e.sub(x.real, y.real), e.sub(x.imag, y.imag))


@_function()
def neg(e: Emitter, x: Complex) -> Complex:
    return Complex(e.neg(x.real), e.neg(x.imag))


@_function()
def mul(e: Emitter, x: Complex, y: Complex) -> Complex:
    """Each product is rounded by itself, so that x conj(x) is real."""
    return Complex(
        e.sub(e.mul(x.real, y.real), e.mul(x.imag, y.imag)),
        e.add(e.mul(x.real, y.imag), e.mul(x.imag, y.real)),
    )


@_function()
def div(e: Emitter, x: Complex, y: Complex) -> Complex:
    """Smith's method: nothing overflows that need not. Division by 0 gives infinities with the signs of x."""
    swapped = e.compare("<", e.abs(y.real), e.abs(y.imag))
    large, small = e.select(swapped, y.imag, y.real), e.select(swapped, y.real, y.imag)
    zero = e.compare("==", large, 0.0)
    ratio = e.select(zero, 0.0, e.div(small, large))
    divisor = e.select(zero, 0.0, e.mul_add(small, ratio, large))
    first, second = e.select(swapped, x.imag, x.real), e.select(swapped, x.real, x.imag)
    # by 0 each part on its own: infinity times the ratio, 0, would make both parts NaN
    real = e.div(e.select(zero, first, e.mul_add(second, ratio, first)), divisor)
    imag = e.div(e.select(zero, second, e.mul_add(e.neg(first), ratio, second)), divisor)
    return Complex(real, e.select(swapped, e.neg(imag), imag))


@_function()
def reciprocal(e: Emitter, x: Complex) -> Complex:
    return div(e, _constant(e, 1.0, x), x)


@_function("abs")
def absolute(e: Emitter, x: Complex) -> Any:
    return hypot(e, x.real, x.imag)


def _constant(e: Emitter, value: complex, like: Complex) -> Complex:
    value = complex(value)
    return Complex(e.constant(value.real, like.real), e.constant(value.imag, like.real))


def _scaled(e: Emitter, x: Complex, factor: float) -> Complex:
    return Complex(e.mul(x.real, factor), e.mul(x.imag, factor))


def _times_i(e: Emitter, x: Complex) -> Complex:
    return Complex(e.neg(x.imag), x.real)


def _over_i(e: Emitter, x: Complex) -> Complex:
    return Complex(x.imag, e.neg(x.real))


@_function()
def sqrt(e: Emitter, x: Complex) -> Complex:
    """t = sqrt((|x| + |z|) / 2) is the larger part; the other is y / (2 t). Scaled by a power of 4 against
    overflow."""
    a, b = e.abs(x.real), e.abs(x.imag)
    larger = e.maximum(a, b)
    big, tiny = {32: (2.0**120, 2.0**-100), 64: (2.0**1000, 2.0**-900)}[bits_of(a.type)]
    one = e.constant(1.0, a)
    up = {32: 40, 64: 200}[bits_of(a.type)]
    is_big, is_tiny = e.compare(">", larger, big), e.compare("<", larger, tiny)
    factor = e.select(is_big, 2.0**-4, e.select(is_tiny, 4.0**up, one))
    back = e.select(is_big, 2.0**2, e.select(is_tiny, 2.0**-up, one))
    a, b = e.mul(a, factor), e.mul(b, factor)
    t = e.sqrt(e.mul(e.add(a, hypot(e, a, b)), 0.5))
    other = e.mul(e.select(e.compare("==", t, 0.0), b, e.div(b, e.add(t, t))), back)
    t = e.mul(t, back)
    # Infinite parts: inf / (2 inf) and what hypot made of NaN beside an infinity.
    infinite_imag = e.compare("==", e.abs(x.imag), INFINITY)
    infinite_real = e.and_(e.compare("==", e.abs(x.real), INFINITY), e.not_(e.is_nan(x.imag)))
    other = e.select(infinite_real, 0.0, other)
    other = e.select(infinite_imag, INFINITY, other)
    t = e.select(infinite_imag, INFINITY, t)
    left = e.signbit(x.real)
    return Complex(e.select(left, other, t), e.copysign(e.select(left, t, other), x.imag))


@_function()
def rsqrt(e: Emitter, x: Complex) -> Complex:
    return reciprocal(e, sqrt(e, x))


# Exponentials and logarithms.


@_function()
def exp(e: Emitter, x: Complex) -> Complex:
    """The power of two is multiplied in last, so that parts are right where e**x alone overflows."""
    mantissa, shifted = exp_parts(e, x.real)
    sine, cosine = sin_cos(e, x.imag)
    real, imag = (scale_fully(e, e.mul(mantissa, part), shifted) for part in (cosine, sine))
    flat = e.compare("==", x.imag, 0.0)  # e**inf * 0 is 0
    vanishing = e.compare("==", x.real, -INFINITY)  # even if the angle is infinite
    real, imag = (e.select(e.and_(vanishing, e.is_nan(part)), 0.0, part) for part in (real, imag))
    return Complex(real, e.select(flat, x.imag, imag))


@_function()
def expm1(e: Emitter, x: Complex) -> Complex:
    """(expm1 x cos y - 2 sin(y/2)**2, e**x sin y): no cancellation near 0."""
    half, _ = sin_cos(e, e.mul(x.imag, 0.5))
    _, cosine = sin_cos(e, x.imag)
    real = e.sub(e.mul(real_expm1(e, x.real), cosine), e.mul(e.mul(half, half), 2.0))
    return Complex(real, exp(e, x).imag)


@_function()
def exp2(e: Emitter, x: Complex) -> Complex:
    return exp(e, _scaled(e, x, math.log(2.0)))


def _log_size(e: Emitter, x: Any, y: Any) -> Any:
    """log |x + i y|; near |z| = 1 as log1p(|z|**2 - 1) / 2 with x**2 + y**2 - 1 computed in pairs."""
    a, b = e.abs(x), e.abs(y)
    swapped = e.compare("<", a, b)
    a, b = e.select(swapped, b, a), e.select(swapped, a, b)
    near = e.and_(e.compare(">", a, 0.6), e.compare("<", a, 1.5))
    p, p_rest = e.two_product(a, a)
    q, q_rest = e.two_product(b, b)
    total, rest = e.two_sum(e.sub(p, 1.0), q)
    excess = e.add(total, e.add(rest, e.add(p_rest, q_rest)))
    far = log(e, hypot(e, x, y))
    return e.select(near, e.mul(log1p_inside(e, e.select(near, excess, 0.0)), 0.5), far)


@_function("log")
def logarithm(e: Emitter, x: Complex) -> Complex:
    return Complex(_log_size(e, x.real, x.imag), atan2(e, x.imag, x.real))


@_function()
def log2(e: Emitter, x: Complex) -> Complex:
    return _scaled(e, logarithm(e, x), 1 / math.log(2.0))


@_function()
def log10(e: Emitter, x: Complex) -> Complex:
    return _scaled(e, logarithm(e, x), 1 / math.log(10.0))


@_function()
def log1p(e: Emitter, x: Complex) -> Complex:
    """Near 0 the logarithm of the size is log1p(x (2 + x) + y**2) / 2."""
    one = e.add(x.real, 1.0)
    small = e.and_(e.compare("<", e.abs(x.real), 0.5), e.compare("<", e.abs(x.imag), 0.5))
    p, p_rest = e.two_product(x.real, x.real)
    q, q_rest = e.two_product(x.imag, x.imag)
    first, rest = e.two_sum(e.add(x.real, x.real), q)
    second, more = e.two_sum(first, p)
    excess = e.add(second, e.add(e.add(rest, more), e.add(p_rest, q_rest)))
    near = e.mul(log1p_inside(e, e.select(small, excess, 0.0)), 0.5)
    return Complex(e.select(small, near, _log_size(e, one, x.imag)), atan2(e, x.imag, one))


@_function()
def pow(e: Emitter, x: Complex, y: Complex) -> Complex:
    """e**(y log x); x**0 is 1, and 0 to a power with positive real part is 0.

    Floats are computed in double: the error of y log x is an error of the angle.
    """
    if bits_of(x.real.type) == 32:
        wide = pow(e, *[Complex(e.widen(v.real), e.widen(v.imag)) for v in (x, y)])
        return Complex(e.narrow(wide.real), e.narrow(wide.imag))
    result = exp(e, mul(e, y, logarithm(e, x)))
    zero = e.and_(e.not_(truth(e, x)), e.compare(">", y.real, 0.0))
    result = where(e, zero, _constant(e, 0.0, x), result)
    return where(e, e.not_(truth(e, y)), _constant(e, 1.0, x), result)


# Hyperbolic and trigonometric functions.


@_function()
def sinh(e: Emitter, x: Complex) -> Complex:
    s, c = sinh_cosh(e, x.real)
    sine, cosine = sin_cos(e, x.imag)
    return Complex(_times(e, s, cosine), _times(e, c, sine))


@_function()
def cosh(e: Emitter, x: Complex) -> Complex:
    s, c = sinh_cosh(e, x.real)
    sine, cosine = sin_cos(e, x.imag)
    return Complex(_times(e, c, cosine), _times(e, s, sine))


def _times(e: Emitter, size: Any, factor: Any) -> Any:
    """A product in which 0 makes 0, with its sign, even of infinity."""
    zero = e.or_(e.compare("==", size, 0.0), e.compare("==", factor, 0.0))
    signs = e.xor(e.bits(size), e.bits(factor))
    return e.select(zero, e.copysign(e.constant(0.0, size), e.from_bits(signs)), e.mul(size, factor))


@_function()
def tanh(e: Emitter, x: Complex) -> Complex:
    """With t = tan y, s = sinh x and d = 1 + (1 + t**2) s**2: ((1 + t**2) cosh x s + i t) / d, in terms of
    sin y and cos y.

    Multiplied by cos(y)**2, d is cos(y)**2 + s**2, which is never 0 where the result is finite.
    """
    limit = {32: 11.0, 64: 22.0}[bits_of(x.real.type)]
    far = e.compare(">", e.abs(x.real), limit)
    s, c = sinh_cosh(e, e.clamp(x.real, -limit, limit))
    sine, cosine = sin_cos(e, x.imag)
    divisor = e.mul_add(cosine, cosine, e.mul(s, s))
    real, imag = e.div(e.mul(s, c), divisor), e.div(e.mul(sine, cosine), divisor)
    # Far out tanh is 1 and the imaginary part 4 sin y cos y e**(-2 |x|).
    mantissa, shifted = exp_parts(e, e.mul(e.abs(x.real), -2.0))
    tail = scale_fully(e, e.mul(e.mul(e.mul(sine, cosine), 4.0), mantissa), shifted)
    real = e.select(far, e.copysign(e.constant(1.0, s), x.real), real)
    imag = e.select(far, tail, imag)
    return Complex(real, e.select(e.compare("==", x.imag, 0.0), x.imag, imag))


@_function()
def sin(e: Emitter, x: Complex) -> Complex:
    return _over_i(e, sinh(e, _times_i(e, x)))


@_function()
def cos(e: Emitter, x: Complex) -> Complex:
    return cosh(e, _times_i(e, x))


@_function()
def tan(e: Emitter, x: Complex) -> Complex:
    return _over_i(e, tanh(e, _times_i(e, x)))


# Inverse functions.


def _roots(e: Emitter, x: Complex) -> tuple[Complex, Complex]:
    """(sqrt(1 - x), sqrt(1 + x))."""
    return (sqrt(e, Complex(e.sub(1.0, x.real), e.neg(x.imag))), sqrt(e, Complex(e.add(x.real, 1.0), x.imag)))


def _cross(e: Emitter, x: Complex, y: Complex) -> Any:
    """The imaginary part of conj(x) y."""
    return e.sub(e.mul(x.real, y.imag), e.mul(x.imag, y.real))


@_function()
def asin(e: Emitter, x: Complex) -> Complex:
    minus, plus = _roots(e, x)
    real = atan2(e, x.real, e.sub(e.mul(minus.real, plus.real), e.mul(minus.imag, plus.imag)))
    return Complex(real, e.copysign(asinh(e, _cross(e, minus, plus)), x.imag))


@_function()
def acos(e: Emitter, x: Complex) -> Complex:
    minus, plus = _roots(e, x)
    real = e.mul(atan2(e, minus.real, plus.real), 2.0)
    return Complex(real, e.copysign(asinh(e, _cross(e, plus, minus)), e.neg(x.imag)))


@_function("acosh")
def arc_cosh(e: Emitter, x: Complex) -> Complex:
    minus = sqrt(e, Complex(e.sub(x.real, 1.0), x.imag))
    plus = sqrt(e, Complex(e.add(x.real, 1.0), x.imag))
    real = asinh(e, e.add(e.mul(minus.real, plus.real), e.mul(minus.imag, plus.imag)))
    return Complex(real, e.mul(atan2(e, minus.imag, plus.real), 2.0))


@_function("asinh")
def arc_sinh(e: Emitter, x: Complex) -> Complex:
    return _over_i(e, asin(e, _times_i(e, x)))


@_function()
def atanh(e: Emitter, x: Complex) -> Complex:
    """(log1p(4 |x| / ((1 - |x|)**2 + y**2)) / 4, atan2(2 y, (1 - |x|) (1 + |x|) - y**2) / 2), the first with
    the sign of x."""
    a = e.abs(x.real)
    below, above = e.sub(1.0, a), e.add(a, 1.0)
    square = e.mul(x.imag, x.imag)
    ratio = e.div(e.mul(a, 4.0), e.mul_add(below, below, square))
    pole = e.compare("==", ratio, INFINITY)
    real = e.mul(log1p_inside(e, e.select(pole, 0.0, ratio)), 0.25)
    real = e.copysign(e.select(pole, INFINITY, real), x.real)
    imag = atan2(e, e.add(x.imag, x.imag), e.sub(e.mul(below, above), square))
    return Complex(real, e.mul(imag, 0.5))


@_function()
def atan(e: Emitter, x: Complex) -> Complex:
    return _over_i(e, atanh(e, _times_i(e, x)))

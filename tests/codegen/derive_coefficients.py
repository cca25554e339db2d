"""Derives the tables of rushlight/codegen/llvm/math/coefficients.py: a tool for development, not a test.

python -m tests.codegen.derive_coefficients EXP ASIN ...      prints these tables, or all of them

All tables together take some minutes, most of them for K1.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import mpmath as mp

from .fitting import SMALL, Fit, Function, M, double, one, relative, single

# Elementary functions. Where a formula is 0/0 its series is used.

LN2_HALF = mp.log(2) / 2 * M("1.0005")
ATANH_END = M("0.02945")
TANH_END = M("0.203") ** 2


def exp_tail(r: Any) -> Any:
    return (mp.expm1(r) - r) / r**2 if abs(r) > SMALL else M(1) / 2 + r / 6


def expm1_weight(r: Any) -> Any:
    return r * r / mp.expm1(r) if abs(r) > SMALL else r


def exp2_slope(r: Any) -> Any:
    return (M(2) ** r - 1) / r if abs(r) > SMALL else mp.log(2) + r * mp.log(2) ** 2 / 2


def odd_tail(g: Function, first: Any, second: Any) -> Function:
    """(g(r) - r) / r**3 as a function of z = r**2, with its first two Taylor coefficients."""

    def tail(z: Any) -> Any:
        r = mp.sqrt(z)
        return (g(r) - r) / r**3 if z > M("1e-14") else first + second * z

    return tail


def odd_weight(g: Function) -> Function:
    def weight(z: Any) -> Any:
        r = mp.sqrt(z)
        return z * (r / g(r) if r > SMALL else 1)

    return weight


def cos_tail(z: Any) -> Any:
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2 if z > M("1e-10") else M(1) / 24 - z / 720 + z * z / 40320


def log_tail(f: Any) -> Any:
    return (mp.log1p(f) - f + f * f / 2) / f**3 if abs(f) > M("1e-8") else M(1) / 3 - f / 4 + f * f / 5


def log_tail_weight(f: Any) -> Any:
    return f**3 / mp.log1p(f) if abs(f) > SMALL else f * f


def atanh_tail(z: Any) -> Any:
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s) / s**3 if z > M("1e-12") else M(2) / 3 + 2 * z / 5


def atanh_tail_weight(z: Any) -> Any:
    return z ** M("1.5") / (2 * mp.atanh(mp.sqrt(z))) if z > SMALL else z


def atanh_far_tail(z: Any) -> Any:
    s = mp.sqrt(z)
    if z > M("1e-8"):
        return (2 * mp.atanh(s) - 2 * s - 2 * s**3 / 3) / s**5
    return M(2) / 5 + 2 * z / 7 + 2 * z * z / 9


def log2_slope(z: Any) -> Any:
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s if z > M("1e-14") else 2 + 2 * z / 3) / mp.log(2)


def exp2_weight(r: Any) -> Any:
    return r / M(2) ** r


SIN = odd_tail(mp.sin, -M(1) / 6, M(1) / 120)
ASIN = odd_tail(mp.asin, M(1) / 6, M(3) / 40)
ATAN = odd_tail(mp.atan, -M(1) / 3, M(1) / 5)
TANH = odd_tail(mp.tanh, -M(1) / 3, M(2) / 15)
SINH = odd_tail(mp.sinh, M(1) / 6, M(1) / 120)


# Error functions.


def erf_slope(z: Any) -> Any:
    r = mp.sqrt(z)
    return mp.erf(r) / r - 1 if z > M("1e-18") else 2 / mp.sqrt(mp.pi) * (1 - z / 3) - 1


def erf_weight(z: Any) -> Any:
    r = mp.sqrt(z)
    return r / mp.erf(r) if z > SMALL else mp.sqrt(mp.pi) / 2


def erfc_root(t: Any) -> Any:
    return mp.erfc(t) ** (M(1) / 8)


def erfc_root_weight(t: Any) -> Any:
    return 8 * mp.erfc(t) / erfc_root(t)


def ndtr_sine(z: Any) -> Any:
    x = mp.sqrt(z)
    return 2 * mp.sin(mp.asin(mp.erf(x / mp.sqrt(2))) / 3) / x if z > SMALL else mp.sqrt(8 / mp.pi) / 3


def ndtr_sine_weight(z: Any) -> Any:
    """What counts is half of erf, and that the polynomial goes on to 1 beyond."""
    y = ndtr_sine(z) * mp.sqrt(z)
    return mp.sqrt(z) * max(M("0.75") * (1 - y * y), M("3e-4"))


def scaled_power(r: Any) -> Any:
    return M(2) ** r / mp.sqrt(2 * mp.pi)


def erfcx(x: Any) -> Any:
    if x <= 60:
        return mp.erfc(x) * mp.exp(x * x)
    term = total = M(1)
    for k in range(1, 25):
        term *= -(2 * k - 1) / (2 * x * x)
        total += term
    return total / (x * mp.sqrt(mp.pi))


def erfcx_mapped(centre: int) -> Function:
    def g(q: Any) -> Any:
        if q > 1 - M("1e-40"):
            return 1 / mp.sqrt(mp.pi)
        x = centre * (1 + q) / (1 - q)
        return (x + centre) * erfcx(x)

    return g


def erfc_inverse(w: Any) -> Any:
    """The v with erfc(v) = e**-w, by Newton's method on the logarithm."""
    v = mp.sqrt(w) if w > 2 else M("0.5")
    for _ in range(80):
        value = mp.erfc(v)
        step = (mp.log(value) + w) / (-2 / mp.sqrt(mp.pi) * mp.exp(-v * v) / value)
        v -= step
        if abs(step) < M(10) ** (3 - mp.mp.dps) * abs(v):
            break
    return v


def erfinv_slope(z: Any) -> Any:
    return mp.erfinv(mp.sqrt(z)) / mp.sqrt(z) if z > M("1e-30") else mp.sqrt(mp.pi) / 2


def middle_inverse(t: Any) -> Any:
    return erfc_inverse((t + M("3.5")) ** 2)


def far_inverse(u: Any) -> Any:
    return erfc_inverse(1 / u**2) * u


# Gamma functions.


def lgamma_quotient(u: Any) -> Any:
    t = u + M("0.75")
    if abs(t) < M("1e-20"):
        return +mp.euler
    if abs(t - 1) < M("1e-20"):
        return 1 - mp.euler
    return mp.loggamma(1 + t) / (t * (t - 1))


def stirling(z: Any) -> Any:
    if z < M("1e-9"):
        return M(1) / 12 - z / 360 + z * z / 1260
    x = 1 / mp.sqrt(z)
    return (mp.loggamma(x) - ((x - M("0.5")) * mp.log(x) - x + mp.log(2 * mp.pi) / 2)) * x


def digamma_tail(z: Any) -> Any:
    if z < M("1e-9"):
        return M(1) / 12 - z / 120 + z * z / 252
    x = 1 / mp.sqrt(z)
    return (mp.log(x) - 1 / (2 * x) - mp.psi(0, x)) / z


with mp.workdps(90):
    DIGAMMA_ROOT = mp.findroot(lambda x: mp.psi(0, x), M("1.4616321449683623")) - 1


def digamma_quotient(u: Any) -> Any:
    t = u + M("0.5")
    away = t - DIGAMMA_ROOT
    return mp.psi(0, 1 + t) / away if abs(away) > M("1e-25") else mp.psi(1, 1 + DIGAMMA_ROOT)


def sin_pi(z: Any) -> Any:
    r = mp.sqrt(z)
    return mp.sin(mp.pi * r) / r if r > M("1e-20") else +mp.pi


# Bessel functions of order n.


def hankel_terms(n: int, x: Any) -> list[Any]:
    """a_k(n) / x**k as long as they fall."""
    terms = [M(1)]
    for k in range(1, 400):
        term = terms[-1] * (4 * n * n - (2 * k - 1) ** 2) / (8 * k * x)
        if abs(term) > abs(terms[-1]) or abs(term) < M(10) ** -mp.mp.dps:
            break
        terms.append(term)
    return terms


def i_over_power(n: int) -> Function:
    def f(z: Any) -> Any:
        x = mp.sqrt(z)
        return mp.besseli(n, x) / x**n if x > M("1e-25") else M(1) / (1 + n)

    return f


def i_scaled(n: int) -> Function:
    def f(q: Any) -> Any:
        u = (q + 1) / 16
        if u < M(1) / 150:
            alternating = [t * (-1) ** k for k, t in enumerate(hankel_terms(n, 1 / u))] if u > 0 else [1]
            return sum(alternating) / mp.sqrt(2 * mp.pi)
        return mp.besseli(n, 1 / u) * mp.exp(-1 / u) / mp.sqrt(u)

    return f


def k_regular(n: int) -> Function:
    def f(z: Any) -> Any:
        x = mp.sqrt(z)
        if x < M("1e-25"):
            return mp.log(2) - mp.euler if n == 0 else M(1)
        if n == 0:
            return mp.besselk(0, x) + mp.log(x) * mp.besseli(0, x)
        return x * (mp.besselk(1, x) - mp.log(x) * mp.besseli(1, x))

    return f


def k_regular_weight(n: int) -> Function:
    def weight(z: Any) -> Any:
        x = mp.sqrt(z)
        return 1 / (x**n * mp.besselk(n, x)) if z > M("1e-20") else M(n)

    return weight


def k_scaled(n: int) -> Function:
    def f(q: Any) -> Any:
        q += M("0.5")
        if q >= 1 - M("1e-40"):
            return mp.sqrt(mp.pi / 2)
        x = (1 + q) / (1 - q)
        if x > 150:
            return sum(hankel_terms(n, x)) * mp.sqrt(mp.pi / 2)
        return mp.besselk(n, x) * mp.exp(x) * mp.sqrt(x)

    return f


with mp.workdps(60):
    SQUARES = [[mp.besseljzero(n, k) ** 2 for k in (1, 2)] for n in (0, 1)]


def j_without_zeros(n: int) -> Function:
    def f(u: Any) -> Any:
        z = u + M("12.5")
        first, second = SQUARES[n]
        if abs(z - first) < M("1e-20"):
            z += M("1e-18")
        x = mp.sqrt(z)
        value = mp.besselj(n, x) / x**n if x > M("1e-25") else M(1) / (1 + n)
        return value / ((z - first) * (z - second))

    return f


def j_weight(n: int) -> Function:
    def weight(u: Any) -> Any:
        z = u + M("12.5")
        return abs((z - SQUARES[n][0]) * (z - SQUARES[n][1])) * mp.sqrt(z) ** n

    return weight


def y_regular(n: int) -> Function:
    def f(u: Any) -> Any:
        x = mp.sqrt(u + M("12.5"))
        if n == 0:
            if x < M("1e-25"):
                return 2 / mp.pi * (mp.euler - mp.log(2))
            return mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)
        x = max(x, M("1e-12"))
        return (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x

    return f


def y_weight(n: int) -> Function:
    return lambda u: mp.sqrt(abs(u + M("12.5"))) ** n


def hankel(n: int, part: int) -> Function:
    """P (part 0) or Q x / 5 (part 1)."""

    def f(u: Any) -> Any:
        x = 5 / mp.sqrt(max(u + M("0.5"), M("1e-30")))
        if x > 100:
            terms = hankel_terms(n, x)[part::2]
            total = sum(t * (-1) ** k for k, t in enumerate(terms))
        else:
            angle = x - n * mp.pi / 2 - mp.pi / 4
            j, y, scale = mp.besselj(n, x), mp.bessely(n, x), mp.sqrt(mp.pi * x / 2)
            cosine, sine = mp.cos(angle), mp.sin(angle)
            total = scale * (y * cosine - j * sine if part else j * cosine + y * sine)
        return total * x / 5 if part else total

    return f


# The tables.

HALF, QUARTER, R2 = M("0.5"), M("0.25"), M("0.8") ** 2
TABLES: dict[str, dict[int, Fit]] = {
    "EXP": {
        32: single(exp_tail, -LN2_HALF, LN2_HALF, 4, lambda r: r * r / mp.exp(r)),
        64: double(exp_tail, -LN2_HALF, LN2_HALF, 10, expm1_weight),
    },
    "EXPM1": {
        32: single(exp_tail, -LN2_HALF, LN2_HALF, 5, expm1_weight),
        64: double(exp_tail, -LN2_HALF, LN2_HALF, 10, expm1_weight),
    },
    "EXP2": {
        32: single(exp2_slope, -HALF, HALF, 5, exp2_weight),
        64: double(exp2_slope, -HALF, HALF, 11, exp2_weight),
    },
    "TANH": {
        32: single(TANH, 0, TANH_END, 2, odd_weight(mp.tanh)),
        64: double(TANH, 0, TANH_END, 6, odd_weight(mp.tanh)),
    },
    "SINH": {32: single(SINH, 0, 1, 3, odd_weight(mp.sinh)), 64: double(SINH, 0, 1, 6, odd_weight(mp.sinh))},
    "LOG": {
        32: single(log_tail, mp.sqrt(HALF) - 1, mp.sqrt(2) - 1, 8, log_tail_weight),
        64: double(atanh_tail, 0, ATANH_END, 6, atanh_tail_weight),
    },
    "POW_LOG2": {
        32: double(log2_slope, 0, ATANH_END, 4, lambda z: M(1) / 3, 2),
        64: double(atanh_far_tail, 0, ATANH_END, 6, lambda z: z * z / 2, 2),
    },
    "POW_EXP2": {32: double(exp2_slope, -HALF, HALF, 6, exp2_weight, 2)},
    "SIN": {32: single(SIN, 0, R2, 2, odd_weight(mp.sin)), 64: double(SIN, 0, R2, 5, odd_weight(mp.sin))},
    "COS": {
        32: single(cos_tail, 0, R2, 2, lambda z: z * z / mp.cos(mp.sqrt(z))),
        64: double(cos_tail, 0, R2, 5, lambda z: z * z / mp.cos(mp.sqrt(z))),
    },
    "ASIN": {
        32: single(ASIN, 0, QUARTER, 5, odd_weight(mp.asin)),
        64: double(ASIN, 0, QUARTER, 12, odd_weight(mp.asin)),
    },
    "ATAN": {32: single(ATAN, 0, 1, 8, odd_weight(mp.atan)), 64: double(ATAN, 0, 1, 20, odd_weight(mp.atan))},
    "ERF": {
        32: single(erf_slope, 0, M("1.1") ** 2, 6, erf_weight),
        64: double(erf_slope, 0, 1, 12, erf_weight),
    },
    "ERFC_ROOT": {32: single(erfc_root, M("1.1"), 4, 6, erfc_root_weight)},
    "NDTR_SINE": {32: single(ndtr_sine, 0, M("5.3") ** 2, 8, ndtr_sine_weight)},
    "DENSITY": {32: single(scaled_power, -HALF, HALF, 6, relative(scaled_power))},
    "ERFCX": {
        32: single(erfcx_mapped(3), -1, 1, 11, relative(erfcx_mapped(3))),
        64: double(erfcx_mapped(4), -1, 1, 24, relative(erfcx_mapped(4))),
    },
    "ERFINV": {64: double(erfinv_slope, 0, QUARTER, 13, lambda z: M("1.1"), 2)},
    "ERFCINV_MIDDLE": {
        64: double(middle_inverse, M("-2.6675"), M("2.7"), 16, relative(middle_inverse), 0, 40)
    },
    "ERFCINV_FAR": {64: double(far_inverse, 1 / M("27.5"), 1 / M("6.2"), 9, one, 0, 40)},
    "LGAMMA": {64: double(lgamma_quotient, -M("0.75"), M("0.75"), 24, relative(lgamma_quotient), 2)},
    "STIRLING": {64: double(stirling, 0, M(1) / 64, 5, lambda z: mp.sqrt(z) / 8, 0)},
    "DIGAMMA": {64: double(digamma_quotient, -HALF, HALF, 22, relative(digamma_quotient), 2)},
    "DIGAMMA_TAIL": {64: double(digamma_tail, 0, M(1) / 16, 8, lambda z: z, 0)},
    "SIN_PI": {64: double(sin_pi, 0, QUARTER, 8, relative(sin_pi), 2)},
}
for _n in (0, 1):
    TABLES |= {
        f"I{_n}": {64: double(i_over_power(_n), 0, 64, 15, relative(i_over_power(_n)), 0, 60)},
        f"I{_n}_LARGE": {64: double(i_scaled(_n), -1, 1, 24, relative(i_scaled(_n)), 0, 60)},
        f"I{_n}_SMALL": {64: double(i_over_power(_n), 0, 1, 7, relative(i_over_power(_n)), 0, 60)},
        f"K{_n}_SMALL": {64: double(k_regular(_n), 0, 1, 7, k_regular_weight(_n), 0, 60)},
        f"K{_n}_LARGE": {64: double(k_scaled(_n), -HALF, HALF, 22, relative(k_scaled(_n)), 0, 60)},
        f"J{_n}_SMALL": {64: double(j_without_zeros(_n), -M("12.5"), M("12.5"), 11, j_weight(_n), 0, 60)},
        f"Y{_n}_SMALL": {64: double(y_regular(_n), -M("12.5"), M("12.5"), 13, y_weight(_n), 0, 60)},
        f"P{_n}": {64: double(hankel(_n, 0), -HALF, HALF, 17, one, 0, 60)},
        f"Q{_n}": {64: double(hankel(_n, 1), -HALF, HALF, 18, one, 0, 60)},
    }


def main(names: Sequence[str]) -> None:
    for name in names or TABLES:
        print(f"{name}: Table = {{")
        for bits, fit in TABLES[name].items():
            coefficients, error = fit.coefficients()
            text = ", ".join(map(repr, coefficients))
            print(f"    {bits}: (  # error 2**{error:.1f}")
            print(textwrap.fill(text, 110, initial_indent=" " * 8, subsequent_indent=" " * 8) + "),")
        print("}")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Functions of one real argument as mpmath computes them, to any number of digits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

INF = float("inf")
# Where a function is real; elsewhere it is everywhere.
DOMAINS = {
    "sqrt": (0, INF), "rsqrt": (0, INF), "log": (0, INF), "log2": (0, INF), "log10": (0, INF), "log1p": (-1, INF),
    "special_log1p": (-1, INF), "asin": (-1, 1), "acos": (-1, 1), "arcsin": (-1, 1), "arccos": (-1, 1),
    "acosh": (1, INF), "arccosh": (1, INF), "atanh": (-1, 1), "arctanh": (-1, 1), "erfinv": (-1, 1),
    "special_erfinv": (-1, 1), "special_ndtri": (0, 1), "logit": (0, 1), "special_logit": (0, 1),
    "special_entr": (0, INF), "special_bessel_y0": (0, INF), "special_bessel_y1": (0, INF),
    "special_modified_bessel_k0": (0, INF), "special_modified_bessel_k1": (0, INF),
    "special_scaled_modified_bessel_k0": (0, INF), "special_scaled_modified_bessel_k1": (0, INF),
    "digamma": (0, INF), "special_digamma": (0, INF), "special_psi": (0, INF), "lgamma": (0, INF),
    "special_gammaln": (0, INF), "special_airy_ai": (-20, 20), "_airy_ai_slope": (-20, 20),
}  # fmt: skip
ALIASES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan",
    "arctanh": "atanh", "negative": "neg", "fix": "trunc", "special_digamma": "digamma", "special_psi": "digamma",
    "special_erf": "erf", "special_erfc": "erfc", "special_erfinv": "erfinv", "special_exp2": "exp2",
    "special_expm1": "expm1", "special_i0": "i0", "special_gammaln": "lgamma", "special_log1p": "log1p",
    "special_logit": "logit", "special_expit": "sigmoid", "special_sinc": "sinc", "special_round": "round",
    "special_modified_bessel_i0": "i0", "special_modified_bessel_i1": "special_i1", "log_sigmoid": "logsigmoid",
    "log_sigmoid_forward": "logsigmoid", "conj_physical": "positive", "_conj_physical": "positive", "sgn": "sign",
    "nan_to_num": "positive",
}  # fmt: skip


@functools.cache
def references() -> dict[str, Callable[[Any], Any]]:
    """By operator: the function of an mpf."""
    import mpmath as m

    def normal(x: Any) -> Any:
        return m.erfc(-x / m.sqrt(2)) / 2

    def softplus(x: Any) -> Any:
        return m.log1p(m.exp(x))

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + m.exp(-x))

    def limited(x: Any, low: Any, high: Any) -> Any:
        return min(max(x, m.mpf(low)), m.mpf(high))

    alpha, scale = m.mpf("1.6732632423543772848170429916717"), m.mpf("1.0507009873554804934193349852946")
    own: dict[str, Callable[[Any], Any]] = {
        "hardsigmoid": lambda x: limited(x + 3, 0, 6) / 6,
        "hardswish": lambda x: x * limited(x + 3, 0, 6) / 6,
        "silu": lambda x: x * sigmoid(x),
        "mish": lambda x: x * m.tanh(softplus(x)),
        "logsigmoid": lambda x: -softplus(-x),
        "softplus": lambda x: x if x > 20 else softplus(x),
        "gelu": lambda x: x * normal(x),
        "elu": lambda x: x if x > 0 else m.expm1(x),
        "celu": lambda x: x if x > 0 else m.expm1(x),
        "selu": lambda x: scale * (x if x > 0 else alpha * m.expm1(x)),
        "relu": lambda x: max(x, m.mpf(0)),
        "relu6": lambda x: limited(x, 0, 6),
        "leaky_relu": lambda x: x if x > 0 else x * m.mpf(0.01),
        "rrelu": lambda x: x if x >= 0 else x * (m.mpf(0.125) + m.mpf(1) / 3) / 2,
        "hardtanh": lambda x: limited(x, -1, 1),
        "hardshrink": lambda x: x if abs(x) > 0.5 else m.mpf(0),
        "softshrink": lambda x: x - 0.5 if x > 0.5 else x + 0.5 if x < -0.5 else m.mpf(0),
        "neg": lambda x: -x, "positive": lambda x: x, "square": lambda x: x * x, "reciprocal": lambda x: 1 / x,
        "sqrt": m.sqrt, "rsqrt": lambda x: 1 / m.sqrt(x), "ceil": m.ceil, "floor": m.floor, "round": m.nint,
        "trunc": lambda x: m.floor(x) if x > 0 else m.ceil(x),
        "frac": lambda x: x - (m.floor(x) if x > 0 else m.ceil(x)),
        "abs": abs, "sign": m.sign, "angle": lambda x: m.mpf(0) if x >= 0 else m.pi,
        "exp": m.exp, "exp2": lambda x: m.mpf(2) ** x, "expm1": m.expm1, "log": m.log,
        "log2": lambda x: m.log(x) / m.log(2), "log10": m.log10, "log1p": m.log1p, "sin": m.sin, "cos": m.cos,
        "tan": m.tan, "asin": m.asin, "acos": m.acos, "atan": m.atan, "sinh": m.sinh, "cosh": m.cosh,
        "tanh": m.tanh, "asinh": m.asinh, "acosh": m.acosh, "atanh": m.atanh, "deg2rad": lambda x: x * m.pi / 180,
        "rad2deg": lambda x: x * 180 / m.pi, "sinc": m.sincpi, "sigmoid": sigmoid,
        "logit": lambda x: m.log(x) - m.log1p(-x), "erf": m.erf, "erfc": m.erfc, "erfinv": m.erfinv,
        "special_erfcx": lambda x: m.exp(x * x) * m.erfc(x),
        "special_ndtri": lambda x: m.sqrt(2) * m.erfinv(2 * x - 1), "special_ndtr": normal,
        "special_log_ndtr": lambda x: m.log(normal(x)), "special_entr": lambda x: -x * m.log(x),
        "lgamma": lambda x: m.log(abs(m.gamma(x))), "digamma": m.digamma, "i0": lambda x: m.besseli(0, x),
        "special_i0e": lambda x: m.besseli(0, x) * m.exp(-abs(x)), "special_i1": lambda x: m.besseli(1, x),
        "special_i1e": lambda x: m.besseli(1, x) * m.exp(-abs(x)), "special_bessel_j0": m.j0,
        "special_bessel_j1": m.j1, "special_bessel_y0": lambda x: m.bessely(0, x),
        "special_bessel_y1": lambda x: m.bessely(1, x), "special_modified_bessel_k0": lambda x: m.besselk(0, x),
        "special_modified_bessel_k1": lambda x: m.besselk(1, x),
        "special_scaled_modified_bessel_k0": lambda x: m.besselk(0, x) * m.exp(x),
        "special_scaled_modified_bessel_k1": lambda x: m.besselk(1, x) * m.exp(x), "special_airy_ai": m.airyai,
        "special_spherical_bessel_j0": lambda x: m.sinc(x), "_airy_ai_slope": lambda x: m.airyai(x, derivative=1),
    }  # fmt: skip
    return own | {name: own[real] for name, real in ALIASES.items()}

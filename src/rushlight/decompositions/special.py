"""Special functions in terms of simpler ones, and names in rushlight.special of other families' functions."""

from __future__ import annotations

import math
from typing import Any

from ..core.dispatch import run_name
from ..core.promotion import Promotion
from ..core.registry import FUNCTION, OUT, composite
from ..core.tensor import Tensor
from .aliases import alias

SPECIAL: dict[str, Any] = {"api": FUNCTION | OUT, "namespace": "special"}

for _target, _names in {
    "digamma": "digamma psi",
    "erf": "erf",
    "erfc": "erfc",
    "erfinv": "erfinv",
    "exp2": "exp2",
    "expm1": "expm1",
    "i0": "i0",
    "igamma": "gammainc",
    "igammac": "gammaincc",
    "lgamma": "gammaln",
    "log1p": "log1p",
    "logit": "logit",
    "mvlgamma": "multigammaln",
    "polygamma": "polygamma",
    "sigmoid": "expit",
    "sinc": "sinc",
}.items():
    for _name in _names.split():
        alias(_target, f"special_{_name}", public_name=_name, **SPECIAL)
alias(
    "xlogy",
    "special_xlogy",
    public_name="xlogy",
    **SPECIAL,
    overloads={"Tensor": "", "Scalar_Self": "self_scalar", "Scalar_Other": "other_scalar"},
)


@composite("special_round(Tensor self, *, int decimals=0) -> Tensor", public_name="round", **SPECIAL)
def special_round(self: Tensor, decimals: int) -> Tensor:
    return run_name("round.decimals", self, decimals)


@composite("special_ndtr(Tensor self) -> Tensor", promote=Promotion.FLOATING, public_name="ndtr", **SPECIAL)
def special_ndtr(self: Tensor) -> Tensor:
    return (self * -math.sqrt(0.5)).erfc() * 0.5

"""Special functions in terms of simpler ones, and the names of rushlight.special for functions that live elsewhere."""

from __future__ import annotations

import math

from ..core.dispatch import run_name
from ..core.promotion import Promotion
from ..core.registry import FUNCTION, OUT, composite
from ..core.tensor import Tensor
from .aliases import alias

for _target, _name in {
    "digamma": "digamma", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "exp2": "exp2", "sigmoid": "expit",
    "expm1": "expm1", "igamma": "gammainc", "igammac": "gammaincc", "lgamma": "gammaln", "i0": "i0", "log1p": "log1p",
    "logit": "logit", "mvlgamma": "multigammaln", "polygamma": "polygamma", "sinc": "sinc",
}.items():
    alias(_target, f"special_{_name}", family="special", api=FUNCTION | OUT, namespace="special", public_name=_name)
alias("digamma", "special_psi", family="special", api=FUNCTION | OUT, namespace="special", public_name="psi")
alias("xlogy", "special_xlogy", family="special", api=FUNCTION | OUT, namespace="special", public_name="xlogy",
      overloads={"Tensor": "", "Scalar_Self": "self_scalar", "Scalar_Other": "other_scalar"})


@composite("special_round(Tensor self, *, int decimals=0) -> Tensor", api=FUNCTION | OUT, namespace="special",
           public_name="round")
def special_round(self: Tensor, decimals: int) -> Tensor:
    return run_name("round.decimals", self, decimals)


@composite("special_ndtr(Tensor self) -> Tensor", promote=Promotion.FLOATING, api=FUNCTION | OUT, namespace="special",
           public_name="ndtr")
def special_ndtr(self: Tensor) -> Tensor:
    return (self * -math.sqrt(0.5)).erfc() * 0.5

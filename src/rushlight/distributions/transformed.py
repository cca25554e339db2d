"""Named distributions that are images of simpler ones under transforms."""

from __future__ import annotations

import math
from typing import Any

from .._api.link import digamma, full_like, lgamma, ones_like, where, zeros_like
from ..core.construct import as_tensor
from ..core.dtypes import finfo
from ..core.tensor import Tensor
from . import constraints
from .combined import TransformedDistribution
from .continuous import Cauchy, Exponential, Normal, Uniform
from .gammas import Gamma
from .transforms import AbsTransform, AffineTransform, ExpTransform, PowerTransform, StickBreakingTransform
from .utils import constrained, euler_constant, part, tiny

__all__ = [
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "InverseGamma",
    "Kumaraswamy",
    "LogNormal",
    "LogisticNormal",
    "Pareto",
    "Weibull",
]

inf, nan = math.inf, math.nan
_LOC_SCALE = constrained(loc=constraints.real, scale=constraints.positive)


class LogNormal(TransformedDistribution):
    """exp(x) for a normal x.

    >>> rl.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    arg_constraints = _LOC_SCALE
    support = constraints.positive
    has_rsample = True
    loc, scale = part("base_dist.loc"), part("base_dist.scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Probabilities of which normal variables, one fewer, are the stick-breaking coordinates.

    >>> rl.distributions.LogisticNormal(rl.zeros(2), rl.ones(2)).sample().shape
    rushlight.Size([3])
    """

    arg_constraints = _LOC_SCALE
    support = constraints.simplex
    has_rsample = True
    loc, scale = part("base_dist.base_dist.loc"), part("base_dist.base_dist.scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        base = base if base.batch_shape else base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)


class _Half(TransformedDistribution):
    """|x| for an x whose density is symmetric around 0."""

    arg_constraints = constrained(scale=constraints.positive)
    support = constraints.nonnegative
    has_rsample = True
    scale = part("base_dist.scale")

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        value = as_tensor(self._checked(value), dtype=self.scale.dtype, device=self.scale.device)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -inf)

    def cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(self._checked(value)) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """|x| for a normal x of mean 0.

    >>> rl.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """|x| for a Cauchy x around 0.

    >>> rl.distributions.HalfCauchy(1.0).log_prob(rl.tensor(0.0))
    tensor(-0.4516)
    """

    variance = part("base_dist.variance")

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return full_like(self.scale, inf)


class InverseGamma(TransformedDistribution):
    """1 / x for an x of Gamma(concentration, rate).

    >>> rl.distributions.InverseGamma(rl.tensor(3.0), rl.tensor(2.0)).mean
    tensor(1.)
    """

    arg_constraints = constrained(concentration=constraints.positive, rate=constraints.positive)
    support = constraints.positive
    has_rsample = True
    concentration, rate = part("base_dist.concentration"), part("base_dist.rate")

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return where(self.concentration > 1, self.rate / (self.concentration - 1), inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + lgamma(a) - (1 + a) * digamma(a)


class Gumbel(TransformedDistribution):
    """`loc - scale * log(-log(u))` for a uniform u: the limit of maxima of many samples.

    >>> rl.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints = _LOC_SCALE
    support = constraints.real
    loc: Tensor
    scale: Tensor
    mode = part("loc")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._take(loc=loc, scale=scale)
        dtype = self.loc.dtype
        low, high = full_like(self.loc, tiny(dtype)), full_like(self.loc, 1 - finfo(dtype).eps)
        minus_log = [ExpTransform().inv, AffineTransform(0, -ones_like(self.scale))]
        super().__init__(
            Uniform(low, high, validate_args=validate_args),
            [*minus_log, ExpTransform().inv, AffineTransform(loc, -self.scale)],
            validate_args=validate_args,
        )

    def log_prob(self, value: Tensor) -> Tensor:
        z = (self.loc - self._checked(value)) / self.scale
        return z - z.exp() - self.scale.log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)


class Kumaraswamy(TransformedDistribution):
    """The cumulative distribution 1 - (1 - x^concentration1)^concentration0 on [0, 1].

    >>> rl.distributions.Kumaraswamy(rl.tensor(1.0), rl.tensor(1.0)).mean
    tensor(0.5000)
    """

    arg_constraints = constrained(concentration1=constraints.positive, concentration0=constraints.positive)
    support = constraints.unit_interval
    has_rsample = True
    concentration1: Tensor
    concentration0: Tensor

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self._take(concentration1=concentration1, concentration0=concentration0)
        low, high = zeros_like(self.concentration0), ones_like(self.concentration0)
        transforms = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(
            Uniform(low, high, validate_args=validate_args), transforms, validate_args=validate_args
        )

    def _moment(self, n: int) -> Tensor:
        """The mean of x^n: b B(1 + n / a, b)."""
        b, first = self.concentration0, 1 + n / self.concentration1
        return b * (lgamma(first) + lgamma(b) - lgamma(first + b)).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)).pow(1 / a)
        return where((a >= 1) & (b >= 1) & (a * b > 1), mode, nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = digamma(b + 1) + euler_constant
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - a.log() - b.log()


class Pareto(TransformedDistribution):
    """The density alpha scale^alpha / x^(alpha + 1) from `scale` on.

    >>> rl.distributions.Pareto(1.0, 3.0).mean
    tensor(1.5000)
    """

    arg_constraints = constrained(alpha=constraints.positive, scale=constraints.positive)
    scale: Tensor
    alpha: Tensor
    mode = part("scale")

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self._take(scale=scale, alpha=alpha)
        super().__init__(
            Exponential(self.alpha, validate_args=validate_args),
            [ExpTransform(), AffineTransform(0, self.scale)],
            validate_args=validate_args,
        )

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class Weibull(TransformedDistribution):
    """`scale * x^(1 / concentration)` for a standard exponential x.

    >>> rl.distributions.Weibull(1.0, 1.0).mean
    tensor(1.)
    """

    arg_constraints = constrained(scale=constraints.positive, concentration=constraints.positive)
    support = constraints.positive
    _kept = ("concentration_reciprocal",)
    scale: Tensor
    concentration: Tensor

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._take(scale=scale, concentration=concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        super().__init__(
            Exponential(ones_like(self.scale), validate_args=validate_args),
            [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)],
            validate_args=validate_args,
        )

    def _moment(self, n: int) -> Tensor:
        return self.scale.pow(n) * lgamma(1 + n * self.concentration_reciprocal).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        return self.scale * (1 - self.concentration_reciprocal).pow(self.concentration_reciprocal)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Tensor:
        k = self.concentration_reciprocal
        return euler_constant * (1 - k) + (self.scale * k).log() + 1

"""Distributions whose samples are made of gamma variates, Dirichlet and StudentT among them."""

from __future__ import annotations

import math
from typing import Any

from .._api.link import (
    _sample_dirichlet,
    _standard_gamma,
    digamma,
    lgamma,
    log,
    log1p,
    rsqrt,
    stack,
    where,
    xlogy,
)
from ..core.construct import as_tensor
from ..core.tensor import Tensor
from ..nn.functional import one_hot
from . import constraints
from .distribution import Distribution, ExponentialFamily, Shape
from .utils import _standard_normal, broadcast_all, constrained, part, special, tiny

__all__ = ["Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "StudentT"]

inf, nan = math.inf, math.nan


class Gamma(ExponentialFamily):
    """The density proportional to x^(concentration - 1) exp(-rate x).

    >>> rl.distributions.Gamma(2.0, 4.0).mean
    tensor(0.5000)
    """

    arg_constraints = constrained(concentration=constraints.positive, rate=constraints.positive)
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._take(concentration=concentration, rate=rate), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        drawn = _standard_gamma(self.concentration.expand(shape)) / self.rate
        return drawn.clamp(min=tiny(drawn.dtype))  # a sample that underflows is still one of the support

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(as_tensor(value, dtype=self.rate.dtype, device=self.rate.device))
        density = xlogy(self.concentration - 1, value) - self.rate * value
        return density + xlogy(self.concentration, self.rate) - lgamma(self.concentration)

    def cdf(self, value: Tensor) -> Tensor:
        return special.gammainc(self.concentration, self.rate * self._checked(value))

    def entropy(self) -> Tensor:
        shape = self.concentration
        return shape - self.rate.log() + lgamma(shape) + (1 - shape) * digamma(shape)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        x, y = natural_params
        return lgamma(x + 1) - (x + 1) * log(-y)


class Chi2(Gamma):
    """The sum of `df` squares of standard normal variables.

    >>> rl.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    arg_constraints = constrained(df=constraints.positive)
    _kept = ("concentration", "rate")

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """The density on the simplex proportional to the product of x^(concentration - 1).

    >>> rl.distributions.Dirichlet(rl.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = constrained(concentration=constraints.independent(constraints.positive, 1))
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("Dirichlet: concentration must have at least one dimension, that of the simplex")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0)
        mode = above / above.sum(-1, True)
        corner = one_hot(mode.argmax(-1), mode.shape[-1]).to(mode)  # all corners are alike
        return where((self.concentration < 1).all(-1, True), corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return _sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        density = xlogy(self.concentration - 1, self._checked(value)).sum(-1)
        return density - self._log_normalizer(self.concentration)

    def entropy(self) -> Tensor:
        shape, total = self.concentration, self.concentration.sum(-1)
        spread = (total - shape.shape[-1]) * digamma(total) - ((shape - 1) * digamma(shape)).sum(-1)
        return self._log_normalizer(shape) + spread

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        x = natural_params[0]
        return lgamma(x).sum(-1) - lgamma(x.sum(-1))


class Beta(ExponentialFamily):
    """The density on [0, 1] proportional to x^(concentration1 - 1) (1 - x)^(concentration0 - 1).

    >>> rl.distributions.Beta(2.0, 2.0).mean
    tensor(0.5000)
    """

    arg_constraints = constrained(concentration1=constraints.positive, concentration0=constraints.positive)
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        pair = stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(pair, validate_args=False)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        """The exponent of x, plus 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """The exponent of 1 - x, plus 1."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        return self._dirichlet.variance[..., 0]

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        return self._dirichlet.log_prob(stack([value, 1 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        x, y = natural_params
        return lgamma(x) + lgamma(y) - lgamma(x + y)


class StudentT(Distribution):
    """`loc + scale * x / sqrt(c / df)` for a standard normal x and c of Chi2(df).

    >>> rl.distributions.StudentT(3.0).variance
    tensor(3.)
    """

    arg_constraints = constrained(df=constraints.positive, loc=constraints.real, scale=constraints.positive)
    support = constraints.real
    has_rsample = True
    df: Tensor
    loc: Tensor
    scale: Tensor
    mode = part("loc")

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        shape = self._take(df=df, loc=loc, scale=scale)
        self._chi2 = Chi2(self.df, validate_args=False)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return where(self.df > 1, self.loc, nan)

    @property
    def variance(self) -> Tensor:
        finite = self.df > 2
        df = where(finite, self.df, 3.0)
        infinite = where(self.df > 1, inf, nan)
        return where(finite, self.scale.square() * df / (df - 2), infinite.to(self.df.dtype))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        normal = _standard_normal(shape, self.df.dtype, self.df.device)
        return self.loc + self.scale * normal * rsqrt(self._chi2.rsample(sample_shape) / self.df)

    def _log_normalizer(self) -> Tensor:
        half = 0.5 * self.df
        return self.scale.log() + 0.5 * (math.pi * self.df).log() + lgamma(half) - lgamma(half + 0.5)

    def log_prob(self, value: Tensor) -> Tensor:
        z = (self._checked(value) - self.loc) / self.scale
        return -0.5 * (self.df + 1) * log1p(z.square() / self.df) - self._log_normalizer()

    def entropy(self) -> Tensor:
        half = 0.5 * self.df
        return (half + 0.5) * (digamma(half + 0.5) - digamma(half)) + self._log_normalizer()


class FisherSnedecor(Distribution):
    """The ratio of two independent Chi2 variables, each divided by its degrees of freedom.

    >>> rl.distributions.FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints = constrained(df1=constraints.positive, df2=constraints.positive)
    support = constraints.positive
    has_rsample = True
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        shape = self._take(df1=df1, df2=df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1, validate_args=False)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2, validate_args=False)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        df2 = where(self.df2 > 2, self.df2, nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        df1 = where(self.df1 > 2, self.df1, nan)
        return (df1 - 2) / df1 * self.df2 / (self.df2 + 2)

    @property
    def variance(self) -> Tensor:
        df1, df2 = self.df1, where(self.df2 > 4, self.df2, nan)
        return 2 * df2.square() * (df1 + df2 - 2) / (df1 * (df2 - 2).square() * (df2 - 4))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        ratio = self._gamma1.rsample(sample_shape) / self._gamma2.rsample(sample_shape)
        return ratio.clamp(min=tiny(ratio.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        a, b, ratio = 0.5 * self.df1, 0.5 * self.df2, self.df1 / self.df2
        density = (a - 1) * log(self._checked(value)) - (a + b) * log1p(ratio * value)
        return density + a * ratio.log() + lgamma(a + b) - lgamma(a) - lgamma(b)

"""Distributions of numbers whose samples are made of uniform, normal or exponential ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._api.link import (
    atan,
    cos,
    empty,
    erf,
    erfinv,
    exp,
    expm1,
    full_like,
    isclose,
    log,
    log1p,
    rand,
    tan,
    where,
    zeros,
    zeros_like,
)
from ..autograd.grad_mode import no_grad
from ..core.dtypes import bool_, finfo, float64
from ..core.tensor import Tensor
from ..nn.functional import binary_cross_entropy_with_logits
from . import constraints
from .distribution import Distribution, ExponentialFamily, ProbsOrLogits, Shape
from .utils import (
    _standard_normal,
    broadcast_all,
    clamp_probs,
    constrained,
    half_log_two_pi,
    lazy_property,
    logits_to_probs,
    part,
    special,
)

__all__ = [
    "Cauchy",
    "ContinuousBernoulli",
    "Exponential",
    "GeneralizedPareto",
    "Laplace",
    "Normal",
    "Uniform",
    "VonMises",
]

inf, nan = math.inf, math.nan


class _LocScale(Distribution):
    """`loc + scale * x`, where x has a distribution without parameters."""

    arg_constraints = constrained(loc=constraints.real, scale=constraints.positive)
    support = constraints.real
    has_rsample = True

    loc: Tensor
    scale: Tensor
    mode = part("loc")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._take(loc=loc, scale=scale), validate_args=validate_args)

    def _standard(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale


class Normal(_LocScale, ExponentialFamily):
    """The normal distribution with mean `loc` and standard deviation `scale`.

    >>> rl.distributions.Normal(0.0, 1.0).log_prob(rl.tensor(0.0))
    tensor(-0.9189)
    """

    _mean_carrier_measure = 0
    mean, stddev = part("loc"), part("scale")

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + self.scale * _standard_normal(shape, self.loc.dtype, self.loc.device)

    def log_prob(self, value: Tensor) -> Tensor:
        return -0.5 * self._standard(self._checked(value)).square() - self.scale.log() - half_log_two_pi

    def cdf(self, value: Tensor) -> Tensor:
        return 0.5 + 0.5 * erf(self._standard(self._checked(value)) * math.sqrt(0.5))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return self.scale.log() + (0.5 + half_log_two_pi)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        precision = self.scale.square().reciprocal()
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        x, y = natural_params
        return 0.5 * log(-math.pi / y) - 0.25 * x.square() / y


class Laplace(_LocScale):
    """The density exp(-|x - loc| / scale) / (2 scale).

    >>> rl.distributions.Laplace(0.0, 1.0).log_prob(rl.tensor(1.0))
    tensor(-1.6931)
    """

    mean = part("loc")

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        u = empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        u = u.uniform_(finfo(u.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        return -self._standard(self._checked(value)).abs() - log(2 * self.scale)

    def cdf(self, value: Tensor) -> Tensor:
        z = self._standard(self._checked(value))
        return 0.5 - 0.5 * z.sign() * expm1(-z.abs())

    def icdf(self, value: Tensor) -> Tensor:
        centred = value - 0.5
        return self.loc - self.scale * centred.sign() * log1p(-2 * centred.abs())

    def entropy(self) -> Tensor:
        return 1 + log(2 * self.scale)


class Cauchy(_LocScale):
    """The density 1 / (π scale (1 + z²)), z = (x - loc) / scale, which has no mean.

    >>> rl.distributions.Cauchy(0.0, 1.0).log_prob(rl.tensor(0.0))
    tensor(-1.1447)
    """

    @property
    def mean(self) -> Tensor:
        return full_like(self.loc, nan)

    @property
    def variance(self) -> Tensor:
        return full_like(self.loc, inf)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = empty(shape, dtype=self.loc.dtype, device=self.loc.device).cauchy_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - self._standard(self._checked(value)).square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return atan(self._standard(self._checked(value))) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * tan(math.pi * (value - 0.5))

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """Equal density from `low` to `high`; `high` itself has none.

    >>> rl.distributions.Uniform(0.0, 2.0).entropy()
    tensor(0.6931)
    """

    has_rsample = True
    low: Tensor
    high: Tensor

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._take(low=low, high=high), validate_args=validate_args)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def _width(self) -> Tensor:
        return self.high - self.low

    @property
    def mean(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def mode(self) -> Tensor:
        return full_like(self.high, nan)

    @property
    def stddev(self) -> Tensor:
        return self._width / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return self._width.square() / 12

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.icdf(
            rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        )

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        inside = (self.low <= value) & (value < self.high)
        return log(inside.type_as(self.low)) - log(self._width)

    def cdf(self, value: Tensor) -> Tensor:
        return ((self._checked(value) - self.low) / self._width).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return self.low + value * self._width

    def entropy(self) -> Tensor:
        return log(self._width)


class Exponential(ExponentialFamily):
    """The density rate * exp(-rate x) of waiting times.

    >>> rl.distributions.Exponential(2.0).mean
    tensor(0.5000)
    """

    arg_constraints = constrained(rate=constraints.positive)
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._take(rate=rate), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return empty(shape, dtype=self.rate.dtype, device=self.rate.device).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * self._checked(value)

    def cdf(self, value: Tensor) -> Tensor:
        return -expm1(-self.rate * self._checked(value))

    def icdf(self, value: Tensor) -> Tensor:
        return -log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        return -log(-natural_params[0])


class GeneralizedPareto(Distribution):
    """What exceeds a threshold `loc`: P(X > x) = (1 + ξ z)^(-1/ξ), z = (x - loc) / scale, ξ = concentration.

    At ξ = 0 it is an exponential distribution, for negative ξ it ends at loc - scale / ξ.

    >>> rl.distributions.GeneralizedPareto(0.0, 1.0, 0.0).log_prob(rl.tensor(1.0))
    tensor(-1.)
    """

    arg_constraints = constrained(
        loc=constraints.real, scale=constraints.positive, concentration=constraints.real
    )
    has_rsample = True
    loc: Tensor
    scale: Tensor
    concentration: Tensor
    mode = part("loc")

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        shape = self._take(loc=loc, scale=scale, concentration=concentration)
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = where(self.concentration < 0, self.loc - self.scale / self.concentration, inf)
        return constraints.interval(self.loc, end)

    def _moment(self, order: int, formula: Callable[[Tensor], Tensor]) -> Tensor:
        """A moment, which exists for a concentration below 1 / order."""
        exists = self.concentration < 1 / order
        return where(exists, formula(where(exists, self.concentration, 0.0)), nan)

    @property
    def mean(self) -> Tensor:
        return self._moment(1, lambda shape: self.loc + self.scale / (1 - shape))

    @property
    def variance(self) -> Tensor:
        return self._moment(2, lambda shape: self.scale.square() / ((1 - shape).square() * (1 - 2 * shape)))

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is 0, and the concentration with 1 in its place."""
        zero = isclose(self.concentration, zeros_like(self.concentration))
        return zero, where(zero, 1.0, self.concentration)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.icdf(
            rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        )

    def log_prob(self, value: Tensor) -> Tensor:
        z = (self._checked(value) - self.loc) / self.scale
        zero, shape = self._shape()
        return -self.scale.log() - where(zero, z, special.xlog1py(1 / shape + 1, shape * z))

    def log_survival_function(self, value: Tensor) -> Tensor:
        """log P(X > value)"""
        z = (self._checked(value) - self.loc) / self.scale
        zero, shape = self._shape()
        return where(zero, -z, -log1p(shape * z) / shape)

    def log_cdf(self, value: Tensor) -> Tensor:
        """log P(X <= value)"""
        return log1p(-exp(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        return -expm1(self.log_survival_function(value))

    def icdf(self, value: Tensor) -> Tensor:
        zero, shape = self._shape()
        survival = log1p(-value)
        return self.loc + self.scale * where(zero, -survival, expm1(-shape * survival) / shape)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1


class VonMises(Distribution):
    """The density exp(κ cos(x - loc)) / (2π I₀(κ)) of angles, κ = concentration. Samples lie in [-π, π).

    >>> rl.distributions.VonMises(rl.tensor(0.0), rl.tensor(1.0)).log_prob(rl.tensor(0.0))
    tensor(-1.0738)
    """

    arg_constraints = constrained(loc=constraints.real, concentration=constraints.positive)
    support = constraints.real
    loc: Tensor
    concentration: Tensor
    mean, mode = part("loc"), part("loc")

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._take(loc=loc, concentration=concentration), validate_args=validate_args)

    @property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I₁(κ) / I₀(κ)."""
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        kappa = self.concentration  # i0e(κ) is exp(-κ) I₀(κ)
        away = cos(self._checked(value) - self.loc) - 1
        return kappa * away - math.log(2 * math.pi) - special.i0e(kappa).log()

    @no_grad()
    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """By rejection from a wrapped Cauchy distribution (Best and Fisher), in double precision."""
        shape = self._extended_shape(sample_shape)
        kappa = self.concentration.to(float64)
        root = (1 + 4 * kappa.square()).sqrt() + 1
        rho = (root - (2 * root).sqrt()) / (2 * kappa)
        r = where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho.square()) / (2 * rho))
        angle = zeros(shape, dtype=float64, device=kappa.device)
        done = zeros(shape, dtype=bool_, device=kappa.device)
        while not done.all():
            u = rand((3, *shape), dtype=float64, device=kappa.device)
            z = cos(math.pi * u[0])
            f = (1 + r * z) / (r + z)
            c = kappa * (r - f)
            accepted = (c * (2 - c) > u[1]) | ((c / u[1]).log() + 1 >= c)
            angle = where(accepted & ~done, (u[2] - 0.5).sign() * f.clamp(-1, 1).acos(), angle)
            done = done | accepted
        around = (angle + math.pi + self.loc) % (2 * math.pi)
        return (around - math.pi).to(self.loc.dtype)


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """The density C p^x (1 - p)^(1 - x) on [0, 1].

    Where `probs` lies within `lims`, around 1/2, polynomials take the place of formulas that divide 0 by 0.

    >>> rl.distributions.ContinuousBernoulli(rl.tensor(0.5)).mean
    tensor(0.5000)
    """

    arg_constraints = constrained(probs=constraints.unit_interval, logits=constraints.real)
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        shape = self._take_either(probs, logits)
        self._lims = lims
        if probs is not None:
            if validate_args and not constraints.unit_interval.check(self.probs).all():
                raise ValueError(f"ContinuousBernoulli: probs must lie in [0, 1], but they are\n{self.probs}")
            self.probs = clamp_probs(self.probs)
        super().__init__(shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _near_half(self, formula: Callable[[Tensor], Tensor], near: Tensor) -> Tensor:
        """`formula(probs)`, but `near` where `probs` lies within the limits."""
        low, high = self._lims
        regular = (self.probs <= low) | (self.probs > high)
        return where(regular, formula(where(regular, self.probs, low)), near)

    def _cont_bern_log_norm(self) -> Tensor:
        """log C"""
        d2 = (self.probs - 0.5).square()
        return self._near_half(
            lambda p: log((log1p(-p) - log(p)) / (1 - 2 * p)), math.log(2) + d2 * (4 / 3 + 104 / 45 * d2)
        )

    @property
    def mean(self) -> Tensor:
        d = self.probs - 0.5
        return self._near_half(
            lambda p: p / (2 * p - 1) + 1 / (log1p(-p) - log(p)), 0.5 + d * (1 / 3 + 16 / 45 * d.square())
        )

    @property
    def variance(self) -> Tensor:
        d2 = (self.probs - 0.5).square()
        return self._near_half(
            lambda p: p * (p - 1) / (1 - 2 * p).square() + (log1p(-p) - log(p)).pow(-2),
            1 / 12 - d2 * (1 / 15 - 128 / 945 * d2),
        )

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        return self._cont_bern_log_norm() - binary_cross_entropy_with_logits(logits, value, reduction="none")

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        inner = self._near_half(
            lambda p: (p.pow(value) * (1 - p).pow(1 - value) + p - 1) / (2 * p - 1), value
        )
        return where(value <= 0, 0.0, where(value >= 1, 1.0, inner))

    def icdf(self, value: Tensor) -> Tensor:
        return self._near_half(
            lambda p: (log1p(value * (2 * p - 1) - p) - log1p(-p)) / (log(p) - log1p(-p)), value
        )

    def entropy(self) -> Tensor:
        without = log1p(-self.probs)
        return self.mean * (without - log(self.probs)) - self._cont_bern_log_norm() - without

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        x, (low, high) = natural_params[0], self._lims
        regular = (x <= low - 0.5) | (x > high - 0.5)
        cut = where(regular, x, low - 0.5)
        return where(regular, log(expm1(cut) / cut), 0.5 * x + x.square() / 24 - x.pow(4) / 2880)

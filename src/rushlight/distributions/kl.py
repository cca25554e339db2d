"""Kullback-Leibler divergences.

Of two different families most are the negative entropy of p minus the mean of log q under p, and the latter
needs only a moment or two of p: one rule for each q, one line for each moment of a p.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

from .._api.link import digamma, erf, full_like, lgamma, log, log1p, where, xlogy
from ..core.tensor import Tensor
from ..nn.functional import logsigmoid
from .combined import Independent, TransformedDistribution
from .continuous import Cauchy, ContinuousBernoulli, Exponential, Laplace, Normal, Uniform
from .discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from .distribution import Distribution, ExponentialFamily
from .gammas import Beta, Dirichlet, Gamma
from .multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    log_diagonal,
    mahalanobis,
    sum_of_squares,
)
from .transformed import Gumbel, HalfNormal, Pareto
from .utils import _sum_rightmost, euler_constant, half_log_two_pi, linalg

__all__ = ["kl_divergence", "register_kl"]

inf = math.inf
Rule = Callable[[Any, Any], Tensor]
_KL_REGISTRY: dict[tuple[type, type], Rule] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Rule], Rule]:
    """A decorator for the function that computes KL(p || q) of two classes and their subclasses.

    Where several functions fit, that of the nearest classes is taken; if p and q disagree on which one
    that is, p decides, with a RuntimeWarning: a function for exactly these classes settles it.

    >>> class Mine(rl.distributions.Normal):
    ...     pass
    >>> @rl.distributions.register_kl(Mine, Mine)
    ... def same(p, q):
    ...     return rl.zeros(())
    >>> rl.distributions.kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0))
    tensor(0.)
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):  # those of other libraries have bases of their own
            raise TypeError(f"register_kl: expected a class of distributions, not {kind!r}")

    def register(rule: Rule) -> Rule:
        _KL_REGISTRY[type_p, type_q] = rule
        _rule_for.cache_clear()
        return rule

    return register


def _register_all(types_p: list[type], types_q: list[type], rule: Rule) -> None:
    for type_p in types_p:
        for type_q in types_q:
            register_kl(type_p, type_q)(rule)


@functools.cache
def _rule_for(type_p: Any, type_q: Any) -> Rule | None:
    near_p, near_q = type_p.__mro__.index, type_q.__mro__.index
    fitting = [pair for pair in _KL_REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not fitting:
        return None
    by_p = min(fitting, key=lambda pair: (near_p(pair[0]), near_q(pair[1])))
    by_q = min(fitting, key=lambda pair: (near_q(pair[1]), near_p(pair[0])))
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        warnings.warn(
            f"kl_divergence({type_p.__name__}, {type_q.__name__}) is ambiguous: register_kl("
            f"{by_p[0].__name__}, {by_q[1].__name__}) would settle it",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), the mean of log p(x) - log q(x) under p, one for each distribution of the batch.

    Raises NotImplementedError if nothing is registered for the two classes.

    >>> D = rl.distributions
    >>> D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    kinds: Any = type(p), type(q)
    rule = _rule_for(*kinds)
    if rule is None:
        raise NotImplementedError(
            f"KL(p || q) is not known for p of {type(p).__name__} and q of {type(q).__name__}"
        )
    return rule(p, q)


# Members of one family.


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily(p: Any, q: Any) -> Tensor:
    """The Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            f"KL(p || q) is not known for p of {type(p).__name__} and q of "
            f"{type(q).__name__}, which are different exponential families"
        )
    normalizer, params, means = p._mean_statistics()
    others = q._natural_params
    result = q._log_normalizer(*others) - normalizer
    dims = max(len(p.batch_shape), len(q.batch_shape))
    for param, other, mean in zip(params, others, means, strict=True):
        term = (other - param) * mean
        result = result - _sum_rightmost(term, term.dim() - dims)
    return result


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli(p: Any, q: Any) -> Tensor:
    def part(prob: Tensor, other: Tensor, gain: Tensor) -> Tensor:
        return where(prob == 0, 0.0, where(other == 0, inf, prob * gain))

    ones = part(p.probs, q.probs, logsigmoid(p.logits) - logsigmoid(q.logits))
    return ones + part(1 - p.probs, 1 - q.probs, logsigmoid(-p.logits) - logsigmoid(-q.logits))


@register_kl(Binomial, Binomial)
def _kl_binomial(p: Any, q: Any) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL(p || q) of Binomials is not known for a greater total_count of q")
    result = p.total_count * (p.probs * (p.logits - q.logits) + log1p(-p.probs) - log1p(-q.probs))
    return where(p.total_count > q.total_count, inf, result)


@register_kl(Categorical, Categorical)
def _kl_categorical(p: Any, q: Any) -> Tensor:
    terms = where(q.probs == 0, inf, p.probs * (p.logits - q.logits))
    return where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehot(p: Any, q: Any) -> Tensor:
    return _kl_categorical(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy(p: Any, q: Any) -> Tensor:
    return ((p.scale + q.scale).square() + (p.loc - q.loc).square()).log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    norms = p._cont_bern_log_norm() + log1p(-p.probs) - q._cont_bern_log_norm() - log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + norms


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    mean_log = digamma(a) - digamma(a.sum(-1, True))
    norms = lgamma(a.sum(-1)) - lgamma(b.sum(-1)) - (lgamma(a) - lgamma(b)).sum(-1)
    return norms + ((a - b) * mean_log).sum(-1)


@register_kl(Beta, Beta)
def _kl_beta(p: Any, q: Any) -> Tensor:
    return _kl_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Exponential, Exponential)
def _kl_exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _kl_gamma(p: Any, q: Any) -> Tensor:
    a, b, ratio = p.concentration, q.concentration, q.rate / p.rate
    return lgamma(b) - lgamma(a) - b * ratio.log() + (a - b) * digamma(a) + (ratio - 1) * a


@register_kl(Geometric, Geometric)
def _kl_geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - log1p(-q.probs) / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _kl_gumbel(p: Any, q: Any) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return shift - ratio.log() + (ratio - 1) * euler_constant + (lgamma(1 + ratio) - shift).exp() - 1


@register_kl(Laplace, Laplace)
def _kl_laplace(p: Any, q: Any) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return distance / q.scale - ratio.log() + ratio * (-distance / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _kl_normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal(p: Any, q: Any) -> Tensor:
    return _kl_normal(p.base_dist, q.base_dist)


@register_kl(Pareto, Pareto)
def _kl_pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, inf, result)


@register_kl(Poisson, Poisson)
def _kl_poisson(p: Any, q: Any) -> Tensor:
    return xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _kl_uniform(p: Any, q: Any) -> Tensor:
    inside = (q.low <= p.low) & (p.high <= q.high)
    return where(inside, ((q.high - q.low) / (p.high - p.low)).log(), inf)


# Normal vectors: the covariance of each is F Fᵀ + D, with a factor F and, if it is of low rank, a diagonal D.


def _solve(factor: Tensor, other: Tensor) -> Tensor:
    return linalg.solve_triangular(factor, other, upper=False)


def _trace(q: Any, factor: Tensor, diag: Tensor | None) -> Tensor:
    """The trace of q's inverse covariance times (factor factorᵀ + diag)."""
    if isinstance(q, LowRankMultivariateNormal):
        own, half = q._unbroadcasted_cov_diag, q._half_inverse()
        result = sum_of_squares(factor * own.rsqrt().unsqueeze(-1)) - sum_of_squares(half @ factor)
        if diag is not None:
            result = result + (diag / own).sum(-1) - sum_of_squares(half * diag.sqrt().unsqueeze(-2))
        return result
    result = sum_of_squares(_solve(q._unbroadcasted_scale_tril, factor))
    if diag is not None:
        result = result + sum_of_squares(_solve(q._unbroadcasted_scale_tril, diag.sqrt().diag_embed()))
    return result


def _half_log_det(d: Any) -> Tensor:
    if isinstance(d, LowRankMultivariateNormal):
        return 0.5 * d._log_det()
    return log_diagonal(d._unbroadcasted_scale_tril)


def _kl_multivariate_normal(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL(p || q) needs vectors of one size, not {p.event_shape[0]} and {q.event_shape[0]}"
        )
    if isinstance(p, LowRankMultivariateNormal):
        trace = _trace(q, p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag)
    else:
        trace = _trace(q, p._unbroadcasted_scale_tril, None)
    shift = q.loc - p.loc
    if isinstance(q, LowRankMultivariateNormal):
        distance = q._mahalanobis(shift)
    else:
        distance = mahalanobis(q._unbroadcasted_scale_tril, shift)
    return _half_log_det(q) - _half_log_det(p) + 0.5 * (trace + distance - p.event_shape[0])


_VECTORS: list[type] = [MultivariateNormal, LowRankMultivariateNormal]
_register_all(_VECTORS, _VECTORS, _kl_multivariate_normal)


# Distributions made of others.


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "KL(p || q) of transformed distributions is known for equal transforms only"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _kl_independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL(p || q) of Independent needs equal reinterpreted_batch_ndims")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# Members of different families. Moments of p:


def _x_log_x(x: Tensor) -> Tensor:
    return xlogy(x, x)


_MEAN_LOG: dict[type, Callable[[Any], Tensor]] = {  # the mean of log x
    Beta: lambda p: digamma(p.concentration1) - digamma(p.concentration1 + p.concentration0),
    Exponential: lambda p: -p.rate.log() - euler_constant,
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1,
}

_MEAN_EXP: dict[type, Callable[[Any, Any, Any], Tensor]] = {  # the mean of exp((loc - x) / s)
    Exponential: lambda p, loc, s: (loc / s).exp() * p.rate * s / (p.rate * s + 1),
    Gamma: lambda p, loc, s: (loc / s - p.concentration * log1p(1 / (p.rate * s))).exp(),
    Normal: lambda p, loc, s: ((loc - p.loc) / s + 0.5 * (p.scale / s).square()).exp(),
    Uniform: lambda p, loc, s: (
        (((loc - p.low) / s).exp() - ((loc - p.high) / s).exp()) * s / (p.high - p.low)
    ),
}


def _mean_log(p: Any) -> Tensor:
    return next(_MEAN_LOG[kind] for kind in type(p).__mro__ if kind in _MEAN_LOG)(p)


def _mean_exp(p: Any, loc: Tensor, s: Tensor) -> Tensor:
    return next(_MEAN_EXP[kind] for kind in type(p).__mro__ if kind in _MEAN_EXP)(p, loc, s)


# The mean of log q under p:


def _of_beta(p: Any, q: Any) -> Tensor:
    mirrored = Uniform(1 - p.high, 1 - p.low, validate_args=False)  # 1 - x, for a uniform p
    norm = q._log_normalizer(q.concentration1, q.concentration0)
    return (q.concentration1 - 1) * _mean_log(p) + (q.concentration0 - 1) * _mean_log(mirrored) - norm


def _of_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return p.mean * q.logits + log1p(-q.probs) + q._cont_bern_log_norm()


def _of_exponential(p: Any, q: Any) -> Tensor:
    return q.rate.log() - q.rate * p.mean


def _of_gamma(p: Any, q: Any) -> Tensor:
    norm = q.concentration * q.rate.log() - lgamma(q.concentration)
    return norm + (q.concentration - 1) * _mean_log(p) - q.rate * p.mean


def _of_gumbel(p: Any, q: Any) -> Tensor:
    return (q.loc - p.mean) / q.scale - _mean_exp(p, q.loc, q.scale) - q.scale.log()


def _of_laplace(p: Any, q: Any) -> Tensor:
    shift = p.loc - q.loc  # the distance of a normal x from q.loc has a folded normal distribution
    z = shift / p.scale
    distance = p.scale * math.sqrt(2 / math.pi) * (-0.5 * z.square()).exp() + shift * erf(z * math.sqrt(0.5))
    return -log(2 * q.scale) - distance / q.scale


def _of_normal(p: Any, q: Any) -> Tensor:
    square = (p.variance + (p.mean - q.loc).square()) / q.scale.square()
    return -0.5 * square - q.scale.log() - half_log_two_pi


def _of_pareto(p: Any, q: Any) -> Tensor:
    return q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p)


def _of_poisson(p: Any, q: Any) -> Tensor:
    return p.probs * q.rate.log() - q.rate  # the factorials of 0 and 1 are 1


def _of_uniform(p: Any, q: Any) -> Tensor:
    return -(q.high - q.low).log()


def _outside(p: Any, q: Any) -> list[Any]:
    """Where the support of p, an interval, begins before or ends after that of q: tensors or False."""

    def bound(d: Any, name: str, otherwise: float) -> Any:
        return getattr(d.support, name, otherwise)

    return [
        bound(p, "lower_bound", -inf) < bound(q, "lower_bound", -inf),
        bound(p, "upper_bound", inf) > bound(q, "upper_bound", inf),
    ]


def _by_means(mean_log_q: Rule) -> Rule:
    def rule(p: Any, q: Any) -> Tensor:
        result = -p.entropy() - mean_log_q(p, q)
        for outside in _outside(p, q):
            if isinstance(outside, Tensor):
                result = where(outside, inf, result)
        return result

    return rule


def _infinite(p: Any, q: Any) -> Tensor:
    """The support of p is never inside that of q."""
    return full_like(p.mean + q.mean, inf)


_BY_MEANS: list[tuple[type, Rule, list[type]]] = [
    (Beta, _of_beta, [Uniform]),
    (ContinuousBernoulli, _of_continuous_bernoulli, [Beta, Uniform]),
    (Exponential, _of_exponential, [Beta, ContinuousBernoulli, Gamma, Pareto, Uniform]),
    (Gamma, _of_gamma, [Beta, Exponential, Pareto, Uniform]),
    (Gumbel, _of_gumbel, [Exponential, Gamma, Normal, Uniform]),
    (Laplace, _of_laplace, [Normal]),
    (Normal, _of_normal, [Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform]),
    (Pareto, _of_pareto, [Uniform]),
    (Poisson, _of_poisson, [Bernoulli]),
    (Uniform, _of_uniform, [Beta, ContinuousBernoulli]),
]

_INFINITE: list[tuple[list[type], list[type]]] = [
    ([Beta, ContinuousBernoulli], [Pareto]),
    ([Exponential, Gamma], [Beta, ContinuousBernoulli, Pareto, Uniform]),
    ([Gumbel, Laplace, Normal], [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform]),
    ([Pareto], [Beta, ContinuousBernoulli, Uniform]),
    ([Poisson], [Bernoulli, Binomial]),
]

for _q, _rule, _ps in _BY_MEANS:
    _register_all(_ps, [_q], _by_means(_rule))
for _ps, _qs in _INFINITE:
    _register_all(_ps, _qs, _infinite)

"""Distributions of counts and categories."""

from __future__ import annotations

import math
from typing import Any

from .._api.link import bernoulli, eye, full, lgamma, logit, poisson, rand, where, xlogy, zeros_like
from .._api.link import binomial as _draw_binomial
from .._api.link import multinomial as _draw_multinomial
from .._api.shape import broadcast_tensors
from ..autograd.grad_mode import no_grad
from ..core.dtypes import finfo, int64
from ..core.tensor import Tensor
from ..core.tokens import Size
from ..nn.functional import binary_cross_entropy_with_logits, logsigmoid, one_hot
from . import constraints
from .distribution import Distribution, ExponentialFamily, ProbsOrLogits, Shape, holds, require_one
from .gammas import Gamma
from .utils import broadcast_all, constrained, lazy_property, logits_to_probs, part, probs_to_logits, tiny

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Geometric",
    "Multinomial",
    "NegativeBinomial",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
]

inf, nan = math.inf, math.nan


class Bernoulli(ProbsOrLogits, ExponentialFamily):
    """1 with probability `probs`, else 0.

    >>> rl.distributions.Bernoulli(probs=rl.tensor(0.3)).mean
    tensor(0.3000)
    """

    arg_constraints = constrained(probs=constraints.unit_interval, logits=constraints.real)
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0
    mean = part("probs")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._take_either(probs, logits), validate_args=validate_args)

    @property
    def mode(self) -> Tensor:
        return where(self.probs == 0.5, nan, (self.probs >= 0.5).to(self.probs.dtype))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(2, expand, dtype=self._param.dtype, device=self._param.device)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (logit(self.probs),)

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        return -logsigmoid(-natural_params[0])


class Geometric(ProbsOrLogits):
    """The number of failures before the first success, of probability `probs`.

    >>> rl.distributions.Geometric(probs=rl.tensor(0.5)).mean
    tensor(1.)
    """

    arg_constraints = constrained(probs=constraints.unit_interval, logits=constraints.real)
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._take_either(probs, logits), validate_args=validate_args)

    def _validate_parameters(self) -> None:
        super()._validate_parameters()
        if self._given == "probs" and not holds(constraints.positive, self.probs):
            raise ValueError(f"Geometric: probs must be positive, but they are\n{self.probs}")

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return self.mean / self.probs

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            u = rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
            return (u.clamp(min=tiny(u.dtype)).log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        value, probs = broadcast_all(self._checked(value), self.probs)
        failing = where((probs == 1) & (value == 0), 0.0, probs)  # 0 failures, whatever their probability
        return value * (-failing).log1p() + probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class _Counted(ProbsOrLogits):
    """Distributions with a `total_count` as well."""

    total_count: Tensor

    def _take_counted(self, total_count: Any, probs: Any, logits: Any) -> Size:
        shape = self._take_either(probs, logits, total_count=total_count)
        self.total_count = self.total_count.type_as(self._param)
        return shape


class Binomial(_Counted):
    """The number of successes in `total_count` trials.

    >>> rl.distributions.Binomial(10, probs=rl.tensor(0.5)).mean
    tensor(5.)
    """

    arg_constraints = constrained(
        total_count=constraints.nonnegative_integer, probs=constraints.unit_interval, logits=constraints.real
    )
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._take_counted(total_count, probs, logits), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return _draw_binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        n = self.total_count
        ways = lgamma(n + 1) - lgamma(value + 1) - lgamma(n - value + 1)
        return ways + value * self.logits + n * logsigmoid(-self.logits)

    def _common_count(self, what: str) -> int:
        count = int(self.total_count.max())
        if self.total_count.min() != count:
            raise NotImplementedError(f"{what} of Binomial needs one total_count for the whole batch")
        return count

    def entropy(self) -> Tensor:
        self._common_count("entropy")
        logs = self.log_prob(self.enumerate_support(False))
        return -(logs.exp() * logs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self._common_count("enumerate_support")
        return self._enumerated(count + 1, expand, dtype=self._param.dtype, device=self._param.device)


class NegativeBinomial(_Counted):
    """The number of successes, of probability `probs`, before `total_count` failures.

    >>> rl.distributions.NegativeBinomial(3.0, probs=rl.tensor(0.5)).mean
    tensor(3.)
    """

    arg_constraints = constrained(
        total_count=constraints.greater_than_eq(0),
        probs=constraints.half_open_interval(0.0, 1.0),
        logits=constraints.real,
    )
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._take_counted(total_count, probs, logits), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():  # a Poisson variable whose rate has a gamma distribution
            rate = Gamma(self.total_count, (-self.logits).exp(), validate_args=False)
            return poisson(rate.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        n = self.total_count
        ways = lgamma(n + value) - lgamma(1 + value) - lgamma(n)
        ways = ways.masked_fill(n + value == 0, 0.0)
        return n * logsigmoid(-self.logits) + value * logsigmoid(self.logits) + ways


class Poisson(ExponentialFamily):
    """The number of events at a `rate`: rate^k exp(-rate) / k!

    >>> rl.distributions.Poisson(4.0).variance
    tensor(4.)
    """

    arg_constraints = constrained(rate=constraints.nonnegative)
    support = constraints.nonnegative_integer
    rate: Tensor
    mean, variance = part("rate"), part("rate")

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._take(rate=rate), validate_args=validate_args)

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        rate, value = broadcast_all(self.rate, self._checked(value))
        return xlogy(value, rate) - rate - lgamma(value + 1)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        return natural_params[0].exp()


class Categorical(ProbsOrLogits):
    """An index into the last dimension of `probs`, which need not sum to 1, or of `logits`.

    >>> rl.distributions.Categorical(probs=rl.tensor([0.25, 0.75])).log_prob(rl.tensor(1)).exp()
    tensor(0.7500)
    """

    arg_constraints = constrained(probs=constraints.simplex, logits=constraints.real_vector)
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._given = require_one(probs=probs, logits=logits)
        param: Any = logits if probs is None else probs
        if param.dim() < 1:
            raise ValueError(
                f"Categorical: {self._given} must have at least one dimension, that of the categories"
            )
        if probs is None:
            self.logits = param - param.logsumexp(-1, keepdim=True)
        else:
            self.probs = param / param.sum(-1, keepdim=True)
        super().__init__(param.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        return logits_to_probs(self.logits)

    @property
    def _num_events(self) -> int:
        return self._param.shape[-1]

    @property
    def mean(self) -> Tensor:
        return full(self._extended_shape(), nan, dtype=self._param.dtype, device=self._param.device)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self.mean

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        sample_shape = Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        drawn = _draw_multinomial(rows, sample_shape.numel(), True)
        return drawn.T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        index, logits = broadcast_tensors(self._checked(value).long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        finite = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(finite * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(self._num_events, expand, dtype=int64, device=self._param.device)


class OfCategories(Distribution):
    """Distributions of vectors over the categories of a Categorical."""

    arg_constraints = constrained(probs=constraints.simplex, logits=constraints.real_vector)
    probs, logits = part("_categorical.probs"), part("_categorical.logits")
    param_shape, _param = part("_categorical.param_shape"), part("_categorical._param")

    def _take_categories(self, probs: Any, logits: Any, validate_args: bool | None) -> None:
        self._categorical = Categorical(probs, logits, validate_args=validate_args)
        shape = self._categorical.param_shape
        Distribution.__init__(self, shape[:-1], shape[-1:], validate_args=validate_args)

    def _validate_parameters(self) -> None:
        """They are those of the Categorical, which checks them."""

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)


class OneHotCategorical(OfCategories):
    """A vector with 1 in the place of a category.

    >>> rl.distributions.OneHotCategorical(probs=rl.tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """

    support = constraints.one_hot
    has_enumerate_support = True
    mean = part("_categorical.probs")

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._take_categories(probs, logits, validate_args)

    @property
    def mode(self) -> Tensor:
        return one_hot(self._categorical.mode, self._event_shape[0]).to(self._param)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return one_hot(self._categorical.sample(sample_shape), self._event_shape[0]).to(self._param)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(self._checked(value).argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((n,) + (1,) * len(self._batch_shape) + (n,))
        return values.expand((n,) + self._batch_shape + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot samples whose gradient is that of the probabilities.

    >>> rl.distributions.OneHotCategoricalStraightThrough(probs=rl.tensor([0.0, 1.0])).rsample()
    tensor([0., 1.])
    """

    has_rsample = True

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(OfCategories):
    """How often each category is drawn in `total_count` draws.

    >>> rl.distributions.Multinomial(4, probs=rl.tensor([0.25, 0.75])).mean
    tensor([1., 3.])
    """

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("Multinomial: total_count must be one int for the whole batch")
        self.total_count = total_count
        self._take_categories(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        draws = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = draws.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add(-1, draws, draws.new_ones(draws.shape)).to(self._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        logits = where((value == 0) & (logits == -inf), 0.0, logits)
        ways = lgamma(value.sum(-1) + 1) - lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        each = Binomial(self.total_count, self.probs, validate_args=False)  # how often one category is drawn
        count = each.enumerate_support(expand=False)[1:]
        repeated = (each.log_prob(count).exp() * lgamma(count + 1)).sum((0, -1))
        return self.total_count * self._categorical.entropy() - math.lgamma(self.total_count + 1) + repeated

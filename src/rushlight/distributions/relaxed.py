"""Relaxations of discrete distributions: a `temperature` keeps samples away from the corners."""

from __future__ import annotations

import math
from typing import Any

from .._api.link import rand
from ..core.construct import as_tensor
from ..core.tensor import Tensor
from ..nn.functional import logsigmoid
from . import constraints
from .combined import TransformedDistribution
from .discrete import OfCategories
from .distribution import ProbsOrLogits, Shape
from .transforms import ExpTransform, SigmoidTransform
from .utils import broadcast_all, clamp_probs, constrained, part

__all__ = ["ExpRelaxedCategorical", "LogitRelaxedBernoulli", "RelaxedBernoulli", "RelaxedOneHotCategorical"]


def _clamped_uniform(shape: Any, like: Tensor) -> Tensor:
    return clamp_probs(rand(shape, dtype=like.dtype, device=like.device))


class LogitRelaxedBernoulli(ProbsOrLogits):
    """(logits + a logistic variable) / temperature: the logit of a RelaxedBernoulli."""

    arg_constraints = constrained(probs=constraints.unit_interval, logits=constraints.real)
    support = constraints.real

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(self._take_either(probs, logits), validate_args=validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        probs = clamp_probs(self.probs)
        u = _clamped_uniform(self._extended_shape(sample_shape), probs)
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        temperature = as_tensor(self.temperature, dtype=logits.dtype)
        z = logits - value * temperature
        return temperature.log() + logsigmoid(z) + logsigmoid(-z)


class RelaxedBernoulli(TransformedDistribution):
    """A number in (0, 1) that tends to a Bernoulli variable as the temperature tends to 0.

    >>> rl.distributions.RelaxedBernoulli(rl.tensor(0.5), probs=rl.tensor([0.5])).sample().shape
    rushlight.Size([1])
    """

    arg_constraints = constrained(probs=constraints.unit_interval, logits=constraints.real)
    support = constraints.unit_interval
    has_rsample = True
    temperature = part("base_dist.temperature")
    probs, logits = part("base_dist.probs"), part("base_dist.logits")

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(OfCategories):
    """The logarithm of a RelaxedOneHotCategorical."""

    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._take_categories(probs, logits, validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        u = _clamped_uniform(self._extended_shape(sample_shape), self.logits)
        return ((self.logits - (-u.log()).log()) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        temperature, k = as_tensor(self.temperature, dtype=logits.dtype), logits.shape[-1]
        score = (logits - value * temperature).log_softmax(-1).sum(-1)
        return score + math.lgamma(k) + (k - 1) * temperature.log()


class RelaxedOneHotCategorical(TransformedDistribution):
    """A point of the simplex that tends to a one-hot vector as the temperature tends to 0.

    >>> D = rl.distributions
    >>> D.RelaxedOneHotCategorical(rl.tensor(0.5), probs=rl.tensor([0.5, 0.5])).sample().shape
    rushlight.Size([2])
    """

    arg_constraints = constrained(probs=constraints.simplex, logits=constraints.real_vector)
    support = constraints.simplex
    has_rsample = True
    temperature = part("base_dist.temperature")
    probs, logits = part("base_dist.probs"), part("base_dist.logits")

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

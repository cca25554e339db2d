"""What all distributions have: shapes, checks of arguments, and `expand`, once for all of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, TypeVar

from .._api.link import _is_all_true, arange, exp
from ..autograd import grad
from ..autograd.grad_mode import enable_grad, no_grad
from ..batching.vmap import BatchedTensor
from ..core.dispatch import AMBIENT
from ..core.tensor import Tensor
from ..core.tokens import Size
from . import constraints
from .utils import _sum_rightmost, broadcast_all, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["Distribution", "ExponentialFamily"]

Self = TypeVar("Self", bound="Distribution")
Shape = Sequence[int]


class Distribution:
    """A batch of probability distributions.

    A sample has the shape `sample_shape + batch_shape + event_shape`: `batch_shape` counts distributions that
    differ in their parameters, `event_shape` is the shape of one outcome.

    Arguments are checked unless `validate_args=False`; a capture cannot look at values and skips the checks.

    >>> isinstance(rl.distributions.Normal(0.0, 1.0), rl.distributions.Distribution)
    True
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args: bool = __debug__
    _kept: tuple[str, ...] = ()  # tensors that belong to the batch and are no parameters

    def __init__(
        self, batch_shape: Shape = (), event_shape: Shape = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their arguments when they are not told (yes, but for `python -O`)."""
        if value not in (True, False):
            raise ValueError(f"expected True or False, not {value!r}")
        Distribution._validate_args = value

    # Shapes.

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one outcome."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Shape = ()) -> Size:
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def expand(self: Self, batch_shape: Shape, _instance: Any = None) -> Self:
        """The same distributions with a larger batch: parameters are expanded, not copied.

        A subclass whose `__init__` takes other arguments makes the instance itself and passes it on.
        """
        own = next(cls for cls in type(self).__mro__ if cls.__module__.startswith(_PACKAGE))
        new = self._get_checked_instance(own, _instance)
        batch_shape, tensors = Size(batch_shape), {*self._constraints(), *self._kept}
        for name, value in self.__dict__.items():
            if name in tensors or isinstance(value, Distribution):
                value = self._expanded(value, batch_shape)
            new.__dict__[name] = value
        new._batch_shape = batch_shape
        return new

    def _expanded(self, value: Any, batch_shape: Size) -> Any:
        """A parameter, or a distribution that this one is made of, for another batch."""
        shape = value.batch_shape if isinstance(value, Distribution) else value.shape
        return value.expand(batch_shape + shape[len(self._batch_shape) :])

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"{type(self).__name__} has an __init__ of its own and is no longer made as "
                f"{cls.__name__} is: it must define expand() as well"
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    # Parameters.

    @property
    def arg_constraints(self) -> Any:
        """The constraint of each parameter that is a tensor."""
        raise NotImplementedError

    def _constraints(self) -> dict[str, constraints.Constraint]:  # a module has its own `_parameters`
        try:
            return self.arg_constraints
        except NotImplementedError:
            return {}

    def _take(self, **parameters: Any) -> Size:
        """Keep parameters, numbers or tensors, as tensors of one shape, which is returned."""
        tensors = broadcast_all(*parameters.values())
        self.__dict__.update(zip(parameters, tensors, strict=True))
        return tensors[0].shape

    def _validate_parameters(self) -> None:
        try:
            parameters = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self).__name__} has no `arg_constraints`, so its parameters are not checked; set "
                "it to {}, or pass validate_args=False",
                stacklevel=3,
            )
            return
        for name, constraint in parameters.items():
            lazy = name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or lazy:
                continue
            value = getattr(self, name)
            if not holds(constraint, value):
                raise ValueError(
                    f"{type(self).__name__}: parameter {name} of shape {tuple(value.shape)} must "
                    f"satisfy {constraint!r}, but it is\n{value}"
                )

    def __repr__(self) -> str:
        shown = {name: self.__dict__[name] for name in self._constraints() if name in self.__dict__}
        arguments = (
            f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in shown.items()
        )
        return f"{type(self).__name__}({', '.join(arguments)})"

    # Values.

    @property
    def support(self) -> Any:
        """The constraint that samples satisfy."""
        raise NotImplementedError

    def _validate_sample(self, value: Any) -> None:
        """Raise ValueError unless `value` has a fitting shape and lies in the support."""
        if not isinstance(value, Tensor):
            raise ValueError(
                f"a value of {type(self).__name__} must be a tensor, not a {type(value).__name__}"
            )
        expected = self._batch_shape + self._event_shape
        fits = value.shape[max(value.dim() - len(self._event_shape), 0) :] == self._event_shape
        pairs = zip(reversed(value.shape), reversed(expected), strict=False)
        if not fits or any(1 not in pair and pair[0] != pair[1] for pair in pairs):
            raise ValueError(
                f"a value of shape {tuple(value.shape)} does not fit {type(self).__name__} with "
                f"batch_shape {tuple(self._batch_shape)} and event_shape {tuple(self._event_shape)}"
            )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self).__name__} has no `support`, so values are not checked; pass "
                "validate_args=False",
                stacklevel=3,
            )
            return
        if not holds(support, value):
            raise ValueError(
                f"a value of shape {tuple(value.shape)} must be within the support {support!r} of "
                f"{self!r}, but it is\n{value}"
            )

    def _checked(self, value: Any) -> Any:
        """`value`, validated if this distribution validates."""
        if self._validate_args:
            self._validate_sample(value)
        return value

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Samples without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Samples that are differentiable functions of the parameters, where `has_rsample`."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`, which is the newer way to say it."""
        warnings.warn("sample_n(n) is deprecated: say sample((n,))", FutureWarning, stacklevel=2)
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability of `value`."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a sample that is at most `value`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All outcomes of a discrete distribution along the first dimension, for all of the batch alike.

        With `expand=False` the dimensions of the batch have size 1.
        """
        raise NotImplementedError

    def _enumerated(self, count: int, expand: bool, **options: Any) -> Tensor:
        """`enumerate_support` for outcomes 0, 1, ..., count - 1."""
        values = arange(count, **options).reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values

    # What is known of them.

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The outcome of greatest probability."""
        raise NotImplementedError(f"the mode of {type(self).__name__} is not implemented")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def entropy(self) -> Tensor:
        """The entropy in nats, one for each distribution of the batch."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return exp(self.entropy())


_PACKAGE = __name__.rpartition(".")[0]


def holds(constraint: Any, value: Tensor) -> bool:
    """Whether all of `value`, in a vmap of the whole batch, lies inside. A capture cannot know: yes."""
    if AMBIENT.trace is not None:
        return True
    valid = constraint.check(value)
    while isinstance(valid, BatchedTensor):
        valid = valid._value
    return bool(_is_all_true(valid))


class ExponentialFamily(Distribution):
    """Densities exp(<t(x), η> - A(η) + k(x)): natural parameters η, log normalizer A, carrier measure k.

    What can be said with A and its gradient, the mean of t, is said here: the entropy, and the KL divergence
    of two members of one family.

    >>> isinstance(rl.distributions.Normal(0.0, 1.0), rl.distributions.ExponentialFamily)
    True
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        """The mean of k."""
        raise NotImplementedError

    def _mean_statistics(self) -> tuple[Tensor, list[Tensor], Any]:
        """A, η, and the gradient of A at η, all differentiable."""
        with enable_grad():
            params = [
                param if param.requires_grad else param.detach()._set_requires_grad()
                for param in self._natural_params
            ]
            normalizer = self._log_normalizer(*params)
            return normalizer, params, grad(normalizer.sum(), params, create_graph=True)

    def entropy(self) -> Tensor:
        carrier = self._mean_carrier_measure
        normalizer, params, means = self._mean_statistics()
        result = normalizer - carrier
        for param, mean in zip(params, means, strict=True):
            result = result - _sum_rightmost(param * mean, param.dim() - len(self._batch_shape))
        return result


class ProbsOrLogits(Distribution):
    """Distributions given by probabilities of 1 or by their logits; the other one is made when needed."""

    _given: str  # which of the two it was

    def _take_either(self, probs: Any, logits: Any, **others: Any) -> Size:
        """Keep the one that is given, broadcast with `others`."""
        self._given = require_one(probs=probs, logits=logits)
        return self._take(**{self._given: logits if probs is None else probs}, **others)

    @lazy_property
    def logits(self) -> Tensor:
        """log(probs / (1 - probs))"""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of 1."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def _param(self) -> Tensor:
        return getattr(self, self._given)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)


def require_one(error: type[Exception] = ValueError, **given: Any) -> str:
    """The name of the one argument that is not None."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise error(f"give exactly one of {', '.join(given)}, not {' and '.join(names) or 'none'}")
    return names[0]

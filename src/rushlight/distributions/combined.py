"""Distributions made of others: events of more dimensions, images under transforms, mixtures."""

from __future__ import annotations

from typing import Any

from .._api.link import log_softmax
from ..autograd.grad_mode import no_grad
from ..core.tensor import Tensor
from ..core.tokens import Size
from . import constraints
from .discrete import Categorical
from .distribution import Distribution, Shape
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost, constrained, part

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


class Independent(Distribution):
    """With the last `reinterpreted_batch_ndims` dimensions of its batch as part of its event.

    >>> rl.distributions.Independent(rl.distributions.Normal(rl.zeros(3), 1.0), 1).event_shape
    rushlight.Size([3])
    """

    arg_constraints = constrained()
    mean, mode, variance = part("base_dist.mean"), part("base_dist.mode"), part("base_dist.variance")
    has_rsample = part("base_dist.has_rsample")

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                f"Independent: the batch_shape {tuple(batch)} has fewer than {reinterpreted_batch_ndims} "
                "dimensions"
            )
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(
            batch[:cut], batch[cut:] + base_distribution.event_shape, validate_args=validate_args
        )

    @property
    def has_enumerate_support(self) -> bool:
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        support = self.base_dist.support
        dims = self.reinterpreted_batch_ndims
        return constraints.independent(support, dims) if dims else support

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("enumerate_support of Independent would be a cartesian product")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of `transforms` applied, one after the other, to samples of `base_distribution`.

    >>> D = rl.distributions
    >>> D.TransformedDistribution(D.Normal(0.0, 1.0), [D.ExpTransform()]).log_prob(rl.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints = constrained()
    has_rsample = part("base_dist.has_rsample")
    base_dist: Any

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list) or not all(
            isinstance(t, Transform) for t in self.transforms
        ):
            raise ValueError(
                f"TransformedDistribution: expected a Transform or a list of them, not {transforms!r}"
            )
        whole = ComposeTransform(self.transforms)
        own_dims, domain_dims = len(base_distribution.event_shape), whole.domain.event_dim
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(base_shape) < domain_dims:
            raise ValueError(
                f"TransformedDistribution: the transforms need {domain_dims} dimensions, but the base "
                f"distribution has the shape {tuple(base_shape)}"
            )
        shape = whole.forward_shape(base_shape)
        needed = whole.inverse_shape(shape)
        if needed != base_shape:  # parameters of transforms make the batch larger
            base_distribution = base_distribution.expand(needed[: len(needed) - own_dims])
        if domain_dims > own_dims:
            base_distribution = Independent(base_distribution, domain_dims - own_dims)
        self.base_dist = base_distribution
        event_dims = whole.codomain.event_dim + max(0, own_dims - domain_dims)
        cut = len(shape) - event_dims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def _expanded(self, value: Any, batch_shape: Size) -> Any:
        if value is not self.base_dist:
            return super()._expanded(value, batch_shape)
        shape = ComposeTransform(self.transforms).inverse_shape(batch_shape + self._event_shape)
        return value.expand(shape[: len(shape) - len(value.event_shape)])

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self._event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        y, dims = self._checked(value), len(self._event_shape)
        stretched: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            inner = transform.domain.event_dim
            dims += inner - transform.codomain.event_dim
            stretched = stretched + _sum_rightmost(transform.log_abs_det_jacobian(x, y), dims - inner)
            y = x
        return _sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape)) - stretched

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """`value`, or 1 - value where the transforms together are decreasing."""
        sign = ComposeTransform(self.transforms).sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))


class MixtureSameFamily(Distribution):
    """A component, drawn by a Categorical, of the last batch dimension of `component_distribution`.

    >>> D = rl.distributions
    >>> D.MixtureSameFamily(D.Categorical(rl.ones(2)), D.Normal(rl.tensor([0.0, 4.0]), 1.0)).mean
    tensor(2.)
    """

    arg_constraints = constrained()
    mixture_distribution, component_distribution = (
        part("_mixture_distribution"),
        part("_component_distribution"),
    )

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        for given, kind in ((mixture_distribution, Categorical), (component_distribution, Distribution)):
            if not isinstance(given, kind):
                raise ValueError(
                    f"MixtureSameFamily: expected a {kind.__name__}, not a {type(given).__name__}"
                )
        batch, components = component_distribution.batch_shape[:-1], component_distribution.batch_shape[-1]
        pairs = zip(reversed(mixture_distribution.batch_shape), reversed(batch), strict=False)
        if mixture_distribution._num_events != components or any(
            1 not in pair and pair[0] != pair[1] for pair in pairs
        ):
            raise ValueError(
                f"MixtureSameFamily: weights of shape {tuple(mixture_distribution.param_shape)} do not fit a "
                f"component batch of shape {tuple(component_distribution.batch_shape)}"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution: Any = component_distribution
        self._num_component = components
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    def _pad(self, value: Tensor) -> Tensor:
        """With a dimension for the components."""
        return value.unsqueeze(-1 - self._event_ndims)

    def _weighted(self, values: Tensor) -> Tensor:
        """The mean over components of what they have, one event each."""
        probs = self._mixture_distribution.probs
        probs = probs.reshape(probs.shape + (1,) * self._event_ndims)
        return (probs * values).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._weighted(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        components = self._component_distribution
        between = (components.mean - self._pad(self.mean)).square()
        return self._weighted(components.variance) + self._weighted(between)

    def cdf(self, x: Tensor) -> Tensor:
        each = self._component_distribution.cdf(self._pad(x))
        return (each * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        each = self._component_distribution.log_prob(self._pad(self._checked(x)))
        return (each + log_softmax(self._mixture_distribution.logits, -1)).logsumexp(-1)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            dim = len(sample_shape) + len(self._batch_shape)
            each = self._component_distribution.sample(sample_shape)
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            chosen = chosen.reshape(chosen.shape + (1,) * (1 + self._event_ndims))
            chosen = chosen.expand(chosen.shape[: dim + 1] + self._event_shape)
            return each.gather(dim, chosen).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"

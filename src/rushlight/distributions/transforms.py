"""Transforms: differentiable maps between constraints, with log determinants of their derivatives."""

from __future__ import annotations

import math
from typing import Any

from .._api.link import arange, atanh, eye, full_like, sigmoid, softmax
from .._api.shape import broadcast_shapes
from ..core.dtypes import finfo
from ..core.tensor import Tensor
from ..core.tokens import Size
from ..nn.functional import logsigmoid, pad, softplus
from . import constraints
from .transform_base import (
    CatTransform,
    ComposeTransform,
    IndependentTransform,
    StackTransform,
    Transform,
    _InverseTransform,  # noqa: F401  programs ask for it
    dependent,
    identity_transform,
    need_dims,
)
from .utils import (
    broadcast_all,
    is_number,
    lazy_property,
    linalg,
    tiny,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


class _Fixed(Transform):
    """A transform without parameters: all of its class are equal."""

    domain: Any = constraints.real

    def _key(self) -> Any:
        return ()


class _Increasing(_Fixed):
    """An increasing function of a real number."""

    bijective = True
    sign = +1


# Numbers.


class ExpTransform(_Increasing):
    """exp(x)

    >>> rl.distributions.ExpTransform()(rl.tensor([0.0]))
    tensor([1.])
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(_Increasing):
    """1 / (1 + exp(-x)), kept away from 0 and 1.

    >>> rl.distributions.SigmoidTransform()(rl.tensor([0.0]))
    tensor([0.5000])
    """

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return _inside_unit(sigmoid(x))

    def _inverse(self, y: Tensor) -> Tensor:
        y = _inside_unit(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return logsigmoid(x) + logsigmoid(-x)


def _inside_unit(y: Tensor) -> Tensor:
    return y.clamp(min=tiny(y.dtype), max=1.0 - finfo(y.dtype).eps)


class SoftplusTransform(_Increasing):
    """log(1 + exp(x))

    >>> rl.distributions.SoftplusTransform()(rl.tensor([0.0]))
    tensor([0.6931])
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return y + (-(-y).expm1()).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return logsigmoid(x)


class TanhTransform(_Increasing):
    """tanh(x). Its inverse is infinite at ±1, where tanh rounds to; a cache avoids it.

    >>> rl.distributions.TanhTransform()(rl.tensor([0.0]))
    tensor([0.])
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _log_slope_of_tanh(x)


def _log_slope_of_tanh(x: Tensor) -> Tensor:
    """log(1 - tanh(x)²), without cancellation."""
    return 2 * (math.log(2) - x + logsigmoid(2 * x))


class AbsTransform(_Fixed):
    """|x|; the way back takes the positive number.

    >>> rl.distributions.AbsTransform()(rl.tensor([-2.0]))
    tensor([2.])
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class PowerTransform(Transform):
    """x to the power of `exponent`, for positive x.

    >>> rl.distributions.PowerTransform(rl.tensor(2.0))(rl.tensor([3.0]))
    tensor([9.])
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def _key(self) -> Any:
        return (self.exponent,)

    @lazy_property
    def sign(self) -> Any:
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """loc + scale * x, for events of `event_dim` dimensions.

    >>> rl.distributions.AffineTransform(1.0, 2.0)(rl.tensor([3.0]))
    tensor([7.])
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    def _key(self) -> Any:
        return self.loc, self.scale

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @dependent
    def domain(self) -> Any:
        return (
            constraints.independent(constraints.real, self._event_dim)
            if self._event_dim
            else constraints.real
        )

    codomain = domain

    @property
    def sign(self) -> Any:
        if is_number(self.scale):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slope = full_like(x, math.log(abs(self.scale))) if is_number(self.scale) else self.scale.abs().log()
        if self._event_dim:
            slope = slope.flatten(-self._event_dim).sum(-1)
        return slope.expand(x.shape[: x.dim() - self._event_dim])

    def forward_shape(self, shape: Any) -> Any:
        return broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """The cumulative distribution function of a distribution of numbers.

    >>> D = rl.distributions
    >>> D.CumulativeDistributionTransform(D.Normal(0.0, 1.0))(rl.tensor(0.0))
    tensor(0.5000)
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)


# Vectors.


class ReshapeTransform(Transform):
    """Events of another shape with the same numbers.

    >>> rl.distributions.ReshapeTransform((4,), (2, 2))(rl.arange(4.0))
    tensor([[0., 1.],
            [2., 3.]])
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(
                f"shapes {tuple(in_shape)} and {tuple(out_shape)} have different numbers of elements"
            )

    @dependent
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @dependent
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    @staticmethod
    def _replaced(shape: Any, old: Size, new: Size) -> Any:
        need_dims(shape, len(old))
        cut = len(shape) - len(old)
        if tuple(shape[cut:]) != old:
            raise ValueError(f"expected events of shape {tuple(old)}, not {tuple(shape[cut:])}")
        return shape[:cut] + new

    def forward_shape(self, shape: Any) -> Any:
        return self._replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._replaced(shape, self.out_shape, self.in_shape)


class SoftmaxTransform(_Fixed):
    """Probabilities by softmax. Not bijective: a constant that is added to all of x changes nothing.

    >>> rl.distributions.SoftmaxTransform()(rl.zeros(2))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        need_dims(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Fixed):
    """n numbers to n + 1 probabilities: each takes a share, its sigmoid, of what is left of a stick.

    Zeros become equal probabilities.

    >>> rl.distributions.StickBreakingTransform()(rl.zeros(1))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _log_left(n: int, like: Tensor) -> Tensor:
        """log n, ..., log 1: how many pieces are to be cut after each one."""
        return arange(n, 0, -1, dtype=like.dtype, device=like.device).log()

    def _call(self, x: Tensor) -> Tensor:
        share = _inside_unit(sigmoid(x - self._log_left(x.shape[-1], x)))
        left = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        pieces = y[..., :-1]
        left = (1 - pieces.cumsum(-1)).clamp(min=tiny(y.dtype))
        return pieces.log() - left.log() + self._log_left(pieces.shape[-1], y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._log_left(x.shape[-1], x)
        return (logsigmoid(-x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        need_dims(shape, 1)
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Any) -> Any:
        need_dims(shape, 1)
        return shape[:-1] + (shape[-1] - 1,)


# Matrices.


class LowerCholeskyTransform(_Fixed):
    """The lower triangle with the exponential of the diagonal: what is above the diagonal is not used.

    >>> rl.distributions.LowerCholeskyTransform()(rl.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Fixed):
    """The positive definite matrix whose Cholesky factor is that of `LowerCholeskyTransform`.

    >>> rl.distributions.PositiveDefiniteTransform()(rl.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 numbers to the Cholesky factor of a correlation matrix of size n.

    Their tanh are the partial correlations; along a row, each takes its share of what is left of length 1.

    >>> rl.distributions.CorrCholeskyTransform()(rl.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial.square()).sqrt().cumprod(-1)
        ones = eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        return (partial + ones) * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = pad(1 - y.square().cumsum(-1)[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return 0.5 * (partial.log1p() - (-partial).log1p())

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        left = 1 - y.square().cumsum(-1)
        lengths = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        return lengths + _log_slope_of_tanh(x).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        need_dims(shape, 1)
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError(f"{shape[-1]} numbers do not fill a triangle below a diagonal")
        return shape[:-1] + (n, n)

    def inverse_shape(self, shape: Any) -> Any:
        need_dims(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError(f"expected square matrices, not {shape[-2]} x {shape[-1]}")
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)

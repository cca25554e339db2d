"""Distributions of vectors and matrices: normal vectors, covariances (Wishart), correlations (LKJ)."""

from __future__ import annotations

import math
import warnings
from typing import Any

from .._api.link import arange, cholesky_inverse, digamma, eye, lgamma, mvlgamma, randn, where
from .._api.shape import broadcast_shapes
from ..core.construct import tensor
from ..core.dispatch import AMBIENT
from ..core.dtypes import finfo
from ..core.tensor import Tensor
from ..core.tokens import Size
from . import constraints
from .distribution import Distribution, ExponentialFamily, Shape, holds, require_one
from .gammas import Beta, Chi2
from .utils import (
    _standard_normal,
    constrained,
    half_log_two_pi,
    is_number,
    lazy_property,
    linalg,
    part,
    tiny,
)

__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "MultivariateNormal", "Wishart"]


# Matrices and vectors with batch dimensions.


def times(matrix: Tensor, vector: Tensor) -> Tensor:
    return (vector.unsqueeze(-2) @ matrix.mT).squeeze(-2)


def mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """xᵀ (L Lᵀ)⁻¹ x for a Cholesky factor L.

    Dimensions of x in front of those of the factor become columns of one system, so that L is not repeated.
    """
    n, outer = x.shape[-1], x.dim() - factor.dim() + 1
    columns = x.reshape((-1,) + x.shape[outer:]).movedim(0, -1)
    factor = factor.expand(x.shape[outer:-1] + (n, n))
    solved = linalg.solve_triangular(factor, columns, upper=False)
    return solved.square().sum(-2).movedim(-1, 0).reshape(x.shape[:-1])


def log_diagonal(factor: Tensor) -> Tensor:
    """The sum of the logarithms of the diagonal: half the log determinant of L Lᵀ."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def sum_of_squares(matrix: Tensor) -> Tensor:
    return matrix.square().sum((-2, -1))


def _factor_of_inverse(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse.

    That of the matrix in reverse order, in reverse order again, is the transposed inverse of it.
    """
    reverse = linalg.cholesky(precision.flip((-2, -1))).flip((-2, -1)).mT
    identity = eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return linalg.solve_triangular(reverse, identity, upper=False)


class _WithCovariance(Distribution):
    """Distributions with a positive definite matrix that is given in one of three ways.

    `_unbroadcasted_scale_tril` is its Cholesky factor, with the batch dimensions that the matrix itself has.
    """

    _unbroadcasted_scale_tril: Tensor

    def _take_matrix(self, given: str, matrix: Tensor, shape: Size) -> None:
        """Keep the matrix, called `given`, for a batch of this shape."""
        if matrix.dim() < 2:
            raise ValueError(
                f"{type(self).__name__}: {given} needs at least two dimensions, but has {matrix.dim()}"
            )
        self.__dict__[given] = matrix.expand(broadcast_shapes(shape, matrix.shape[:-2]) + (-1, -1))

    def _take_factor(self, given: str, matrix: Tensor) -> None:
        if given == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif given == "covariance_matrix":
            self._unbroadcasted_scale_tril = linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _factor_of_inverse(matrix)

    def _for_batch(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance matrix."""
        return self._for_batch(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix, of a Wishart distribution its scale."""
        return self._for_batch(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        return self._for_batch(cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(_WithCovariance):
    """Normal vectors, given their mean and one of covariance, its inverse, or its Cholesky factor.

    The Cholesky factor is what is computed with: it saves a decomposition.

    >>> rl.distributions.MultivariateNormal(rl.zeros(2), rl.eye(2)).log_prob(rl.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = constrained(
        loc=constraints.real_vector,
        covariance_matrix=constraints.positive_definite,
        precision_matrix=constraints.positive_definite,
        scale_tril=constraints.lower_cholesky,
    )
    support = constraints.real_vector
    has_rsample = True
    mean, mode = part("loc"), part("loc")

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        matrices: Any = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        if loc.dim() < 1:
            raise ValueError("MultivariateNormal: loc needs at least one dimension, that of the vectors")
        given = require_one(**matrices)
        matrix = matrices[given]
        self._take_matrix(given, matrix, loc.shape[:-1])
        shape = self.__dict__[given].shape[:-2]
        self.loc = loc.expand(shape + (-1,))
        super().__init__(shape, loc.shape[-1:], validate_args=validate_args)
        self._take_factor(given, matrix)

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + times(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        factor, n = self._unbroadcasted_scale_tril, self._event_shape[0]
        distance = mahalanobis(factor, self._checked(value) - self.loc)
        return -0.5 * distance - log_diagonal(factor) - n * half_log_two_pi

    def entropy(self) -> Tensor:
        spread = log_diagonal(self._unbroadcasted_scale_tril) + self._event_shape[0] * (0.5 + half_log_two_pi)
        return spread.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with the covariance W Wᵀ + D: W = cov_factor of few columns, D = cov_diag a diagonal.

    Systems are solved by Woodbury's identity with the small I + Wᵀ D⁻¹ W, whose Cholesky factor is kept.

    >>> D = rl.distributions
    >>> D.LowRankMultivariateNormal(rl.zeros(2), rl.ones(2, 1), rl.ones(2)).covariance_matrix
    tensor([[2., 1.],
            [1., 2.]])
    """

    arg_constraints = constrained(
        loc=constraints.real_vector,
        cov_factor=constraints.independent(constraints.real, 2),
        cov_diag=constraints.independent(constraints.positive, 1),
    )
    support = constraints.real_vector
    has_rsample = True
    mean, mode = part("loc"), part("loc")

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        name = type(self).__name__
        if loc.dim() < 1 or cov_factor.dim() < 2:
            raise ValueError(f"{name}: loc needs at least one dimension and cov_factor two")
        n, shapes = loc.shape[-1], f"{tuple(loc.shape)}, {tuple(cov_factor.shape)}, {tuple(cov_diag.shape)}"
        if cov_factor.shape[-2] != n or cov_diag.shape[-1:] != (n,):
            raise ValueError(
                f"{name}: loc, cov_factor and cov_diag must end in n, n x m and n, not be {shapes}"
            )
        try:
            shape = broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"{name}: the batches of loc, cov_factor and cov_diag do not fit: {shapes}"
            ) from error
        self.loc, self.cov_diag = loc.expand(shape + (-1,)), cov_diag.expand(shape + (-1,))
        self.cov_factor = cov_factor.expand(shape + (-1, -1))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        identity = eye(cov_factor.shape[-1], dtype=loc.dtype, device=loc.device)
        self._capacitance_tril = linalg.cholesky(self._weighted() @ cov_factor + identity)
        super().__init__(shape, loc.shape[-1:], validate_args=validate_args)

    def _for_batch(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    def _weighted(self) -> Tensor:
        """Wᵀ D⁻¹"""
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    def _half_inverse(self) -> Tensor:
        """A with (W Wᵀ + D)⁻¹ = D⁻¹ - Aᵀ A."""
        return linalg.solve_triangular(self._capacitance_tril, self._weighted(), upper=False)

    def _log_det(self) -> Tensor:
        return 2 * log_diagonal(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def _mahalanobis(self, x: Tensor) -> Tensor:
        inner = times(self._weighted(), x)
        return (x.square() / self._unbroadcasted_cov_diag).sum(-1) - mahalanobis(
            self._capacitance_tril, inner
        )

    @property
    def variance(self) -> Tensor:
        own = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return own.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance matrix."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        identity = eye(self._event_shape[0], dtype=root.dtype, device=root.device)
        return self._for_batch(root * linalg.cholesky(scaled @ scaled.mT + identity))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """W Wᵀ + D"""
        factor = self._unbroadcasted_cov_factor
        return self._for_batch(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        half = self._half_inverse()
        return self._for_batch(self._unbroadcasted_cov_diag.reciprocal().diag_embed() - half.mT @ half)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        few = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], self.loc.dtype, self.loc.device)
        each = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return (
            self.loc + times(self._unbroadcasted_cov_factor, few) + self._unbroadcasted_cov_diag.sqrt() * each
        )

    def log_prob(self, value: Tensor) -> Tensor:
        distance = self._mahalanobis(self._checked(value) - self.loc)
        return -0.5 * (distance + self._log_det()) - self._event_shape[0] * half_log_two_pi

    def entropy(self) -> Tensor:
        spread = 0.5 * self._log_det() + self._event_shape[0] * (0.5 + half_log_two_pi)
        return spread.expand(self._batch_shape)


class Wishart(_WithCovariance, ExponentialFamily):
    """The sum of `df` matrices x xᵀ for normal vectors x of mean 0, given as MultivariateNormal is.

    >>> rl.distributions.Wishart(rl.tensor(3.0), covariance_matrix=rl.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    df: Tensor

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        matrices: Any = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = require_one(AssertionError, **matrices)
        matrix = matrices[given]
        df = tensor(df, dtype=matrix.dtype, device=matrix.device) if is_number(df) else df
        self._take_matrix(given, matrix, df.shape)
        shape, p = self.__dict__[given].shape[:-2], matrix.shape[-1]
        self.df = df.expand(shape)
        if not holds(constraints.greater_than(p - 1), self.df):
            raise ValueError(
                f"Wishart: df must be greater than {p - 1} for {p} x {p} matrices, but it is {df}"
            )
        if not holds(constraints.greater_than_eq(p), self.df):
            warnings.warn(
                "Wishart: samples are likely to be singular, since df is less than their size", stacklevel=2
            )
        super().__init__(shape, matrix.shape[-2:], validate_args=validate_args)
        self._take_factor(given, matrix)
        degrees = self.df.unsqueeze(-1) - arange(p, dtype=matrix.dtype, device=matrix.device)
        self._dist_chi2 = Chi2(degrees, validate_args=False)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def _of_matrices(self, value: Tensor) -> Tensor:
        return value.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Tensor:
        return self._of_matrices(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[-1] - 1
        return self._of_matrices(where(factor > 0, factor, math.nan)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        scale = self.covariance_matrix
        diagonal = scale.diagonal(dim1=-2, dim2=-1)
        return self._of_matrices(self.df) * (scale.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Shape = ()) -> Tensor:
        """L A Aᵀ Lᵀ: A has normal variables below its diagonal and roots of Chi2 variables on it."""
        roots = self._dist_chi2.rsample(sample_shape).sqrt()
        roots = roots.clamp(min=finfo(roots.dtype).eps)
        noise = randn(self._extended_shape(sample_shape), dtype=roots.dtype, device=roots.device).tril(-1)
        factor = self._unbroadcasted_scale_tril @ (noise + roots.diag_embed())
        return factor @ factor.mT

    def rsample(self, sample_shape: Shape = (), max_try_correction: int | None = None) -> Tensor:
        """Samples; those that rounding made singular are drawn again, up to `max_try_correction` times."""
        sample = self._bartlett_sampling(sample_shape)
        if AMBIENT.trace is not None:
            return sample
        for _ in range(10 if max_try_correction is None else max_try_correction):
            fine = self.support.check(sample)
            if fine.all():
                break
            sample = where(self._of_matrices(fine), sample, self._bartlett_sampling(sample_shape))
        return sample

    @property
    def _log_scale(self) -> Tensor:
        """log |2 V| / 2"""
        return log_diagonal(self._unbroadcasted_scale_tril) + 0.5 * self._event_shape[-1] * math.log(2)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        p = self._event_shape[-1]
        trace = value.cholesky_solve(self._unbroadcasted_scale_tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        density = 0.5 * (self.df - p - 1) * linalg.slogdet(value).logabsdet - 0.5 * trace
        return density - self.df * self._log_scale - mvlgamma(self.df / 2, p)

    def entropy(self) -> Tensor:
        half, p = self.df / 2, self._event_shape[-1]
        steps = half.unsqueeze(-1) - 0.5 * arange(p, dtype=half.dtype, device=half.device)
        mean_log_det = digamma(steps).sum(-1)
        return (p + 1) * self._log_scale + mvlgamma(half, p) - (half - (p + 1) / 2) * mean_log_det + half * p

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -0.5 * self.precision_matrix, 0.5 * (self.df - self._event_shape[-1] - 1)

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        x, y = natural_params
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (p * math.log(2) - linalg.slogdet(-2 * x).logabsdet) + mvlgamma(half, p)


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices of size `dim`, with density |L Lᵀ|^(concentration - 1).

    A concentration of 1 means all correlation matrices alike, greater ones prefer those near the identity.

    >>> rl.distributions.LKJCholesky(3).sample().shape
    rushlight.Size([3, 3])
    """

    arg_constraints = constrained(concentration=constraints.positive)
    support = constraints.corr_cholesky
    concentration: Tensor

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"LKJCholesky: dim must be at least 2, not {dim}")
        self.dim = dim
        shape = self._take(concentration=concentration)
        # The length of a row to the left of the diagonal: its square is a Beta variable (the onion method).
        row = arange(-1, dim - 1, dtype=self.concentration.dtype, device=self.concentration.device).clamp(
            min=0
        )
        rest = (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * row
        self._beta = Beta(row + 0.5, rest, validate_args=False)
        super().__init__(shape, (dim, dim), validate_args=validate_args)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        square = self._beta.sample(sample_shape).unsqueeze(-1)
        shape = self._extended_shape(sample_shape)
        direction = randn(shape, dtype=square.dtype, device=square.device).tril(-1)
        length = linalg.vector_norm(direction, dim=-1, keepdim=True)
        rows = square.sqrt() * direction / length.clamp(min=tiny(square.dtype))  # the first one is empty
        diagonal = (1 - rows.square().sum(-1)).clamp(min=tiny(square.dtype)).sqrt()
        return rows + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        diagonal = self._checked(value).diagonal(dim1=-2, dim2=-1)[..., 1:]
        rank = arange(2, self.dim + 1, dtype=self.concentration.dtype, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - rank
        density = (order * diagonal.log()).sum(-1)
        size = self.dim - 1
        alpha = self.concentration + 0.5 * size
        return density - 0.5 * size * math.log(math.pi) - mvlgamma(alpha - 0.5, size) + size * lgamma(alpha)

"""Quantiles, covariances and histograms in many variables, in terms of simpler operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.dispatch import AMBIENT, read_array, readable, run_name
from ..core.dtypes import DTYPES, Category
from ..core.errors import check, warn_user
from ..core.registry import FUNCTION, METHOD, OUT, Api, composite
from ..core.shapes import wrap_dim
from ..core.tensor import Tensor

_QUANTILE_DTYPES = (DTYPES["float32"], DTYPES["float64"])
_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")
_LARGEST = 2**24  # ranks are computed in the input's dtype, and float32 counts no further


# Quantiles.


def _check_quantile(self: Tensor, interpolation: str, name: str) -> None:
    check(self.numel() > 0, f"{name}() input tensor must be non-empty")
    check(
        self.dtype in _QUANTILE_DTYPES,
        f"{name}() input tensor must be either float or double dtype, got {self.dtype.torch_name}",
    )
    check(
        interpolation in _INTERPOLATIONS,
        f"{name}() interpolation must be one of linear, lower, higher, "
        f"midpoint or nearest, but got {interpolation}",
    )


def _check_values(tensor: Tensor, allowed: Callable[[Any], Any], message: str) -> None:
    """RuntimeError unless all values are allowed: now, or when the program that is captured runs."""
    if readable(tensor):
        check(bool(allowed(read_array(tensor)).all()), message)
    elif AMBIENT.trace is not None and tensor.numel():
        run_name("_assert_async.msg", allowed(tensor), message)


def _quantile(
    self: Tensor,
    q: Tensor,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
    *,
    ignore_nan: bool,
    name: str,
) -> Tensor:
    _check_quantile(self, interpolation, name)
    check(q.ndim <= 1, f"{name}() q must be a scalar or 1D tensor, but has {q.ndim} dimensions")
    check(
        q.dtype is self.dtype,
        f"{name}() q tensor must be same dtype as the input tensor: it is "
        f"{q.dtype.torch_name}, the input {self.dtype.torch_name}",
    )
    _check_values(
        q, lambda values: (values >= 0) & (values <= 1), f"{name}() q values must be in the range [0, 1]"
    )
    axis = None if dim is None else wrap_dim(dim, self.ndim, name=name)
    rows = self.reshape(-1) if axis is None or self.ndim == 0 else self.unsqueeze(-1).transpose(axis, -1)
    check(
        rows.shape[-1] <= _LARGEST,
        f"{name}() input tensor is too large: {rows.shape[-1]} elements along "
        f"dim, at most {_LARGEST} are supported",
    )
    result = _at_quantiles(rows, q, interpolation, ignore_nan)
    return _placed(result, q.ndim, self.ndim, axis, keepdim)


def _at_quantiles(rows: Tensor, q: Tensor, interpolation: str, ignore_nan: bool) -> Tensor:
    """Quantiles of the last dim; the result has one there for each q."""
    ordered = rows.sort(-1)[0]  # NaN last
    missing = ordered.isnan()
    last = rows.shape[-1] - 1
    if ignore_nan:
        present = missing.logical_not().sum(-1, keepdim=True) - 1
        ranks = (q * present).clamp(min=0)
    else:
        ranks = (q * last).expand((*rows.shape[:-1], q.numel()))
        ranks = ranks.masked_fill(missing.any(-1, keepdim=True), last)
    if interpolation == "lower":
        ranks = ranks.floor()
    elif interpolation == "higher":
        ranks = ranks.ceil()
    elif interpolation == "nearest":
        ranks = ranks.round()
    below = ranks.to(DTYPES["int64"])
    values = ordered.gather(-1, below)
    if interpolation not in ("linear", "midpoint"):
        return values
    above = ordered.gather(-1, ranks.ceil().to(DTYPES["int64"]))
    return values.lerp(above, ranks - below if interpolation == "linear" else 0.5)


def _placed(result: Tensor, q_rank: int, rank: int, axis: int | None, keepdim: bool) -> Tensor:
    """`result`, whose last dim is that of q, with that in front and the reduced dim in its place, or gone."""
    if axis is None or rank == 0:
        result = result.reshape((1,) * (rank if keepdim else 0) + (result.shape[-1],))
    elif not keepdim:
        result = result.squeeze(axis)
    return result.movedim(-1, 0) if q_rank else result.squeeze(-1)


@composite(
    "quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, "
    'str interpolation="linear") -> Tensor',
    api=FUNCTION | METHOD | OUT | Api.EXACT,
)
def quantile(self: Tensor, q: Tensor, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    return _quantile(self, q, dim, keepdim, interpolation, ignore_nan=False, name="quantile")


@composite(
    "nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, "
    'str interpolation="linear") -> Tensor',
    api=FUNCTION | METHOD | OUT | Api.EXACT,
)
def nanquantile(self: Tensor, q: Tensor, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    return _quantile(self, q, dim, keepdim, interpolation, ignore_nan=True, name="nanquantile")


def _scalar_quantile(self: Tensor, q: float, name: str) -> Tensor:
    check(0 <= q <= 1, f"{name}() q must be in the range [0, 1] but got {q}")
    return run_name("scalar_tensor", q, self.dtype, None, self.device, None)


@composite(
    "quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, "
    'str interpolation="linear") -> Tensor',
    api=FUNCTION | METHOD | OUT | Api.EXACT,
)
def quantile_scalar(self: Tensor, q: float, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    return quantile(self, _scalar_quantile(self, q, "quantile"), dim, keepdim, interpolation)


@composite(
    "nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, "
    'str interpolation="linear") -> Tensor',
    api=FUNCTION | METHOD | OUT | Api.EXACT,
)
def nanquantile_scalar(self: Tensor, q: float, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    return nanquantile(self, _scalar_quantile(self, q, "nanquantile"), dim, keepdim, interpolation)


# Covariances.


def _check_weights(weights: Tensor | None, kind: str, integral: bool, observations: int) -> None:
    if weights is None:
        return
    check(weights.ndim <= 1, f"cov(): expected {kind} to have one or fewer dimensions but got {weights.ndim}")
    right = weights.dtype.category is (Category.INTEGRAL if integral else Category.FLOATING)
    check(
        right,
        f"cov(): expected {kind} to have {'integral' if integral else 'floating point'} dtype but "
        f"got {weights.dtype.torch_name}",
    )
    check(
        weights.numel() == observations,
        f"cov(): expected {kind} to have the same numel as there are "
        f"observations in the input: {weights.numel()} and {observations}",
    )
    _check_values(weights, lambda values: values >= 0, f"cov(): {kind} cannot be negative")


@composite(
    "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
    api=FUNCTION | METHOD,
)
def cov(self: Tensor, correction: int, fweights: Tensor | None, aweights: Tensor | None) -> Tensor:
    """The covariance matrix of variables in rows and observations in columns."""
    check(
        self.ndim <= 2,
        f"cov(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions",
    )
    check(self.dtype is not DTYPES["bool"], "cov(): bool dtype is not supported for input")
    rows = self.reshape(1, -1) if self.ndim < 2 else self
    observations = rows.shape[1]
    _check_weights(fweights, "fweights", True, observations)
    _check_weights(aweights, "aweights", False, observations)
    weight = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    mass: Any = observations if weight is None else weight.sum()
    if weight is not None:
        _check_mass(mass)
    mean = rows.sum(1, keepdim=True) / mass if weight is None else (rows * weight).sum(1, keepdim=True) / mass
    factor = _degrees(mass, correction, weight, aweights)
    centred = rows - mean
    weighted = centred if weight is None else centred * weight
    result = centred @ weighted.t().conj()
    return (result / factor).squeeze()


def _check_mass(mass: Tensor) -> None:
    _check_values(mass, lambda values: values != 0, "cov(): weights sum to zero, can't be normalized")


def _degrees(mass: Any, correction: int, weight: Tensor | None, aweights: Tensor | None) -> Any:
    """What to divide by: the weights' sum less the correction, never negative."""
    if correction == 0:
        factor = mass
    elif aweights is None:
        factor = mass - correction
    else:
        assert weight is not None
        factor = mass - correction * (weight * aweights).sum() / mass
    if isinstance(factor, Tensor):
        known = read_array(factor) <= 0 if readable(factor) else False
        result: Any = factor.clamp(min=0)
    else:
        known, result = factor <= 0, max(factor, 0)
    if known:
        warn_user(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number "
            "of observations."
        )
    return result


@composite("corrcoef(Tensor self) -> Tensor", api=FUNCTION | METHOD)
def corrcoef(self: Tensor) -> Tensor:
    """The correlation matrix of variables in rows and observations in columns."""
    check(
        self.ndim <= 2,
        "corrcoef(): expected input to have two or fewer dimensions but got an input with "
        f"{self.ndim} dimensions",
    )
    covariance = self.cov()
    if covariance.ndim == 0:
        return covariance / covariance
    diagonal = covariance.diag()
    deviation = (diagonal.real if covariance.is_complex() else diagonal).sqrt()
    result = covariance / deviation.unsqueeze(-1) / deviation.unsqueeze(0)
    if result.is_complex():  # rounding may leave the unit disc
        return run_name("complex", result.real.clip(-1, 1), result.imag.clip(-1, 1))
    return result.clip(-1, 1)


# Histograms.

Histogram = tuple[Tensor, tuple[Tensor, ...]]


@composite(
    "histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, "
    "bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    api=FUNCTION,
)
def histogramdd(
    self: Tensor, bins: Sequence[int], range: Sequence[float] | None, weight: Tensor | None, density: bool
) -> Histogram:
    edges = run_name("_histogramdd_bin_edges", self, bins, range, weight, density)
    return run_name("_histogramdd_from_bin_cts", self, bins, range, weight, density), edges


@composite(
    "histogramdd.int_bins(Tensor self, int bins, float[]? range=None, Tensor? weight=None, "
    "bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    api=FUNCTION,
)
def histogramdd_int(
    self: Tensor, bins: int, range: Sequence[float] | None, weight: Tensor | None, density: bool
) -> Histogram:
    if self.ndim == 0:
        raise IndexError("histogramdd: the input must have at least 2 dimensions, but has none")
    return histogramdd(self, (bins,) * self.shape[-1], range, weight, density)


@composite(
    "histogramdd.TensorList_bins(Tensor self, Tensor[] bins, float[]? range=None, "
    "Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    api=FUNCTION,
)
def histogramdd_edges(
    self: Tensor, bins: Sequence[Tensor], weight: Tensor | None, density: bool
) -> Histogram:
    return run_name("_histogramdd_from_bin_tensors", self, bins, weight, density), tuple(bins)

"""Constraints: regions in which parameters and samples lie.

A constraint's `check(value)` says for each event of `value` whether it lies inside; `event_dim` is how many
dimensions, counted from the right, make one event. `transform_to` and `biject_to` make transforms into one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._api.link import cat as _concatenated
from .._api.link import eye, full, isclose, where
from .._api.link import stack as _stacked
from ..core.dtypes import bool_, finfo
from ..core.tensor import Tensor
from .utils import linalg

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A region. Subclasses define `check`, and `is_discrete` and `event_dim` where they differ."""

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """For each event of `value` whether it lies in the region."""
        raise NotImplementedError

    def _name(self) -> str:
        return type(self).__name__.lstrip("_")

    def __repr__(self) -> str:
        return f"{self._name()}()"


# Constraints that are known only with an instance at hand.


class _Dependent(Constraint):
    """A placeholder for a constraint that depends on other values, and cannot be checked by itself."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def _known(self, name: str, value: Any) -> Any:
        if value is NotImplemented:
            raise NotImplementedError(f"{name} of this constraint is known only for an instance")
        return value

    @property
    def is_discrete(self) -> bool:
        return self._known("is_discrete", self._is_discrete)

    @property
    def event_dim(self) -> int:
        return self._known("event_dim", self._event_dim)

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """The same with more that is known of it."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("a dependent constraint cannot be checked: it is known only for an instance")


class _DependentProperty(property, _Dependent):
    """A property of instances that is a dependent constraint when read off the class.

    @dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return interval(self.low, self.high)
    """

    def __init__(
        self,
        fn: Callable[[Any], Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[[Any], Any]) -> _DependentProperty:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether the constraint is known only with an instance at hand."""
    return isinstance(constraint, _Dependent)


# Constraints made of others.


def _require_constraints(*given: Any) -> None:
    for item in given:
        if not isinstance(item, Constraint):
            raise AssertionError(f"expected a Constraint, not a {type(item).__name__}")


class _Wrapper(Constraint):
    base_constraint: Constraint

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    def _need(self, value: Tensor, dims: int) -> None:
        if value.dim() < dims:
            raise ValueError(f"expected at least {dims} dimensions, but the value has {value.dim()}")


class _IndependentConstraint(_Wrapper):
    """Holds for an event of `reinterpreted_batch_ndims` dimensions more if it holds for all its parts."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        _require_constraints(base_constraint)
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise AssertionError(
                "reinterpreted_batch_ndims must be an int that is not negative, got "
                f"{reinterpreted_batch_ndims!r}"
            )
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            self._need(value, self.event_dim)
        return _all_of(result, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(_Wrapper):
    """Holds for a value of a mixture if it holds for the value as one of each component."""

    def __init__(self, base_constraint: Constraint) -> None:
        _require_constraints(base_constraint)
        self.base_constraint = base_constraint

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        self._need(value, self.event_dim)
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return _all_of(result, result.dim() - (value.dim() - self.event_dim))

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Sequence(Constraint):
    """Constraints for parts of a value along `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        _require_constraints(*cseq)
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:
        return any(part.is_discrete for part in self.cseq)

    def _require_dim(self, value: Tensor) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"a value of {value.dim()} dimensions has no dimension {self.dim}")


class _Cat(_Sequence):
    """Parts of the given lengths, joined as `rushlight.cat` joins tensors."""

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"{len(self.lengths)} lengths for {len(self.cseq)} constraints")

    @property
    def event_dim(self) -> int:
        return max(part.event_dim for part in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        self._require_dim(value)
        parts = value.split(self.lengths, self.dim)
        return _concatenated(
            [each.check(part) for each, part in zip(self.cseq, parts, strict=True)], self.dim
        )


class _Stack(_Sequence):
    """Parts stacked as `rushlight.stack` stacks tensors."""

    @property
    def event_dim(self) -> int:
        inner = max(part.event_dim for part in self.cseq)
        return inner + 1 if self.dim + inner < 0 else inner

    def check(self, value: Tensor) -> Tensor:
        self._require_dim(value)
        parts = value.unbind(self.dim)
        return _stacked([each.check(part) for each, part in zip(self.cseq, parts, strict=False)], self.dim)


def _all_of(result: Tensor, dims: int) -> Tensor:
    """Whether all of the last `dims` dimensions are true."""
    return result.flatten(-dims).all(-1) if dims else result


# Numbers.


class _Boolean(Constraint):
    """0 or 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _Real(Constraint):
    """Any number, infinite ones too; not NaN."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class _Above(Constraint):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def __repr__(self) -> str:
        return f"{self._name()}(lower_bound={self.lower_bound})"


class _Below(Constraint):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def __repr__(self) -> str:
        return f"{self._name()}(upper_bound={self.upper_bound})"


class _Between(Constraint):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def __repr__(self) -> str:
        return f"{self._name()}(lower_bound={self.lower_bound}, upper_bound={self.upper_bound})"


class _GreaterThan(_Above):
    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class _GreaterThanEq(_Above):
    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class _LessThan(_Below):
    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_Between):
    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


class _IntegerGreaterThan(_GreaterThanEq):
    """Integers from `lower_bound` on."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


# Vectors.


class _OneHot(Constraint):
    """Vectors of zeros with a single 1."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return boolean.check(value).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    """Vectors without negative numbers whose sum is 1."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of counts; their sum is checked not to exceed `upper_bound`."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# Matrices.


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return _all_of(value.tril() == value, 2)


class _LowerCholesky(_LowerTriangular):
    """Lower triangular matrices with a positive diagonal."""

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Cholesky factors of correlation matrices: their rows have length 1."""

    def check(self, value: Tensor) -> Tensor:
        rounding = 10 * value.shape[-1] * finfo(value.dtype).eps
        lengths = linalg.vector_norm(value.detach(), dim=-1)
        return super().check(value) & ((lengths - 1).abs() <= rounding).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=bool_, device=value.device)


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return _all_of(isclose(value, value.mT, atol=1e-6), 2)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        identity = eye(value.shape[-1], dtype=value.dtype, device=value.device)
        others = where(symmetric.unsqueeze(-1).unsqueeze(-1), value, identity)
        return symmetric & (linalg.eigvalsh(others) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        factor, info = linalg.cholesky_ex(value)
        return symmetric & (info == 0) & factor.diagonal(dim1=-2, dim2=-1).isfinite().all(-1)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
cat, stack = _Cat, _Stack

boolean, real = _Boolean(), _Real()
positive, nonnegative = _GreaterThan(0.0), _GreaterThanEq(0.0)
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
unit_interval = _Interval(0.0, 1.0)
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval

one_hot, simplex, multinomial = _OneHot(), _Simplex(), _Multinomial
real_vector = independent(real, 1)

lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
square, symmetric = _Square(), _Symmetric()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()

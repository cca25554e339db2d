"""Transforms: the interface, inverses, and transforms made of others."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

from .._api.link import cat, stack, zeros_like
from ..core.tensor import Tensor
from . import constraints
from .utils import _sum_rightmost, lazy_property

dependent = constraints.dependent_property(is_discrete=False)


class Transform:
    """A map from `domain` to `codomain`; `t.inv` is its inverse, or a map back if it is not bijective.

    A subclass defines `_call`, and as far as it has them `_inverse` and `log_abs_det_jacobian(x, y)`. With
    `cache_size=1` the last pair (x, y) is kept, so that an inverse that is costly or inexact is not computed.

    >>> isinstance(rl.distributions.ExpTransform(), rl.distributions.Transform)
    True
    """

    bijective: Any = False
    domain: Any
    codomain: Any
    _cached_x_y: tuple[Any, Any] = (None, None)

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size must be 0 or 1, not {cache_size}")
        self._cache_size = cache_size
        self._inv: Transform | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> int:
        """How many dimensions an event has, before and after."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError(
                f"{type(self).__name__} changes the dimensions of an event: look at domain.event_dim and "
                "codomain.event_dim"
            )
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse; its own inverse is this transform."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    @property
    def sign(self) -> Any:
        """Of a map of numbers: 1 if it is increasing, -1 if it is decreasing."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same transform with a cache of its own."""
        if self._cache_size == cache_size:
            return self
        other = copy.copy(self)
        Transform.__init__(other, cache_size)
        other.__dict__.pop("_cached_x_y", None)
        other._with_parts(lambda transform: transform.with_cache(cache_size))
        return other

    def _with_parts(self, change: Callable[[Transform], Transform]) -> None:
        """Change the transforms that this one is made of."""

    def _key(self) -> Any:
        """What equal transforms of this class agree in; None if only one is equal to itself."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        mine = self._key()
        return mine is not None and isinstance(other, type(self)) and _same(mine, other._key())

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._call(x)
        x_old, y_old = self._cached_x_y
        return y_old if x is x_old else self._cache(x, self._call(x))[1]

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        x_old, y_old = self._cached_x_y
        return x_old if y is y_old else self._cache(self._inverse(y), y)[0]

    def _cache(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        self._cached_x_y = x, y
        return x, y

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |det dy/dx|, one number for each event."""
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the image of a value of this shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of the value whose image has this shape."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _same(a: Any, b: Any) -> bool:
    """Equality of keys: of tuples, tensors, and anything else."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return a is b or bool((a == b).all())
    return bool(a == b)


def need_dims(shape: Sequence[int], dims: int) -> None:
    if len(shape) < dims:
        raise ValueError(f"expected at least {dims} dimensions, but the shape is {tuple(shape)}")


class _InverseTransform(Transform):
    """The inverse of another transform, which does the work."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv: Transform = transform

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__  # without the transform it would be nothing

    @dependent
    def domain(self) -> Any:
        return self._inv.codomain

    @dependent
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> bool:
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def _key(self) -> Any:
        return (self._inv,)

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"


# Transforms made of others.


class ComposeTransform(Transform):
    """Several transforms, the first one first.

    >>> D = rl.distributions
    >>> D.ComposeTransform([D.AffineTransform(1.0, 2.0), D.AbsTransform()])(rl.tensor([-3.0]))
    tensor([5.])
    """

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    def _with_parts(self, change: Callable[[Transform], Transform]) -> None:
        self.parts = [change(part) for part in self.parts]

    def _key(self) -> Any:
        return tuple(self.parts)

    @staticmethod
    def _widened(constraint: Any, steps: list[tuple[int, int]]) -> Any:
        """The constraint at one end, for events that have enough dimensions for all parts on the way to it.

        Steps are (dimensions of events before, after) of the parts, from the other end on.
        """
        dims = steps[0][0]
        for before, after in steps:
            dims = max(dims + after - before, after)
        more = dims - constraint.event_dim
        return constraints.independent(constraint, more) if more else constraint

    @dependent
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        steps = [(part.codomain.event_dim, part.domain.event_dim) for part in reversed(self.parts)]
        return self._widened(self.parts[0].domain, steps)

    @dependent
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        steps = [(part.domain.event_dim, part.codomain.event_dim) for part in self.parts]
        return self._widened(self.parts[-1].codomain, steps)

    @lazy_property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> Any:
        return math.prod(part.sign for part in self.parts)

    @property
    def inv(self) -> Transform:
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        total: Any = 0
        dims = self.domain.event_dim
        for part, before, after in zip(self.parts, values, values[1:], strict=False):
            inner = part.domain.event_dim
            total = total + _sum_rightmost(part.log_abs_det_jacobian(before, after), dims - inner)
            dims += part.codomain.event_dim - inner
        return total

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return "ComposeTransform(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform of events that have `reinterpreted_batch_ndims` dimensions more.

    >>> D = rl.distributions
    >>> D.IndependentTransform(D.ExpTransform(), 1).log_abs_det_jacobian(rl.ones(2), rl.ones(2).exp())
    tensor(2.)
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def _with_parts(self, change: Callable[[Transform], Transform]) -> None:
        self.base_transform = change(self.base_transform)

    @dependent
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @dependent
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        need_dims(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        need_dims(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class _Parts(Transform):
    """Transforms of the parts of a value along a dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        for item in tseq:
            if not isinstance(item, Transform):
                raise AssertionError(f"expected a Transform, not a {type(item).__name__}")
        super().__init__(cache_size)
        self.transforms = [item.with_cache(cache_size) if cache_size else item for item in tseq]
        self.dim = dim

    def _with_parts(self, change: Callable[[Transform], Transform]) -> None:
        self.transforms = [change(item) for item in self.transforms]

    @property
    def bijective(self) -> bool:
        return all(item.bijective for item in self.transforms)

    @property
    def _size(self) -> int:
        raise NotImplementedError

    def _cut(self, value: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _join(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _pairs(self, *values: Tensor) -> list[tuple[Any, ...]]:
        """Each transform with its parts of the values."""
        for value in values:
            if not -value.dim() <= self.dim < value.dim() or value.shape[self.dim] != self._size:
                raise AssertionError(
                    f"expected size {self._size} in dimension {self.dim}, but the shape is "
                    f"{tuple(value.shape)}"
                )
        return list(zip(self.transforms, *map(self._cut, values), strict=True))

    def _call(self, x: Tensor) -> Tensor:
        return self._join([item(part) for item, part in self._pairs(x)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([item.inv(part) for item, part in self._pairs(y)])


class CatTransform(_Parts):
    """Transforms of parts of the given lengths, joined as `rushlight.cat` joins tensors.

    >>> D = rl.distributions
    >>> D.CatTransform([D.ExpTransform(), D.AbsTransform()], dim=0)(rl.tensor([0.0, -1.0]))
    tensor([1., 1.])
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"{len(self.lengths)} lengths for {len(self.transforms)} transforms")

    @dependent
    def domain(self) -> Any:
        return constraints.cat([item.domain for item in self.transforms], self.dim, self.lengths)

    @dependent
    def codomain(self) -> Any:
        return constraints.cat([item.codomain for item in self.transforms], self.dim, self.lengths)

    @property
    def event_dim(self) -> int:
        return max(item.event_dim for item in self.transforms)

    @property
    def length(self) -> int:
        """The sum of the lengths."""
        return sum(self.lengths)

    _size = length

    def _cut(self, value: Tensor) -> Sequence[Tensor]:
        return value.split(self.lengths, self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        dims = self.event_dim
        terms = [
            _sum_rightmost(item.log_abs_det_jacobian(*parts), dims - item.event_dim)
            for item, *parts in self._pairs(x, y)
        ]
        dim = (self.dim if self.dim < 0 else self.dim - x.dim()) + dims
        return cat(terms, dim) if dim < 0 else sum(terms[1:], terms[0])


class StackTransform(_Parts):
    """Transforms of the slices of a value, stacked as `rushlight.stack` stacks tensors.

    >>> D = rl.distributions
    >>> D.StackTransform([D.ExpTransform(), D.AbsTransform()])(rl.tensor([0.0, -1.0]))
    tensor([1., 1.])
    """

    @dependent
    def domain(self) -> Any:
        return constraints.stack([item.domain for item in self.transforms], self.dim)

    @dependent
    def codomain(self) -> Any:
        return constraints.stack([item.codomain for item in self.transforms], self.dim)

    @property
    def _size(self) -> int:
        return len(self.transforms)

    def _cut(self, value: Tensor) -> Sequence[Tensor]:
        return value.unbind(self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self._join([item.log_abs_det_jacobian(*parts) for item, *parts in self._pairs(x, y)])

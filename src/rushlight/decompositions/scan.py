"""Differences and integrals along a dimension, in terms of simpler operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.data_sizes import greatest
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, METHOD, OUT, composite
from ..core.shapes import Shape, wrap_dim, wrap_dims
from ..core.tensor import Tensor

BOOL = DTYPES["bool"]


@composite("_logcumsumexp(Tensor self, int dim) -> Tensor", api=FUNCTION)
def _logcumsumexp(self: Tensor, dim: int) -> Tensor:
    return self.logcumsumexp(dim)


# Differences.


@composite(
    "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
    api=FUNCTION | METHOD | OUT,
)
def diff(self: Tensor, n: int, dim: int, prepend: Tensor | None, append: Tensor | None) -> Tensor:
    check(self.ndim >= 1, "diff expects input to be at least one-dimensional")
    check(n >= 0, f"diff: order must be non-negative but got {n}")
    dim = wrap_dim(dim, self.ndim, name="diff")
    for extra in (prepend, append):
        _check_joins(self, extra, dim)
    if n == 0:
        return self.clone()
    parts = [part for part in (prepend, self, append) if part is not None]
    result = run_name("cat", tuple(parts), dim) if len(parts) > 1 else self
    size = result.shape[dim]
    if n >= size:
        return result.narrow(dim, 0, 0)
    for _ in range(n):
        size = result.shape[dim]
        length = greatest(size - 1, 0)
        after = run_name("slice.Tensor", result, dim, size - length, size, 1)
        before = run_name("slice.Tensor", result, dim, 0, length, 1)
        result = after.logical_xor(before) if result.dtype is BOOL else after - before
    return result


def _check_joins(self: Tensor, extra: Tensor | None, dim: int) -> None:
    if extra is None:
        return
    check(
        extra.ndim == self.ndim,
        "diff expects prepend or append to be the same dimension as input: they "
        f"have {extra.ndim} and {self.ndim}",
    )
    for d in range(self.ndim):
        check(
            d == dim or extra.shape[d] == self.shape[d],
            "diff expects the shape of tensor to prepend "
            f"or append to match that of input except along the differencing dimension {dim}: it is "
            f"{tuple(extra.shape)}, the input is {tuple(self.shape)}",
        )


# Numerical gradient: second-order central differences inside, one-sided ones at the edges.


def _slice(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    return x.narrow(dim, start, length)


def _check_gradient(self: Tensor, dims: Sequence[int], edge_order: int) -> Shape:
    check(self.dtype is not DTYPES["uint8"], "torch.gradient does not support uint8 input.")
    check(edge_order in (1, 2), f"gradient only supports edge_order=1 and edge_order=2, got {edge_order}")
    wrapped = wrap_dims(dims, self.ndim, name="gradient", empty_is_all=False)
    for d in wrapped:
        size = self.shape[d] if self.ndim else 1
        check(
            size >= edge_order + 1,
            "gradient expected each dimension size to be at least edge_order+1, "
            f"but dimension {d} has size {size} and edge_order is {edge_order}",
        )
    return wrapped


def _even_gradient(self: Tensor, dim: int, spacing: Any, edge_order: int) -> Tensor:
    """The derivative along `dim` of samples that are `spacing` apart."""
    n = self.shape[dim]
    inner = (_slice(self, dim, 2, n - 2) - _slice(self, dim, 0, n - 2)) / (2 * spacing)
    point = [_slice(self, dim, i, 1) for i in (0, 1, min(2, n - 1), max(n - 3, 0), n - 2, n - 1)]
    if edge_order == 1:
        first, last = (point[1] - point[0]) / spacing, (point[5] - point[4]) / spacing
    else:
        first = (-1.5 * point[0] + 2 * point[1] - 0.5 * point[2]) / spacing
        last = (0.5 * point[3] - 2 * point[4] + 1.5 * point[5]) / spacing
    return run_name("cat", (first, inner, last), dim)


def _uneven_gradient(self: Tensor, dim: int, coordinates: Tensor, edge_order: int) -> Tensor:
    """The derivative along `dim` of samples at `coordinates`, by parabolas through three neighbours."""
    n = self.shape[dim]
    shape = [n - 1 if d == dim else 1 for d in range(self.ndim)]
    step = (coordinates.narrow(0, 1, n - 1) - coordinates.narrow(0, 0, n - 1)).reshape(shape)
    if edge_order == 1:
        slope = (_slice(self, dim, 1, n - 1) - _slice(self, dim, 0, n - 1)) / step
        first, last = _slice(slope, dim, 0, 1), _slice(slope, dim, n - 2, 1)
    else:
        first = _parabola(
            _slice(self, dim, 0, 3), dim, -_slice(step, dim, 0, 1), -_slice(step, dim, 1, 1), True
        )
        last = _parabola(
            _slice(self, dim, n - 3, 3).flip(dim),
            dim,
            _slice(step, dim, n - 2, 1),
            _slice(step, dim, n - 3, 1),
            True,
        )
    inner = _parabola(self, dim, _slice(step, dim, 0, n - 2), _slice(step, dim, 1, n - 2), False)
    return run_name("cat", (first, inner, last), dim)


def _parabola(self: Tensor, dim: int, left: Tensor, right: Tensor, at_first: bool) -> Tensor:
    """The derivative, at the middle or the first of three neighbours, of the parabola through them.

    `left` and `right` are the steps of the coordinate; for the first neighbour, those of the way back to it.
    """
    n = self.shape[dim]
    x = [_slice(self, dim, i, n - 2) for i in range(3)]
    both = left + right
    if at_first:
        weights = ((2 * left + right) / (left * both), -both / (left * right), left / (right * both))
    else:
        weights = (-right / (left * both), (right - left) / (left * right), left / (right * both))
    return weights[0] * x[0] + weights[1] * x[1] + weights[2] * x[2]


def _gradients(
    self: Tensor, dims: Sequence[int], spacing: Sequence[Any], edge_order: int
) -> tuple[Tensor, ...]:
    """One derivative for each of `dims`; a spacing is a number, or a tensor of coordinates."""
    wrapped = _check_gradient(self, dims, edge_order)
    check(
        len(spacing) == len(wrapped),
        "gradient expected spacing to be unspecified, a scalar, or of the "
        f"same length as dim, but got {len(spacing)} spacings for {len(wrapped)} dimensions",
    )
    results = []
    for d, h in zip(wrapped, spacing, strict=True):
        if isinstance(h, Tensor) and h.ndim:
            check(
                h.ndim == 1 and h.shape[0] == self.shape[d],
                "gradient expected each tensor of spacing to "
                f"be 1-dimensional with one coordinate for each sample: got {tuple(h.shape)} for dimension "
                f"{d} of size {self.shape[d]}",
            )
            results.append(_uneven_gradient(self, d, h, edge_order))
        else:
            results.append(_even_gradient(self, d, h, edge_order))
    return tuple(results)


def _gradient_dims(self: Tensor, dim: int | None) -> Sequence[int]:
    return range(self.ndim) if dim is None else (dim,)


@composite(
    "gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, int edge_order=1) -> Tensor[]",
    api=FUNCTION,
)
def gradient(self: Tensor, spacing: Any, dim: int | None, edge_order: int) -> tuple[Tensor, ...]:
    dims = _gradient_dims(self, dim)
    return _gradients(self, dims, (1 if spacing is None else spacing,) * len(dims), edge_order)


@composite(
    "gradient.scalararray(Tensor self, *, Scalar spacing, int[] dim, int edge_order=1) -> Tensor[]",
    api=FUNCTION,
)
def gradient_scalar_dims(
    self: Tensor, spacing: Any, dim: Sequence[int], edge_order: int
) -> tuple[Tensor, ...]:
    return _gradients(self, dim, (spacing,) * len(dim), edge_order)


@composite("gradient.array(Tensor self, *, int[] dim, int edge_order=1) -> Tensor[]", api=FUNCTION)
def gradient_dims(self: Tensor, dim: Sequence[int], edge_order: int) -> tuple[Tensor, ...]:
    return _gradients(self, dim, (1,) * len(dim), edge_order)


@composite(
    "gradient.scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None, int edge_order=1) -> Tensor[]",
    "gradient.tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None, int edge_order=1) -> Tensor[]",
    api=FUNCTION,
)
def gradient_spacings(
    self: Tensor, spacing: Sequence[Any], dim: int | None, edge_order: int
) -> tuple[Tensor, ...]:
    return _gradients(self, _gradient_dims(self, dim), spacing, edge_order)


@composite(
    "gradient.scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim, int edge_order=1) -> Tensor[]",
    "gradient.tensorarray(Tensor self, *, Tensor[] spacing, int[] dim, int edge_order=1) -> Tensor[]",
    api=FUNCTION,
)
def gradient_spacings_dims(
    self: Tensor, spacing: Sequence[Any], dim: Sequence[int], edge_order: int
) -> tuple[Tensor, ...]:
    return _gradients(self, dim, spacing, edge_order)


# Integrals by the trapezoidal rule.


def _panels(y: Tensor, dim: int, name: str) -> Tensor:
    """Sums of neighbours along `dim`."""
    n = y.shape[dim]
    check(y.dtype is not BOOL, f"{name}: received a bool input for `y`, but bool is not supported")
    return y.narrow(dim, 0, n - 1) + y.narrow(dim, 1, n - 1)


def _widths(y: Tensor, x: Tensor, dim: int, name: str) -> Tensor:
    """The widths of the panels, shaped to multiply the sums of neighbours."""
    check(x.dtype is not BOOL, f"{name}: received a bool input for `x`, but bool is not supported")
    n = y.shape[dim]
    if x.ndim == 0:
        return x - x
    if x.ndim == 1:
        check(
            x.shape[0] == n,
            f"{name}: There must be one `x` value for each sample point: x has "
            f"{x.shape[0]}, y has {n} along dimension {dim}",
        )
        shape = [n - 1 if d == dim else 1 for d in range(y.ndim)]
        return (x.narrow(0, 1, n - 1) - x.narrow(0, 0, n - 1)).reshape(shape)
    lead = (1,) * (y.ndim - x.ndim)
    x = x.reshape((*lead, *x.shape)) if lead else x
    axis = dim + x.ndim - y.ndim
    count = x.shape[axis]
    return x.narrow(axis, 1, count - 1) - x.narrow(axis, 0, count - 1)


def _check_width(dx: Any, name: str) -> None:
    check(not isinstance(dx, complex), f"{name}: dx must be a real number, got {dx}")


def _integrable(y: Tensor, dim: int, name: str) -> int:
    if y.ndim == 0:
        raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(dim, y.ndim, name=name)


def _zeros(y: Tensor, dim: int) -> Tensor:
    shape = [size for d, size in enumerate(y.shape) if d != dim]
    return y.new_zeros(shape)


@composite("trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", api=FUNCTION)
def trapezoid_x(y: Tensor, x: Tensor, dim: int) -> Tensor:
    dim = _integrable(y, dim, "trapezoid")
    if y.shape[dim] == 0:
        return _zeros(y, dim)
    return (_panels(y, dim, "trapezoid") * _widths(y, x, dim, "trapezoid")).sum(dim) / 2.0


@composite("trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", api=FUNCTION)
def trapezoid_dx(y: Tensor, dx: Any, dim: int) -> Tensor:
    dim = _integrable(y, dim, "trapezoid")
    _check_width(dx, "trapezoid")
    if y.shape[dim] == 0:
        return _zeros(y, dim)
    check(y.dtype is not BOOL, "trapezoid: received a bool input for `y`, but bool is not supported")
    # The sum of integers is one of int64; those of neighbours would be as narrow as `y`.
    ends = y.select(dim, 0) + y.select(dim, y.shape[dim] - 1)
    return (y.sum(dim) - ends * 0.5) * dx


@composite("trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", api=FUNCTION)
def trapz_x(y: Tensor, x: Tensor, dim: int) -> Tensor:
    return run_name("trapezoid.x", y, x, dim)


@composite("trapz.dx(Tensor y, *, float dx=1., int dim=-1) -> Tensor", api=FUNCTION)
def trapz_dx(y: Tensor, dx: float, dim: int) -> Tensor:
    return run_name("trapezoid.dx", y, dx, dim)


@composite("cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", api=FUNCTION)
def cumulative_trapezoid_x(y: Tensor, x: Tensor, dim: int) -> Tensor:
    name = "cumulative_trapezoid"
    dim = _integrable(y, dim, name)
    if y.shape[dim] == 0:
        return y.clone()
    return (_panels(y, dim, name) * _widths(y, x, dim, name)).cumsum(dim) / 2.0


@composite("cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", api=FUNCTION)
def cumulative_trapezoid_dx(y: Tensor, dx: Any, dim: int) -> Tensor:
    dim = _integrable(y, dim, "cumulative_trapezoid")
    _check_width(dx, "cumulative_trapezoid")
    if y.shape[dim] == 0:
        return y.clone()
    return _panels(y, dim, "cumulative_trapezoid").cumsum(dim) * (dx / 2.0)

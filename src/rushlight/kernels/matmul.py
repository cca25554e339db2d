"""Matrix and tensor products, distances: eager kernels on NumPy arrays.

Half-precision operands arrive as float32, so a product, its alpha and the addend with its beta are rounded
once. Integer products are exact modulo the width of the type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.pointwise import scalar_array
from ..core.registry import kernel
from ..core.shapes import Spec, wrap_dim, wrap_dims
from .reduction_sums import total

Array = np.ndarray

_EXACT = 2**53  # integers below it are exact in float64
_SMALL = 1 << 14  # multiplications below which NumPy's own integer loop is quicker than a look at the values
_RUN = 192  # terms that BLAS adds one after another: error at most PyTorch's (test_d14_products)
_FEW = 1 << 20  # multiplications up to which all runs are one call of BLAS


# Products.


def product(left: Array, right: Array) -> Array:
    """left @ right, C-contiguous. NumPy's integer product is slow; BLAS in float64 does what it can
    exactly."""
    if left.dtype.kind in "iu" and left.size * right.shape[-1] > _SMALL and _exact_in_float64(left, right):
        wide = np.matmul(left.astype(np.float64), right.astype(np.float64), order="C")
        return wide.astype(np.int64).astype(left.dtype, copy=False)
    if left.dtype.kind in "fc" and left.shape[-1] > 2 * _RUN:
        return _in_runs(left, right)
    return np.matmul(left, right, order="C")


def _in_runs(left: Array, right: Array) -> Array:
    """left @ right, the sum over the inner dimension taken in runs: its error grows with their length, and BLAS
    takes long ones, or for small products a single one."""
    rows, terms, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    if rows > 1 and columns > 1 and rows * columns * terms > _FEW:
        result = np.matmul(left[..., :_RUN], right[..., :_RUN, :], order="C")
        part = np.empty_like(result)
        for at in range(_RUN, terms, _RUN):
            result += np.matmul(left[..., at : at + _RUN], right[..., at : at + _RUN, :], out=part)
        return result
    runs = terms // _RUN
    whole = runs * _RUN
    pieces = left[..., :whole].reshape(*left.shape[:-1], runs, _RUN)
    others = right[..., :whole, :].reshape(*right.shape[:-2], runs, _RUN, right.shape[-1])
    products = np.matmul(np.moveaxis(pieces, -2, -3), others)
    result = total(products, (products.ndim - 3,), products.dtype)
    if whole < terms:
        result += np.matmul(left[..., whole:], right[..., whole:, :])
    return np.ascontiguousarray(result)


def _exact_in_float64(left: Array, right: Array) -> bool:
    """Whether no partial sum of the product can reach 2**53."""
    if not left.size or not right.size:
        return False
    return _magnitude(left) * _magnitude(right) * left.shape[-1] < _EXACT


def _magnitude(array: Array) -> int:
    """A bound of the absolute values: from the type where that is good enough, else from the values."""
    if array.dtype.itemsize <= 2:
        return 1 << (8 * array.dtype.itemsize)
    return max(int(array.max()), -int(array.min()))


def scaled(value: Any, array: Array) -> Array:
    """value * array in the dtype of `array`; a floating value is truncated for an integer array."""
    if isinstance(value, complex) and array.dtype.kind != "c":
        value = value.real
    return array if value == 1 else scalar_array(value, array.dtype) * array


def added(self: Array, beta: Any, products: Array) -> Array:
    """beta * self + products, in the memory of `products`; beta = 0 ignores `self`, NaN included."""
    return products if beta == 0 else np.add(scaled(beta, self), products, out=products)


def times(alpha: Any, left: Array, right: Array) -> Array:
    """alpha * (left @ right); as in BLAS, alpha = 0 gives zeros whatever the operands hold."""
    if alpha == 0:
        return np.zeros((left.shape[0], right.shape[1]), left.dtype)
    return scaled(alpha, product(left, right))


kernel("mm", "mm.dtype", "bmm", "bmm.dtype", lambda self, mat2: product(self, mat2))
kernel("mv", lambda self, vec: product(self, vec[:, None])[:, 0])
kernel("dot", lambda self, tensor: inner(self, tensor))
kernel("vdot", lambda self, other: inner(np.conjugate(self), other))


def inner(left: Array, right: Array) -> Array:
    return product(left[None, :], right[:, None])[0, 0]


@kernel("_int_mm")
def int_mm(self: Array, mat2: Array) -> Array:
    return product(self.astype(np.int32), mat2.astype(np.int32))


@kernel("_grouped_mm")
def grouped_mm(self: Array, mat2: Array, offs: Array | None) -> Array:
    """Each group on its own; what no group has is zero."""
    if offs is None:
        return product(self, mat2)
    total = (
        self.shape[0] if self.ndim < mat2.ndim else mat2.shape[-1] if self.ndim > mat2.ndim else self.shape[1]
    )
    ends = np.clip(offs, 0, total)
    batch = (len(ends),) if self.ndim == mat2.ndim else ()
    result = np.zeros((*batch, self.shape[-2], mat2.shape[-1]), np.result_type(self, mat2))
    for g, (first, end) in enumerate(zip((0, *ends[:-1]), ends, strict=True)):
        if first >= end:
            continue
        if self.ndim < mat2.ndim:
            result[first:end] = product(self[first:end], mat2[g])
        elif self.ndim > mat2.ndim:
            result[:, first:end] = product(self[g], mat2[:, first:end])
        else:
            result[g] = product(self[:, first:end], mat2[first:end])
    return result


@kernel("addmm", "addmm.dtype")
def addmm(self: Array, mat1: Array, mat2: Array, beta: Any, alpha: Any) -> Array:
    return added(self, beta, times(alpha, mat1, mat2))


@kernel("addmv")
def addmv(self: Array, mat: Array, vec: Array, beta: Any, alpha: Any) -> Array:
    return added(self, beta, times(alpha, mat, vec[:, None])[:, 0])


@kernel("baddbmm", "baddbmm.dtype")
def baddbmm(self: Array, batch1: Array, batch2: Array, beta: Any, alpha: Any) -> Array:
    return added(self, beta, scaled(alpha, product(batch1, batch2)))


@kernel("addbmm")
def addbmm(self: Array, batch1: Array, batch2: Array, beta: Any, alpha: Any) -> Array:
    """The sum over the batch is one product with the batch folded into the inner dimension."""
    batch, rows, inside = batch1.shape
    left = batch1.transpose(1, 0, 2).reshape(rows, batch * inside)
    return added(self, beta, times(alpha, left, batch2.reshape(batch * inside, batch2.shape[2])))


@kernel("addr")
def addr(self: Array, vec1: Array, vec2: Array, beta: Any, alpha: Any, out: Spec) -> Array:
    compute = out.dtype.opmath.numpy
    outer = np.multiply.outer(vec1.astype(compute), vec2.astype(compute))
    if compute == np.bool_:
        return (bool(alpha) & outer) | (bool(beta) & self)
    return added(self.astype(compute), beta, scaled(alpha, outer))


@kernel("linalg_cross")
def linalg_cross(self: Array, other: Array, dim: int, out: Spec) -> Array:
    axis = wrap_dim(dim, self.ndim)
    left, right = np.moveaxis(self, axis, 0), np.moveaxis(other, axis, 0)
    result = np.empty(out.known_shape(), self.dtype)
    parts = np.moveaxis(result, axis, 0)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        parts[i] = left[j] * right[k] - left[k] * right[j]
    return result


@kernel("_trilinear")
def trilinear(
    i1: Array, i2: Array, i3: Array, expand1: Any, expand2: Any, expand3: Any, sumdim: Any
) -> Array:
    rank = i1.ndim + len(expand1)
    labels = [
        [dim for dim in range(rank) if dim not in wrap_dims(expand, rank, empty_is_all=False)]
        for expand in (expand1, expand2, expand3)
    ]
    summed = wrap_dims(sumdim, rank, empty_is_all=False)
    kept = [dim for dim in range(rank) if dim not in summed]
    present = {dim for names in labels for dim in names}
    result = np.einsum(
        i1, labels[0], i2, labels[1], i3, labels[2], [dim for dim in kept if dim in present], optimize=True
    )
    return np.expand_dims(result, [place for place, dim in enumerate(kept) if dim not in present])


# Distances.

_BLOCK = 1 << 18  # differences at a time, so that they stay in cache


def blocks(x1: Array, x2: Array) -> Any:
    """Slices of rows of x1 whose differences with all rows of x2 make a block."""
    step = max(1, _BLOCK // max(1, x2.shape[0] * x1.shape[1]))
    return (slice(start, start + step) for start in range(0, x1.shape[0], step))


def norm(difference: Array, p: float) -> Array:
    """The p-norm along the last dimension."""
    size = np.abs(difference)
    if p == 0:
        return np.where(np.isnan(size), size, size != 0).sum(-1, dtype=size.dtype)
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return np.sqrt(np.einsum("...i,...i->...", difference, difference))
    if p == np.inf:
        return size.max(-1, initial=0)
    return (size ** size.dtype.type(p)).sum(-1) ** size.dtype.type(1 / p)


def row_distances(x1: Array, x2: Array, p: float) -> Array:
    """Distances between all rows of two matrices."""
    result = np.empty((x1.shape[0], x2.shape[0]), x1.dtype)
    for rows in blocks(x1, x2):
        result[rows] = norm(x1[rows, None, :] - x2[None, :, :], p)
    return result


@kernel("_cdist_forward")
def cdist_forward(x1: Array, x2: Array, p: float, out: Spec) -> Array:
    result = np.empty(out.known_shape(), x1.dtype)
    batch = result.shape[:-2]
    left, right = (np.broadcast_to(t, batch + t.shape[-2:]) for t in (x1, x2))
    for index in np.ndindex(batch):
        result[index] = row_distances(left[index], right[index], p)
    return result


@kernel("_euclidean_dist")
def euclidean_dist(x1: Array, x2: Array) -> Array:
    """|a - b|^2 = |a|^2 + |b|^2 - 2 a.b: one matrix product, but cancellation where a is close to b."""
    norms1 = np.einsum("...i,...i->...", x1, x1)[..., :, None]
    norms2 = np.einsum("...i,...i->...", x2, x2)[..., None, :]
    squares = product(x1, x2.swapaxes(-1, -2))
    squares *= -2
    squares += norms1
    squares += norms2
    return np.sqrt(np.maximum(squares, 0, out=squares), out=squares)


@kernel("_pdist_forward")
def pdist_forward(self: Array, p: float) -> Array:
    return row_distances(self, self, p)[np.triu_indices(self.shape[0], 1)]


def norm_gradient(difference: Array, distance: Array, grad: Array, p: float) -> Array:
    """grad * d norm / d difference, elementwise; zero where the distance is zero."""
    distance, grad = distance[..., None], grad[..., None]
    if p == 0:
        return np.zeros(np.broadcast_shapes(difference.shape, grad.shape), difference.dtype)
    if p == 1:
        return grad * np.sign(difference)
    if p == np.inf:
        return grad * np.sign(difference) * (np.abs(difference) == distance)
    size = np.abs(difference)
    slope = np.sign(difference) * size ** size.dtype.type(p - 1) / distance ** size.dtype.type(p - 1)
    return np.where((distance == 0) | ((size == 0) & (p < 1)), 0, grad * slope)


def row_distances_gradient(grad: Array, x1: Array, x2: Array, p: float, distance: Array) -> Array:
    """The gradient with respect to the rows of x1."""
    result = np.empty(x1.shape, x1.dtype)
    for rows in blocks(x1, x2):
        terms = norm_gradient(x1[rows, None, :] - x2[None, :, :], distance[rows], grad[rows], p)
        result[rows] = total(terms, (1,), terms.dtype)
    return result


@kernel("_cdist_backward")
def cdist_backward(grad: Array, x1: Array, x2: Array, p: float, cdist: Array, out: Spec) -> Array:
    result = np.empty(out.known_shape(), x1.dtype)
    batch = result.shape[:-2]
    grad, cdist, left, right = (np.broadcast_to(t, batch + t.shape[-2:]) for t in (grad, cdist, x1, x2))
    for index in np.ndindex(batch):
        result[index] = row_distances_gradient(grad[index], left[index], right[index], p, cdist[index])
    return result


@kernel("_pdist_backward")
def pdist_backward(grad: Array, self: Array, p: float, pdist: Array) -> Array:
    rows = self.shape[0]
    square, distance = np.zeros((2, rows, rows), self.dtype)
    upper = np.triu_indices(rows, 1)
    square[upper], distance[upper] = grad, pdist
    square, distance = square + square.T, distance + distance.T
    return row_distances_gradient(square, self, self, p, distance)

"""Derivatives of distances between rows, of every order.

The backward operators take the distance as an argument of its own, so their derivatives are partial ones: by
the difference of two rows at a fixed distance, and by the distance. Where two rows are equal the norm has no
derivative; it is taken as zero. Backward operators call their first argument `grad`: it is `grad_p` here, and
`grad` is the gradient of their result.
"""

from __future__ import annotations

import math

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .declare import derivative


def guarded(x: Tensor, valid: Tensor) -> Tensor:
    """`x` where it is `valid`, one elsewhere: a safe divisor or base of a power."""
    return x.where(valid, 1)


def slope(difference: Tensor, distance: Tensor, p: float) -> Tensor:
    """d |difference|_p / d difference = sign(difference) (|difference| / distance)^(p - 1)."""
    if p == 0:
        return difference * 0
    if p == 1:
        return difference.sgn()
    if p == math.inf:
        return difference.sgn().where(difference.abs() == distance, 0)
    valid = distance != 0
    if p == 2:
        return (difference / guarded(distance, valid)).where(valid, 0)
    if p < 2:
        valid = valid & (difference != 0)
    ratio = guarded(difference.abs(), valid) / guarded(distance, valid)
    return (difference.sgn() * ratio ** (p - 1)).where(valid, 0)


def curvature(difference: Tensor, distance: Tensor, p: float) -> Tensor | None:
    """d slope / d difference = (p - 1) |difference|^(p - 2) / distance^(p - 1), None for zero."""
    if p in (0, 1, math.inf):
        return None
    valid = distance != 0
    inverse = (1 / guarded(distance, valid)).where(valid, 0)
    if p == 2:
        return inverse
    if p < 3:
        valid = valid & (difference != 0)
    ratio = guarded(difference.abs(), valid) / guarded(distance, valid)
    return ((p - 1) * inverse * ratio ** (p - 2)).where(valid, 0)


def by_distance(slopes: Tensor, distance: Tensor, p: float) -> Tensor | None:
    """d slope / d distance = -(p - 1) slope / distance, None for zero."""
    if p in (0, 1, math.inf):
        return None
    valid = distance != 0
    return (slopes * ((1 - p) / guarded(distance, valid))).where(valid, 0)


# All pairs of rows of two matrices.

def cdist_backward(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    return run_name("_cdist_backward", grad, x1, x2, p, cdist)


def between(x1: Tensor, x2: Tensor) -> Tensor:
    return x1.unsqueeze(-2) - x2.unsqueeze(-3)


derivative("_cdist_forward",
           x1=lambda grad, x1, x2, p, result: cdist_backward(grad, x1, x2, p, result),
           x2=lambda grad, x1, x2, p, result:
               cdist_backward(grad.transpose(-2, -1), x2, x1, p, result.transpose(-2, -1)),
           result=lambda x1_t, x2_t, x1_p, x2_p, p, result:
               (slope(between(x1_p, x2_p), result.unsqueeze(-1), p) * between(x1_t, x2_t)).sum(-1))


def second_by_rows(grad: Tensor, grad_p: Tensor, x1: Tensor, x2: Tensor, p: float,
                   cdist: Tensor) -> Tensor | None:
    """For each pair of rows and each column, the second derivative by their difference."""
    curve = curvature(between(x1, x2), cdist.unsqueeze(-1), p)
    return None if curve is None else grad.unsqueeze(-2) * grad_p.unsqueeze(-1) * curve


def second_by_row1(grad: Tensor, grad_p: Tensor, x1: Tensor, x2: Tensor, p: float,
                   cdist: Tensor) -> Tensor | None:
    second = second_by_rows(grad, grad_p, x1, x2, p, cdist)
    return None if second is None else second.sum(-2)


def second_by_row2(grad: Tensor, grad_p: Tensor, x1: Tensor, x2: Tensor, p: float,
                   cdist: Tensor) -> Tensor | None:
    second = second_by_rows(grad, grad_p, x1, x2, p, cdist)
    return None if second is None else -second.sum(-3)


def second_by_cdist(grad: Tensor, grad_p: Tensor, x1: Tensor, x2: Tensor, p: float,
                    cdist: Tensor) -> Tensor | None:
    distance = cdist.unsqueeze(-1)
    partial = by_distance(slope(between(x1, x2), distance, p), distance, p)
    return None if partial is None else grad_p * (grad.unsqueeze(-2) * partial).sum(-1)


derivative("_cdist_backward", x1=second_by_row1, x2=second_by_row2, cdist=second_by_cdist,
           grad=lambda grad, x1, x2, p, cdist:
               (slope(between(x1, x2), cdist.unsqueeze(-1), p) * grad.unsqueeze(-2)).sum(-1))


def euclidean_backward(grad: Tensor, x1: Tensor, x2: Tensor, result: Tensor) -> Tensor:
    """The sum over j of grad[i, j] (x1[i] - x2[j]) / result[i, j], by a matrix product as the distance."""
    apart = result != 0
    weights = (grad / guarded(result, apart)).where(apart, 0)
    return x1 * weights.sum(-1, keepdim=True) - weights.matmul(x2)


derivative("_euclidean_dist", x1=euclidean_backward,
           x2=lambda grad, x1, x2, result:
               euclidean_backward(grad.transpose(-2, -1), x2, x1, result.transpose(-2, -1)))


# Pairs of rows of one matrix, the first of each pair before the second.

def pairs(x: Tensor) -> tuple[Tensor, Tensor]:
    first, second = run_name("triu_indices", x.shape[0], x.shape[0], 1, None, None, x.device, None).unbind(0)
    return first, second


def within(x: Tensor) -> Tensor:
    """The differences of the rows of each pair."""
    first, second = pairs(x)
    return x.index_select(0, first) - x.index_select(0, second)


def to_rows(x: Tensor, differences: Tensor) -> Tensor:
    """The adjoint of `within`."""
    first, second = pairs(x)
    return x.new_zeros(x.shape).index_add(0, first, differences).index_add(0, second, -differences)


derivative("_pdist_forward",
           self=lambda grad, self, p, result: run_name("_pdist_backward", grad, self, p, result),
           result=lambda self_t, self_p, p, result:
               (slope(within(self_p), result.unsqueeze(-1), p) * within(self_t)).sum(-1))


def second_by_self(grad: Tensor, grad_p: Tensor, self: Tensor, p: float, pdist: Tensor) -> Tensor | None:
    curve = curvature(within(self), pdist.unsqueeze(-1), p)
    return None if curve is None else to_rows(self, within(grad) * grad_p.unsqueeze(-1) * curve)


def second_by_pdist(grad: Tensor, grad_p: Tensor, self: Tensor, p: float, pdist: Tensor) -> Tensor | None:
    distance = pdist.unsqueeze(-1)
    partial = by_distance(slope(within(self), distance, p), distance, p)
    return None if partial is None else grad_p * (within(grad) * partial).sum(-1)


derivative("_pdist_backward", self=second_by_self, pdist=second_by_pdist,
           grad=lambda grad, self, p, pdist:
               (slope(within(self), pdist.unsqueeze(-1), p) * within(grad)).sum(-1))

"""Losses of classes on NumPy arrays: one kernel for every rank, the classes in dimension 1."""

from __future__ import annotations

import numpy as np

from ..core.errors import check
from ..core.registry import kernel
from ..core.shapes import Spec
from ..ops.loss import MEAN, NONE
from .reduction_sums import total


@kernel("_functional_assert_async.msg")
def functional_assert(self: np.ndarray, assert_msg: str, dep_token: np.ndarray) -> np.ndarray:
    check(bool(self.all()), assert_msg)
    return dep_token.copy()


def classes(self: np.ndarray, target: np.ndarray, ignore_index: int) -> tuple[np.ndarray, np.ndarray]:
    """Which targets count, and all targets along dimension 1 of a batch, 0 in place of the ignored ones."""
    target = target.reshape((1,) if self.ndim == 1 else target.shape)
    counts = target != ignore_index
    chosen = np.where(counts, target, 0).astype(np.int64)
    outside = (chosen < 0) | (chosen >= self.shape[-1 if self.ndim == 1 else 1])
    if outside.any():
        raise IndexError(
            f"nll_loss: Target {int(chosen[outside][0])} is out of bounds: there are "
            f"{self.shape[-1 if self.ndim == 1 else 1]} classes"
        )
    return counts, np.expand_dims(chosen, 1)


def batch(self: np.ndarray) -> np.ndarray:
    return self[None] if self.ndim == 1 else self


def weights(counts: np.ndarray, chosen: np.ndarray, weight: np.ndarray | None, dtype: np.dtype) -> np.ndarray:
    """The weight of every target: that of its class, 0 for the ignored ones."""
    return counts.astype(dtype) if weight is None else np.where(counts, weight[chosen[:, 0]], dtype.type(0))


@kernel("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(
    self: np.ndarray, target: np.ndarray, weight: np.ndarray | None, reduction: int, ignore_index: int
) -> tuple[np.ndarray, np.ndarray]:
    counts, chosen = classes(self, target, ignore_index)
    each = weights(counts, chosen, weight, self.dtype)
    picked = np.take_along_axis(batch(self), chosen, 1)[:, 0]
    losses = np.where(counts, -picked * each, self.dtype.type(0))
    if reduction == NONE and self.ndim > 1:
        return losses, np.zeros((), self.dtype)
    every = tuple(range(losses.ndim))
    loss, weight_sum = (total(x, every, self.dtype) for x in (losses, each))
    return loss / weight_sum if reduction == MEAN else loss, weight_sum


@kernel("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(
    grad_output: np.ndarray,
    self: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None,
    reduction: int,
    ignore_index: int,
    total_weight: np.ndarray,
    out: Spec,
) -> np.ndarray:
    counts, chosen = classes(self, target, ignore_index)
    each = weights(counts, chosen, weight, self.dtype)
    grad = grad_output / total_weight.reshape(()) if reduction == MEAN else grad_output
    grad = grad if reduction == NONE and self.ndim > 1 else grad.reshape(())
    result = np.zeros(batch(self).shape, self.dtype)
    values = np.where(counts, -grad * each, self.dtype.type(0))
    np.put_along_axis(result, chosen, np.expand_dims(values, 1), 1)
    return result.reshape(out.known_shape())

"""The negative log-likelihood of classes in terms of gather and scatter."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.registry import decomposition
from ..core.tensor import Tensor
from ..ops.loss import MEAN, NONE
from .indexing_basic import picked

# The likelihood of classes: dimension 1, or the only one.


def class_weights(
    x: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """The target with some class in place of the ignored ones, and the weight of every place."""
    ignored = target == ignore_index
    classes = target.masked_fill(ignored, 0)
    found = x.new_ones(target.shape) if weight is None else picked(weight, 0, classes)
    return classes, found.masked_fill(ignored, 0)


@decomposition("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    dim = 1 if self.ndim > 1 else 0
    x = self.to(self.dtype.opmath)
    weight = None if weight is None else weight.to(x.dtype)
    if self.ndim == 1:
        target = target.reshape(())
    classes, weights = class_weights(x, target, weight, ignore_index)
    losses = -x.gather(dim, classes.unsqueeze(dim)).squeeze(dim) * weights
    total = weights.sum()
    if reduction == NONE:
        return losses.to(self.dtype), self.new_zeros(())
    result = losses.sum() / total if reduction == MEAN else losses.sum()
    return result.to(self.dtype), total.to(self.dtype)


@decomposition("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor:
    dim = 1 if self.ndim > 1 else 0
    if self.ndim == 1:
        target = target.reshape(())
    classes, weights = class_weights(self, target, weight, ignore_index)
    grad = grad_output / total_weight if reduction == MEAN else grad_output
    values = (-grad * weights).unsqueeze(dim).to(self.dtype)
    zeros = self.new_zeros(self.shape)
    scattered: Tensor = run_name("scatter.src", zeros, dim, classes.unsqueeze(dim), values)
    return scattered

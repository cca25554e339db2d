"""Losses of pairs of numbers and of pairs of vectors in terms of simpler operators.

`reduction` is ATen's number: none, mean or sum. The backward operators need no formulas of their own to be
differentiated again: the operators they are made of have them.
"""

from __future__ import annotations

import math
from typing import Any

from ..core.dispatch import run_name
from ..core.dtype_promotion import can_cast
from ..core.errors import check
from ..core.promotion import Promotion, common
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.shapes import broadcast_shapes
from ..core.tensor import Tensor
from ..ops.loss import MEAN, SUM

_PAIR = "Tensor self, Tensor target"
_BACKWARD = "Tensor grad_output, Tensor self, Tensor target"
WIDE = Promotion.DEFAULT  # half precision computes in float32 and rounds once


def reduced(losses: Tensor, reduction: int) -> Tensor:
    return losses.mean() if reduction == MEAN else losses.sum() if reduction == SUM else losses


def averaged(grad: Tensor, losses: Tensor, reduction: int) -> Tensor:
    """The gradient of every loss, for the gradient of what they were reduced to."""
    return grad / losses.numel() if reduction == MEAN and losses.numel() else grad


def widened(like: Tensor, *tensors: Tensor | None) -> tuple[Any, ...]:
    """`tensors` in the precision in which a loss of the dtype of `like` is computed, to be rounded once."""
    common_dtype = common([(t.dtype, t.ndim == 0) for t in tensors if t is not None])
    check(
        can_cast(common_dtype, like.dtype),
        f"result type {common_dtype.torch_name} can't be cast to the "
        f"desired output type {like.dtype.torch_name}",
    )
    wide = common_dtype.opmath
    return tuple([t if t is None or t.dtype is wide else t.to(wide) for t in tensors])


def as_dtype(result: Tensor, like: Tensor) -> Tensor:
    return result if result.dtype is like.dtype else result.to(like.dtype)


def where(condition: Tensor, self: Tensor, other: Tensor) -> Tensor:
    return run_name("where.self", condition, self, other)


def keep(condition: Tensor, x: Tensor) -> Tensor:
    return run_name("where.ScalarOther", condition, x, 0)


# Distances.


@composite(f"l1_loss({_PAIR}, int reduction=1) -> Tensor", api=INTERNAL)
def l1_loss(self: Tensor, target: Tensor, reduction: int) -> Tensor:
    return reduced((self - target).abs(), reduction)


@composite(f"mse_loss({_PAIR}, int reduction=1) -> Tensor", promote=WIDE, api=INTERNAL)
def mse_loss(self: Tensor, target: Tensor, reduction: int) -> Tensor:
    check_real(self, "mse_loss")
    difference = self - target
    return reduced(difference * difference, reduction)


def check_real(self: Tensor, name: str) -> None:
    check(
        self.dtype.is_floating_point,
        f"\"{name}\" not implemented for '{self.dtype.torch_name}'",
        NotImplementedError,
    )


@composite(f"mse_loss_backward({_BACKWARD}, int reduction) -> Tensor", promote=WIDE, api=INTERNAL)
def mse_loss_backward(grad_output: Tensor, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    difference = self - target
    return difference * averaged(grad_output * 2, difference, reduction)


@composite(f"smooth_l1_loss({_PAIR}, int reduction=1, float beta=1.0) -> Tensor", promote=WIDE, api=INTERNAL)
def smooth_l1_loss(self: Tensor, target: Tensor, reduction: int, beta: float) -> Tensor:
    check(beta >= 0, f"smooth_l1_loss does not support negative values for beta: {beta}")
    if beta == 0:
        return l1_loss(self, target, reduction)
    check_real(self, "smooth_l1_loss")
    distance = (self - target).abs()
    losses = where(distance < beta, distance * distance * (0.5 / beta), distance - 0.5 * beta)
    return reduced(losses, reduction)


def _between(x: Tensor, bound: float) -> Tensor:
    """`x` brought between -bound and bound, at which its slope is 0 already."""
    return where(x >= bound, x.new_full((), bound), where(x <= -bound, x.new_full((), -bound), x))


@composite(
    f"smooth_l1_loss_backward({_BACKWARD}, int reduction, float beta) -> Tensor", promote=WIDE, api=INTERNAL
)
def smooth_l1_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, beta: float
) -> Tensor:
    difference = self - target
    slope = difference.sign() if beta == 0 else _between(difference / beta, 1.0)
    return slope * averaged(grad_output, difference, reduction)


@composite(f"huber_loss({_PAIR}, int reduction=1, float delta=1.0) -> Tensor", api=INTERNAL)
def huber_loss(self: Tensor, target: Tensor, reduction: int, delta: float) -> Tensor:
    check(delta > 0, f"huber_loss does not support non-positive values for delta: {delta}")
    a, b = widened(self, self, target)
    check_real(a, "huber_loss")
    distance = (a - b).abs()
    losses = where(distance <= delta, distance * distance * 0.5, (distance - 0.5 * delta) * delta)
    return as_dtype(reduced(losses, reduction), self)


@composite(
    f"huber_loss_backward({_BACKWARD}, int reduction, float delta) -> Tensor", promote=WIDE, api=INTERNAL
)
def huber_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, delta: float
) -> Tensor:
    difference = self - target
    return _between(difference, delta) * averaged(grad_output, difference, reduction)


# Probabilities.

_LOG_FLOOR = -100.0  # logarithms of probabilities end here, so that the loss of a sure error is finite


@composite(f"binary_cross_entropy({_PAIR}, Tensor? weight=None, int reduction=1) -> Tensor", api=INTERNAL)
def binary_cross_entropy(self: Tensor, target: Tensor, weight: Tensor | None, reduction: int) -> Tensor:
    check(
        self.dtype is target.dtype,
        "binary_cross_entropy: input and target must have one dtype: Found "
        f"dtype {target.dtype.torch_name} but expected {self.dtype.torch_name}",
    )
    check_real(self, "binary_cross_entropy")
    x, y, scale = widened(self, self, target, weight)
    x = run_name(
        "_functional_assert_async.msg",
        _are_probabilities(x) & _are_probabilities(y),
        "binary_cross_entropy: all elements of input and target should be between 0 and 1",
        x,
    )
    yes, no = x.log().clamp_min(_LOG_FLOOR), (-x).log1p().clamp_min(_LOG_FLOOR)
    losses = (y - 1) * no - y * yes
    return as_dtype(reduced(losses if scale is None else losses * scale, reduction), self)


def _are_probabilities(x: Tensor) -> Tensor:
    return (x >= 0) & (x <= 1)


@composite(
    f"binary_cross_entropy_backward({_BACKWARD}, Tensor? weight=None, int reduction=1) -> Tensor",
    promote=WIDE,
    api=INTERNAL,
)
def binary_cross_entropy_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int
) -> Tensor:
    slope = (self - target) / ((1 - self) * self).clamp_min(1e-12)
    if weight is not None:
        slope = slope * weight
    return slope * averaged(grad_output, slope, reduction)


@composite(
    f"binary_cross_entropy_with_logits({_PAIR}, Tensor? weight=None, Tensor? pos_weight=None, int "
    "reduction=1) -> Tensor",
    api=FUNCTION,
)
def binary_cross_entropy_with_logits(
    self: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: int
) -> Tensor:
    """The result has the dtype of the target."""
    check_real(self, "binary_cross_entropy_with_logits")
    x, y, scale, positive = widened(target, self, target, weight, pos_weight)
    log_sigmoid = run_name("log_sigmoid", x)
    if positive is not None:
        log_sigmoid = log_sigmoid * ((positive - 1) * y + 1)
    losses = (1 - y) * x - log_sigmoid
    return as_dtype(reduced(losses if scale is None else losses * scale, reduction), target)


@composite(
    "kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor", api=FUNCTION
)
def kl_div(self: Tensor, target: Tensor, reduction: int, log_target: bool) -> Tensor:
    check(not (self.dtype.is_complex or target.dtype.is_complex), "kl_div: Complex inputs not supported.")
    check(
        self.dtype.is_floating_point and target.dtype.is_floating_point,
        "kl_div: Integral inputs not supported.",
    )
    if log_target:
        return reduced(target.exp() * (target - self), reduction)
    return reduced(run_name("xlogy.Tensor", target, target) - target * self, reduction)


@composite(
    "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int "
    "reduction) -> Tensor",
    api=FUNCTION,
)
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    losses = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:  # Stirling's approximation of log target!
        stirling = target * target.log() - target + (target * (2 * math.pi)).log() * 0.5
        losses = losses + keep(target > 1, stirling)
    return reduced(losses, reduction)


@composite(f"soft_margin_loss({_PAIR}, int reduction=1) -> Tensor", api=INTERNAL)
def soft_margin_loss(self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """log(1 + exp(-target * self)), without overflow."""
    shape = broadcast_shapes(self.shape, target.shape, name="soft_margin_loss")
    check(
        tuple(self.shape) == tuple(shape),
        f"soft_margin_loss: output with shape {list(self.shape)} "
        f"doesn't match the broadcast shape {list(shape)}",
    )
    check(
        self.dtype.is_floating_point or self.dtype.is_complex,
        "soft_margin_loss: result type Float can't "
        f"be cast to the desired output type {self.dtype.torch_name}",
    )
    x, y = widened(self, self, target)
    return as_dtype(reduced(-run_name("log_sigmoid", x * y), reduction), self)


@composite(f"soft_margin_loss_backward({_BACKWARD}, int reduction) -> Tensor", promote=WIDE, api=INTERNAL)
def soft_margin_loss_backward(grad_output: Tensor, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    slope = -target * (-(target * self)).sigmoid()
    return slope * averaged(grad_output, slope, reduction)


# Margins.


@composite(
    "hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=1) -> Tensor",
    api=FUNCTION,
)
def hinge_embedding_loss(self: Tensor, target: Tensor, margin: float, reduction: int) -> Tensor:
    if not (self.dtype.is_floating_point or self.dtype.is_complex):
        margin = int(margin)  # so that the losses of integers are integers
    far = keep(target != 1, (margin - self).clamp_min(0))
    return reduced(far + keep(target != -1, self), reduction)


@composite(
    "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int "
    "reduction=1) -> Tensor",
    api=FUNCTION,
)
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: int
) -> Tensor:
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


@composite(
    "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int "
    "reduction=1) -> Tensor",
    api=FUNCTION,
)
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: int
) -> Tensor:
    check(
        target.ndim in (0, 1),
        f"0D or 1D target tensor expected, multi-target not supported: its shape is {list(target.shape)}",
    )
    expected = "1D" if target.ndim == 0 else "2D"
    check(
        input1.ndim == input2.ndim == target.ndim + 1,
        f"{target.ndim}D target tensor expects {expected} "
        f"input tensors, but found inputs with sizes {list(input1.shape)} and {list(input2.shape)}.",
    )
    dim, tiny = target.ndim, 1e-12
    product = (input1 * input2).sum(dim)
    squares = ((input1 * input1).sum(dim) + tiny) * ((input2 * input2).sum(dim) + tiny)
    cosine = product / squares.sqrt()
    near = keep(target == 1, 1 - cosine)
    return reduced(near + keep(target == -1, (cosine - margin).clamp_min(0)), reduction)


@composite(
    "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float "
    "p=2.0, float eps=1e-06, bool swap=False, int reduction=1) -> Tensor",
    api=FUNCTION,
)
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float,
    p: float,
    eps: float,
    swap: bool,
    reduction: int,
) -> Tensor:
    check(
        anchor.ndim == positive.ndim == negative.ndim,
        "triplet_margin_loss: All inputs should have same "
        f"dimension but got anchor: {anchor.ndim}D, positive: {positive.ndim}D, negative: "
        f"{negative.ndim}D",
    )
    check(not margin <= 0, f"triplet_margin_loss: margin must be greater than 0, got {margin}", ValueError)

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return run_name("pairwise_distance", a, b, p, eps, False)

    away: Any = distance(anchor, negative)
    if swap:
        away = run_name("minimum", away, distance(positive, negative))
    return reduced((distance(anchor, positive) + margin - away).clamp_min(0), reduction)

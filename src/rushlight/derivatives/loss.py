"""Derivatives of the losses."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from ..decompositions.loss import averaged
from ..ops.loss import MEAN, NONE, SUM
from .declare import NOT_DIFFERENTIABLE, derivative
from .pointwise import zero

# Negative log likelihood is linear in the input, and backward in the gradient. The weights are constants.

def nll_transposed(name: str, grad: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int,
                   total_weight: Tensor) -> Tensor:
    loss = run_name(name, grad, target, weight, SUM if reduction == MEAN else reduction, ignore_index)
    return loss / total_weight.reshape(()) if reduction == MEAN else loss


for _name in ("nll_loss", "nll_loss2d"):
    derivative(f"{_name}_forward",
               self=lambda grad0, self, target, weight, reduction, ignore_index, total_weight, _name=_name:
                   run_name(f"{_name}_backward", grad0, self, target, weight, reduction, ignore_index,
                            total_weight),
               target=NOT_DIFFERENTIABLE, weight=NOT_DIFFERENTIABLE, differentiable_outputs=(0,),
               result0=lambda self_t, target, weight, reduction, ignore_index, _name=_name:
                   run_name(_name, self_t, target, weight, reduction, ignore_index),
               result1=lambda self_t: None)
    derivative(f"{_name}_backward",
               grad_output=lambda grad, target, weight, reduction, ignore_index, total_weight, _name=_name:
                   nll_transposed(_name, grad, target, weight, reduction, ignore_index, total_weight),
               self=zero, target=NOT_DIFFERENTIABLE, weight=NOT_DIFFERENTIABLE,
               total_weight=NOT_DIFFERENTIABLE,
               result=lambda grad_output_t, self_p, target, weight, reduction, ignore_index, total_weight,
               _name=_name:
                   run_name(f"{_name}_backward", grad_output_t, self_p, target, weight, reduction,
                            ignore_index, total_weight))


# Distances: symmetric, so one formula serves both arguments.

derivative("mse_loss",
           self=lambda grad, self, target, reduction:
               run_name("mse_loss_backward", grad, self, target, reduction),
           target=lambda grad, self, target, reduction:
               run_name("mse_loss_backward", grad, target, self, reduction))
derivative("smooth_l1_loss",
           self=lambda grad, self, target, reduction, beta:
               run_name("smooth_l1_loss_backward", grad, self, target, reduction, beta),
           target=lambda grad, self, target, reduction, beta:
               run_name("smooth_l1_loss_backward", grad, target, self, reduction, beta))
derivative("huber_loss",
           self=lambda grad, self, target, reduction, delta:
               run_name("huber_loss_backward", grad, self, target, reduction, delta),
           target=lambda grad, self, target, reduction, delta:
               run_name("huber_loss_backward", grad, target, self, reduction, delta))


# Probabilities.

def bce_target_backward(grad: Tensor, self: Tensor, weight: Any, reduction: int) -> Tensor:
    slope = (-self).log1p() - self.log()
    if weight is not None:
        slope = slope * weight
    return slope * averaged(grad, slope, reduction)


derivative("binary_cross_entropy",
           self=lambda grad, self, target, weight, reduction:
               run_name("binary_cross_entropy_backward", grad, self, target, weight, reduction),
           target=lambda grad, self, weight, reduction: bce_target_backward(grad, self, weight, reduction),
           weight=lambda grad, self, target, reduction: bce_weight_backward(grad, self, target, reduction))


def bce_weight_backward(grad: Tensor, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    losses = run_name("binary_cross_entropy", self, target, None, NONE)
    return losses * averaged(grad, losses, reduction)


def logits_backward(grad: Tensor, self: Tensor, target: Tensor, weight: Any, pos_weight: Any,
                    reduction: int) -> Tensor:
    if pos_weight is None:
        slope = self.sigmoid() - target
    else:
        positive = pos_weight * target
        slope = (positive + 1 - target) * self.sigmoid() - positive
    if weight is not None:
        slope = slope * weight
    return slope * averaged(grad, slope, reduction)


def logits_target_backward(grad: Tensor, self: Tensor, weight: Any, pos_weight: Any,
                           reduction: int) -> Tensor:
    slope = -self if pos_weight is None else run_name("log_sigmoid", -self) - pos_weight * run_name(
        "log_sigmoid", self)
    if weight is not None:
        slope = slope * weight
    return slope * averaged(grad, slope, reduction)


def logits_weight_backward(grad: Tensor, self: Tensor, target: Tensor, pos_weight: Any,
                           reduction: int) -> Tensor:
    losses = run_name("binary_cross_entropy_with_logits", self, target, None, pos_weight, NONE)
    return losses * averaged(grad, losses, reduction)


def logits_pos_weight_backward(grad: Tensor, self: Tensor, target: Tensor, weight: Any,
                               reduction: int) -> Tensor:
    slope = -target * run_name("log_sigmoid", self)
    if weight is not None:
        slope = slope * weight
    return slope * averaged(grad, slope, reduction)


derivative("binary_cross_entropy_with_logits",
           self=lambda grad, self, target, weight, pos_weight, reduction:
               logits_backward(grad, self, target, weight, pos_weight, reduction),
           target=lambda grad, self, weight, pos_weight, reduction:
               logits_target_backward(grad, self, weight, pos_weight, reduction),
           weight=lambda grad, self, target, pos_weight, reduction:
               logits_weight_backward(grad, self, target, pos_weight, reduction),
           pos_weight=lambda grad, self, target, weight, reduction:
               logits_pos_weight_backward(grad, self, target, weight, reduction))
derivative("_functional_assert_async.msg", self=NOT_DIFFERENTIABLE, dep_token=lambda grad: grad,
           result=lambda dep_token_t: dep_token_t)


# Connectionist temporal classification; the gradient is that of normalized log_probs (kernels/loss_ctc.py).

def _declare_ctc(overload: str) -> None:
    name = f"_ctc_loss{overload}"
    backward, second = f"_ctc_loss_backward{overload}", f"_ctc_loss_backward_backward{overload}"
    constants: dict[str, Any] = {"targets": NOT_DIFFERENTIABLE}
    if overload:
        constants |= {"input_lengths": NOT_DIFFERENTIABLE, "target_lengths": NOT_DIFFERENTIABLE}

    def slope(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, loss: Tensor,
              log_alpha: Tensor, blank: int, zero_infinity: bool) -> Tensor:
        return run_name(backward, loss.new_ones(loss.shape), log_probs, targets, input_lengths,
                        target_lengths, loss, log_alpha, blank, zero_infinity)

    derivative(name,
               log_probs=lambda grad0, log_probs, targets, input_lengths, target_lengths, result0, result1,
               blank, zero_infinity:
                   run_name(backward, grad0, log_probs, targets, input_lengths, target_lengths, result0,
                            result1, blank, zero_infinity),
               **constants, differentiable_outputs=(0,),
               result0=lambda log_probs_t, log_probs_p, targets, input_lengths, target_lengths, result0,
               result1, blank, zero_infinity:
                   (log_probs_t * slope(log_probs_p, targets, input_lengths, target_lengths, result0, result1,
                                        blank, zero_infinity)).sum((0, 2)),
               result1=lambda log_probs_t: None)
    derivative(backward,
               grad=lambda grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood,
               log_alpha, blank, zero_infinity:
                   (grad * slope(log_probs, targets, input_lengths, target_lengths, neg_log_likelihood,
                                 log_alpha, blank, zero_infinity)).sum((0, 2)),
               log_probs=lambda grad, grad_p, log_probs, targets, input_lengths, target_lengths,
               neg_log_likelihood, log_alpha, blank, zero_infinity:
                   run_name(second, grad, grad_p, log_probs, targets, input_lengths, target_lengths,
                            neg_log_likelihood, log_alpha, blank, zero_infinity),
               **constants, neg_log_likelihood=NOT_DIFFERENTIABLE, log_alpha=NOT_DIFFERENTIABLE,
               result=lambda grad_t, grad_p, log_probs_t, log_probs_p, targets, input_lengths,
               target_lengths, neg_log_likelihood, log_alpha, blank, zero_infinity:
                   run_name(backward, grad_t, log_probs_p, targets, input_lengths, target_lengths,
                            neg_log_likelihood, log_alpha, blank, zero_infinity)
                   + run_name(second, log_probs_t, grad_p, log_probs_p, targets, input_lengths,
                              target_lengths, neg_log_likelihood, log_alpha, blank, zero_infinity))
    # Symmetric, as second derivatives are; a third one is not implemented.
    derivative(second,
               grad=lambda grad, grad_output, log_probs, targets, input_lengths, target_lengths,
               neg_log_likelihood, log_alpha, blank, zero_infinity:
                   run_name(second, grad, grad_output, log_probs, targets, input_lengths, target_lengths,
                            neg_log_likelihood, log_alpha, blank, zero_infinity),
               grad_output=lambda grad, grad_p, log_probs, targets, input_lengths, target_lengths,
               neg_log_likelihood, log_alpha, blank, zero_infinity:
                   (grad * run_name(second, grad_p, neg_log_likelihood.new_ones(neg_log_likelihood.shape),
                                    log_probs, targets, input_lengths, target_lengths, neg_log_likelihood,
                                    log_alpha, blank, zero_infinity)).sum((0, 2)),
               log_probs=no_third_derivative,
               **constants, neg_log_likelihood=NOT_DIFFERENTIABLE, log_alpha=NOT_DIFFERENTIABLE)


def no_third_derivative(grad: Tensor) -> Tensor:
    raise NotImplementedError("the third derivative of ctc_loss is not implemented")


_declare_ctc("")
_declare_ctc(".Tensor")

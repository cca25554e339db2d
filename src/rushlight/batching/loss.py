"""Batching rules of the losses that have kernels of their own."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from ..ops.loss import MEAN, NONE
from .declare import batching


@batching("_functional_assert_async.msg", all_batched=True)
def functional_assert(
    self: Tensor, assert_msg: str, dep_token: Tensor, self_ndim: int, dep_token_ndim: int
) -> Tensor:
    lead = [self.shape[0], *[1] * (dep_token_ndim - self_ndim), *self.shape[1:]]
    return run_name("_functional_assert_async.msg", self.reshape(lead), assert_msg, dep_token)


# Negative log likelihood: each sample of the batch has a sum of its own, so it is put together from gather.


def chosen(target: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Which targets count, and all of them with 0 in place of the others."""
    counts = target != ignore_index
    return counts, run_name("where.ScalarOther", counts, target.long(), 0)


def weights(counts: Tensor, place: Tensor, weight: Any, dtype: Any) -> Tensor:
    """The weight of every target, [batch, ...]."""
    if weight is None:
        return counts.to(dtype)
    flat = place.reshape((place.shape[0], -1))
    picked = weight.gather(1, flat).reshape(place.shape)
    return run_name("where.ScalarOther", counts, picked, 0)


@batching(["nll_loss_forward", "nll_loss2d_forward"], all_batched=True)
def nll_loss_forward(
    self: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int, self_ndim: int
) -> tuple[Tensor, Tensor]:
    batch = self.shape[0]
    source = self.unsqueeze(1) if self_ndim == 1 else self
    labels = target.reshape((batch, 1)) if self_ndim == 1 else target
    counts, place = chosen(labels, ignore_index)
    each = weights(counts, place, weight, self.dtype)
    losses = -(source.gather(2, place.unsqueeze(2)).squeeze(2) * each)
    losses = run_name("where.ScalarOther", counts, losses, 0)
    if reduction == NONE and self_ndim > 1:
        return losses, self.new_zeros((batch,))
    loss, total = (x.reshape((batch, -1)).sum(1) for x in (losses, each))
    return loss / total if reduction == MEAN else loss, total


@batching(["nll_loss_backward", "nll_loss2d_backward"], all_batched=True)
def nll_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Any,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
    self_ndim: int,
) -> Tensor:
    batch = self.shape[0]
    source = self.unsqueeze(1) if self_ndim == 1 else self
    labels = target.reshape((batch, 1)) if self_ndim == 1 else target
    counts, place = chosen(labels, ignore_index)
    each = weights(counts, place, weight, self.dtype)
    grad = grad_output
    if reduction == MEAN:
        grad = grad / total_weight.reshape(grad.shape)
    if not (reduction == NONE and self_ndim > 1):
        grad = grad.reshape((batch, *[1] * (labels.ndim - 1)))
    values = run_name("where.ScalarOther", counts, -(grad * each), 0)
    zeros = source.new_zeros(source.shape)
    return zeros.scatter(2, place.unsqueeze(2), values.unsqueeze(2)).reshape(self.shape)


# Connectionist temporal classification: samples are independent, so the batch joins theirs.


def merged(x: Tensor, dim: int) -> Tensor:
    """The batch dimension, which is in front, merged into dimension `dim` of what follows it."""
    return x.movedim(0, dim).flatten(dim, dim + 1)


def split(x: Tensor, dim: int, batch: int) -> Tensor:
    return x.unflatten(dim, (batch, -1)).movedim(dim, 0)


def repeated(lengths: Any, batch: int) -> Any:
    return merged(lengths, 0) if isinstance(lengths, Tensor) else tuple(lengths) * batch


def _declare_ctc(overload: str) -> None:
    _declare_ctc_loss(overload)
    _declare_ctc_backward(overload)
    _declare_ctc_backward_backward(overload)


def _declare_ctc_loss(overload: str) -> None:
    @batching(f"_ctc_loss{overload}", all_batched=True)
    def ctc_loss(
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Any,
        target_lengths: Any,
        blank: int,
        zero_infinity: bool,
        batch: int,
    ) -> tuple[Tensor, Tensor]:
        losses, alpha = run_name(
            f"_ctc_loss{overload}",
            merged(log_probs, 1),
            merged(targets, 0),
            repeated(input_lengths, batch),
            repeated(target_lengths, batch),
            blank,
            zero_infinity,
        )
        return split(losses, 0, batch), split(alpha, 0, batch)


def _declare_ctc_backward(overload: str) -> None:
    @batching(f"_ctc_loss_backward{overload}", all_batched=True)
    def backward(
        grad: Tensor,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Any,
        target_lengths: Any,
        neg_log_likelihood: Tensor,
        log_alpha: Tensor,
        blank: int,
        zero_infinity: bool,
        batch: int,
    ) -> Tensor:
        result = run_name(
            f"_ctc_loss_backward{overload}",
            merged(grad, 0),
            merged(log_probs, 1),
            merged(targets, 0),
            repeated(input_lengths, batch),
            repeated(target_lengths, batch),
            merged(neg_log_likelihood, 0),
            merged(log_alpha, 0),
            blank,
            zero_infinity,
        )
        return split(result, 1, batch)


def _declare_ctc_backward_backward(overload: str) -> None:
    @batching(f"_ctc_loss_backward_backward{overload}", all_batched=True)
    def backward_backward(
        grad: Tensor,
        grad_output: Tensor,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Any,
        target_lengths: Any,
        neg_log_likelihood: Tensor,
        log_alpha: Tensor,
        blank: int,
        zero_infinity: bool,
        batch: int,
    ) -> Tensor:
        result = run_name(
            f"_ctc_loss_backward_backward{overload}",
            merged(grad, 1),
            merged(grad_output, 0),
            merged(log_probs, 1),
            merged(targets, 0),
            repeated(input_lengths, batch),
            repeated(target_lengths, batch),
            merged(neg_log_likelihood, 0),
            merged(log_alpha, 0),
            blank,
            zero_infinity,
        )
        return split(result, 1, batch)


_declare_ctc("")
_declare_ctc(".Tensor")

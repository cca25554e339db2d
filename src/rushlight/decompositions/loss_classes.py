"""Losses of classes in terms of simpler operators: cross entropy and its relatives, margins."""

from __future__ import annotations

from typing import Any

from ..core.data_sizes import alike
from ..core.dispatch import run_name
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.shapes import numel
from ..core.tensor import Tensor
from ..ops.loss import MEAN, NONE, SUM

_CLASSES = "Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100"


@composite(f"nll_loss({_CLASSES}) -> Tensor", api=INTERNAL)
def nll_loss(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> Tensor:
    return run_name("nll_loss_forward", self, target, weight, reduction, ignore_index)[0]


@composite(f"nll_loss2d({_CLASSES}) -> Tensor", api=INTERNAL)
def nll_loss2d(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> Tensor:
    return run_name("nll_loss2d_forward", self, target, weight, reduction, ignore_index)[0]


@composite(f"nll_loss_nd({_CLASSES}) -> Tensor", api=INTERNAL)
def nll_loss_nd(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> Tensor:
    check(self.ndim >= 1, f"Expected 1 or more dimensions (got {self.ndim})", ValueError)
    if self.ndim == 1 and target.ndim == 1:
        check(
            target.shape[0] == 1,
            f"For 1D input, 1D target must have size 1, but got target size: {target.shape[0]}",
            ValueError,
        )
    if self.ndim > 1:
        batch = target.shape[0] if target.ndim else None
        check(
            self.shape[0] == batch,
            f"Expected input batch_size ({self.shape[0]}) to match target batch_size ({batch}).",
            ValueError,
        )
    if self.ndim <= 2:
        return run_name("nll_loss", self, target, weight, reduction, ignore_index)
    if self.ndim == 4:
        return run_name("nll_loss2d", self, target, weight, reduction, ignore_index)
    shape, wanted = tuple(self.shape), (self.shape[0], *self.shape[2:])
    check(tuple(target.shape) == wanted, f"Expected target size {list(wanted)}, got {list(target.shape)}")
    inner = numel(shape[2:])
    result = run_name(
        "nll_loss2d",
        self.contiguous().reshape((shape[0], shape[1], inner, 1)),
        target.contiguous().reshape((shape[0], inner, 1)),
        weight,
        reduction,
        ignore_index,
    )
    return result.reshape(wanted) if reduction == NONE else result


# Cross entropy.


def by_class(weight: Tensor, self: Tensor, class_dim: int) -> Tensor:
    """A number for each class in the shape that broadcasts against `self`."""
    return weight.view([-1 if d == class_dim else 1 for d in range(self.ndim)])


@composite(
    "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt "
    "ignore_index=-100, float label_smoothing=0.0) -> Tensor",
    api=INTERNAL,
)
def cross_entropy_loss(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> Tensor:
    """Targets of the input's shape are probabilities of the classes, others are classes."""
    class_dim = 0 if self.ndim == 1 else 1
    if alike(self.shape, target.shape):
        check(
            target.dtype.is_floating_point,
            "Expected floating point type for target with class "
            f"probabilities, got {target.dtype.torch_name}",
        )
        check(ignore_index < 0, "ignore_index is not supported for floating point target")
        return _soft_cross_entropy(self, target, weight, reduction, label_smoothing, class_dim)
    check(
        0.0 <= label_smoothing <= 1.0, f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
    )
    logs = self.log_softmax(class_dim, self.dtype)
    if label_smoothing == 0:
        return run_name("nll_loss_nd", logs, target, weight, reduction, ignore_index)
    return _smoothed(logs, target, weight, reduction, ignore_index, label_smoothing, class_dim)


def _soft_cross_entropy(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    label_smoothing: float,
    class_dim: int,
) -> Tensor:
    check(
        weight is None or (weight.ndim == 1 and weight.numel() == self.shape[class_dim]),
        "cross_entropy: weight tensor should be defined either for all "
        f"{self.shape[class_dim]} classes or no classes but got weight tensor of shape: "
        f"{None if weight is None else list(weight.shape)}",
    )
    logs = self.log_softmax(class_dim, self.dtype)
    if label_smoothing > 0:
        check(label_smoothing <= 1.0, f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
        target = target * (1 - label_smoothing) + label_smoothing / self.shape[class_dim]
    products = logs * target
    if weight is not None:
        products = products * by_class(weight, self, class_dim)
    if reduction == MEAN:
        return -products.sum() / (self.numel() / max(self.shape[class_dim], 1))
    return -products.sum() if reduction == SUM else -products.sum(class_dim)


def _smoothed(
    logs: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
    class_dim: int,
) -> Tensor:
    """A part of the loss spread evenly over all classes."""
    sharp = run_name("nll_loss_nd", logs, target, weight, reduction, ignore_index)
    spread = -logs if weight is None else -(logs * by_class(weight, logs, class_dim))
    ignored = target == ignore_index
    smooth = spread.sum(class_dim).masked_fill(ignored, 0.0)
    if reduction == MEAN:
        if weight is None:
            smooth = smooth.sum() / (~ignored).sum()
        else:
            known = target.masked_fill(ignored, 0)
            counted = weight.gather(0, known.flatten()).reshape(target.shape).masked_fill(ignored, 0.0)
            smooth = smooth.sum() / counted.sum()
    elif reduction == SUM:
        smooth = smooth.sum()
    return sharp * (1 - label_smoothing) + smooth * (label_smoothing / logs.shape[class_dim])


# Margins between the right class and the others.


def rows(self: Tensor, target: Tensor, name: str, target_ndim: int) -> tuple[Tensor, Tensor]:
    """A batch of one for an input without batch."""
    check(
        (self.ndim <= 2 and self.numel() > 0) or (self.ndim == 2 and self.shape[1] > 0),
        f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
        f"{list(self.shape)}",
    )
    check(
        self.dtype.is_floating_point,
        f"\"{name}\" not implemented for '{self.dtype.torch_name}'",
        NotImplementedError,
    )
    batch = self if self.ndim == 2 else self.reshape((1, self.numel()))
    wanted = (batch.shape[0],) if target_ndim == 1 else tuple(batch.shape)
    flat = target.ndim <= 1 and target.numel() == numel(wanted) and (target_ndim == 1 or self.ndim < 2)
    check(
        flat or (self.ndim == 2 and tuple(target.shape) == wanted),
        f"{name}: inconsistent target size: {list(target.shape)} for input of size: {list(self.shape)} "
        f"(target tensor should be {target_ndim}-D with size equal to that of the input or its batch: "
        f"Expected target size {list(wanted)} but got {list(target.shape)})",
    )
    check(
        target.dtype.name == "int64", f"{name}: expected scalar type Long but found {target.dtype.torch_name}"
    )
    return batch, target.reshape(wanted)


def reduced(losses: Tensor, reduction: int, single: bool) -> Tensor:
    if reduction == NONE:
        return losses.reshape(()) if single else losses
    return losses.mean() if reduction == MEAN else losses.sum()


def spread(grad: Tensor, count: int, reduction: int) -> Tensor:
    """The gradient of each of `count` losses, as a column."""
    grad = grad.reshape((-1, 1))
    return grad / count if reduction == MEAN else grad


@composite(
    "multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, "
    "int reduction=1) -> Tensor",
    api=INTERNAL,
)
def multi_margin_loss(
    self: Tensor, target: Tensor, p: Any, margin: Any, weight: Tensor | None, reduction: int
) -> Tensor:
    excess, _, scale = _excess(self, target, p, margin, weight)
    losses = (excess if p == 1 else excess * excess).sum(1) / excess.shape[1]
    return reduced(losses if scale is None else losses * scale, reduction, target.ndim == 0)


def _excess(
    self: Tensor, target: Tensor, p: Any, margin: Any, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """By how much each wrong class comes within the margin, the targets as a column, and their weights."""
    name = "multi_margin_loss"
    check(p in (1, 2), f"{name}: only p == 1 and p == 2 supported, not {p}")
    batch, labels = rows(self, target, name, 1)
    check(
        weight is None or (weight.ndim <= 1 and weight.numel() == batch.shape[1]),
        f"{name}: inconsistent weight size: expected {batch.shape[1]} but got "
        f"{None if weight is None else list(weight.shape)}",
    )
    column = labels.unsqueeze(1)
    excess = (batch - batch.gather(1, column) + margin).clamp_min(0).scatter(1, column, 0)
    return excess, column, None if weight is None else weight.gather(0, labels)


@composite(
    "multi_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, Scalar p, Scalar "
    "margin, Tensor? weight=None, int reduction=1) -> Tensor",
    api=INTERNAL,
)
def multi_margin_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    p: Any,
    margin: Any,
    weight: Tensor | None,
    reduction: int,
) -> Tensor:
    excess, column, scale = _excess(self, target, p, margin, weight)
    slope = (excess > 0).to(self.dtype) if p == 1 else excess * 2
    slope = slope * (spread(grad_output, excess.shape[0], reduction) / excess.shape[1])
    if scale is not None:
        slope = slope * scale.unsqueeze(1)
    return slope.scatter_add(1, column, -slope.sum(1, keepdim=True)).reshape(self.shape)


@composite(
    "multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output, "
    "Tensor is_target)",
    api=INTERNAL,
)
def multilabel_margin_loss_forward(self: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    batch, labels = rows(self, target, "multilabel_margin_loss", 2)
    labels = run_name(
        "_functional_assert_async.msg",
        (labels >= -1) & (labels < batch.shape[1]),
        "multilabel_margin_loss: argument #2 'target' is out of range: labels go from 0 to "
        f"{batch.shape[1] - 1}, and -1 ends the list",
        labels,
    )
    listed, is_target = _label_masks(batch, labels)
    excess = _pairs(batch, labels, listed, is_target)
    losses = excess.sum((1, 2)) / batch.shape[1]
    return reduced(losses, reduction, target.ndim < 2), is_target.to(self.dtype).reshape(target.shape)


def _label_masks(batch: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Which entries of `labels` count, those before the first negative one; and which classes they name."""
    listed = (labels < 0).cumsum(1) == 0
    # An entry that does not count names a class beyond the last one, which is cut off again.
    classes = batch.shape[1]
    named = run_name("where.ScalarOther", listed, labels, classes)
    marks = labels.new_zeros((batch.shape[0], classes + 1))
    return listed, marks.scatter(1, named, 1).narrow(1, 0, classes) == 1


def _pairs(batch: Tensor, labels: Tensor, listed: Tensor, is_target: Tensor) -> Tensor:
    """[sample, label, class]: by how much a class that is no target comes within 1 of the label's score."""
    scores = batch.gather(1, run_name("where.ScalarOther", listed, labels, 0))
    excess = (batch.unsqueeze(1) - scores.unsqueeze(2) + 1).clamp_min(0)
    return run_name("where.ScalarOther", listed.unsqueeze(2) & ~is_target.unsqueeze(1), excess, 0)


@composite(
    "multilabel_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, "
    "Tensor is_target) -> Tensor",
    api=INTERNAL,
)
def multilabel_margin_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, is_target: Tensor
) -> Tensor:
    batch, labels = rows(self, target, "multilabel_margin_loss", 2)
    listed = (labels < 0).cumsum(1) == 0
    active = (_pairs(batch, labels, listed, is_target.reshape(batch.shape) != 0) > 0).to(self.dtype)
    active = active * (spread(grad_output, batch.shape[0], reduction).unsqueeze(2) / batch.shape[1])
    place = run_name("where.ScalarOther", listed, labels, 0)
    return active.sum(1).scatter_add(1, place, -active.sum(2)).reshape(self.shape)


@composite("multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", api=INTERNAL)
def multilabel_margin_loss(self: Tensor, target: Tensor, reduction: int) -> Tensor:
    return run_name("multilabel_margin_loss_forward", self, target, reduction)[0]


# Connectionist temporal classification.

_CTC = "int blank=0, int reduction=1, bool zero_infinity=False"


@composite(
    f"ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, "
    f"{_CTC}) -> Tensor",
    api=FUNCTION,
)
def ctc_loss_lists(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> Tensor:
    sizes = run_name("scalar_tensor", 0, log_probs.dtype, None, None, None)
    if reduction == MEAN:
        sizes = log_probs.new_tensor([max(n, 1) for n in target_lengths])
    return _ctc_loss(
        "_ctc_loss", log_probs, targets, input_lengths, target_lengths, sizes, blank, reduction, zero_infinity
    )


@composite(
    f"ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
    f"{_CTC}) -> Tensor",
    api=FUNCTION,
)
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> Tensor:
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        check(
            lengths.dtype.name in ("uint8", "int8", "int16", "int32", "int64"),
            f"ctc_loss: {name} must be integral",
        )
    lengths, sizes = input_lengths.reshape((-1,)).long(), target_lengths.reshape((-1,)).long()
    return _ctc_loss(
        "_ctc_loss.Tensor",
        log_probs,
        targets,
        lengths,
        sizes,
        sizes.clamp_min(1).to(log_probs.dtype),
        blank,
        reduction,
        zero_infinity,
    )


def _ctc_loss(
    name: str,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    sizes: Tensor,
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> Tensor:
    """Without batch dimension a batch of one. A mean is one over the labels of a target, then of samples."""
    batched = log_probs.ndim == 3
    if not batched:
        check(
            log_probs.ndim == 2,
            "ctc_loss: log_probs must be (time, batch, classes) or (time, classes), "
            f"but its shape is {list(log_probs.shape)}",
        )
        log_probs = log_probs.unsqueeze(1)
    losses = run_name(name, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)[0]
    if zero_infinity:
        losses = run_name("where.ScalarSelf", losses == float("inf"), 0, losses)
    if reduction == MEAN:
        return (losses / sizes).mean()
    if reduction == SUM:
        return losses.sum()
    return losses if batched else losses.squeeze(0)

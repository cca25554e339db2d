"""Losses: modules over the functions of nn.functional, with their options fixed at construction."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from ...core.errors import check
from ...core.tensor import Tensor
from ._simple import F
from .distance import PairwiseDistance
from .linear import Linear
from .linear_cross_entropy_options import LinearCrossEntropyOptions
from .module import Module

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LinearCrossEntropyLoss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


def _reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """`reduction`, unless one of the arguments it replaced is given."""
    if size_average is None and reduce is None:
        return reduction
    result = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{result}' instead.",
        UserWarning,
        stacklevel=4,
    )
    return result


class _Loss(Module):
    """`F.<function>(*inputs, name=value, ...)` for the attributes named in `options`, and the reduction."""

    function: str
    options: Any = ()

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = _reduction(size_average, reduce, reduction)

    def _evaluate(self, *inputs: Any) -> Tensor:
        options = {name: getattr(self, name) for name in type(self).options}
        return getattr(F, self.function)(*inputs, **options, reduction=self.reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._evaluate(input, target)


class _WeightedLoss(_Loss):
    weight: Tensor | None
    options: Any = ("weight",)

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """Mean magnitude of errors.

    >>> nn.L1Loss()(rl.tensor([3.0]), rl.tensor([1.0]))
    tensor(2.)
    """

    function = "l1_loss"


class MSELoss(_Loss):
    """Mean square of errors.

    >>> nn.MSELoss()(rl.tensor([3.0]), rl.tensor([1.0]))
    tensor(4.)
    """

    function = "mse_loss"


class SoftMarginLoss(_Loss):
    """`log(1 + exp(-target * input))`.

    >>> nn.SoftMarginLoss()(rl.tensor([0.0]), rl.tensor([1.0]))
    tensor(0.6931)
    """

    function = "soft_margin_loss"


class MultiLabelMarginLoss(_Loss):
    """Hinge loss of several labels per sample.

    >>> nn.MultiLabelMarginLoss()(rl.tensor([[0.1, 0.8]]), rl.tensor([[1, -1]]))
    tensor(0.1500)
    """

    function = "multilabel_margin_loss"


class BCELoss(_WeightedLoss):
    """Cross entropy of probabilities with targets in [0, 1].

    >>> nn.BCELoss()(rl.tensor([0.5]), rl.tensor([1.0]))
    tensor(0.6931)
    """

    function = "binary_cross_entropy"


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Mean over classes of the cross entropy with logits.

    >>> nn.MultiLabelSoftMarginLoss()(rl.tensor([[0.0, 0.0]]), rl.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """

    function = "multilabel_soft_margin_loss"


class NLLLoss(_WeightedLoss):
    """Negative log-likelihood of classes by log-probabilities.

    >>> nn.NLLLoss()(rl.tensor([[0.5, 0.5]]).log(), rl.tensor([1]))
    tensor(0.6931)
    """

    function = "nll_loss"
    options = ("weight", "ignore_index")

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index


class NLLLoss2d(NLLLoss):
    """NLLLoss by its former name.

    >>> nn.NLLLoss2d()(rl.zeros(1, 2, 1, 1), rl.zeros(1, 1, 1, dtype=rl.int64))
    tensor(0.)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy of the softmax of logits with classes or class probabilities.

    >>> nn.CrossEntropyLoss()(rl.tensor([[0.0, 0.0]]), rl.tensor([1]))
    tensor(0.6931)
    """

    function = "cross_entropy"
    options = ("weight", "ignore_index", "label_smoothing")

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing


class LinearCrossEntropyLoss(_WeightedLoss):
    """The cross entropy of a linear layer, whose logits need not be kept.

    >>> loss = nn.LinearCrossEntropyLoss(4, 3)
    >>> x, target = rl.ones(2, 4), rl.tensor([0, 2])
    >>> bool(loss(x, target).isclose(F.cross_entropy(loss.linear(x), target)))
    True
    """

    options: Any

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        check(
            weight is None or tuple(weight.shape) == (num_classes,),
            f"expected weight shape to be "
            f"{(num_classes,)}, got {None if weight is None else tuple(weight.shape)}",
        )
        check(
            0 <= label_smoothing <= 1,
            f"expected label_smoothing to be in range [0, 1], got {label_smoothing}",
        )
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.linear = Linear(
            in_features, math.prod(out_features, start=num_classes), bias=bias, device=device, dtype=dtype
        )
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*shape, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class BCEWithLogitsLoss(_Loss):
    """Cross entropy of the sigmoid of logits with targets in [0, 1].

    >>> nn.BCEWithLogitsLoss()(rl.tensor([0.0]), rl.tensor([1.0]))
    tensor(0.6931)
    """

    function = "binary_cross_entropy_with_logits"
    options = ("weight", "pos_weight")

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)


class PoissonNLLLoss(_Loss):
    """Negative log-likelihood of counts by log-rates.

    >>> nn.PoissonNLLLoss()(rl.tensor([0.0]), rl.tensor([1.0]))
    tensor(1.)
    """

    function = "poisson_nll_loss"
    options = ("log_input", "full", "eps")

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-08,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return self._evaluate(log_input, target)


class GaussianNLLLoss(_Loss):
    """Negative log-likelihood of targets under normal distributions.

    >>> nn.GaussianNLLLoss()(rl.tensor([0.0]), rl.tensor([2.0]), rl.tensor([1.0]))
    tensor(2.)
    """

    function = "gaussian_nll_loss"
    options = ("full", "eps")

    def __init__(self, *, full: bool = False, eps: float = 1e-06, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:  # type: ignore[override]
        return self._evaluate(input, target, var)


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of targets from log-probabilities.

    >>> nn.KLDivLoss(reduction="batchmean")(rl.tensor([[0.5, 0.5]]).log(), rl.tensor([[0.25, 0.75]]))
    tensor(0.1308)
    """

    function = "kl_div"
    options = ("log_target",)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target


class HingeEmbeddingLoss(_Loss):
    """The input where the target is 1, `max(0, margin - input)` where it is -1.

    >>> nn.HingeEmbeddingLoss()(rl.tensor([0.5]), rl.tensor([-1.0]))
    tensor(0.5000)
    """

    function = "hinge_embedding_loss"
    options = ("margin",)

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class SmoothL1Loss(_Loss):
    """Squares of errors below `beta`, magnitudes above.

    >>> nn.SmoothL1Loss()(rl.tensor([3.0]), rl.tensor([0.0]))
    tensor(2.5000)
    """

    function = "smooth_l1_loss"
    options = ("beta",)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta


class HuberLoss(_Loss):
    """Squares of small errors, magnitudes of large ones.

    >>> nn.HuberLoss()(rl.tensor([3.0]), rl.tensor([0.0]))
    tensor(2.5000)
    """

    function = "huber_loss"
    options = ("delta",)

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        check(isinstance(delta, float | int), f"delta must be a float or int, got: {type(delta)}", TypeError)
        super().__init__(reduction=reduction)
        self.delta = delta


class _PairLoss(_Loss):
    """A loss of two inputs and a target."""

    options = ("margin",)

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        return self._evaluate(input1, input2, target)


class CosineEmbeddingLoss(_PairLoss):
    """One minus the cosine for pairs that belong together, its positive part for others.

    >>> nn.CosineEmbeddingLoss()(rl.tensor([[1.0, 0.0]]), rl.tensor([[0.0, 1.0]]), rl.tensor([1.0]))
    tensor(1.)
    """

    function = "cosine_embedding_loss"


class MarginRankingLoss(_PairLoss):
    """`max(0, -target * (input1 - input2) + margin)`.

    >>> nn.MarginRankingLoss()(rl.tensor([1.0]), rl.tensor([3.0]), rl.tensor([1.0]))
    tensor(2.)
    """

    function = "margin_ranking_loss"


class MultiMarginLoss(_WeightedLoss):
    """Hinge loss of one label per sample.

    >>> nn.MultiMarginLoss()(rl.tensor([[0.1, 0.8]]), rl.tensor([1]))
    tensor(0.1500)
    """

    function = "multi_margin_loss"
    options = ("p", "margin", "weight")

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        check(p in (1, 2), "only p == 1 and p == 2 supported", ValueError)
        check(
            weight is None or weight.ndim == 1,
            "MultiMarginLoss: expected weight to be None or 1D tensor, got "
            f"{None if weight is None else weight.ndim}D instead",
            ValueError,
        )
        self.p = p
        self.margin = margin


class _TripletLoss(_Loss):
    def _set_margin(self, margin: float, swap: bool) -> None:
        check(
            margin > 0,
            f"{type(self).__name__}: expected margin to be greater than 0, got {margin} instead",
            ValueError,
        )
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:  # type: ignore[override]
        return self._evaluate(anchor, positive, negative)


class TripletMarginLoss(_TripletLoss):
    """How much nearer the negative is than the positive, plus a margin, not below 0.

    >>> nn.TripletMarginLoss()(rl.tensor([[0.0]]), rl.tensor([[1.0]]), rl.tensor([[1.0]]))
    tensor(1.)
    """

    function = "triplet_margin_loss"
    options = ("margin", "p", "eps", "swap")

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-06,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self._set_margin(margin, swap)
        self.p = p
        self.eps = eps


class TripletMarginWithDistanceLoss(_TripletLoss):
    """`TripletMarginLoss` with a distance of your own.

    >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1))
    >>> loss(rl.tensor([[0.0]]), rl.tensor([[1.0]]), rl.tensor([[1.0]]))
    tensor(1.)
    """

    function = "triplet_margin_with_distance_loss"
    options = ("distance_function", "margin", "swap")

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self._set_margin(margin, swap)


class CTCLoss(_Loss):
    """Negative log-likelihood of labels over all their alignments with a longer sequence.

    >>> nn.CTCLoss()(rl.full((3, 1, 2), 0.5).log(), rl.tensor([[1]]), [3], [1])
    tensor(0.2877)
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(  # type: ignore[override]
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )

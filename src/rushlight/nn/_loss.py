"""torch.nn.functional: losses, with PyTorch's signatures."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ..core.dispatch import AMBIENT, run_name
from ..core.dtypes import Category
from ..core.errors import check
from ..core.shapes import numel
from ..core.tensor import META, TRACED, Tensor
from ._reduction import NUMBERS as _REDUCTIONS
from ._reduction import get_enum, legacy_get_string

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "linear_cross_entropy",
    "mse_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
]


def _word(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction; the old pair of flags, where given, wins and warns."""
    if size_average is None and reduce is None:
        get_enum(reduction)
        return reduction
    return legacy_get_string(size_average, reduce, stacklevel=5)


def _number(size_average: bool | None, reduce: bool | None, reduction: str) -> int:
    return _REDUCTIONS[_word(size_average, reduce, reduction)]


def _reduced(losses: Tensor, reduction: str) -> Tensor:
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


def _weighted(losses: Tensor, weight: Tensor, input: Tensor, reduction: str) -> Tensor:
    """The weighted losses, for a mean divided by the sum of the weights."""
    _check_weight(weight, input)
    losses = losses * weight
    return losses.sum() / weight.sum() if reduction == "mean" else _reduced(losses, reduction)


def _check_weight(weight: Tensor, input: Tensor) -> None:
    check(
        weight.shape == input.shape,
        "Weights and input must have the same size, but they are "
        f"{list(weight.shape)} and {list(input.shape)}.",
        ValueError,
    )


def _same_size(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both in their common shape; a difference is most often a mistake."""
    if input.shape == target.shape:
        return input, target
    warnings.warn(
        f"Using a target size ({list(target.shape)}) that is different to the input size "
        f"({list(input.shape)}). This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        UserWarning,
        stacklevel=3,
    )
    wide = run_name("broadcast_tensors", (input, target))
    return wide[0], wide[1]


# Distances.


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Mean square of errors.

    >>> F.mse_loss(rl.tensor([3.0]), rl.tensor([1.0]))
    tensor(4.)
    """
    a, b = _same_size(input, target)
    word = _word(size_average, reduce, reduction)
    if weight is not None:
        return _weighted((a - b) ** 2, weight, input, word)
    return run_name("mse_loss", a, b, _REDUCTIONS[word])


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Mean magnitude of errors.

    >>> F.l1_loss(rl.tensor([3.0]), rl.tensor([1.0]))
    tensor(2.)
    """
    a, b = _same_size(input, target)
    word = _word(size_average, reduce, reduction)
    if weight is not None:
        return _weighted((a - b).abs(), weight, input, word)
    return run_name("l1_loss", a, b, _REDUCTIONS[word])


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Squares of errors below `beta`, magnitudes above.

    >>> F.smooth_l1_loss(rl.tensor([3.0]), rl.tensor([0.0]))
    tensor(2.5000)
    """
    a, b = _same_size(input, target)
    number = _number(size_average, reduce, reduction)
    return run_name("l1_loss", a, b, number) if beta == 0 else run_name("smooth_l1_loss", a, b, number, beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Squares of small errors, magnitudes of large ones.

    >>> F.huber_loss(rl.tensor([3.0]), rl.tensor([0.0]))
    tensor(2.5000)
    """
    a, b = _same_size(input, target)
    word = _word(None, None, reduction)
    if weight is None:
        return run_name("huber_loss", a, b, _REDUCTIONS[word], delta)
    _check_weight(weight, input)
    return _reduced(run_name("huber_loss", a, b, 0, delta) * weight, word)


# Probabilities.


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of classes by log-probabilities.

    >>> F.nll_loss(rl.tensor([[0.5, 0.5]]).log(), rl.tensor([1]))
    tensor(0.6931)
    """
    return run_name(
        "nll_loss_nd", input, target, weight, _number(size_average, reduce, reduction), ignore_index
    )


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of the softmax of logits with classes or class probabilities.

    >>> F.cross_entropy(rl.tensor([[0.0, 0.0]]), rl.tensor([1]))
    tensor(0.6931)
    """
    return run_name(
        "cross_entropy_loss",
        input,
        target,
        weight,
        _number(size_average, reduce, reduction),
        ignore_index,
        label_smoothing,
    )


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """Cross entropy of `linear(input, linear_weight, linear_bias)`.

    `options` say how PyTorch cuts the work into chunks. Of that only one thing shows: half types then keep
    their logits in float32.

    >>> F.linear_cross_entropy(rl.ones(2, 3), rl.ones(4, 3), rl.tensor([0, 1]))
    tensor(1.3863)
    """
    check(input.ndim in (1, 2), f"expected input with dimensionality 1 or 2, got {input.ndim}")
    check(
        linear_weight.ndim >= 2,
        f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}",
    )
    features = input.shape[-1]
    check(
        features == linear_weight.shape[-1],
        "expected equal input and linear_weight last dimensions "
        f"(in_features), got {features} and {linear_weight.shape[-1]}, respectively",
    )
    classes = tuple(linear_weight.shape[:-1])
    check(
        linear_bias is None or tuple(linear_bias.shape) == classes,
        "expected linear_bias shape "
        f"{classes}, got {None if linear_bias is None else tuple(linear_bias.shape)}",
    )
    check(
        len(classes) == 1 or input.ndim == 2,
        f"K-dimensional loss defined by linear_weight shape "
        f"{tuple(linear_weight.shape)} requires batched input, (N, {features}), got unbatched input with "
        f"shape {tuple(input.shape)}",
    )
    shape = (*input.shape[:-1], *classes)
    check(
        tuple(target.shape) != shape or ignore_index is None,
        "ignore_index cannot be specified when target contains probabilities",
    )
    chunked = label_smoothing == 0 and target.dtype.name == "int64" and len(classes) == 1
    dtype = input.dtype.opmath if options is not None and chunked else input.dtype
    bias = None if linear_bias is None else linear_bias.reshape((-1,)).to(dtype)
    table = linear_weight.reshape((numel(classes), features)).to(dtype)
    logits = run_name("linear", input.to(dtype), table, bias).reshape(shape)
    weight = None if weight is None else weight.to(dtype)
    result = cross_entropy(
        logits,
        target,
        weight,
        reduction=reduction,
        label_smoothing=label_smoothing,
        ignore_index=-100 if ignore_index is None else ignore_index,
    )
    return result if dtype is input.dtype else result.to(input.dtype)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Cross entropy of probabilities with targets in [0, 1].

    >>> F.binary_cross_entropy(rl.tensor([0.5]), rl.tensor([1.0]))
    tensor(0.6931)
    """
    number = _number(size_average, reduce, reduction)
    check(
        target.shape == input.shape,
        f"Using a target size ({list(target.shape)}) that is different to the "
        f"input size ({list(input.shape)}) is deprecated. Please ensure they have the same size.",
        ValueError,
    )
    if weight is not None:
        weight = run_name("broadcast_tensors", (target, weight))[1]
    return run_name("binary_cross_entropy", input, target, weight, number)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Cross entropy of the sigmoid of logits with targets in [0, 1].

    >>> F.binary_cross_entropy_with_logits(rl.tensor([0.0]), rl.tensor([1.0]))
    tensor(0.6931)
    """
    number = _number(size_average, reduce, reduction)
    check(
        target.shape == input.shape,
        f"Target size ({list(target.shape)}) must be the same as input size ({list(input.shape)})",
        ValueError,
    )
    return run_name("binary_cross_entropy_with_logits", input, target, weight, pos_weight, number)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Kullback-Leibler divergence of targets from log-probabilities.

    >>> F.kl_div(rl.tensor([[0.5, 0.5]]).log(), rl.tensor([[0.25, 0.75]]), reduction="batchmean")
    tensor(0.1308)
    """
    if size_average is None and reduce is None and reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. "
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition. 'mean' will be changed to behave the same as 'batchmean' in the next "
            "major release.",
            UserWarning,
            stacklevel=2,
        )
    by_batch = reduction == "batchmean" and size_average is None and reduce is None
    number = _number(size_average, reduce, "sum" if by_batch else reduction)
    result = run_name("kl_div", input, target, number, log_target)
    return result / input.shape[0] if by_batch and input.ndim else result


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of counts by log-rates.

    >>> F.poisson_nll_loss(rl.tensor([0.0]), rl.tensor([1.0]))
    tensor(1.)
    """
    return run_name(
        "poisson_nll_loss", input, target, log_input, full, eps, _number(size_average, reduce, reduction)
    )


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log likelihood of `target` under a normal distribution with mean `input`.

    Variances below `eps` count as `eps`, with the gradient of the variance that was given.

    >>> F.gaussian_nll_loss(rl.tensor([0.0]), rl.tensor([2.0]), rl.tensor([1.0]))
    tensor(2.)
    """
    variance = _variance(input, var)
    check(reduction in _REDUCTIONS, f"{reduction} is not valid", ValueError)
    floor = variance + (variance.detach().clamp_min(eps) - variance.detach())
    losses = (floor.log() + (input - target) ** 2 / floor) * 0.5
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return _reduced(losses, reduction)


def _variance(input: Tensor, var: Tensor | float) -> Tensor:
    """Variances for `input`: one for all, one for each element, or one for each vector along a dimension."""
    negative = "var has negative entry/entries"
    if not isinstance(var, Tensor):
        check(var >= 0, negative, ValueError)
        return run_name("full_like", input.detach(), var, None, None, None, None, None)
    if not (var._keys | AMBIENT.keys) & (TRACED | META):
        check(not bool((var < 0).any()), negative, ValueError)
    check(
        var.dtype.category is not Category.INTEGRAL,
        "gaussian_nll_loss: var must be floating point: "
        f"result type Float can't be cast to the desired output type {var.dtype.torch_name}",
    )
    if var.shape == input.shape:
        return var
    if input.shape[:-1] == var.shape:
        return var.unsqueeze(-1)
    differ = [b for a, b in zip(input.shape, var.shape, strict=False) if a != b]
    check(
        input.ndim == var.ndim and sum(differ) == 1,
        f"var is of incorrect size: {list(var.shape)} for an input of size {list(input.shape)}",
        ValueError,
    )
    return var


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`log(1 + exp(-target * input))`.

    >>> F.soft_margin_loss(rl.tensor([0.0]), rl.tensor([1.0]))
    tensor(0.6931)
    """
    return run_name("soft_margin_loss", input, target, _number(size_average, reduce, reduction))


# Margins.


# Sequences.

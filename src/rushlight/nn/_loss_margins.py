"""Losses that compare with a margin, and of sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.tensor import Tensor
from ._loss import _number, _reduced, _word

__all__ = [
    "cosine_embedding_loss",
    "ctc_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The input where the target is 1, `max(0, margin - input)` where it is -1.

    >>> F.hinge_embedding_loss(rl.tensor([0.5]), rl.tensor([-1.0]))
    tensor(0.5000)
    """
    return run_name("hinge_embedding_loss", input, target, margin, _number(size_average, reduce, reduction))


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`max(0, -target * (input1 - input2) + margin)`.

    >>> F.margin_ranking_loss(rl.tensor([1.0]), rl.tensor([3.0]), rl.tensor([1.0]))
    tensor(2.)
    """
    number = _number(size_average, reduce, reduction)
    check(
        input1.ndim == input2.ndim == target.ndim,
        "margin_ranking_loss : All input tensors should have "
        f"same dimension but got sizes: input1: {list(input1.shape)}, input2: {list(input2.shape)}, "
        f"target: {list(target.shape)}",
    )
    return run_name("margin_ranking_loss", input1, input2, target, margin, number)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """One minus the cosine for pairs that belong together, its positive part for others.

    >>> F.cosine_embedding_loss(rl.tensor([[1.0, 0.0]]), rl.tensor([[0.0, 1.0]]), rl.tensor([1.0]))
    tensor(1.)
    """
    return run_name(
        "cosine_embedding_loss", input1, input2, target, margin, _number(size_average, reduce, reduction)
    )


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Hinge loss of one label per sample.

    >>> F.multi_margin_loss(rl.tensor([[0.1, 0.8]]), rl.tensor([1]))
    tensor(0.1500)
    """
    number = _number(size_average, reduce, reduction)
    check(p in (1, 2), f"only p == 1 and p == 2 supported, not {p}", ValueError)
    check(weight is None or weight.ndim == 1, "weight must be one-dimensional", ValueError)
    return run_name("multi_margin_loss", input, target, p, margin, weight, number)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Hinge loss of several labels per sample.

    >>> F.multilabel_margin_loss(rl.tensor([[0.1, 0.8]]), rl.tensor([[1, -1]]))
    tensor(0.1500)
    """
    return run_name("multilabel_margin_loss", input, target, _number(size_average, reduce, reduction))


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over classes of the cross entropy with logits.

    >>> F.multilabel_soft_margin_loss(rl.tensor([[0.0, 0.0]]), rl.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    word = _word(size_average, reduce, reduction)
    yes, no = (run_name("log_sigmoid", x) for x in (input, -input))
    losses = -(target * yes + (1 - target) * no)
    if weight is not None:
        losses = losses * weight
    return _reduced(losses.sum(-1) / input.shape[-1], word)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """How much nearer the negative is than the positive, plus a margin, not below 0.

    >>> F.triplet_margin_loss(rl.tensor([[0.0]]), rl.tensor([[1.0]]), rl.tensor([[1.0]]))
    tensor(1.)
    """
    number = _number(size_average, reduce, reduction)
    check(not margin <= 0, f"margin must be greater than 0, got {margin}", ValueError)
    return run_name("triplet_margin_loss", anchor, positive, negative, margin, p, eps, swap, number)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a distance of your own.

    >>> anchor, positive, negative = rl.tensor([[0.0]]), rl.tensor([[1.0]]), rl.tensor([[1.0]])
    >>> F.triplet_margin_with_distance_loss(anchor, positive, negative)
    tensor(1.)
    """
    word = _word(None, None, reduction)
    check(not margin <= 0, f"margin must be greater than 0, got {margin}", ValueError)
    check(
        anchor.ndim == positive.ndim == negative.ndim,
        "The anchor, positive, and negative tensors are "
        f"expected to have the same number of dimensions, but got: anchor {anchor.ndim}D, positive "
        f"{positive.ndim}D, and negative {negative.ndim}D inputs",
    )
    distance = distance_function or (lambda a, b: run_name("pairwise_distance", a, b, 2.0, 1e-6, False))
    away = distance(anchor, negative)
    if swap:
        away = run_name("minimum", away, distance(positive, negative))
    return _reduced((distance(anchor, positive) + margin - away).clamp_min(0), word)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Negative log-likelihood of labels over all their alignments with a longer sequence.

    >>> F.ctc_loss(rl.full((3, 1, 2), 0.5).log(), rl.tensor([[1]]), [3], [1])
    tensor(0.2877)
    """
    lists = not isinstance(input_lengths, Tensor)
    lengths = (tuple(input_lengths), tuple(target_lengths)) if lists else (input_lengths, target_lengths)
    return run_name(
        "ctc_loss.IntList" if lists else "ctc_loss.Tensor",
        log_probs,
        targets,
        *lengths,
        blank,
        _number(None, None, reduction),
        zero_infinity,
    )

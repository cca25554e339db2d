"""Connectionist temporal classification on NumPy arrays: vectorised over the batch and the states.

The states of a target are its labels with blanks around each of them. log_alpha[n, t, s] is the log of the
probability of all beginnings of length t + 1 that end in state s; log_beta the same for ends that start in
it. Both count the probability of state s at time t. As in PyTorch, the gradient takes each step of log_probs
to be normalized: exp(log_probs) minus the probability of being in a state with that label.

Logarithms of probabilities of whole sequences are large, and a difference of them is what counts: everything
is computed in double precision, and backward does not read the rounded log_alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.registry import kernel
from ..core.shapes import Spec
from ..ops.loss_ctc import check_lengths


@dataclass
class Lattice:
    """The states of a batch of targets."""

    scores: np.ndarray  # [time, sample, state]: log probability of the state's label
    labels: np.ndarray  # [sample, state]
    skips: np.ndarray  # [sample, state]: may follow the state two before it
    steps: np.ndarray  # [sample]: length of the input
    last: np.ndarray  # [sample]: the final blank; the final label is the state before it

    def at_end(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The values [time, sample, state] of both final states at the last step; -inf where there is none."""
        samples, end = np.arange(len(self.last)), np.maximum(self.steps - 1, 0)
        label = values[end, samples, np.maximum(self.last - 1, 0)]
        return values[end, samples, self.last], np.where(self.last > 0, label, -np.inf)


def lattice(
    log_probs: np.ndarray,
    targets: np.ndarray,
    input_lengths: Any,
    target_lengths: Any,
    blank: int,
    states: int,
) -> Lattice:
    time, batch, classes = log_probs.shape
    steps, sizes = (np.asarray(x, np.int64) for x in (input_lengths, target_lengths))
    check_lengths(steps.tolist(), sizes.tolist(), time, batch, targets.shape)
    labels = np.full((batch, states), blank, np.int64)
    inside = np.arange((states - 1) // 2) < sizes[:, None]
    if targets.ndim == 1:
        starts = np.cumsum(sizes) - sizes
        places = np.minimum(starts[:, None] + np.arange(inside.shape[1]), max(targets.size - 1, 0))
        chosen = targets[places] if targets.size else np.full(inside.shape, blank)
    else:
        chosen = targets[:, : inside.shape[1]]
    known = np.where(inside, chosen, blank)
    if known.size and (known.min() < 0 or known.max() >= classes):
        raise IndexError(
            f"ctc_loss: targets must be in 0 to {classes - 1}, but one is "
            f"{known.min() if known.min() < 0 else known.max()}"
        )
    labels[:, 1::2] = known
    skips = np.zeros(labels.shape, bool)
    skips[:, 2:] = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    scores = np.take_along_axis(
        log_probs.astype(np.float64), np.broadcast_to(labels, (time, *labels.shape)), 2
    )
    return Lattice(scores, labels, skips, steps, 2 * sizes)


def log_sum(*terms: np.ndarray) -> np.ndarray:
    top = np.maximum.reduce(terms)
    base = np.where(np.isfinite(top), top, 0)
    return np.log(sum(np.exp(term - base) for term in terms)) + base


def shifted(x: np.ndarray, by: int, fill: float = -np.inf) -> np.ndarray:
    """x moved by `by` states to the right (to the left, if negative)."""
    result = np.full(x.shape, fill, x.dtype)
    if by > 0:
        result[:, by:] = x[:, :-by]
    else:
        result[:, :by] = x[:, -by:]
    return result


def predecessors(x: np.ndarray, skips: np.ndarray) -> tuple[np.ndarray, ...]:
    return x, shifted(x, 1), np.where(skips, shifted(x, 2), -np.inf)


def successors(x: np.ndarray, skips: np.ndarray) -> tuple[np.ndarray, ...]:
    return x, shifted(x, -1), shifted(np.where(skips, x, -np.inf), -2)


def forward(states: Lattice) -> np.ndarray:
    """log_alpha, as [time, sample, state]."""
    alpha = np.full(states.scores.shape, -np.inf, states.scores.dtype)
    alpha[0, :, 0] = states.scores[0, :, 0]
    if alpha.shape[2] > 1:
        alpha[0, :, 1] = np.where(states.last > 0, states.scores[0, :, 1], -np.inf)
    for t in range(1, len(alpha)):
        alpha[t] = log_sum(*predecessors(alpha[t - 1], states.skips)) + states.scores[t]
    return alpha


def final(states: Lattice) -> np.ndarray:
    """0 at the two final states of each sample, -inf elsewhere."""
    index = np.arange(states.labels.shape[1])
    ends = (index == states.last[:, None]) | (index == states.last[:, None] - 1)
    return np.where(ends, 0.0, -np.inf).astype(states.scores.dtype)


def backward(states: Lattice) -> np.ndarray:
    """log_beta, as [time, sample, state]."""
    beta = np.full(states.scores.shape, -np.inf, states.scores.dtype)
    start = final(states)
    following = beta[0]
    for t in range(len(beta) - 1, -1, -1):
        moved = log_sum(*successors(following, states.skips))
        before = np.where((states.steps == t + 1)[:, None], start, moved)
        following = beta[t] = before + states.scores[t]
    return beta


@kernel("_ctc_loss", "_ctc_loss.Tensor")
def ctc_loss(
    log_probs: np.ndarray,
    targets: np.ndarray,
    input_lengths: Any,
    target_lengths: Any,
    blank: int,
    out: Sequence[Spec],
) -> tuple[np.ndarray, np.ndarray]:
    states = lattice(log_probs, targets, input_lengths, target_lengths, blank, out[1].known_shape()[2])
    alpha = forward(states)
    return likelihood(states, alpha), np.moveaxis(alpha, 0, 1).copy()


def likelihood(states: Lattice, alpha: np.ndarray) -> np.ndarray:
    """Minus the log of the probability of each target."""
    nothing = np.where(states.last == 0, 0.0, np.inf)  # without input, only the empty target is certain
    return np.where(states.steps == 0, nothing, -log_sum(*states.at_end(alpha)))


def by_class(values: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """The sum over the states of each label: [time, sample, class]."""
    time, batch, _ = values.shape
    result = np.zeros((time, batch, classes), values.dtype)
    np.add.at(result, (np.arange(time)[:, None, None], np.arange(batch)[:, None], labels), values)
    return result


def occupation(states: Lattice, alpha: np.ndarray, beta: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """The probability of each state at each time, given the target."""
    together = alpha + beta - states.scores + loss[:, None]
    return np.where(np.isneginf(alpha) | np.isneginf(beta), 0, np.exp(together))


def live(
    states: Lattice, loss: np.ndarray, grad: np.ndarray, values: np.ndarray, zero_infinity: bool
) -> np.ndarray:
    """values * grad for the steps of each input; 0 after them and, if so asked, where the loss is infinite."""
    during = np.arange(len(values))[:, None] < states.steps
    if zero_infinity:
        during &= ~np.isinf(loss)
    else:
        values = np.where(np.isinf(loss)[:, None], np.nan, values)
    return np.where(during[:, :, None], values * grad[:, None], 0)


@kernel("_ctc_loss_backward", "_ctc_loss_backward.Tensor")
def ctc_loss_backward(
    grad: np.ndarray,
    log_probs: np.ndarray,
    targets: np.ndarray,
    input_lengths: Any,
    target_lengths: Any,
    log_alpha: np.ndarray,
    blank: int,
    zero_infinity: bool,
) -> np.ndarray:
    states = lattice(log_probs, targets, input_lengths, target_lengths, blank, log_alpha.shape[2])
    alpha = forward(states)
    loss = likelihood(states, alpha)
    seen = occupation(states, alpha, backward(states), loss)
    values = np.exp(log_probs) - by_class(seen, states.labels, log_probs.shape[2])
    return live(states, loss, grad, values, zero_infinity)


# Second order: the occupation along a direction.


def shares(parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """How much each of the terms has in exp(log_sum of the terms)."""
    whole = log_sum(*parts)
    return [np.where(np.isneginf(part), 0, np.exp(part - whole)) for part in parts]


def forward_tangent(states: Lattice, alpha: np.ndarray, scores_t: np.ndarray) -> np.ndarray:
    alpha_t = np.zeros_like(alpha)
    alpha_t[0] = scores_t[0]
    for t in range(1, len(alpha)):
        weights = shares(predecessors(alpha[t - 1], states.skips))
        before = alpha_t[t - 1]
        moves = (before, shifted(before, 1, 0), shifted(before, 2, 0))
        alpha_t[t] = scores_t[t] + sum(w * m for w, m in zip(weights, moves, strict=True))
    return alpha_t


def backward_tangent(states: Lattice, beta: np.ndarray, scores_t: np.ndarray) -> np.ndarray:
    beta_t = np.zeros_like(beta)
    for t in range(len(beta) - 1, -1, -1):
        moved = np.zeros_like(beta[t])
        if t + 1 < len(beta):
            weights = shares(successors(beta[t + 1], states.skips))
            after = beta_t[t + 1]
            moves = (after, shifted(after, -1, 0), shifted(after, -2, 0))
            moved = sum(w * m for w, m in zip(weights, moves, strict=True))
        beta_t[t] = scores_t[t] + np.where((states.steps == t + 1)[:, None], 0, moved)
    return beta_t


@kernel("_ctc_loss_backward_backward", "_ctc_loss_backward_backward.Tensor")
def ctc_loss_backward_backward(
    grad: np.ndarray,
    grad_output: np.ndarray,
    log_probs: np.ndarray,
    targets: np.ndarray,
    input_lengths: Any,
    target_lengths: Any,
    log_alpha: np.ndarray,
    blank: int,
    zero_infinity: bool,
) -> np.ndarray:
    states = lattice(log_probs, targets, input_lengths, target_lengths, blank, log_alpha.shape[2])
    during = np.arange(len(log_probs))[:, None, None] < states.steps[:, None]
    direction = np.where(during, grad, 0)
    scores_t = np.take_along_axis(direction, np.broadcast_to(states.labels, states.scores.shape), 2)
    alpha, beta = forward(states), backward(states)
    loss = likelihood(states, alpha)
    alpha_t = forward_tangent(states, alpha, scores_t)
    beta_t = backward_tangent(states, beta, scores_t)
    ends_t = [np.where(np.isfinite(end_t), end_t, 0) for end_t in states.at_end(alpha_t)]
    weights = shares(states.at_end(alpha))
    loss_t = -(weights[0] * ends_t[0] + weights[1] * ends_t[1])
    seen_t = occupation(states, alpha, beta, loss) * (alpha_t + beta_t - scores_t + loss_t[:, None])
    values = np.exp(log_probs) * direction - by_class(seen_t, states.labels, log_probs.shape[2])
    return live(states, loss, grad_output, values, zero_infinity)

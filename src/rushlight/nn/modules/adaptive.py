"""AdaptiveLogSoftmaxWithLoss."""

from __future__ import annotations

import itertools
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from ...core.errors import check
from ...core.tensor import Tensor
from ._simple import F, functions
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """A softmax over many classes: frequent ones directly, the others through clusters with smaller
    layers.

    >>> layer = nn.AdaptiveLogSoftmaxWithLoss(4, 10, cutoffs=[2, 5])
    >>> layer(rl.ones(3, 4), rl.tensor([0, 3, 9])).output.shape
    rushlight.Size([3])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        limits = list(cutoffs)
        check(len(limits) > 0, "cutoffs should be a sequence of length larger than 0", ValueError)
        check(
            limits == sorted(set(limits))
            and limits[0] > 0
            and limits[-1] <= n_classes - 1
            and all(int(c) == c for c in limits),
            "cutoffs should be a sequence of unique, positive integers sorted "
            "in an increasing order, where each value is between 1 and n_classes-1",
            ValueError,
        )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*limits, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = limits[0]
        self.n_clusters = len(limits)
        self.head_size = self.shortlist_size + self.n_clusters
        options = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(itertools.pairwise(self.cutoffs)):
            hidden = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **options),
                    Linear(hidden, high - low, bias=False, **options),
                )
            )

    def reset_parameters(self) -> None:
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Any:
        """The log probability of each target, and the mean of their negatives."""
        self._check(input_, target_)
        single = target_.ndim == 0
        input, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if single else (input_, target_)
        known = (target >= 0) & (target < self.n_classes)
        check(
            bool(known.all()),
            f"Target values should be in [0, {self.n_classes - 1}], but values in range "
            f"[{target.min().item()}, {target.max().item()}] were found. ",
        )
        in_head = target
        output = input.new_zeros(target.shape[0])
        for i, (low, high) in enumerate(itertools.pairwise(self.cutoffs)):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            in_head = in_head.index_fill(0, rows, self.shortlist_size + i)
            inside = F.log_softmax(self.tail[i](input.index_select(0, rows)), dim=1)
            chosen = inside.gather(1, (target.index_select(0, rows) - low).unsqueeze(1)).squeeze(1)
            output = output.index_copy(0, rows, chosen)
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, in_head.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output.squeeze(0) if single else output, loss)

    def _check(self, input: Tensor, target: Tensor) -> None:
        check(target.ndim <= 1, "0D or 1D target tensor expected, multi-target not supported")
        wanted = target.ndim + 1
        check(
            target.ndim == 0 or input.shape[0] == target.shape[0],
            "Input and target should have the same size in the batch dimension.",
        )
        check(
            input.ndim == wanted,
            f"{target.ndim}D target tensor expects {wanted}D input tensors, but found inputs "
            f"with size {input.shape}",
        )

    def log_prob(self, input: Tensor) -> Tensor:
        """The log probabilities of all classes."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i in range(self.n_clusters):
            parts.append(
                F.log_softmax(self.tail[i](input), dim=1) + head[:, self.shortlist_size + i].unsqueeze(1)
            )
        return functions["cat"](parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class; where the head is sure, the clusters are not looked at."""
        best = self.head(input).argmax(dim=1)
        outside = best >= self.shortlist_size
        if not outside.any():
            return best
        rows = outside.nonzero().squeeze(1)
        return best.index_copy(0, rows, self.log_prob(input.index_select(0, rows)).argmax(dim=1))

"""Adam for sparse gradients: rows without a gradient keep their averages and their values."""

from __future__ import annotations

import math
from typing import Any

from ..core.errors import check
from ..core.tensor import Tensor
from ._batch import Batch, zeros_like
from .optimizer import Optimizer, ParamsT, validate

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam that touches only the elements that have a gradient (`nn.Embedding(sparse=True)`).

    >>> table = nn.Embedding(3, 1, sparse=True)
    >>> before = table.weight.detach().clone()
    >>> table(rl.tensor([1])).sum().backward()
    >>> rl.optim.SparseAdam(table.parameters(), lr=0.1).step()
    >>> (table.weight != before).flatten()
    tensor([False,  True, False])
    """

    _takes_sparse = True
    _step_is_tensor = False

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check(not isinstance(lr, Tensor) or lr.numel() == 1, "Tensor lr must be 1-element", ValueError)
        validate(
            (bool(lr > 0.0), f"Invalid learning rate: {lr}"),
            (eps > 0.0, f"Invalid epsilon value: {eps}"),
            (0.0 <= betas[0] < 1.0, f"Invalid beta parameter at index 0: {betas[0]}"),
            (0.0 <= betas[1] < 1.0, f"Invalid beta parameter at index 1: {betas[1]}"),
        )
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        layouts = [param.layout for group in self.param_groups for param in group["params"]]
        sparse = [i for i, layout in enumerate(layouts) if "sparse" in str(layout)]
        check(
            not sparse,
            f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors",
            ValueError,
        )
        complex_ones = [
            [i, j]
            for i, group in enumerate(self.param_groups)
            for j, param in enumerate(group["params"])
            if param.is_complex()
        ]
        check(
            not complex_ones,
            f"Complex params at indices {complex_ones}: SparseAdam does not support complex parameters",
            ValueError,
        )

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": 0, "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}

    def _update(self, batch: Batch) -> None:
        first, second = batch.betas
        for param, grad, state in zip(batch.params, batch.grads, batch.states, strict=True):
            check(grad.is_sparse, "SparseAdam does not support dense gradients, please consider Adam instead")
            state["step"] += 1
            grad = grad.coalesce()
            values = grad._values()
            if values.numel() == 0:
                continue
            at = tuple(grad._indices().unbind(0))
            average, square = state["exp_avg"][at], state["exp_avg_sq"][at]
            average = average + (values - average) * (1 - first)
            square = square + (values * values - square) * (1 - second)
            state["exp_avg"].index_put_(at, average)
            state["exp_avg_sq"].index_put_(at, square)
            corrected = math.sqrt(1 - second ** state["step"]) / (1 - first ** state["step"])
            rate = batch.lr * corrected
            param.index_put_(at, param[at] - average / (square.sqrt() + batch.eps) * rate)

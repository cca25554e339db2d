"""Muon: the momentum of a matrix, made orthogonal."""

from __future__ import annotations

import math
from typing import Any

from ..core.errors import check
from ..core.tensor import Tensor
from ._batch import Batch, by_rows, functions, zeros_like
from .optimizer import Optimizer, ParamsT, validate

__all__ = ["Muon"]


class Muon(Optimizer):
    """Steps along the orthogonal matrix that is nearest to the averaged gradient.

    >>> x = rl.ones(2, 2, requires_grad=True)
    >>> optimizer = rl.optim.Muon([x], lr=0.1)
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> bool((x < 1).all())
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 0.001,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-07,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check(not isinstance(lr, Tensor) or lr.numel() == 1, "Tensor lr must be 1-element", ValueError)
        validate(
            (bool(lr >= 0.0), f"Learning rate should be >= 0 but is: {lr}"),
            (momentum >= 0.0, f"momentum should be >= 0 but is: {momentum}"),
            (weight_decay >= 0.0, f"weight decay should be >= 0 but is: {weight_decay}"),
            (
                adjust_lr_fn in (None, "original", "match_rms_adamw"),
                f"Adjust learning rate function {adjust_lr_fn} is not supported",
            ),
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "nesterov": nesterov,
                "ns_coefficients": ns_coefficients,
                "eps": eps,
                "ns_steps": ns_steps,
                "adjust_lr_fn": adjust_lr_fn,
            },
        )
        for group in self.param_groups:
            for param in group["params"]:
                validate(
                    (
                        param.ndim == 2,
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{param.shape}",
                    )
                )

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        check(not param.is_complex(), "Muon does not support complex parameters")
        return {"momentum_buffer": zeros_like(param)}

    @by_rows
    def _update(self, batch: Batch) -> None:
        lr, momentum = batch.lr, batch.momentum
        for param, grad, average in zip(
            batch.params, batch.grads, batch.column("momentum_buffer"), strict=True
        ):
            average.lerp_(grad, 1 - momentum)
            update = grad.lerp(average, momentum) if batch.nesterov else average
            update = _orthogonal(update, batch.ns_coefficients, int(batch.ns_steps), batch.eps)
            rows, columns = param.shape
            ratio = (
                0.2 * math.sqrt(max(rows, columns))
                if batch.adjust_lr_fn == "match_rms_adamw"
                else math.sqrt(max(1, rows / columns))
            )
            param.mul_(1 - lr * batch.weight_decay)
            param.sub_(update.to(param.dtype) * (lr * ratio))


def _orthogonal(grad: Tensor, coefficients: tuple[Any, Any, Any], steps: int, eps: Any) -> Tensor:
    """Newton-Schulz iteration in bfloat16: all singular values go to about one."""
    validate(
        (steps < 100, "Number of steps must be less than 100 for computational efficiency"),
        (len(coefficients) == 3, "Coefficients must be a tuple of exactly 3 values"),
    )
    a, b, c = coefficients
    tall = grad.shape[0] > grad.shape[1]
    matrix = grad.bfloat16()
    matrix = matrix.T if tall else matrix
    matrix = matrix / matrix.norm().clamp_min(eps)
    addmm = functions["addmm"]
    for _ in range(steps):
        gram = matrix @ matrix.T
        matrix = addmm(matrix, addmm(gram, gram, gram, beta=b, alpha=c), matrix, beta=a)
    return matrix.T if tall else matrix

"""Stochastic gradient descent, and its averaged form."""

from __future__ import annotations

from typing import Any

from ..capture.numbers import live_number
from ..core.tensor import Tensor
from ._batch import (
    Batch,
    by_elements,
    capturing,
    decayed,
    foreach,
    functions,
    new_step,
    outside_of_capture,
    zeros_like,
)
from .optimizer import Optimizer, ParamsT, validate, validate_common, validate_modes

__all__ = ["ASGD", "SGD"]


class SGD(Optimizer):
    """Steps against the gradient, or against its average with momentum.

    >>> x = rl.tensor([1.0], requires_grad=True)
    >>> optimizer = rl.optim.SGD([x], lr=0.1)
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([0.8000])
    """

    _as_real = False
    _takes_sparse = True

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 0.001,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        validate_common(lr)
        validate(
            (momentum >= 0.0, f"Invalid momentum value: {momentum}"),
            (bool(weight_decay >= 0.0), f"Invalid weight_decay value: {weight_decay}"),
            (
                not nesterov or (momentum > 0 and dampening == 0),
                "Nesterov momentum requires a momentum and zero dampening",
            ),
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
                "fused": fused,
            },
        )
        validate_modes(fused, foreach, differentiable)

    @by_elements
    def _update(self, batch: Batch) -> None:
        grads = decayed(batch)
        momentum = batch.momentum
        if momentum != 0:
            averages = self._averages(batch, grads, momentum)
            grads = foreach.add(grads, foreach.mul(averages, momentum)) if batch.nesterov else averages
        foreach.sub_(batch.params, foreach.mul(grads, batch.lr))

    def _is_by_rows(self, batch: Batch) -> bool:
        if batch.momentum != 0:
            if batch.dampening != 0:
                return False  # it matters whether all parameters had a step
            for param in batch.leaves:
                self._make_average(param)
            batch.states = [self.state[param] for param in batch.leaves]
        return super()._is_by_rows(batch)

    def _make_state(self) -> None:
        for group in self.param_groups:
            if group["momentum"] != 0 and group["dampening"] == 0:  # else it matters which step is the first
                for param in group["params"]:
                    if param.grad is not None:
                        self._make_average(param)

    def _make_average(self, param: Tensor) -> None:
        if self.state[param].get("momentum_buffer") is None:
            with outside_of_capture():
                self.state[param]["momentum_buffer"] = zeros_like(param)

    def _averages(self, batch: Batch, grads: list[Tensor], momentum: Any) -> list[Tensor]:
        """The averaged gradients; the first average is the gradient itself, whatever the dampening."""
        grads = [grad if grad._parts is None else grad.to_dense() for grad in grads]
        state, leaves = self.state, batch.leaves
        dampening = batch.dampening
        if leaves[0] not in state and batch.states[0]:  # a row of which native code is made, with its state
            averages = batch.column("momentum_buffer")
            foreach.mul_(averages, momentum)
            foreach.add_(averages, foreach.mul(grads, 1 - dampening))
            return averages
        known = [
            state[param].get("momentum_buffer") is not None if param in state else False for param in leaves
        ]
        if capturing():
            if dampening == 0:
                known = [True] * len(
                    known
                )  # starting from zeros comes to the same, with one program for all steps
            else:
                live_number(lambda: [state[param].get("momentum_buffer") is not None for param in leaves])
        for param in leaves:
            self._make_average(param)
        averages = [state[param]["momentum_buffer"] for param in leaves]
        old = [i for i, is_old in enumerate(known) if is_old]
        new = [i for i, is_old in enumerate(known) if not is_old]
        if old:
            foreach.mul_([averages[i] for i in old], momentum)
            foreach.add_([averages[i] for i in old], foreach.mul([grads[i] for i in old], 1 - dampening))
        if new:
            foreach.copy_([averages[i] for i in new], [grads[i] for i in new])
        return averages


class ASGD(Optimizer):
    """Gradient descent with a decreasing rate, and the average of the parameters from step `t0` on.

    >>> x = rl.tensor([1.0], requires_grad=True)
    >>> optimizer = rl.optim.ASGD([x], lr=0.1)
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> x.item() < 1
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 0.01,
        lambd: float = 0.0001,
        alpha: float = 0.75,
        t0: float = 1000000.0,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        validate_common(lr, weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "lambd": lambd,
                "alpha": alpha,
                "t0": t0,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": new_step(),
            "eta": new_step(float(group["lr"])),
            "mu": new_step(1.0),
            "ax": zeros_like(param),
        }

    @by_elements
    def _update(self, batch: Batch) -> None:
        params, averages = batch.params, batch.column("ax")
        rates, shares = [s["eta"] for s in batch.states], [s["mu"] for s in batch.states]
        lr, decay, power, start = batch.lr, batch.lambd, batch.alpha, batch.t0
        steps = batch.advance()
        grads = decayed(batch)
        now = batch.values(rates)
        foreach.mul_(params, [1 - decay * rate for rate in now])
        foreach.sub_(params, foreach.mul(grads, now))
        foreach.add_(averages, foreach.mul(foreach.sub(params, averages), batch.values(shares)))
        foreach.copy_(rates, [_tensor(lr / batch.power(1 + decay * lr * step, power)) for step in steps])
        foreach.copy_(shares, [_tensor(1 / _at_least_one(step - start)) for step in steps])


def _at_least_one(value: Any) -> Any:
    return value.clamp_min(1) if isinstance(value, Tensor) else max(1, value)


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else functions["full"]((), value)

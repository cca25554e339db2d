"""Rates adapted to each element: Adagrad, Adadelta, RMSprop, Rprop; and Adafactor, to rows and columns."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import finfo
from ..core.errors import check
from ..core.tensor import Tensor
from ..kernels.sparse import put
from ._batch import (
    Batch,
    average_squares,
    by_elements,
    by_rows,
    decayed,
    foreach,
    functions,
    new_step,
    outside_of_capture,
    zeros_like,
)
from .optimizer import Optimizer, ParamsT, validate, validate_common, validate_modes

__all__ = ["Adadelta", "Adafactor", "Adagrad", "RMSprop", "Rprop"]


class Adagrad(Optimizer):
    """Divides by the root of the sum of all squared gradients.

    >>> x = rl.tensor([1.0], requires_grad=True)
    >>> optimizer = rl.optim.Adagrad([x], lr=0.1)
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([0.9000])
    """

    _takes_sparse = True

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 0.01,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        validate_common(lr, weight_decay, eps)
        validate(
            (lr_decay >= 0.0, f"Invalid lr_decay value: {lr_decay}"),
            (
                initial_accumulator_value >= 0.0,
                f"Invalid initial_accumulator_value value: {initial_accumulator_value}",
            ),
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "fused": fused,
            },
        )
        validate_modes(fused, foreach, differentiable)
        for group in self.param_groups:
            for param in group["params"]:
                with outside_of_capture():
                    self.state[param] = self._new_state(param, group)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        start = self.defaults["initial_accumulator_value"]  # whatever the group says, as in PyTorch
        start = complex(start, start) if param.is_complex() else start
        return {"step": new_step(), "sum": functions["full_like"](param, start)}

    def share_memory(self) -> None:
        """Move the sums to memory that other processes can reach."""
        for state in self.state.values():
            state["sum"].share_memory_()

    @by_elements
    def _update(self, batch: Batch) -> None:
        sums = batch.column("sum")
        rates = [batch.lr / (1 + (step - 1) * batch.lr_decay) for step in batch.advance()]
        grads, params = decayed(batch), batch.params
        if any(grad._parts is not None for grad in grads):
            check(batch.weight_decay == 0, "weight_decay option is not compatible with sparse gradients")
            sparse = [i for i, grad in enumerate(grads) if grad._parts is not None]
            for i in sparse:
                self._update_sparse(params[i], grads[i], sums[i], rates[i], batch.eps)
            params, grads, sums, rates = (
                [value for i, value in enumerate(column) if i not in sparse]
                for column in (params, grads, sums, rates)
            )
            if not params:
                return
        foreach.add_(sums, foreach.mul(grads, grads))
        roots = foreach.add(foreach.sqrt(sums), batch.eps)
        foreach.sub_(params, foreach.mul(foreach.div(grads, roots), rates))

    @staticmethod
    def _update_sparse(param: Tensor, grad: Tensor, total: Tensor, rate: Any, eps: float) -> None:
        """Elements without a gradient keep their sum and their value."""
        grad = grad.coalesce()
        total.add_(grad * grad)
        seen = total.sparse_mask(grad)
        steps = grad._values() / (seen._values().sqrt() + eps)
        param.sub_(put(steps * rate, grad))


class Adadelta(Optimizer):
    """Steps as large as the root mean square of recent steps, over that of recent gradients.

    >>> x = rl.tensor([1.0], requires_grad=True)
    >>> optimizer = rl.optim.Adadelta([x])
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> x.item() < 1
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-06,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        validate_common(lr, weight_decay, eps)
        validate((0.0 <= rho <= 1.0, f"Invalid rho value: {rho}"))
        super().__init__(
            params,
            {
                "lr": lr,
                "rho": rho,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "capturable": capturable,
                "foreach": foreach,
                "differentiable": differentiable,
            },
        )

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_step(), "square_avg": zeros_like(param), "acc_delta": zeros_like(param)}

    @by_elements
    def _update(self, batch: Batch) -> None:
        squares, deltas, eps = batch.column("square_avg"), batch.column("acc_delta"), batch.eps
        batch.advance()
        grads = decayed(batch)
        average_squares(squares, grads, batch.rho)
        ratio = foreach.div(foreach.sqrt(foreach.add(deltas, eps)), foreach.sqrt(foreach.add(squares, eps)))
        delta = foreach.mul(ratio, grads)
        average_squares(deltas, delta, batch.rho)
        foreach.sub_(batch.params, foreach.mul(delta, batch.lr))


class RMSprop(Optimizer):
    """Divides by the root mean square of recent gradients, or by their standard deviation if `centered`.

    >>> x = rl.tensor([1.0], requires_grad=True)
    >>> optimizer = rl.optim.RMSprop([x], lr=0.1)
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> x.item() < 1
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 0.01,
        alpha: float = 0.99,
        eps: float = 1e-08,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        validate_common(lr, weight_decay, eps)
        validate(
            (momentum >= 0.0, f"Invalid momentum value: {momentum}"),
            (alpha >= 0.0, f"Invalid alpha value: {alpha}"),
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "capturable": capturable,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
            },
        )

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": new_step(), "square_avg": zeros_like(param)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = zeros_like(param)
        return state

    @by_elements
    def _update(self, batch: Batch) -> None:
        squares, alpha, momentum = batch.column("square_avg"), batch.alpha, batch.momentum
        batch.advance()
        grads = decayed(batch)
        average_squares(squares, grads, alpha)
        spread = squares
        if batch.centered:
            means = batch.column("grad_avg")
            foreach.lerp_(means, grads, 1 - alpha)
            spread = foreach.sub(squares, foreach.mul(means, means))
        update = foreach.div(grads, foreach.add(foreach.sqrt(spread), batch.eps))
        if momentum > 0:
            averages = batch.column("momentum_buffer")
            foreach.mul_(averages, momentum)
            foreach.add_(averages, update)
            update = averages
        foreach.sub_(batch.params, foreach.mul(update, batch.lr))


class Rprop(Optimizer):
    """Steps of a size of their own for each element, that grows while the sign of the gradient stays.

    >>> x = rl.tensor([1.0], requires_grad=True)
    >>> optimizer = rl.optim.Rprop([x], lr=0.1)
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([0.9000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 0.01,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-06, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        validate_common(lr)
        validate((0.0 < etas[0] < 1.0 < etas[1], f"Invalid eta values: {etas[0]}, {etas[1]}"))
        super().__init__(
            params,
            {
                "lr": lr,
                "etas": etas,
                "step_sizes": step_sizes,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        rate = float(group["lr"])
        start = complex(rate, rate) if param.is_complex() else rate
        return {
            "step": new_step(),
            "prev": zeros_like(param),
            "step_size": functions["full_like"](param, start),
        }

    @by_elements
    def _update(self, batch: Batch) -> None:
        before, sizes = batch.column("prev"), batch.column("step_size")
        (shrink, grow), (least, most) = batch.etas, batch.step_sizes
        batch.advance()
        agreement = foreach.mul(batch.grads, before)
        where = functions["where"]
        grads = []
        for size, sign, grad in zip(sizes, agreement, batch.grads, strict=True):
            factor = where(sign > 0, grow, where(sign < 0, shrink, 1.0)).to(size.dtype)
            size.copy_((size * factor).clamp(least, most))
            grads.append(grad.masked_fill(sign < 0, 0))
        foreach.sub_(batch.params, foreach.mul(foreach.sign(grads), sizes))
        foreach.copy_(before, grads)


class Adafactor(Optimizer):
    """Adam that keeps the mean squares of rows and columns alone, with steps relative to the parameters'
    size.

    >>> x = rl.tensor([1.0], requires_grad=True)
    >>> optimizer = rl.optim.Adafactor([x])
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> x.item() < 1
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 0.01,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 0.001),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check(not isinstance(lr, Tensor) or lr.numel() == 1, "Tensor lr must be 1-element", ValueError)
        validate(
            (bool(lr >= 0.0), f"Learning rate should be >= 0 but is: {lr}"),
            (beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}"),
            (eps[0] is None or eps[0] >= 0.0, f"epsilon1 should be >= 0 but is: {eps[0]}"),
            (eps[1] >= 0.0, f"epsilon2 should be >= 0 but is: {eps[1]}"),
            (d >= 1.0, f"Clipping threshold d should be >= 1 but is: {d}"),
            (weight_decay >= 0.0, f"weight_decay should be >= 0 but is: {weight_decay}"),
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "beta2_decay": beta2_decay,
                "eps": eps,
                "d": d,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
            },
        )

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        check(not param.is_complex(), "Adafactor does not support complex parameters")
        if param.ndim < 2:
            return {"step": new_step(), "variance": zeros_like(param)}
        shape = tuple(param.shape)
        zeros, dtype = functions["zeros"], param.dtype
        return {
            "step": new_step(),
            "row_var": zeros((*shape[:-1], 1), dtype=dtype),
            "col_var": zeros((*shape[:-2], 1, shape[-1]), dtype=dtype),
        }

    @by_rows
    def _update(self, batch: Batch) -> None:
        lr = batch.lr
        steps = batch.advance()
        for param, grad, state, step in zip(batch.params, batch.grads, batch.states, steps, strict=True):
            rate = _smaller(1 / step**0.5, lr)
            size = param.norm(2) / param.numel() ** 0.5
            if batch.weight_decay != 0:
                param.mul_(1 - lr * batch.weight_decay)
            update = self._variance(batch, state, grad, batch.power(step, batch.beta2_decay)).rsqrt() * grad
            length = update.norm(2) / (update.numel() ** 0.5 * batch.d)
            param.sub_(update * (size.clamp_min(batch.eps[1]) * rate / length.clamp_min(1.0)))

    def _variance(self, batch: Batch, state: dict[str, Any], grad: Tensor, weight: Any) -> Tensor:
        """The estimate of the mean square of each element."""
        eps = batch.eps[0]
        eps = finfo(grad.dtype).eps if eps is None else eps
        if grad.ndim < 2:
            _move(state["variance"], grad * grad, weight)
            return state["variance"].clamp_min(eps * eps)
        rows, columns = state["row_var"], state["col_var"]
        _move(rows, (grad * grad).mean(dim=-1, keepdim=True), weight)
        _move(columns, (grad * grad).mean(dim=-2, keepdim=True), weight)
        scale = rows.mean(dim=-2, keepdim=True).clamp_min(eps)
        return (rows @ columns / scale).clamp_min(eps * eps)


def _move(average: Tensor, value: Tensor, weight: Any) -> None:
    """lerp, with a weight that may be a 0-d tensor of more precision."""
    average.lerp_(value, weight.to(value.dtype) if isinstance(weight, Tensor) else weight)


def _smaller(value: Any, limit: Any) -> Any:
    if isinstance(limit, Tensor):
        return functions["minimum"](limit, functions["full_like"](limit, 1.0) * value)
    return value.clamp_max(limit) if isinstance(value, Tensor) else min(value, limit)

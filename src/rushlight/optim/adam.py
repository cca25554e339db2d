"""Adam and its relatives: Adam, AdamW, Adamax, NAdam, RAdam."""

from __future__ import annotations

from typing import Any

from ..core.errors import check
from ..core.tensor import Tensor
from ._batch import Batch, average_squares, by_elements, decayed, foreach, functions, new_step, zeros_like
from .optimizer import Optimizer, ParamsT, validate, validate_common, validate_modes

__all__ = ["Adam", "AdamW", "Adamax", "NAdam", "RAdam"]


class Adam(Optimizer):
    """Steps by the mean of gradients over the root of the mean of their squares, both exponentially
    averaged.

    >>> x = rl.tensor([1.0], requires_grad=True)
    >>> optimizer = rl.optim.Adam([x], lr=0.1)
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([0.9000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 0.001,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, Tensor):
            check(
                not foreach or capturable,
                "lr as a Tensor is not supported for capturable=False and foreach=True",
                ValueError,
            )
        validate_common(lr, weight_decay, eps, betas)
        check(
            all(isinstance(b, float) for b in betas) or all(isinstance(b, Tensor) for b in betas),
            "betas must be either both floats or both Tensors",
            ValueError,
        )
        for i, beta in enumerate(betas):
            check(
                not isinstance(beta, Tensor) or capturable or not foreach,
                f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True",
                ValueError,
            )
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(betas),
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )
        validate_modes(fused, foreach, differentiable)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": new_step(), "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(param)
        return state

    @by_elements
    def _update(self, batch: Batch) -> None:
        lr, (beta1, beta2) = batch.lr, batch.betas
        means, squares = batch.column("exp_avg"), batch.column("exp_avg_sq")
        steps = batch.advance()
        grads = decayed(batch)
        foreach.lerp_(means, grads, batch.spread(1 - beta1))
        average_squares(squares, grads, beta2)
        if batch.amsgrad:
            largest = batch.column("max_exp_avg_sq")
            foreach.maximum_(largest, squares)
            squares = largest
        roots = foreach.div(
            foreach.sqrt(squares), batch.of_steps(lambda step: (1 - beta2**step) ** 0.5, steps)
        )
        update = foreach.div(means, foreach.add(roots, batch.eps))
        foreach.sub_(
            batch.params, foreach.mul(update, batch.of_steps(lambda step: lr / (1 - beta1**step), steps))
        )


class AdamW(Adam):
    """Adam with a weight decay that takes no part in the averages.

    >>> x = rl.tensor([1.0], requires_grad=True)
    >>> optimizer = rl.optim.AdamW([x], lr=0.1)
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([0.8990])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 0.001,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


class Adamax(Optimizer):
    """Adam with the largest recent gradient in the place of the root mean square.

    >>> x = rl.tensor([1.0], requires_grad=True)
    >>> optimizer = rl.optim.Adamax([x], lr=0.1)
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([0.9000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 0.002,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        validate_common(lr, weight_decay, eps, betas)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_step(), "exp_avg": zeros_like(param), "exp_inf": zeros_like(param)}

    @by_elements
    def _update(self, batch: Batch) -> None:
        beta1, beta2 = batch.betas
        means, largest = batch.column("exp_avg"), batch.column("exp_inf")
        steps = batch.advance()
        grads = decayed(batch)
        foreach.lerp_(means, grads, 1 - beta1)
        foreach.mul_(largest, beta2)
        foreach.maximum_(largest, foreach.add(foreach.abs(grads), batch.eps))
        rates = batch.of_steps(lambda step: batch.lr / (1 - beta1**step), steps)
        foreach.sub_(batch.params, foreach.mul(foreach.div(means, largest), rates))


class NAdam(Optimizer):
    """Adam with Nesterov's momentum, which grows with the number of steps.

    >>> x = rl.tensor([1.0], requires_grad=True)
    >>> optimizer = rl.optim.NAdam([x], lr=0.1)
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> x.item() < 1
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 0.002,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0,
        momentum_decay: float = 0.004,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        validate_common(lr, weight_decay, eps, betas)
        validate((momentum_decay >= 0.0, f"Invalid momentum_decay value: {momentum_decay}"))
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": new_step(),
            "mu_product": new_step(1.0),
            "exp_avg": zeros_like(param),
            "exp_avg_sq": zeros_like(param),
        }

    @by_elements
    def _update(self, batch: Batch) -> None:
        lr, (beta1, beta2), decay = batch.lr, batch.betas, batch.momentum_decay
        means, squares = batch.column("exp_avg"), batch.column("exp_avg_sq")
        steps = batch.advance()
        grads = decayed(batch)
        now = [beta1 * (1.0 - 0.5 * 0.96 ** (step * decay)) for step in steps]
        following = [beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * decay)) for step in steps]
        products = [state["mu_product"] for state in batch.states]
        foreach.mul_(products, now)
        known = batch.values(products)
        foreach.lerp_(means, grads, 1 - beta1)
        average_squares(squares, grads, beta2)
        roots = foreach.sqrt(foreach.div(squares, batch.of_steps(lambda step: 1 - beta2**step, steps)))
        roots = foreach.add(roots, batch.eps)
        by_grad = [lr * (1.0 - mu) / (1.0 - product) for mu, product in zip(now, known, strict=True)]
        by_mean = [lr * mu / (1.0 - product * mu) for mu, product in zip(following, known, strict=True)]
        foreach.sub_(batch.params, foreach.mul(foreach.div(grads, roots), by_grad))
        foreach.sub_(batch.params, foreach.mul(foreach.div(means, roots), by_mean))


class RAdam(Optimizer):
    """Adam that does not adapt its rate until the variance of that is small.

    >>> x = rl.tensor([1.0], requires_grad=True)
    >>> optimizer = rl.optim.RAdam([x], lr=0.1)
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([0.8000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        validate_common(lr, weight_decay, eps, betas)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "decoupled_weight_decay": decoupled_weight_decay,
                "differentiable": differentiable,
            },
        )

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_step(), "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}

    @by_elements
    def _update(self, batch: Batch) -> None:
        beta1, beta2 = batch.betas
        means, squares = batch.column("exp_avg"), batch.column("exp_avg_sq")
        steps = batch.advance()
        grads = decayed(batch)
        foreach.lerp_(means, grads, 1 - beta1)
        average_squares(squares, grads, beta2)
        roots = foreach.add(foreach.sqrt(squares), batch.eps)
        # 1 for a step that is not adapted, else the rectification and the root of the bias of the squares
        adapted = [self._adapted(step, beta2, root) for step, root in zip(steps, roots, strict=True)]
        rates = batch.of_steps(lambda step: batch.lr / (1 - beta1**step), steps)
        foreach.sub_(batch.params, foreach.mul(foreach.mul(means, rates), adapted))

    def _adapted(self, step: Any, beta2: Any, root: Tensor) -> Tensor:
        """What the mean is multiplied with: ones, or the adapted rate."""
        bias = 1 - beta2**step
        most = 2 / (1 - beta2) - 1
        length = most - 2 * step * beta2**step / bias
        if not isinstance(length, Tensor):
            if length <= 5.0:
                return functions["ones_like"](root)
            factor = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
            return (factor * bias) ** 0.5 / root
        factor = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
        return functions["where"](length > 5.0, (factor * bias).clamp_min(0) ** 0.5 / root, 1.0)

"""The steps of optimizers as one operator each: `_fused_sgd_`, `_fused_adam_`, `_fused_adamw_`,
`_fused_adagrad_`.

For each there is a function of one parameter that gives all its new values; the operator collects them, and
its in-place form, which is derived as any other, writes them. `grad_scale` divides the gradients first, which
are then written, too; where `found_inf` is not zero nothing changes. Steps are counted by the caller. Half
types compute in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import Api, composite
from ..core.tensor import Tensor
from .normalization import wide

Tensors = Sequence[Tensor]
Columns = tuple[Tensors, ...]
Lists = tuple[tuple[Any, ...], ...]
DOUBLE = DTYPES["float64"]


def each(
    step: Callable[..., tuple[Any, ...]],
    columns: Columns,
    steps: Sequence[Tensor] | None,
    options: dict[str, Any],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
) -> Lists:
    """The new values of every column: parameters, gradients, state. Empty lists (no momentum) stay so.

    `step` takes an element of each column, the count of steps if there is one, and the options.
    """
    count = len(columns[0])
    for column in columns[1:]:
        check(
            len(column) in (0, count),
            "fused optimizer: lists of tensors must have the same length, but "
            f"there are {count} parameters and a list of {len(column)}",
        )
    rows = []
    for i in range(count):
        old = [column[i] if column else None for column in columns]
        counted = () if steps is None else (steps[i],)
        rows.append(_one(step, old, counted, options, grad_scale, found_inf))
    return tuple([tuple([row[n] for row in rows]) if column else () for n, column in enumerate(columns)])


def _one(
    step: Callable[..., tuple[Tensor, ...]],
    old: list[Any],
    counted: tuple[Tensor, ...],
    numbers: dict[str, Any],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
) -> list[Any]:
    param: Any
    grad: Any
    param, grad, *state = [None if each is None else wide(each) for each in old]
    if grad_scale is not None:
        grad = grad / grad_scale.reshape(())
    options = {
        name: value.reshape(()) if isinstance(value, Tensor) else value for name, value in numbers.items()
    }
    maximize = options.pop("maximize")
    param, *rest = step(param, -grad if maximize else grad, *state, *counted, **options)
    new = [
        None if then is None else now.to(then.dtype)
        for now, then in zip((param, grad, *rest), old, strict=True)
    ]
    if found_inf is None:
        return new
    bad = found_inf.reshape(()) != 0
    return [
        None if then is None else run_name("where.self", bad, then, now)
        for now, then in zip(new, old, strict=True)
    ]


def sgd(
    param: Tensor,
    grad: Tensor,
    average: Tensor | None,
    *,
    weight_decay: float,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    is_first_step: bool,
) -> tuple[Any, ...]:
    if weight_decay != 0:
        grad = grad + param * weight_decay
    if average is None:
        return param - grad * lr, None
    average = grad if is_first_step else average * momentum + grad * (1 - dampening)
    return param - (grad + average * momentum if nesterov else average) * lr, average


def adam(
    param: Tensor,
    grad: Tensor,
    average: Tensor,
    square: Tensor,
    most: Tensor | None,
    count: Tensor,
    *,
    lr: Any,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
    decoupled: bool = False,
) -> tuple[Any, ...]:
    if weight_decay != 0:
        if decoupled:
            param = param - param * (lr * weight_decay)
        else:
            grad = grad + param * weight_decay
    average = average + (grad - average) * (1 - beta1)
    square = square * beta2 + grad * grad * (1 - beta2)
    # single precision would spoil 1 - 0.999**step
    steps = count.to(DOUBLE)
    first, second = 1 - run_name("pow.Scalar", beta1, steps), 1 - run_name("pow.Scalar", beta2, steps)
    if amsgrad:
        most = run_name("maximum", most, square)
    root = (most if amsgrad else square).sqrt() / second.sqrt()  # type: ignore[union-attr]
    return param - average / (root + eps) * (lr / first), average, square, most


def adamw(*args: Any, **options: Any) -> tuple[Any, ...]:
    return adam(*args, **options, decoupled=True)


def adagrad(
    param: Tensor,
    grad: Tensor,
    total: Tensor,
    count: Tensor,
    *,
    lr: Any,
    lr_decay: float,
    weight_decay: float,
    eps: float,
) -> tuple[Any, ...]:
    if weight_decay != 0:
        grad = grad + param * weight_decay
    rate = lr / (1 + (count.to(DOUBLE) - 1) * lr_decay)
    total = total + grad * grad
    return param - grad / (total.sqrt() + eps) * rate, total


# The operators.

_OPTIONS = "Tensor? grad_scale=None, Tensor? found_inf=None"
_ADAM = (
    "Tensor[] self, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, Tensor[] max_exp_avg_sqs, "
    "Tensor[] state_steps"
)
_ADAM_OUT = (
    "(Tensor[] self_out, Tensor[] grads_out, Tensor[] exp_avgs_out, Tensor[] exp_avg_sqs_out, "
    "Tensor[] max_exp_avg_sqs_out)"
)
_BETAS = f"float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, {_OPTIONS}"
_SGD = "Tensor[] self, Tensor[] grads, Tensor[] momentum_buffer_list, *, float weight_decay, float momentum"
_SGD_OUT = "(Tensor[] self_out, Tensor[] grads_out, Tensor[] momentum_buffer_list_out)"
_DAMPED = f"float dampening, bool nesterov, bool maximize, bool is_first_step, {_OPTIONS}"
_ADAGRAD = "Tensor[] self, Tensor[] grads, Tensor[] state_sums, Tensor[] state_steps"
_DECAYED = f"float lr_decay, float weight_decay, float eps, bool maximize, {_OPTIONS}"


def _declare_adam(name: str, step: Callable[..., tuple[Any, ...]]) -> None:
    @composite(
        f"{name}({_ADAM}, *, float lr, {_BETAS}) -> {_ADAM_OUT}",
        f"{name}.tensor_lr({_ADAM}, *, Tensor lr, {_BETAS}) -> {_ADAM_OUT}",
        api=Api.INPLACE_FUNCTION,
    )
    def fused_adam(
        self: Tensors,
        grads: Tensors,
        exp_avgs: Tensors,
        exp_avg_sqs: Tensors,
        max_exp_avg_sqs: Tensors,
        state_steps: Tensors,
        lr: Any,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
        maximize: bool,
        grad_scale: Tensor | None,
        found_inf: Tensor | None,
    ) -> Lists:
        options = {
            "lr": lr,
            "beta1": beta1,
            "beta2": beta2,
            "weight_decay": weight_decay,
            "eps": eps,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        return each(
            step,
            (self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs),
            state_steps,
            options,
            grad_scale,
            found_inf,
        )


_declare_adam("_fused_adam", adam)
_declare_adam("_fused_adamw", adamw)


@composite(
    f"_fused_sgd({_SGD}, float lr, {_DAMPED}) -> {_SGD_OUT}",
    f"_fused_sgd.tensor_lr({_SGD}, Tensor lr, {_DAMPED}) -> {_SGD_OUT}",
    api=Api.INPLACE_FUNCTION,
)
def fused_sgd(
    self: Tensors,
    grads: Tensors,
    momentum_buffer_list: Tensors,
    weight_decay: float,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
) -> Lists:
    options = {
        "weight_decay": weight_decay,
        "momentum": momentum,
        "lr": lr,
        "dampening": dampening,
        "nesterov": nesterov,
        "is_first_step": is_first_step,
        "maximize": maximize,
    }
    return each(sgd, (self, grads, momentum_buffer_list), None, options, grad_scale, found_inf)


def adagrad_lists(
    self: Tensors,
    grads: Tensors,
    state_sums: Tensors,
    state_steps: Tensors,
    lr: Any,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
) -> Lists:
    options = {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps, "maximize": maximize}
    return each(adagrad, (self, grads, state_sums), state_steps, options, grad_scale, found_inf)


@composite(
    f"_fused_adagrad.tensor_lr({_ADAGRAD}, *, Tensor lr, {_DECAYED}) -> (Tensor[] "
    "self_out, Tensor[] grads_out, Tensor[] state_sums_out)",
    api=Api.INPLACE_FUNCTION,
)
def fused_adagrad_tensor(
    self: Tensors,
    grads: Tensors,
    state_sums: Tensors,
    state_steps: Tensors,
    lr: Any,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
) -> Lists:
    return adagrad_lists(
        self, grads, state_sums, state_steps, lr, lr_decay, weight_decay, eps, maximize, grad_scale, found_inf
    )


@composite(
    f"_fused_adagrad({_ADAGRAD}, *, float lr, {_DECAYED}) -> (Tensor[] self_out, "
    "Tensor[] grads_out, Tensor[] state_sums_out, Tensor[] state_steps_out)",
    api=Api.INPLACE_FUNCTION,
)
def fused_adagrad(
    self: Tensors,
    grads: Tensors,
    state_sums: Tensors,
    state_steps: Tensors,
    lr: float,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
) -> Lists:
    lists = adagrad_lists(
        self, grads, state_sums, state_steps, lr, lr_decay, weight_decay, eps, maximize, grad_scale, found_inf
    )
    return (*lists, tuple([step.clone() for step in state_steps]))

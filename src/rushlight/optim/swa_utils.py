"""Averages of models: stochastic weight averaging and exponential moving averages."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

from ..autograd.grad_mode import no_grad
from ..core.construct import tensor
from ..core.dtypes import int64
from ..core.errors import check
from ..core.tensor import Tensor
from ..nn.modules.batchnorm import _BatchNorm
from ..nn.modules.module import Module
from ._batch import foreach
from ._scheduling import LRScheduler, per_group
from .optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay: float) -> None:
    check(
        0.0 <= decay <= 1.0,
        f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.",
        ValueError,
    )


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """An update of lists: the exponential moving average.

    >>> average = [rl.tensor(1.0)]
    >>> rl.optim.swa_utils.get_ema_multi_avg_fn(0.5)(average, [rl.tensor(3.0)], 1)
    >>> average
    [tensor(2.)]
    """
    _check_decay(decay)

    @no_grad()
    def update(averages: list[Tensor], current: list[Tensor], _: Any) -> None:
        if averages[0].is_floating_point() or averages[0].is_complex():
            foreach.lerp_(averages, current, 1 - decay)
        else:
            for average, value in zip(averages, current, strict=True):
                average.copy_(average * decay + value * (1 - decay))

    return update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """An update of lists: the mean of all.

    >>> average = [rl.tensor(1.0)]
    >>> rl.optim.swa_utils.get_swa_multi_avg_fn()(average, [rl.tensor(3.0)], 1)
    >>> average
    [tensor(2.)]
    """

    @no_grad()
    def update(averages: list[Tensor], current: list[Tensor], num_averaged: Any) -> None:
        if averages[0].is_floating_point() or averages[0].is_complex():
            foreach.lerp_(averages, current, 1 / (float(num_averaged) + 1))
        else:
            for average, value in zip(averages, current, strict=True):
                average.copy_(average + (value - average) / (num_averaged + 1))

    return update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Tensor]:
    """The next exponential moving average of one tensor.

    >>> rl.optim.swa_utils.get_ema_avg_fn(0.5)(rl.tensor(1.0), rl.tensor(3.0), 1)
    tensor(2.)
    """
    _check_decay(decay)

    @no_grad()
    def update(average: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        return decay * average + (1 - decay) * current

    return update


def get_swa_avg_fn() -> Callable[..., Tensor]:
    """The next mean of one tensor.

    >>> rl.optim.swa_utils.get_swa_avg_fn()(rl.tensor(1.0), rl.tensor(3.0), 1)
    tensor(2.)
    """

    @no_grad()
    def update(average: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        return average + (current - average) / (num_averaged + 1)

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's; `update_parameters` adds the present
    ones.

    >>> model = nn.Linear(1, 1)
    >>> average = rl.optim.swa_utils.AveragedModel(model)
    >>> average.update_parameters(model)
    >>> average.n_averaged
    tensor(1)
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Tensor] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        check(
            avg_fn is None or multi_avg_fn is None,
            "Only one of avg_fn and multi_avg_fn should be provided",
            AssertionError,
        )
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _averaged(self, model: Module) -> list[Tensor]:
        tensors: Iterable[Tensor] = model.parameters()
        if self.use_buffers:
            tensors = itertools.chain(tensors, model.buffers())
        return [value.detach() for value in tensors]

    def update_parameters(self, model: Module) -> None:
        """Add the present parameters of `model` to the averages."""
        averages, current = self._averaged(self.module), self._averaged(model)
        count = int(self.n_averaged)
        if count == 0:
            for average, value in zip(averages, current, strict=True):
                average.copy_(value)
        elif self.avg_fn is not None:
            for average, value in zip(averages, current, strict=True):
                average.copy_(self.avg_fn(average, value, self.n_averaged))
        else:
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            for dtype in dict.fromkeys(average.dtype for average in averages):
                chosen = [i for i, average in enumerate(averages) if average.dtype is dtype]
                update([averages[i] for i in chosen], [current[i] for i in chosen], self.n_averaged)
        if not self.use_buffers:
            for buffer, value in zip(self.module.buffers(), model.buffers(), strict=True):
                buffer.detach().copy_(value.detach())
        self.n_averaged += 1


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of all batch normalizations anew, from the data of one pass.

    >>> model = nn.BatchNorm1d(1)
    >>> rl.optim.swa_utils.update_bn([rl.tensor([[1.0], [3.0]])], model)
    >>> model.running_mean
    tensor([2.])
    """
    momenta = {module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.reset_running_stats()
        module.momentum = None
    for batch in loader:
        data = batch[0] if isinstance(batch, list | tuple) else batch
        model(data if device is None else data.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """The rate goes to `swa_lr` in `anneal_epochs` steps and stays there.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = rl.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=1)
    >>> optimizer.step(); schedule.step()
    >>> optimizer.param_groups[0]["lr"]
    0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        check(
            anneal_strategy in ("cos", "linear"),
            f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}",
            ValueError,
        )
        self._anneal_strategy = anneal_strategy
        check(
            isinstance(anneal_epochs, int) and anneal_epochs >= 0,
            f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}",
            ValueError,
        )
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t: float) -> float:
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def _share(self, step: int) -> float:
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self) -> list[Any]:
        self._in_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            target = group["swa_lr"]
            start = target if before == 1 else (group["lr"] - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates

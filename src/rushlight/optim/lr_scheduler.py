"""Learning rate schedulers."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..capture.numbers import cos
from ..core.errors import check
from ._cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from ._plateau import ReduceLROnPlateau
from ._scheduling import (
    EPOCH_DEPRECATION_WARNING,
    LRScheduler,
    WithFunctions,
    WithSchedulers,
    set_value,
    values_of,
)
from .optimizer import Optimizer

__all__ = [
    "EPOCH_DEPRECATION_WARNING",
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


class _LRScheduler(LRScheduler):
    """LRScheduler by its former name."""


class LambdaLR(WithFunctions):
    """The initial rate times a function of the step.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = rl.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self._set_functions(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._in_step()
        return [
            base * function(self.last_epoch)
            for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]


class MultiplicativeLR(WithFunctions):
    """The present rate times a function of the step.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = rl.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self._set_functions(optimizer, lr_lambda)
        for function in self.lr_lambdas:
            check(
                callable(function),
                f"lr_lambda should be a function, but got {type(function).__name__}",
                TypeError,
            )
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._in_step()
        if self._is_initial:
            return values_of(self.optimizer, "lr")
        return [
            group["lr"] * function(self.last_epoch)
            for function, group in zip(self.lr_lambdas, self.optimizer.param_groups, strict=True)
        ]


class _Multiplied(LRScheduler):
    """The present rate times `_factor()`, or the initial one times `_closed_factor()`."""

    _factor: Callable[[], float]
    _closed_factor: Callable[[], float]

    def get_lr(self) -> list[Any]:
        self._in_step()
        factor = self._factor()
        return values_of(self.optimizer, "lr") if factor == 1 else self._scaled(factor)

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self._closed_factor() for base in self.base_lrs]


class StepLR(_Multiplied):
    """Multiplies the rate by `gamma` every `step_size` steps.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = rl.optim.lr_scheduler.StepLR(optimizer, step_size=1)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.1]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return 1.0 if self.last_epoch == 0 or self.last_epoch % self.step_size != 0 else self.gamma

    def _closed_factor(self) -> float:
        return self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(_Multiplied):
    """Multiplies the rate by `gamma` at every milestone.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = rl.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1])
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.1]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        # compared, not looked up: compiled code compiles once for each outcome, not for each step
        return self.gamma ** sum(count for step, count in self.milestones.items() if self.last_epoch == step)

    def _closed_factor(self) -> float:
        return self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch)


class ConstantLR(_Multiplied):
    """The rate times `factor`, until step `total_iters`.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=1.0)
    >>> rl.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5).get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        check(0 <= factor <= 1, "Constant multiplicative factor expected to be between 0 and 1.", ValueError)
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else 1.0

    def _closed_factor(self) -> float:
        return self.factor if self.last_epoch < self.total_iters else 1.0


class LinearLR(_Multiplied):
    """The rate times a factor that goes from `start_factor` to `end_factor` in `total_iters` steps.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=1.0)
    >>> rl.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5).get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        check(
            0 < start_factor <= 1,
            "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.",
            ValueError,
        )
        check(
            0 <= end_factor <= 1, "Ending multiplicative factor expected to be between 0 and 1.", ValueError
        )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        change = self.end_factor - self.start_factor
        return 1.0 + change / (self.total_iters * self.start_factor + (self.last_epoch - 1) * change)

    def _closed_factor(self) -> float:
        change = self.end_factor - self.start_factor
        return self.start_factor + change * min(self.total_iters, self.last_epoch) / self.total_iters


class ExponentialLR(_Multiplied):
    """Multiplies the rate by `gamma` at every step.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = rl.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return 1.0 if self._is_initial else self.gamma

    def _closed_factor(self) -> float:
        return self.gamma**self.last_epoch


class PolynomialLR(_Multiplied):
    """The rate times (1 - step / total_iters) ** power.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = rl.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=2)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        left, before = (1.0 - step / self.total_iters for step in (self.last_epoch, self.last_epoch - 1))
        return (left / before) ** self.power

    def _closed_factor(self) -> float:
        return (1.0 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power


class CosineAnnealingLR(LRScheduler):
    """The rate goes down to `eta_min` along half a wave of the cosine, in `T_max` steps.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = rl.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _height(self, step: int) -> float:
        return 1 + cos(math.pi * step / self.T_max)

    def get_lr(self) -> list[Any]:
        self._in_step()
        groups, low = self.optimizer.param_groups, self.eta_min
        if self._is_initial:
            return values_of(self.optimizer, "lr")
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the step before was at the bottom
            return [
                group["lr"] + (base - low) * (1 - cos(math.pi / self.T_max)) / 2
                for base, group in zip(self.base_lrs, groups, strict=True)
            ]
        ratio = self._height(self.last_epoch) / self._height(self.last_epoch - 1)
        return [ratio * (group["lr"] - low) + low for group in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        return [
            self.eta_min + (base - self.eta_min) * self._height(self.last_epoch) / 2 for base in self.base_lrs
        ]


class SequentialLR(WithSchedulers):
    """Schedulers one after the other; each milestone is the first step of the next.

    >>> from rushlight.optim import lr_scheduler
    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=1.0)
    >>> both = [lr_scheduler.ConstantLR(optimizer, 0.5), lr_scheduler.ExponentialLR(optimizer, 0.5)]
    >>> lr_scheduler.SequentialLR(optimizer, both, milestones=[2]).get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        check(
            len(schedulers) > 0,
            f"{type(self).__name__} expects at least one scheduler, but got no scheduler.",
            ValueError,
        )
        self._check_schedulers(optimizer, schedulers, ReduceLROnPlateau)
        check(
            len(milestones) == len(schedulers) - 1,
            "Sequential Schedulers expects number of schedulers provided to "
            f"be one more than the number of milestone points, but got number of schedulers "
            f"{len(schedulers)} and "
            f"the number of milestones to be equal to {len(milestones)}",
            ValueError,
        )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:  # every scheduler has made its first step
            set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take back the first step of all schedulers, also of those inside of others."""
        scheduler = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for inner in scheduler._schedulers:
                self.recursive_undo(inner)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(WithSchedulers):
    """Several schedulers, one after the other in every step.

    >>> from rushlight.optim import lr_scheduler
    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=1.0)
    >>> both = lr_scheduler.ConstantLR(optimizer, 0.5), lr_scheduler.ExponentialLR(optimizer, 0.5)
    >>> lr_scheduler.ChainedScheduler(both).get_last_lr()
    [0.5]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        check(
            len(schedulers) > 0,
            f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler.",
            ValueError,
        )
        optimizer = optimizer or schedulers[0].optimizer
        self._check_schedulers(optimizer, schedulers, ReduceLROnPlateau)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = values_of(optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = values_of(self.optimizer, "lr")

"""Schedulers that go up and down: CyclicLR, OneCycleLR, CosineAnnealingWarmRestarts."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from ..capture.numbers import cos, floor
from ..core.errors import check
from ._scheduling import LRScheduler, WithMomentum, check_optimizer, per_group, set_value
from .optimizer import Optimizer

_SCALES: dict[str, tuple[Callable[[float, float], float], str]] = {
    # mode: (height of a cycle from gamma and its number, or the number of the step; which of both it wants)
    "triangular": (lambda gamma, x: 1.0, "cycle"),
    "triangular2": (lambda gamma, x: 1 / 2.0 ** (x - 1), "cycle"),
    "exp_range": (lambda gamma, x: gamma**x, "iterations"),
}


class CyclicLR(WithMomentum):
    """The rate goes from `base_lr` to `max_lr` and back, in cycles whose height may change.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> rl.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.5, max_lr=1.0).get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_value(group, "lr", rate)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        check(mode in _SCALES or scale_fn is not None, "mode is invalid and scale_fn is None", ValueError)
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else _SCALES[mode][1]
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
            self._set_momentum_range(optimizer, self.base_momentums, self.max_momentums, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    @property
    def _scale_fn_ref(self) -> Callable[[float, float], float] | None:
        """The function of the mode; None where one was given."""
        return _SCALES[self.mode][0] if self._scale_fn_custom is None else None

    def scale_fn(self, x: float) -> float:
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return _SCALES[self.mode][0](self.gamma, x)

    def get_lr(self) -> list[Any]:
        self._in_step()
        cycle = floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for low, high, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True
            ):
                self._set_momentum(group, high - (high - low) * height * scale)
        return [
            low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        function = state["_scale_fn_custom"]
        plain = function is None or isinstance(function, types.FunctionType)
        return {**state, "_scale_fn_custom": None if plain else function.__dict__.copy()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        attributes = state_dict["_scale_fn_custom"]
        super().load_state_dict({name: v for name, v in state_dict.items() if name != "_scale_fn_custom"})
        if attributes is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(attributes)


class OneCycleLR(WithMomentum):
    """The rate goes up to `max_lr` and then down far below where it began, the momentum the other way.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> rl.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10).get_last_lr()
    [0.040000000000000036]
    """

    anneal_func: Callable[..., Any]

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 10000.0,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        check(
            isinstance(pct_start, float) and 0 <= pct_start <= 1,
            f"Expected float between 0 and 1 pct_start, but got {pct_start}",
            ValueError,
        )
        check(
            anneal_strategy in ("cos", "linear"),
            f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}",
            ValueError,
        )
        self._anneal_func_type = anneal_strategy
        rates = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for rate, group in zip(rates, optimizer.param_groups, strict=True):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._set_momentum_range(
                optimizer,
                per_group("base_momentum", optimizer, base_momentum),
                per_group("max_momentum", optimizer, max_momentum),
                last_epoch,
            )
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _annealing_cos(start: Any, end: Any, pct: float) -> Any:
        return end + (start - end) / 2.0 * (cos(math.pi * pct) + 1)

    @staticmethod
    def _annealing_linear(start: Any, end: Any, pct: float) -> Any:
        return (end - start) * pct + start

    def _anneal(self, start: Any, end: Any, share: float) -> Any:
        if not hasattr(self, "_anneal_func_type"):  # an old state dict has the function itself
            return self.anneal_func(start, end, share)
        anneal = self._annealing_cos if self._anneal_func_type == "cos" else self._annealing_linear
        return anneal(start, end, share)

    def get_lr(self) -> list[Any]:
        self._in_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is {self.total_steps}"
            )
        start, phases = 0.0, self._schedule_phases
        phase = next((phase for phase in phases if step <= phase["end_step"]), phases[-1])
        if phases.index(phase):
            start = phases[phases.index(phase) - 1]["end_step"]
        share = (step - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                self._set_momentum(
                    group, self._anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], share)
                )
        return rates


def _total_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    given = (
        {"total_steps": total_steps}
        if total_steps is not None
        else {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    )
    check(
        None not in given.values(),
        "You must define either total_steps OR (epochs AND steps_per_epoch)",
        ValueError,
    )
    for name, value in given.items():
        check(
            isinstance(value, int) and value > 0,
            f"Expected positive integer {name}, but got {value}",
            ValueError,
        )
    return math.prod(int(value or 0) for value in given.values())


def _phases(total: int, share: float, three: bool) -> list[dict[str, Any]]:
    """When each phase ends, and between which values of the group it goes."""

    def phase(end: float, rates: tuple[str, str], momenta: tuple[str, str]) -> dict[str, Any]:
        return {
            "end_step": end,
            "start_lr": rates[0],
            "end_lr": rates[1],
            "start_momentum": momenta[0],
            "end_momentum": momenta[1],
        }

    up = phase(float(share * total) - 1, ("initial_lr", "max_lr"), ("max_momentum", "base_momentum"))
    if not three:
        return [up, phase(total - 1, ("max_lr", "min_lr"), ("base_momentum", "max_momentum"))]
    return [
        up,
        phase(float(2 * share * total) - 2, ("max_lr", "initial_lr"), ("base_momentum", "max_momentum")),
        phase(total - 1, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum")),
    ]


class CosineAnnealingWarmRestarts(LRScheduler):
    """The rate goes down along half a wave of the cosine, again and again, each time `T_mult` times as
    long.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = rl.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        check(isinstance(T_0, int) and T_0 > 0, f"Expected positive integer T_0, but got {T_0}", ValueError)
        check(
            isinstance(T_mult, int) and T_mult >= 1,
            f"Expected integer T_mult >= 1, but got {T_mult}",
            ValueError,
        )
        check(
            isinstance(eta_min, float | int),
            f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}",
            ValueError,
        )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._in_step()
        height = (1 + cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on by one step, or to `epoch`, which may lie between two."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            check(epoch >= 0, f"Expected non-negative epoch, but got {epoch}", ValueError)
            self._go_to(epoch)
        self.last_epoch = floor(epoch)
        with self._flag("_get_lr_called_within_step"):
            rates = self.get_lr()
        self._set(rates)

    def _go_to(self, epoch: float) -> None:
        self.T_i, self.T_cur = self.T_0, epoch
        if epoch >= self.T_0 and self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        elif epoch >= self.T_0:
            cycle = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**cycle - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**cycle

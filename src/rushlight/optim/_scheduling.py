"""What learning rate schedulers share."""

from __future__ import annotations

import functools
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..autograd.hooks import told
from ..capture.locations import Items
from ..capture.numbers import live_places, live_state
from ..core.dispatch import AMBIENT
from ..core.errors import check
from ..core.tensor import Tensor
from .optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. "
    "Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the "
    "closed "
    "form is used instead of the new chainable form, where available."
)


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value for each parameter group, from one for all or a sequence."""
    count = len(optimizer.param_groups)
    if isinstance(value, list | tuple):
        check(
            len(value) == count,
            f"{name} must have the same length as optimizer.param_groups. {name} has "
            f"{len(value)} values, param_groups has {count}.",
            ValueError,
        )
        return [_own(item) for item in value]
    return [_own(value) for _ in range(count)]


def _own(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def values_of(optimizer: Optimizer, name: str) -> list[Any]:
    return [_own(group[name]) for group in optimizer.param_groups]


def set_value(group: dict[str, Any], name: str, value: Any) -> None:
    if isinstance(group[name], Tensor):
        group[name].fill_(value.squeeze() if isinstance(value, Tensor) and value.ndim else value)
    else:
        group[name] = value


def _live_step(step: Callable[..., Any]) -> Callable[..., Any]:
    """The step of a scheduler, which compiled code makes again in every call."""

    @functools.wraps(step)
    def stepped(self: LRScheduler, *args: Any, **kwargs: Any) -> Any:
        if AMBIENT.trace is None:
            return step(self, *args, **kwargs)
        own = vars(self)
        held = {name: value for name, value in own.items() if isinstance(value, list | dict | Counter)}
        for function in held.get("lr_lambdas", ()):
            told(function)
        with live_state(f"a step of {type(self).__name__}", own, *self.optimizer.param_groups):
            found = step(self, *args, **kwargs)
        for name, value in held.items():
            if own.get(name) is value and value:  # read, and not replaced
                items = Items(value)
                live_places([(own, name, value, name), (items, None, items[None], name)])
        _same_groups(self.optimizer)
        return found

    return stepped


def _same_groups(optimizer: Optimizer) -> None:
    """Tell compiled code which dictionaries it writes to: loading a state puts others in their place."""
    groups, name = optimizer.param_groups, "the parameter groups of an optimizer"
    live_places([(vars(optimizer), "param_groups", groups, name)])
    live_places([(groups, index, group, name) for index, group in enumerate(groups)])


class LRScheduler:
    """Sets the learning rates of an optimizer. Subclasses define `get_lr`, the rates of the step
    `last_epoch`.

    >>> issubclass(rl.optim.lr_scheduler.StepLR, rl.optim.lr_scheduler.LRScheduler)
    True
    """

    optimizer: Optimizer
    last_epoch: int
    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _own(group["lr"]))
            check(
                "initial_lr" in group,
                f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                "scheduler with last_epoch >= 0; load the optimizer's state dict, or set it, before you "
                "make the "
                "scheduler",
                KeyError,
            )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        optimizer._step_when_scheduled = vars(optimizer).get("step")
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        with self._flag("_is_initial"):
            self.step()

    @contextmanager
    def _flag(self, name: str) -> Iterator[None]:
        setattr(self, name, True)
        try:
            yield
        finally:
            setattr(self, name, False)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that were set last."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        raise NotImplementedError

    def _in_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def _scaled(self, factor: Any) -> list[Any]:
        """The present rates times `factor`."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _live_step(cls.__dict__["step"])  # type: ignore[method-assign]

    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next step, or of the step `epoch`."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        """The first step of a schedule comes after that of the optimizer."""
        if vars(self.optimizer).get("step") is not self.optimizer._step_when_scheduled:
            what = (
                "Seems like `optimizer.step()` has been overridden after the scheduler was made; see to "
                "it that it is called before `lr_scheduler.step()`."
            )
        elif not self.optimizer._opt_called:
            what = (
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`; call them in the "
                "opposite order, or the first value of the schedule is skipped."
            )
        else:
            return
        link = "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
        warnings.warn(f"{what} See {link}", UserWarning, stacklevel=3)

    def _update_lr(self, epoch: int | None = None) -> None:
        with self._flag("_get_lr_called_within_step"):
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            closed: Callable[[], list[Any]] | None = getattr(self, "_get_closed_form_lr", None)
            rates = self.get_lr() if epoch is None or closed is None else closed()
        self._set(rates)

    def _set(self, rates: list[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_value(group, "lr", rate)
        self._last_lr = values_of(self.optimizer, "lr")


LRScheduler.step = _live_step(LRScheduler.step)  # type: ignore[method-assign]


def check_optimizer(optimizer: Any) -> None:
    check(isinstance(optimizer, Optimizer), f"{type(optimizer).__name__} is not an Optimizer", TypeError)


class WithFunctions(LRScheduler):
    """A scheduler with one function per group; of those, the state dict has the attributes of callable
    objects."""

    lr_lambdas: list[Callable[[int], Any]]

    def _set_functions(self, optimizer: Optimizer, lr_lambda: Any) -> None:
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if isinstance(lr_lambda, list | tuple):
            check(
                len(lr_lambda) == count, f"Expected {count} lr_lambdas, but got {len(lr_lambda)}", ValueError
            )
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * count

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        del state["lr_lambdas"]
        return {
            **state,
            "lr_lambdas": [
                None if isinstance(function, types.FunctionType) else function.__dict__.copy()
                for function in self.lr_lambdas
            ],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({name: value for name, value in state_dict.items() if name != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if attributes is not None:
                function.__dict__.update(attributes)


class WithSchedulers(LRScheduler):
    """A scheduler made of others of the same optimizer."""

    _schedulers: Any

    def _check_schedulers(self, optimizer: Optimizer, schedulers: Any, unfit: type) -> None:
        name = type(self).__name__
        for i, scheduler in enumerate(schedulers):
            check(
                hasattr(scheduler, "optimizer"),
                f"{name} at index {i} should have `optimizer` as its attribute.",
                TypeError,
            )
            check(
                not isinstance(scheduler, unfit),
                f"{name} does not support `ReduceLROnPlateau` scheduler as it "
                "requires additional kwargs to be specified when calling `step`, but got one at index "
                f"{i} in the given schedulers sequence.",
                ValueError,
            )
            check(
                optimizer is scheduler.optimizer,
                f"{name} expects all schedulers to belong to the same optimizer, "
                f"but got scheduler {type(scheduler).__name__} at index {i} has {scheduler.optimizer}, "
                f"which is "
                f"different from {type(optimizer).__name__}.",
                ValueError,
            )

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        del state["_schedulers"]
        return {**state, "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({name: value for name, value in state_dict.items() if name != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class WithMomentum(LRScheduler):
    """A scheduler that may move the momentum, or Adam's first beta, against the rate."""

    cycle_momentum: bool
    use_beta1: bool

    def _set_momentum_range(self, optimizer: Optimizer, base: Any, largest: Any, last_epoch: int) -> None:
        check(
            "momentum" in optimizer.defaults or "betas" in optimizer.defaults,
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled",
            ValueError,
        )
        self.use_beta1 = "betas" in optimizer.defaults
        if last_epoch == -1:
            for high, low, group in zip(largest, base, optimizer.param_groups, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low

    def _set_momentum(self, group: dict[str, Any], value: Any) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value

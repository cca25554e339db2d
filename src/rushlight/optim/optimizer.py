"""Optimizer: what all optimizers share.

An optimizer defines `_new_state(param, group)`, the tensors it keeps for a parameter, and `_update(batch)`,
one step on lists: the parameters of one group that have gradients, their gradients, and their states.
Everything an update keeps is written in place, so that a captured step can be run again; hyperparameters are
read through the batch (_batch.py), which keeps them live in compiled code.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from .._api.types import typename
from ..autograd.grad_mode import enable_grad, recording_updates
from ..autograd.hooks import told
from ..autograd.tape import set_to_zero
from ..capture.environment import watch_table
from ..capture.locations import AllValues
from ..capture.numbers import live_number, live_places
from ..core.dispatch import AMBIENT
from ..core.errors import check
from ..core.modes import MODES
from ..core.tensor import Tensor
from ..utils.hooks import HookDict, RemovableHandle, add_hook
from ._batch import Batch, capturing, new_step, outside_of_capture
from ._helpers import (  # noqa: F401  optimizers of others import them from here
    _capturable_doc,
    _cast,
    _default_to_fused_or_foreach,
    _differentiable_doc,
    _foreach_doc,
    _fused_doc,
    _get_capturable_supported_devices,
    _get_scalar_dtype,
    _get_value,
    _maximize_doc,
    _params_doc,
    _stack_if_compiling,
    _to_scalar,
    _use_grad_for_differentiable,
    _view_as_real,
)
from ._native import NativeUpdates, native_updates, updates_natively

__all__ = [
    "Optimizer",
    "ParamsT",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "required",
]

ParamsT = Iterable[Any]


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
_RequiredParameter = _Required

_pre_hooks = HookDict()  # of every optimizer
_post_hooks = HookDict()
watch_table(_pre_hooks, "the hooks before a step of all optimizers")
watch_table(_post_hooks, "the hooks after a step of all optimizers")
_HOOKS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` runs before the step of every optimizer."""
    return add_hook(_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` runs after the step of every optimizer."""
    return add_hook(_post_hooks, hook)


def _with_hooks(func: Callable[..., Any]) -> Callable[..., Any]:
    """The step `func` between the hooks."""
    step = func

    @functools.wraps(
        step
    )  # captures look into functions by their module: the program's, where it wrote the step
    def between_hooks(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        arguments: Any = (self, *args)
        if "_optimizer_step_pre_hooks" not in vars(self):  # one around another that has not made itself one
            return step(*arguments, **kwargs)
        for hook in (*_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
            new = told(hook)(self, arguments, kwargs)
            if new is not None:
                check(
                    isinstance(new, tuple) and len(new) == 2,
                    f"{step} must return None or a tuple of (new_args, new_kwargs), but got {new}.",
                )
                arguments, kwargs = new
        result = step(*arguments, **kwargs)
        self._opt_called = True
        for hook in (*self._optimizer_step_post_hooks.values(), *_post_hooks.values()):
            told(hook)(self, arguments, kwargs)
        if capturing():
            live_places(
                [
                    (AllValues(table, list(table.values())), None, True, f"the hooks {name} a step")
                    for name, table in (
                        ("before", self._optimizer_step_pre_hooks),
                        ("after", self._optimizer_step_post_hooks),
                    )
                ]
            )
        return result

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if MODES.pieces is not None and AMBIENT.trace is None and not args and not kwargs:
            return MODES.pieces(self, between_hooks, (), {})
        return between_hooks(self, *args, **kwargs)

    hooked.hooked = True  # type: ignore[attr-defined]
    return hooked


class Optimizer:
    """The base of all optimizers.

    >>> isinstance(rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.1), rl.optim.Optimizer)
    True
    """

    OptimizerPreHook = Callable[..., Any]
    OptimizerPostHook = Callable[..., None]
    profile_hook_step = staticmethod(_with_hooks)

    _optimizer_step_pre_hooks: HookDict
    _optimizer_step_post_hooks: HookDict
    _optimizer_state_dict_pre_hooks: HookDict
    _optimizer_state_dict_post_hooks: HookDict
    _optimizer_load_state_dict_pre_hooks: HookDict
    _optimizer_load_state_dict_post_hooks: HookDict
    _opt_called = False  # whether there was a step; schedulers want one before their own
    _step_when_scheduled: Any = None  # what was assigned to `step` when the scheduler was made
    _as_real = True  # whether complex parameters are updated as pairs of reals
    _native: NativeUpdates | None = None  # native code of its steps, made when they have taken long
    _takes_sparse = False  # whether gradients may be sparse

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not hasattr(step, "hooked"):
            cls.step = _with_hooks(step)  # type: ignore[method-assign]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        check(
            not isinstance(params, Tensor),
            "params argument given to the optimizer should be an iterable of "
            f"Tensors or dicts, but got {typename(params)}",
            TypeError,
        )
        self.defaults = defaults
        self._patch_step_function()
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        check(len(groups) > 0, "optimizer got an empty parameter list", ValueError)
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def _patch_step_function(self) -> None:
        """Have hooks; what wraps another optimizer calls this in the place of `__init__`."""
        for name in _HOOKS:
            self.__dict__.setdefault(name, HookDict())

    # The step.

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """What is kept for a parameter, before its first step."""
        return {}

    def _state_of(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = self.state.get(param)
        if not state:
            with outside_of_capture():
                state = self._new_state(param, group)
            if state:
                self.state[param] = state
        return state

    def _make_state(self) -> None:
        """Make what the next step keeps for parameters, where it is not there yet."""
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self._state_of(param, group)

    def _update(self, batch: Batch) -> None:
        """One step of one group; every optimizer defines it."""
        raise NotImplementedError

    def _is_by_rows(self, batch: Batch) -> bool:
        """Whether a capture may run the update once for parameters that look alike."""
        return getattr(type(self)._update, "by_rows", False)

    def _update_all(self, index: int, batch: Batch) -> None:
        trace = AMBIENT.trace
        if trace is None and updates_natively(self, batch):
            native_updates(self).update(self, index, batch)
        elif trace is None or not self._is_by_rows(batch):
            self._update(batch)
        else:
            trace.update_rows(lambda numbers: self._update(batch.part(numbers)), batch.rows())

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters from their gradients; `closure` computes the loss anew and is called
        first."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = told(closure)()
        live_number(self._sizes())  # compiled code asks again
        with recording_updates(bool(self.defaults.get("differentiable", False))):
            for index in range(len(self.param_groups)):
                batch = Batch(self, index, self._as_real)
                if batch.params:
                    self._update_all(index, batch)
        if capturing():
            self._keep_state()
        return loss

    def _sizes(self) -> Callable[[], list[int]]:
        """A function that tells how many parameters the groups have: as long as they do, the same list."""
        known = [len(group["params"]) for group in self.param_groups]

        def sizes() -> list[int]:
            found = [len(group["params"]) for group in self.param_groups]
            return known if found == known else found

        return sizes

    def _keep_state(self) -> None:
        """Tell compiled code which tensors are kept for the parameters: they may be loaded or dropped between
        two calls.
        """
        states = list(self.state.values())
        live_number(lambda: bool(self.state))
        if states:
            name = f"whether {type(self).__name__} keeps the same tensors"
            known = [
                AllValues(state, [value if isinstance(value, Tensor) else None for value in state.values()])
                for state in states
            ]
            live_places(
                [
                    (vars(self), "state", self.state, name),
                    *((values, None, True, name) for values in (AllValues(self.state, states), *known)),
                ]
            )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    # not looked at first: compiled code need not know whether there was one
                    param.grad = None
                elif param.grad is not None:
                    set_to_zero(param.grad)

    # Hooks.

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` runs before a step and may return other arguments."""
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        return add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer, state_dict)` may return another state dict."""
        return add_hook(self._optimizer_state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer, state_dict)` may return another state dict."""
        return add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        return add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend=prepend)

    # State.

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._patch_step_function()
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)
            for param in group["params"]:
                step = self.state[param].get("step") if param in self.state else None
                if isinstance(step, int | float) and self._step_is_tensor:
                    self.state[param]["step"] = new_step(step)

        self.defaults.setdefault("differentiable", False)

    _step_is_tensor = True

    def state_dict(self) -> dict[str, Any]:
        """The state with parameters numbered in the order of the groups, and the groups."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        start = 0
        for group in self.param_groups:
            for i, param in enumerate(group["params"], start):
                numbers.setdefault(id(param), i)
            start += len(group["params"])
            groups.append(
                {
                    **{name: value for name, value in group.items() if name != "params"},
                    "params": [numbers[id(param)] for param in group["params"]],
                }
            )
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: value for key, value in self.state.items()
        }
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            new = hook(self, result)
            result = result if new is None else new
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state dict; tensors are cast to the dtypes of the parameters they belong to."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            new = hook(self, state_dict)
            state_dict = state_dict if new is None else new
        saved = copy.deepcopy(state_dict["param_groups"])
        check(
            len(saved) == len(self.param_groups),
            "loaded state dict has a different number of parameter groups",
            ValueError,
        )
        check(
            all(
                len(new["params"]) == len(old["params"])
                for new, old in zip(saved, self.param_groups, strict=True)
            ),
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
            ValueError,
        )
        params = {
            number: (param, new)
            for old, new in zip(self.param_groups, saved, strict=True)
            for number, param in zip(new["params"], old["params"], strict=True)
        }
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                param, group = params[key]
                state[param] = _cast(param, value, group)
            else:
                state[key] = value
        for old, new in zip(self.param_groups, saved, strict=True):
            new["params"] = old["params"]
            if "param_names" in old:
                new.setdefault("param_names", old["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Optimize more parameters, with hyperparameters of their own where the group names some."""
        check(
            isinstance(param_group, dict),
            f"param_group must be a dict, but got {type(param_group)}",
            TypeError,
        )
        given = param_group["params"]
        check(
            not isinstance(given, set),
            "optimizer parameters need to be organized in ordered collections, but the "
            "ordering of tensors in sets will change between runs. Please use a list instead.",
            TypeError,
        )
        given = [given] if isinstance(given, Tensor) else list(given)
        names = [item[0] for item in given if isinstance(item, tuple)]
        params = [item[1] if isinstance(item, tuple) else item for item in given]
        check(
            len(names) in (0, len(params)),
            "all optimizer params should be with/without names. Some param names are missing",
            ValueError,
        )
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {typename(param)}"
                )
            check(
                self.defaults.get("differentiable") or param.is_leaf or param.retains_grad,
                "can't optimize a non-leaf Tensor",
                ValueError,
            )
        for name, default in self.defaults.items():
            check(
                default is not required or name in param_group,
                f"parameter group didn't specify a value of required optimization parameter {name}",
                ValueError,
            )
            param_group.setdefault(name, default)
        self._check_distinct(param_group)
        self.param_groups.append(param_group)

    def _check_distinct(self, added: dict[str, Any]) -> None:
        identities = {id(param) for param in added["params"]}
        if len(identities) != len(added["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause "
                "an error",
                UserWarning,
                stacklevel=4,
            )
        for group in self.param_groups:
            check(
                ("param_names" in group) == ("param_names" in added),
                "all optimizer param groups should be "
                "with/without names. cannot add param group "
                f"{'with' if 'param_names' in added else 'without'} names to the optimizer",
                ValueError,
            )
            check(
                identities.isdisjoint(id(param) for param in group["params"]),
                "some parameters appear in more than one parameter group",
                ValueError,
            )

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines.extend(f"    {name}: {group[name]}" for name in sorted(group) if name != "params")
        return "\n".join([*lines, ")"])


Optimizer.step = _with_hooks(Optimizer.step)  # type: ignore[method-assign]


def validate(*conditions: tuple[bool, str]) -> None:
    """Raise ValueError for the first condition that does not hold: a hyperparameter is not valid."""
    for holds, message in conditions:
        check(holds, message, ValueError)


def validate_common(lr: Any, weight_decay: Any = 0.0, eps: Any = 0.0, betas: Any = ()) -> None:
    """The conditions most optimizers share."""
    if isinstance(lr, Tensor):
        check(lr.numel() == 1, "Tensor lr must be 1-element", ValueError)
    validate(
        (bool(lr >= 0.0), f"Invalid learning rate: {lr}"),
        (bool(eps >= 0.0), f"Invalid epsilon value: {eps}"),
        *[
            (bool(0.0 <= beta < 1.0), f"Invalid beta parameter at index {i}: {beta}")
            for i, beta in enumerate(betas)
        ],
        (bool(weight_decay >= 0.0), f"Invalid weight_decay value: {weight_decay}"),
    )


def validate_modes(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """`fused` and `foreach` name implementations; here all of them are the same."""
    if fused:
        check(not differentiable, "`fused` does not support `differentiable`")
        check(not foreach, "`fused` and `foreach` cannot be `True` together.")

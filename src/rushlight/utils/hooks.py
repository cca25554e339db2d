"""Handles of hooks, and the backward hooks of a module.

`add_hook` puts a hook into a dictionary and returns the handle that removes it. `BackwardHook` serves one
call of
a module: it passes the inputs and the outputs through an identity node each, so that the gradients of both
can be
seen, and changed, when backward comes by.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..autograd.function import Function
from ..autograd.tape import HookDict
from ..autograd.tape import RemovableHandle as _Handle
from ..core.errors import check
from ..core.modes import MODES
from ..core.tensor import Tensor

__all__ = ["BackwardHook", "HookDict", "RemovableHandle", "add_hook"]


class RemovableHandle(_Handle):
    """Removes a hook, and what other dictionaries know of it under the same number."""

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = ()) -> None:
        super().__init__(hooks_dict)
        extra = (extra_dict,) if isinstance(extra_dict, dict) else tuple(extra_dict)
        self._extra = [_Handle(table) for table in extra]

    def remove(self) -> None:
        super().remove()
        for handle in self._extra:
            table = handle.hooks_dict_ref()
            if table is not None:
                table.pop(self.id, None)

    def __getstate__(self) -> Any:
        return self.id, self.hooks_dict_ref(), [handle.hooks_dict_ref() for handle in self._extra]

    def __setstate__(self, state: Any) -> None:
        """A copy of a handle belongs to the copy of the dictionary."""
        number, hooks, extra = state
        self.__init__(HookDict() if hooks is None else hooks, extra_dict=[t for t in extra if t is not None])  # type: ignore[misc]
        self.id = number


def add_hook(
    hooks: HookDict,
    hook: Callable[..., Any],
    *,
    prepend: bool = False,
    marks: Iterable[tuple[HookDict, bool]] = (),
) -> RemovableHandle:
    """Register `hook`; each of `marks` is a dictionary that lists the hook where its flag is set."""
    marks = tuple(marks)
    handle = RemovableHandle(hooks, extra_dict=[table for table, _ in marks])
    if prepend:
        later = dict(hooks)
        hooks.clear()
        hooks[handle.id] = hook
        hooks.update(later)
    else:
        hooks[handle.id] = hook
    for table, flag in marks:
        if flag:
            table[handle.id] = True
    return handle


class BackwardHookFunction(Function):
    @staticmethod
    def forward(ctx: Any, *args: Tensor) -> tuple[Tensor, ...]:
        ctx.mark_non_differentiable(*[arg for arg in args if not arg.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        return grads


class BackwardHook:
    """The full backward hooks and pre-hooks of a module, for one call of it."""

    def __init__(
        self,
        module: Any,
        user_hooks: Sequence[Callable[..., Any]],
        user_pre_hooks: Sequence[Callable[..., Any]],
    ) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs: Any = None
        self.inputs: list[int] | None = (
            None  # positions of the tensors among the arguments, if they are watched
        )
        self.n_inputs = self.n_outputs = -1
        self.outputs: list[int] | None = None

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        args, self.inputs = _watched(args, lambda node: node.register_hook(self._after))
        self.n_inputs = len(args)
        return args

    def setup_output_hook(self, result: Any) -> Any:
        single = not isinstance(result, tuple)
        values, self.outputs = _watched(
            (result,) if single else result, lambda node: node.register_prehook(self._before)
        )
        self.n_outputs = len(values)
        return values[0] if single else values

    def _before(self, grads: tuple[Any, ...]) -> Any:
        """The gradients of the outputs are known."""
        assert self.outputs is not None
        outputs = _spread(self.outputs, grads, self.n_outputs)
        for hook in self.user_pre_hooks:
            new = hook(self.module, outputs)
            if new is not None:
                outputs = self._checked(new, self.n_outputs, "pre hook", "grad_output")
        self.grad_outputs = outputs
        if self.inputs is None:
            if self.user_hooks:
                warnings.warn(
                    "Full backward hook is firing when gradients are computed with respect to module outputs "
                    "since no inputs require gradients.",
                    UserWarning,
                    stacklevel=5,
                )
            nothing = (None,) * self.n_inputs
            for hook in self.user_hooks:
                new = hook(self.module, nothing, outputs)
                check(
                    new is None or (isinstance(new, tuple) and all(grad is None for grad in new)),
                    "Backward hook for Modules where no input requires gradient should always return None or "
                    "None for all gradients.",
                )
            self.grad_outputs = None
        return tuple(outputs[i] for i in self.outputs) if self.user_pre_hooks else None

    def _after(self, grads: tuple[Any, ...], _: Any) -> Any:
        """The gradients of the inputs are known."""
        assert self.inputs is not None
        if self.grad_outputs is None:
            return None  # the gradient came to the input by another way than the output: a second derivative
        inputs: Any = _spread(self.inputs, grads, self.n_inputs)
        for hook in self.user_hooks:
            new = hook(self.module, inputs, self.grad_outputs)
            if new is not None:
                inputs = self._checked(new, self.n_inputs, "hook", "grad_input")
        self.grad_outputs = None
        return tuple(inputs[i] for i in self.inputs)

    def _checked(self, new: Any, expected: int, what: str, name: str) -> tuple[Any, ...]:
        values = new if isinstance(new, tuple) else (new,)
        check(
            len(values) == expected,
            f"Backward {what} returned an invalid number of {name}, got "
            f"{len(values)}, but expected {expected}",
        )
        return values


def _watched(values: tuple[Any, ...], register: Callable[[Any], Any]) -> tuple[Any, list[int] | None]:
    """`values` with the tensors passed through an identity node, if any requires grad; and where they are."""
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    if not MODES.grad or not any(values[i].requires_grad for i in places):
        return values, None
    passed = BackwardHookFunction.apply(*[values[i] for i in places])
    passed = passed if isinstance(passed, tuple) else (passed,)
    register(next(tensor.grad_fn for tensor in passed if tensor.grad_fn is not None))
    new = list(values)
    for i, tensor in zip(places, passed, strict=True):
        new[i] = tensor
    return (type(values)(*new) if hasattr(values, "_fields") else tuple(new)), places


def _spread(places: list[int], grads: tuple[Any, ...], size: int) -> tuple[Any, ...]:
    result: list[Any] = [None] * size
    for i, grad in zip(places, grads, strict=True):
        result[i] = grad
    return tuple(result)


def warn_if_hooks_not_serializable(hooks: Iterable[Any]) -> None:
    """Hooks are left out when the tensor that has them is saved."""
    for hook in hooks:
        warnings.warn(f"the hook {hook} is not saved with its tensor", UserWarning, stacklevel=2)

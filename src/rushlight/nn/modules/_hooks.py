"""The hooks of modules: how they are registered, and the call of a module that has some."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ...capture.environment import watch_table
from ...core.errors import check
from ...core.tensor import Tensor
from ...utils.hooks import BackwardHook, HookDict, RemovableHandle, add_hook

Hook = Callable[..., Any]


class HookSet:
    """The hooks of a call: those of one module, or those that every module runs."""

    def __init__(self) -> None:
        self.forward_pre = HookDict()
        self.forward = HookDict()
        self.forward_with_kwargs = HookDict()
        self.forward_always = HookDict()
        self.backward_pre = HookDict()
        self.backward = HookDict()
        self.full_backward: bool | None = None
        self.buffer = HookDict()
        self.module = HookDict()
        self.parameter = HookDict()

    def __bool__(self) -> bool:
        return bool(self.forward_pre or self.forward or self.backward_pre or self.backward)


EVERYWHERE = HookSet()
for _name in ("forward_pre", "forward", "backward_pre", "backward"):
    watch_table(getattr(EVERYWHERE, _name), f"the {_name} hooks of all modules")


class Hooked:
    """The part of Module that knows hooks."""

    _forward_hooks: HookDict
    _forward_hooks_with_kwargs: HookDict
    _forward_hooks_always_called: HookDict
    _forward_pre_hooks: HookDict
    _forward_pre_hooks_with_kwargs: HookDict
    _backward_hooks: HookDict
    _backward_pre_hooks: HookDict
    _is_full_backward_hook: bool | None
    forward: Callable[..., Any]

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args)` runs before forward and may return other arguments."""
        return add_hook(
            self._forward_pre_hooks,
            hook,
            prepend=prepend,
            marks=[(self._forward_pre_hooks_with_kwargs, with_kwargs)],
        )

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """`hook(module, args, output)` runs after forward and may return another output; with
        `always_call` also
        when forward raises."""
        return add_hook(
            self._forward_hooks,
            hook,
            prepend=prepend,
            marks=[
                (self._forward_hooks_with_kwargs, with_kwargs),
                (self._forward_hooks_always_called, always_call),
            ],
        )

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_output)` runs before the gradients of the module are computed."""
        return add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` runs when the gradients of the module's inputs are
        known."""
        check(
            self._is_full_backward_hook is not False,
            "Cannot use both regular backward hooks and full backward "
            "hooks on a single Module. Please use only one of them.",
        )
        self._is_full_backward_hook = True
        return add_hook(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """As register_full_backward_hook, but sees the last operator of the module alone."""
        check(
            self._is_full_backward_hook is not True,
            "Cannot use both regular backward hooks and full backward "
            "hooks on a single Module. Please use only one of them.",
        )
        self._is_full_backward_hook = False
        return add_hook(self._backward_hooks, hook)

    # The call.

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if not (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or EVERYWHERE
        ):
            return self.forward(*args, **kwargs)
        return _Call(self).run(args, kwargs)

    def _get_backward_hooks(self) -> tuple[list[Hook], list[Hook]]:
        """The full backward hooks, and the others."""
        full: list[Hook] = []
        plain: list[Hook] = []
        for kind, hooks in (
            (EVERYWHERE.full_backward, EVERYWHERE.backward),
            (self._is_full_backward_hook, self._backward_hooks),
        ):
            (full if kind else plain).extend(hooks.values())
        return full, plain

    def _get_backward_pre_hooks(self) -> list[Hook]:
        return [*EVERYWHERE.backward_pre.values(), *self._backward_pre_hooks.values()]


class _Call:
    """One call of a module with hooks."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.called: set[int] = set()  # numbers of the forward hooks that ran and are to run always
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        self.result: Any = None

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.args, self.kwargs = args, kwargs
        try:
            return self._inner()
        except Exception:
            for number, hook, with_kwargs, always in self._forward_hooks():
                if always and number not in self.called:
                    self._clean_up(hook, with_kwargs)
            raise

    def _inner(self) -> Any:
        module = self.module
        full, plain = module._get_backward_hooks()
        before = module._get_backward_pre_hooks()
        self._run_pre_hooks()
        watch = BackwardHook(module, full, before) if full or before else None
        if watch is not None:
            self.args = watch.setup_input_hook(self.args)
        self.result = module.forward(*self.args, **self.kwargs)
        for number, hook, with_kwargs, always in self._forward_hooks():
            if always:
                self.called.add(number)
            self._run_forward_hook(hook, with_kwargs)
        if watch is not None:
            if not isinstance(self.result, Tensor | tuple):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of "
                    f"Tensors but received {type(self.result)}",
                    UserWarning,
                    stacklevel=4,
                )
            else:
                self.result = watch.setup_output_hook(self.result)
        if plain:
            self._watch_last(plain)
        return self.result

    def _run_pre_hooks(self) -> None:
        module = self.module
        for number, hook in (*EVERYWHERE.forward_pre.items(), *module._forward_pre_hooks.items()):
            if number in module._forward_pre_hooks_with_kwargs:
                new = hook(module, self.args, self.kwargs)
                if new is None:
                    continue
                check(
                    isinstance(new, tuple) and len(new) == 2,
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {new}.",
                )
                self.args, self.kwargs = new
            else:
                new = hook(module, self.args)
                if new is not None:
                    self.args = new if isinstance(new, tuple) else (new,)

    def _forward_hooks(self) -> Iterator[tuple[int, Hook, bool, bool]]:
        """(number, hook, with kwargs, always called) in the order they run."""
        module = self.module
        for hooks, kwargs, always in (
            (EVERYWHERE.forward, EVERYWHERE.forward_with_kwargs, EVERYWHERE.forward_always),
            (module._forward_hooks, module._forward_hooks_with_kwargs, module._forward_hooks_always_called),
        ):
            for number, hook in list(hooks.items()):
                yield number, hook, number in kwargs, number in always

    def _run_forward_hook(self, hook: Hook, with_kwargs: bool) -> None:
        arguments = (self.args, self.kwargs) if with_kwargs else (self.args,)
        new = hook(self.module, *arguments, self.result)
        if new is not None:
            self.result = new

    def _clean_up(self, hook: Hook, with_kwargs: bool) -> None:
        """A hook that runs although forward raised; what it raises itself must not hide the first error."""
        try:
            self._run_forward_hook(hook, with_kwargs)
        except Exception as error:
            warnings.warn(
                f"module forward hook with ``always_call=True`` raised an exception that was silenced as "
                f"another error was raised in forward: {error}",
                UserWarning,
                stacklevel=4,
            )

    def _watch_last(self, hooks: list[Hook]) -> None:
        """Hooks that are not full ones see the gradients of the last operator."""
        value = self.result
        while not isinstance(value, Tensor):
            if isinstance(value, dict):
                value = next(v for v in value.values() if isinstance(v, Tensor))
            else:
                value = value[0]
        if value.grad_fn is not None:
            for hook in hooks:
                wrapped = functools.partial(hook, self.module)
                functools.update_wrapper(wrapped, hook)
                value.grad_fn.register_hook(wrapped)
            self._warn_of_parts(value.grad_fn)

    def _warn_of_parts(self, last: Any) -> None:
        """Say so where a hook that is not a full one sees less than the gradients of the whole module."""
        inputs = self.args[0] if len(self.args) == 1 else self.args
        for what, values in (("return", self.result), ("take as input", inputs)):
            values = values if isinstance(values, tuple) else (values,)
            if not all(isinstance(value, Tensor) for value in values):
                _deprecated(f"on a Module that does not {what} a single Tensor or a tuple of Tensors")
                return
        results = self.result if isinstance(self.result, tuple) else (self.result,)
        given = inputs if isinstance(inputs, tuple) else (inputs,)
        before = {value.grad_fn for value in given if value.grad_fn is not None}
        if any(value.grad_fn is not None and value.grad_fn is not last for value in results):
            _deprecated("when outputs are generated by different autograd Nodes")
        elif before != {node for node, _ in last.next_functions}:
            _deprecated("when the forward contains multiple autograd Nodes")


def _deprecated(when: str) -> None:
    warnings.warn(
        f"Using a non-full backward hook {when} is deprecated: it does not see the gradients of all inputs. "
        "Use register_full_backward_hook.",
        FutureWarning,
        stacklevel=8,
    )


# Hooks of every module.


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """`hook(module, args)` runs before the forward of every module."""
    return add_hook(EVERYWHERE.forward_pre, hook)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """`hook(module, args, output)` runs after the forward of every module."""
    return add_hook(
        EVERYWHERE.forward,
        hook,
        marks=[(EVERYWHERE.forward_with_kwargs, with_kwargs), (EVERYWHERE.forward_always, always_call)],
    )


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    return add_hook(EVERYWHERE.backward_pre, hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    check(
        EVERYWHERE.full_backward is not False,
        "Cannot use both regular backward hooks and full backward hooks "
        "as a global Module hook. Please use only one of them.",
    )
    EVERYWHERE.full_backward = True
    return add_hook(EVERYWHERE.backward, hook)


def register_module_backward_hook(hook: Hook) -> RemovableHandle:
    check(
        EVERYWHERE.full_backward is not True,
        "Cannot use both regular backward hooks and full backward hooks "
        "as a global Module hook. Please use only one of them.",
    )
    EVERYWHERE.full_backward = False
    return add_hook(EVERYWHERE.backward, hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """`hook(module, name, buffer)` runs at every registration and may return another buffer."""
    return add_hook(EVERYWHERE.buffer, hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    return add_hook(EVERYWHERE.module, hook)


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    return add_hook(EVERYWHERE.parameter, hook)


def after_registration(hooks: HookDict, module: Any, name: str, value: Any) -> Any:
    """What the registration hooks make of `value`."""
    for hook in list(hooks.values()):
        new = hook(module, name, value)
        if new is not None:
            value = new
    return value

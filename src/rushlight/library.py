"""Operators of one's own: `custom_op` makes a function that the rest of the system takes for one operator.

A custom operator has a kernel, which sees plain tensors without history, and may have a fake kernel (for the
meta device), a derivative and a batching rule. It is found as `ops.<namespace>.<name>` as well.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from . import ops
from .autograd import Function
from .core.errors import check
from .core.tensor import META, Tensor

__all__ = ["CustomOpDef", "custom_op", "register_autograd", "register_fake", "register_kernel",
           "register_vmap"]

_operators: dict[str, CustomOpDef] = {}


def custom_op(name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: str | Iterable[str],
              device_types: Any = None, schema: str | None = None, tags: Any = None) -> Any:
    """An operator "namespace::name" whose kernel is `fn`; without `fn`, a decorator.

    `mutates_args` names the arguments that it writes to; its outputs must not be its inputs.
    """
    if fn is None:
        return lambda function: custom_op(name, function, mutates_args=mutates_args,
                                          device_types=device_types, schema=schema, tags=tags)
    return CustomOpDef(name, fn, mutates_args, annotated=schema is None)


class CustomOpDef:
    """A custom operator: call it, or tell it more about itself."""

    def __init__(self, name: str, fn: Callable[..., Any], mutates_args: str | Iterable[str], *,
                 annotated: bool = True) -> None:
        namespace, _, short = name.partition("::")
        check(bool(short), f"custom_op: the name must be 'namespace::name', not {name!r}", ValueError)
        self._namespace, self._name = namespace, short
        self._kernel = fn
        self._signature = inspect.signature(fn)
        for parameter in self._signature.parameters.values() if annotated else ():
            check(parameter.annotation is not inspect.Parameter.empty,
                  f"custom_op: the parameter {parameter.name} of {name} must have a type annotation",
                  ValueError)
        names = list(self._signature.parameters)
        self._mutates = names if mutates_args == "unknown" else [
            mutates_args] if isinstance(mutates_args, str) else list(mutates_args)
        strange = set(self._mutates) - set(names)
        check(not strange, f"custom_op: {name} has no arguments {sorted(strange)} to write to", ValueError)
        self._fake: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        self._batched: Callable[..., Any] | None = None
        self._function = _function_of(self)
        _operators[name] = self
        _attach(self)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """What the operator does on the meta device: outputs of the right shapes, without data."""
        self._fake = fn
        return fn

    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Another kernel, for some devices; those of "cpu" replace the first one."""
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        named = [device_types] if isinstance(device_types, str) else device_types
        if named is None or "cpu" in named:
            self._kernel = fn
        return fn

    def register_autograd(self, backward: Callable[..., Any], /, *,
                          setup_context: Callable[..., Any] | None = None) -> None:
        """backward(ctx, *grads) gives the gradients of the inputs; setup_context(ctx, inputs, output) saves
        what it needs."""
        check(not self._mutates, f"{self!r} writes to its arguments and cannot have a derivative")
        self._backward, self._setup = backward, setup_context

    def register_vmap(self, func: Callable[..., Any] | None = None, /) -> Any:
        """func(info, in_dims, *args) gives the outputs for a batch, and along which dimensions they lie."""
        if func is None:
            return self.register_vmap
        self._batched = func
        self._function = _function_of(self)
        return func

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise RuntimeError(f"{self!r}: {error}") from None
        bound.apply_defaults()
        values = tuple(bound.arguments.values())
        for parameter, value in zip(self._signature.parameters.values(), values, strict=True):
            check(parameter.annotation not in (Tensor, "Tensor") or isinstance(value, Tensor),
                  f"{self!r}: the argument {parameter.name} must be a Tensor, not a {type(value).__name__}")
        if not self._mutates:
            return self._function.apply(*values)
        result = self._run(values)
        for name in self._mutates:
            written = bound.arguments[name]
            if isinstance(written, Tensor):
                written.version_counter.value += 1
        return result

    def _run(self, values: tuple[Any, ...]) -> Any:
        """The kernel, or the fake one where there is no data."""
        if any(isinstance(value, Tensor) and value._keys & META for value in values):
            check(self._fake is not None,
                  f"{self!r} has no fake kernel for the meta device; register_fake adds one")
            return self._fake(*values)  # type: ignore[misc]
        result = self._kernel(*values)
        given = [value for value in values if isinstance(value, Tensor)]
        for output in result if isinstance(result, tuple | list) else (result,):
            check(not any(output is value for value in given),
                  f"{self!r}: an output is one of the inputs; return a clone of it")
        return result

    @property
    def default(self) -> CustomOpDef:
        return self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._namespace}::{self._name})>"


def _function_of(operator: CustomOpDef) -> Any:
    """The operator as a function of autograd."""

    def forward(*values: Any) -> Any:
        return operator._run(values)

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        if operator._setup is not None:
            operator._setup(ctx, inputs, output)

    def backward(ctx: Any, *grads: Any) -> Any:
        check(operator._backward is not None,
              f"{operator!r} has no derivative; register_autograd adds one")
        return operator._backward(ctx, *grads)  # type: ignore[misc]

    members = {"forward": staticmethod(forward), "setup_context": staticmethod(setup_context),
               "backward": staticmethod(backward)}
    if operator._batched is not None:
        batched = operator._batched
        members["vmap"] = staticmethod(lambda info, in_dims, *args: batched(info, in_dims, *args))
    return type(f"{operator._namespace}_{operator._name}", (Function,), members)


def _attach(operator: CustomOpDef) -> None:
    """Make it `ops.<namespace>.<name>`."""
    namespace = getattr(ops, operator._namespace, None)
    if namespace is None:
        namespace = SimpleNamespace()
        setattr(ops, operator._namespace, namespace)
    setattr(namespace, operator._name, operator)


# The same by name.


def _named(op: str | CustomOpDef) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    found = _operators.get(op)
    if found is None:
        raise RuntimeError(f"there is no custom operator {op!r}; custom_op makes one")
    return found


def register_fake(op: str | CustomOpDef, func: Callable[..., Any] | None = None, /, *,
                  lib: Any = None) -> Any:
    if func is None:
        return lambda function: register_fake(op, function)
    return _named(op).register_fake(func)


def register_kernel(op: str | CustomOpDef, device_types: str | Sequence[str] | None,
                    func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    return _named(op).register_kernel(device_types, func)


def register_autograd(op: str | CustomOpDef, backward: Callable[..., Any], /, *,
                      setup_context: Callable[..., Any] | None = None, lib: Any = None) -> None:
    _named(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: str | CustomOpDef, func: Callable[..., Any] | None = None, /, *,
                  lib: Any = None) -> Any:
    return _named(op).register_vmap(func)

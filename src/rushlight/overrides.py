"""For classes with `__torch_function__`: questions about arguments, and functions of one's own that ask."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ._api.link import API
from .core.function_modes import BaseTorchFunctionMode, TorchFunctionMode
from .core.modes import MODES
from .core.overrides import ONCE, ask, overriding_types
from .core.tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether some of the arguments decide what functions do with them.

    >>> rl.overrides.has_torch_function([rl.ones(1)])
    False
    """
    if MODES.plain == ONCE:
        MODES.plain = False
        return False
    return not MODES.plain and bool(overriding_types(relevant_args))


def has_torch_function_unary(arg: Any) -> bool:
    """Whether one argument overrides functions.

    >>> rl.overrides.has_torch_function_unary(rl.ones(1))
    False
    """
    return has_torch_function((arg,))


def has_torch_function_variadic(*args: Any) -> bool:
    """Whether any of the arguments overrides functions.

    >>> rl.overrides.has_torch_function_variadic(rl.ones(1), 2)
    False
    """
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the arguments make of `public_api(*args, **kwargs)`.

    >>> class Length:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return f"{func.__name__} of a length"
    >>> def twice(x):
    ...     return rl.overrides.handle_torch_function(twice, (x,), x)
    >>> twice(Length())
    'twice of a length'
    """
    return ask(public_api, overriding_types(relevant_args), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator for functions of one's own: `dispatcher(*args)` names the arguments that are asked.

    >>> class Length:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return f"{func.__name__} of a length"
    >>> @rl.overrides.wrap_torch_function(lambda x: (x,))
    ... def twice(x):
    ...     return 2 * x
    >>> twice(3), twice(Length())
    (6, 'twice of a length')
    """

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return wrap


def redispatch_function(
    func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Any:
    """`func(*args, **kwargs)` without asking about it; functions that it calls ask again.

    >>> class Loud(rl.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return rl.overrides.redispatch_function(func, types, args, kwargs)
    >>> _ = rl.add(rl.ones(2).as_subclass(Loud), 1)
    add
    """
    before, MODES.plain = MODES.plain, ONCE
    try:
        return func(*args, **(kwargs or {}))
    finally:
        MODES.plain = before


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Inside of `__torch_dispatch__`: operators are recorded by autograd again, as they are outside.

    >>> from rushlight.utils._python_dispatch import TorchDispatchMode
    >>> class Slope(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         with rl.overrides.enable_reentrant_dispatch():
    ...             x = args[0].detach().requires_grad_()
    ...             return rl.autograd.grad(func(x).sum(), x)[0]
    >>> x = rl.zeros(2)
    >>> with Slope():
    ...     y = rl.sin(x)
    >>> y
    tensor([1., 1.])
    """
    saved = MODES.silent, MODES.forward_grad, MODES.below
    MODES.silent, MODES.forward_grad, MODES.below = MODES.silent - {None}, True, False
    try:
        yield
    finally:
        MODES.silent, MODES.forward_grad, MODES.below = saved


def is_tensor_like(inp: Any) -> bool:
    """Whether functions of tensors take it: a tensor, or an object with `__torch_function__`.

    >>> rl.overrides.is_tensor_like(rl.ones(1))
    True
    """
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is a method or property of Tensor.

    >>> rl.overrides.is_tensor_method_or_property(rl.Tensor.add)
    True
    """
    return func in API.methods.values() or getattr(Tensor, getattr(func, "__name__", ""), None) is func


def resolve_name(f: Any) -> str | None:
    """The public name of a function, such as 'rushlight.add'.

    >>> rl.overrides.resolve_name(rl.Tensor.add)
    'rushlight.Tensor.add'
    """
    for namespace, functions in API.functions.items():
        for name, packet in functions.items():
            if packet is f:
                return ".".join(filter(None, ("rushlight", namespace, name)))
    own: str = getattr(f, "__name__", "")
    return f"rushlight.Tensor.{own}" if own and hasattr(Tensor, own) else None

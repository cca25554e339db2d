"""Classes that decide what functions of tensors do with them: `__torch_function__`.

A class derived from Tensor keeps its class in results; one with a `__torch_function__` of its own is asked
instead of any function of the package that is called with one of its objects, and so is any other class that
has that method. Tensors of the package's own classes never pay for this: a call remembers what to do by the
types of its arguments, and those that override are not remembered.

- `prepare(cls)` runs when a class derived from Tensor is made, and gives it the methods that are written by
  hand with the question in front; operators ask when their arguments are resolved (resolve.py).
- While an overriding function runs the original, nobody is asked (`MODES.plain`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from inspect import getattr_static
from types import FunctionType
from typing import Any

from .modes import MODES
from .tensor import Tensor, refuse_overrides, tensor_method

# Methods that are about the object itself, or built of others that ask.
_NOT_ASKED = ("as_subclass", "module_load")
_PROPERTIES = ("T", "mT", "H", "mH", "real", "imag", "data")
_SPECIAL = ("__getitem__", "__setitem__")


@functools.cache
def is_overriding(kind: Any) -> bool:
    """Whether functions called with an object of this class ask it what to do."""
    if issubclass(kind, Tensor):
        return kind._overrides
    return hasattr(kind, "__torch_function__")


def overriding_types(values: Iterable[Any]) -> list[type]:
    """The classes among those of `values`, and of what lists among them hold, that override: once each,
    derived classes before their bases."""
    found: list[type] = []
    for value in _each(values):
        kind: Any = type(value)
        if kind in found or not is_overriding(kind):
            continue
        place = next((i for i, other in enumerate(found) if issubclass(kind, other)), len(found))
        found.insert(place, kind)
    return found


def _each(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value


def ask(function: Callable[..., Any], kinds: list[type], args: tuple[Any, ...],
        kwargs: dict[str, Any]) -> Any:
    """What the classes make of `function(*args, **kwargs)`: the first that knows an answer gives it."""
    for kind in kinds:
        override: Any = kind.__torch_function__  # type: ignore[attr-defined]
        result = override(function, tuple(kinds), args, kwargs)
        if result is not NotImplemented:
            return result
    names = ", ".join(kind.__name__ for kind in kinds)
    raise TypeError(f"no implementation of {function.__name__} was found for the types {names}: each "
                    "__torch_function__ returned NotImplemented")


def ask_operator(name: str, run: Callable[..., Any], form: Any, args: tuple[Any, ...]) -> Any:
    """What the classes of the arguments make of an operator that `run(name, form, *args)` runs."""
    kinds = overriding_types(args)
    if not kinds:
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(args[0]).__name__}")

    def function(*args: Any) -> Any:
        with plainly():
            return run(name, form, *args)

    function.__name__ = name.partition(".")[0]
    return ask(function, kinds, args, {})


def _default(cls: type[Tensor], func: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
             kwargs: dict[str, Any] | None = None) -> Any:
    """Run `func` as on plain tensors, and give results the class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with plainly():
        result = func(*args, **(kwargs or {}))
    return _converted(result, cls, args)


@contextmanager
def plainly() -> Iterator[None]:
    """A context in which no class is asked."""
    before, MODES.plain = MODES.plain, True
    try:
        yield
    finally:
        MODES.plain = before


def _converted(result: Any, cls: type[Tensor], args: tuple[Any, ...]) -> Any:
    if isinstance(result, Tensor):
        if isinstance(result, cls):
            return result
        if any(result is value for value in _each(args)):
            return result.as_subclass(cls)
        result.__class__ = cls
        return result
    if isinstance(result, tuple | list):
        parts = [_converted(part, cls, args) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result


# Methods that are written by hand.


def prepare(cls: type[Tensor]) -> None:
    """Give a class that overrides the methods of Tensor that are no operators, asking first."""
    given = cls.__torch_function__
    cls._overrides = getattr(given, "__func__", given) is not refuse_overrides
    if not cls._overrides:
        return
    for name, method in list(Tensor.__dict__.items()):
        wanted = name in _SPECIAL or not (name.startswith("_") or name in _NOT_ASKED)
        if wanted and isinstance(method, FunctionType) and getattr_static(cls, name) is method:
            setattr(cls, name, _asking(method))
    for name in _PROPERTIES:
        own = Tensor.__dict__[name]
        if getattr_static(cls, name) is own:
            setattr(cls, name, property(_asking(own.fget), own.fset, own.fdel, own.__doc__))


def _asking(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def asked(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if MODES.plain:
            return method(self, *args, **kwargs)
        kinds = overriding_types((self, *args, *kwargs.values()))
        return ask(method, kinds, (self, *args), kwargs)

    return asked


@tensor_method
def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What a parameter or buffer of a module becomes when `other` is loaded with swapping on (see
    `rushlight.__future__`): a class of tensors may say something else."""
    kinds = [] if MODES.plain else overriding_types((self, other))
    if kinds:
        result: Tensor = ask(module_load, kinds, (self, other), {"assign": assign})
        return result
    return other.detach() if assign else self.copy_(other).detach()


def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Tensor:
    """`data`, without its history, as an object of `cls` over the same memory."""
    with plainly():
        result = data.detach()
    result.__class__ = cls
    return result.requires_grad_(require_grad)


def _new_class(cls: type[Tensor], /, **options: Any) -> None:
    super(Tensor, cls).__init_subclass__(**options)
    prepare(cls)


Tensor.__torch_function__ = classmethod(_default)  # type: ignore[assignment]
Tensor.__init_subclass__ = classmethod(_new_class)  # type: ignore[assignment]
Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]

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

from .dispatch import AMBIENT
from .modes import MODES
from .tensor import DISPATCH, Tensor, _new, refuse_overrides, tensor_method

ONCE = 2  # of MODES.plain: the function that runs asks nobody, those that it calls ask again

# Methods that are about the object itself, or built of others that ask.
_NOT_ASKED = ("as_subclass", "module_load")
# Methods that return no tensor: the default `__torch_function__` has nothing to do with them.
_FACTS = ("size", "stride", "dim", "ndimension", "numel", "nelement", "element_size", "storage_offset")
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


def ask(
    function: Callable[..., Any], kinds: list[type], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What the classes make of `function(*args, **kwargs)`: the first that knows an answer gives it."""
    for kind in kinds:
        override: Any = kind.__torch_function__  # type: ignore[attr-defined]
        result = override(function, tuple(kinds), args, kwargs)
        if result is not NotImplemented:
            return result
    names = ", ".join(kind.__name__ for kind in kinds)
    raise TypeError(
        f"no implementation of {function.__name__} was found for the types {names}: each "
        "__torch_function__ returned NotImplemented"
    )


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


def _default(
    cls: type[Tensor],
    func: Callable[..., Any],
    types: tuple[type, ...],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Run `func` as on plain tensors, and give results the class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with plainly():
        result = func(*args, **(kwargs or {}))
    return _converted(result, cls, args)


@contextmanager
def plainly(modes: bool = True) -> Iterator[None]:
    """A context in which no class is asked, and no mode either unless `modes` are."""
    before = MODES.plain, MODES.functions
    MODES.plain = True
    if not modes:
        MODES.functions = ()
    try:
        yield
    finally:
        MODES.plain, MODES.functions = before


def _converted(result: Any, cls: type[Tensor], args: tuple[Any, ...]) -> Any:
    if isinstance(result, Tensor):
        if isinstance(result, cls):
            return result
        if any(result is value for value in _each(args)):
            return result.as_subclass(cls)
        return as_class(result, cls)
    if isinstance(result, tuple | list):
        parts = [_converted(part, cls, args) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result


# Methods that are written by hand.


def prepare(cls: type[Tensor]) -> None:
    """Give a class that overrides the methods of Tensor that are no operators, asking first."""
    run = cls.__torch_dispatch__
    cls._dispatches = getattr(run, "__func__", run) is not refuse_dispatch
    given: Any = cls.__torch_function__
    if cls._dispatches and getattr(given, "__func__", None) is _default:
        cls.__torch_function__ = staticmethod(refuse_overrides)
        given = refuse_overrides  # operators give it to the class already
    cls._overrides = getattr(given, "__func__", given) is not refuse_overrides
    cls._keys = DISPATCH if cls._dispatches else 0
    own = cls.__dict__.get("__slots__", ())
    cls._slots = (*cls._slots, *((own,) if isinstance(own, str) else own))
    for activate in _activate if cls._dispatches else ():
        activate()
    if not cls._overrides:
        return
    apart = (*_NOT_ASKED, *_FACTS) if getattr(given, "__func__", None) is _default else _NOT_ASKED
    for name, method in list(Tensor.__dict__.items()):
        wanted = name in _SPECIAL or not (name.startswith("_") or name in apart)
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
        # a class derived from one that overrides need not override itself
        return ask(method, kinds, (self, *args), kwargs) if kinds else method(self, *args, **kwargs)

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


def as_class(tensor: Tensor, cls: type[Tensor]) -> Tensor:
    """A tensor that nobody else holds, as an object of `cls`."""
    if tensor.__class__ is not cls:
        if "__slots__" in cls.__dict__ or tensor._dispatches:
            fields, tensor = tensor.__dict__, _new(cls)
            tensor.__dict__.update(fields)
        else:
            tensor.__class__ = cls
    keys = tensor._keys & ~DISPATCH
    tensor._keys = keys | DISPATCH if cls._dispatches else keys
    return tensor


def _make_subclass(
    cls: type[Tensor],
    data: Tensor,
    require_grad: bool = False,
    *,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    device_for_backend_keys: Any = None,
) -> Tensor:
    """`data`, without its history, as an object of `cls` over the same memory."""
    with plainly():
        result = as_class(data.detach(), cls)
    if dispatch_sizes_strides_policy is not None or dispatch_device or dispatch_layout:
        result._policy = (dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)
    return Tensor._set_requires_grad(result, require_grad)


def _new_class(cls: type[Tensor], /, **options: Any) -> None:
    super(Tensor, cls).__init_subclass__(**options)
    prepare(cls)


_activate: list[Callable[[], None]] = []


def on_dispatching(activate: Callable[[], None]) -> None:
    """What is called when there is a class that runs operators itself."""
    _activate.append(activate)


@contextmanager
def modes_replaced(modes: tuple[Any, ...]) -> Iterator[None]:
    """A context with these modes open and no others."""
    saved = MODES.dispatchers, AMBIENT.keys
    MODES.dispatchers = modes
    AMBIENT.keys = AMBIENT.keys | DISPATCH if modes else AMBIENT.keys & ~DISPATCH
    try:
        yield
    finally:
        MODES.dispatchers, AMBIENT.keys = saved


@contextmanager
def undispatched() -> Iterator[None]:
    """A context in which no class and no mode is given operators."""
    saved = MODES.undispatched
    MODES.undispatched = True
    try:
        with modes_replaced(()):
            yield
    finally:
        MODES.undispatched = saved


def refuse_dispatch(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """`__torch_dispatch__` of tensors that are like any other: the operator itself."""
    with undispatched():
        return func(*args, **(kwargs or {}))


Tensor.__torch_dispatch__ = staticmethod(refuse_dispatch)
Tensor.__torch_function__ = classmethod(_default)  # type: ignore[assignment]
Tensor.__init_subclass__ = classmethod(_new_class)  # type: ignore[assignment]
Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]

"""Modes that see every call of a function of tensors, whatever its arguments: `TorchFunctionMode`.

While a mode is open anywhere, packets are called through a function that looks for the modes of its thread;
otherwise nothing is paid for them. A mode runs with the modes outside of it, so that it can call what it saw.
"""

from __future__ import annotations

import threading
from typing import Any

from .modes import MODES
from .overrides import overriding_types
from .resolve import Packet

_call = Packet.__call__
_lock = threading.Lock()
_open = 0
_paused: Any = None  # a word that says to native methods of tensors that modes are open


def _call_in_modes(self: Packet, /, *args: Any, **kwargs: Any) -> Any:
    modes = MODES.functions
    if not modes:
        return _call(self, *args, **kwargs)
    MODES.functions = modes[:-1]
    try:
        kinds = tuple(overriding_types((*args, *kwargs.values())))
        result = modes[-1].__torch_function__(self, kinds, args, kwargs)
    finally:
        MODES.functions = modes
    if result is NotImplemented:
        raise TypeError(f"{self.__name__}: the mode {type(modes[-1]).__name__} returned NotImplemented")
    return result


def _count(change: int) -> None:
    global _open
    with _lock:
        _open += change
        _set_call()


def _set_call() -> None:
    Packet.__call__ = _call_in_modes if _open else _call  # type: ignore[method-assign]
    if _paused is not None:
        _paused[0] = _open


def on_modes(call: Any, paused: Any) -> None:
    """Have packets called by `call` where no mode is open, and `paused` say how many are."""
    global _call, _paused
    with _lock:
        _call, _paused = call, paused
        _set_call()


class TorchFunctionMode:
    """Derive from this, define `__torch_function__(self, func, types, args=(), kwargs=None)`, and open it
    as a context: calls of functions and operators inside go through it.

    >>> class Log(rl.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Log():
    ...     rl.sin(rl.zeros(1))
    zeros
    sin
    tensor([0.])
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no __torch_function__")

    def __enter__(self) -> TorchFunctionMode:
        MODES.functions = (*MODES.functions, self)
        _count(1)
        return self

    def __exit__(self, *exception: object) -> None:
        MODES.functions = MODES.functions[:-1]
        _count(-1)


class BaseTorchFunctionMode(TorchFunctionMode):
    """The mode that changes nothing.

    >>> with rl.overrides.BaseTorchFunctionMode():
    ...     rl.ones(2) + 1
    tensor([2., 2.])
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))

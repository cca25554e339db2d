"""Functions of Python's that captures know of: while one is open in some thread, others stand in their place.

- `print`: every call of a program must print again, so that there is no graph of one that does.
  It asks the capture of its thread before it prints. So do `sys.stdout` and `sys.stderr` before they write
  anything but a warning of this package.
- Clocks of `time`: likewise, when a program reads them.
- Functions of `math`: of a live number, or a size, they make a live number (capture/numbers.py).
"""

from __future__ import annotations

import builtins
import functools
import math
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType
from typing import Any

from ..core.dispatch import AMBIENT
from ..core.symbols import SymInt
from .numbers import LiveNumber, live_result, whole_number
from .object_kinds import is_own

_lock = threading.Lock()
_open = 0
_print = builtins.print


def _asking(*args: Any, **kwargs: Any) -> None:
    if AMBIENT.trace is not None:
        AMBIENT.trace.refuse("it prints")
    _print(*args, **kwargs)


STREAMS = ("stdout", "stderr")


class _Stream:
    """A stream of the process that asks before it writes."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        writes = name in ("write", "writelines", "buffer") and AMBIENT.trace is not None
        if writes and not _is_own_warning(sys._getframe(1)):
            AMBIENT.trace.refuse("it writes to a stream of the process")
        return getattr(self.stream, name)


def _is_own_warning(frame: types.FrameType | None) -> bool:
    """Whether what is written is a warning of this package: it tells of the program, and is told once."""
    writes = frame
    while frame is not None and frame.f_globals.get("__name__") in ("warnings", "logging"):
        frame = frame.f_back
    return frame is not None and frame is not writes and is_own(frame.f_globals.get("__name__"))


CLOCKS = {
    name: function
    for name, function in vars(time).items()
    if isinstance(function, BuiltinFunctionType)
    and ("time" in name or name.startswith(("monotonic", "perf_counter")))
}


def _clock(name: str) -> Callable[..., Any]:
    """A clock that asks before it is read by a program; what Python's library and this one read is no matter."""
    function = CLOCKS[name]

    @functools.wraps(function)
    def read(*args: Any) -> Any:
        if AMBIENT.trace is not None and not is_own(sys._getframe(1).f_globals.get("__name__")):
            AMBIENT.trace.refuse(f"it reads a clock, time.{name}")
        return function(*args)

    return read


_TIME = {name: _clock(name) for name in CLOCKS}


def is_watched(container: Any, key: Any) -> bool:
    """Whether what is at a place is watched as it is used, so that code that mentions it need not use it.
    Or is the table of imported modules, of which programs ask whether something is installed."""
    if container is sys.__dict__:
        return key in STREAMS or key == "modules"
    return container is time.__dict__ and key in CLOCKS


def _watch() -> None:
    for name, (_, hook) in _HOOKS.items():
        setattr(math, name, hook)
    for name, read in _TIME.items():
        setattr(time, name, read)
    for name in STREAMS:
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, _Stream):
            setattr(sys, name, _Stream(stream))


def _leave() -> None:
    for name, (function, _) in _HOOKS.items():
        setattr(math, name, function)
    for name, function in CLOCKS.items():
        setattr(time, name, function)
    for name in STREAMS:
        stream = getattr(sys, name)
        if isinstance(stream, _Stream):
            setattr(sys, name, stream.stream)


_FLOATS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "copysign", "cos", "cosh", "degrees",
    "erf", "erfc", "exp", "exp2", "expm1", "fabs", "fmod", "gamma", "hypot", "lgamma", "log", "log10", "log1p",
    "log2", "pow", "radians", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
_INTS = ("comb", "factorial", "gcd", "isqrt", "lcm", "perm")


def _live(name: str) -> Callable[..., Any]:
    """A function of `math` that leaves live numbers live."""
    function = getattr(math, name)
    make = whole_number if name in _INTS else live_result

    @functools.wraps(function)
    def called(*args: Any) -> Any:
        found = NotImplemented
        if any(map(_is_live, args)):
            found = make(f"math.{name}({', '.join(['{}'] * len(args))})", function, *args)
        return function(*args) if found is NotImplemented else found

    return called


def _is_live(number: Any) -> bool:
    kind = type(number)
    return (kind is LiveNumber and number.numbers.open) or (kind is SymInt and number.symbols.capturing)


_HOOKS: dict[str, tuple[Any, Callable[..., Any]]] = {
    name: (getattr(math, name), _live(name)) for name in (*_FLOATS, *_INTS) if hasattr(math, name)
}


@contextmanager
def watched() -> Iterator[None]:
    """Let captures know of them."""
    global _open, _print
    with _lock:
        if builtins.print is not _asking:
            _print, builtins.print = builtins.print, _asking
        if not _open:
            _watch()
        _open += 1
    try:
        yield
    finally:
        with _lock:
            _open -= 1
            if not _open and builtins.print is _asking:
                builtins.print = _print
            if not _open:
                _leave()

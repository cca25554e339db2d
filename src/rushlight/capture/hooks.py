"""Functions of Python's that captures know of: while one is open in some thread, others stand in their place.

- `print`: every call of a program must print again, so that there is no graph of one that does.
  It asks the capture of its thread before it prints.
- Functions of `math`: of a live number, or a size, they make a live number (capture/numbers.py).
"""

from __future__ import annotations

import builtins
import functools
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..core.dispatch import AMBIENT
from ..core.symbols import SymInt
from .numbers import LiveNumber, live_result, whole_number

_lock = threading.Lock()
_open = 0
_print = builtins.print


def _asking(*args: Any, **kwargs: Any) -> None:
    if AMBIENT.trace is not None:
        AMBIENT.trace.refuse("it prints")
    _print(*args, **kwargs)


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
            for name, (_, hook) in _HOOKS.items():
                setattr(math, name, hook)
        _open += 1
    try:
        yield
    finally:
        with _lock:
            _open -= 1
            if not _open and builtins.print is _asking:
                builtins.print = _print
            if not _open:
                for name, (function, _) in _HOOKS.items():
                    setattr(math, name, function)

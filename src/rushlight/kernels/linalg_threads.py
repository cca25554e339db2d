"""One thread for small matrices, where the BLAS of NumPy and SciPy is OpenBLAS.

OpenBLAS shares even the work on a triangular matrix of 100 rows among all its threads, and waits for them, which
takes many times as long as the work, the more so where other processes run. How many threads it uses is a setting
of the process, so it is put back after each call.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

SMALL = 256  # rows and columns up to which one thread is as quick

# what libraries call their functions, by what has loaded them
_NAMES = {
    "numpy.linalg": ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_"),
    "scipy.linalg": ("scipy_openblas_{}_num_threads", "openblas_{}_num_threads"),
}

_Library = tuple[Callable[[], int], Callable[[int], None]]  # says how many threads there are, and sets it


def _look_for(module: str) -> list[_Library]:
    """The libraries that come with the package of a module."""
    from pathlib import Path

    package = module.partition(".")[0]
    home = Path(sys.modules[package].__path__[0])
    places = (home.parent / f"{package}.libs", home / ".dylibs")  # of wheels
    paths = [path for place in places for path in sorted(place.glob("*openblas*"))]
    return [functions for path in paths if (functions := _functions(path, _NAMES[module])) is not None]


def _functions(path: Path, names: Sequence[str]) -> _Library | None:
    library = ctypes.PyDLL(str(path))  # it is loaded already, and asked without letting go of Python's lock
    for name in names:
        try:
            get, put = library[name.format("get")], library[name.format("set")]
        except AttributeError:
            continue
        get.argtypes, get.restype = (), ctypes.c_int
        put.argtypes, put.restype = (ctypes.c_int,), None
        return get, put
    return None


_found: dict[str, list[_Library]] = {}  # by the module that has loaded them
_lock = threading.Lock()
_inside = 0  # calls that use one thread
_before: list[tuple[Callable[[int], None], int]] = []  # how many there were before the first of them


def in_one_thread(kernel: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A kernel of matrices, which uses one thread of BLAS if they are small."""

    @functools.wraps(kernel)
    def run(args: Any) -> Any:
        for a in args:
            if isinstance(a, np.ndarray) and a.size > SMALL and max(a.shape[-2:]) > SMALL:
                return kernel(args)
        _enter()
        try:
            return kernel(args)
        finally:
            _leave()

    return run


def _enter() -> None:
    global _inside
    with _lock:
        _inside += 1
        if _inside == 1:
            if len(_found) < len(_NAMES):
                for module in _NAMES:
                    if module not in _found and module in sys.modules:
                        _found[module] = _look_for(module)
            for libraries in _found.values():
                for get, put in libraries:
                    count = get()
                    if count > 1:
                        _before.append((put, count))
                        put(1)


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        if not _inside:
            _put_back()


def _put_back() -> None:
    while _before:
        put, count = _before.pop()
        put(count)


def _after_fork_in_child() -> None:
    """The calls of other threads do not go on here."""
    global _inside, _lock
    _inside, _lock = 0, threading.Lock()
    _put_back()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)

"""What this installation computes with, as text."""

from __future__ import annotations

import platform
from importlib import metadata

from ._api.compile import get_num_threads
from .version import __version__

_PARTS = ("numpy", "scipy", "llvmlite", "ml_dtypes")


def show() -> str:
    """The versions of the package and of what it is built on."""
    lines = [f"rushlight {__version__} on Python {platform.python_version()}, {platform.machine()}"]
    lines += [f"  - {name} {metadata.version(name)}" for name in _PARTS]
    return "\n".join(lines) + "\n"


def parallel_info() -> str:
    """How many threads compiled programs use."""
    return f"rushlight parallel info:\n\tget_num_threads() : {get_num_threads()}\n"


def _cxx_flags() -> str:
    """None: there is no C++ in it."""
    return ""

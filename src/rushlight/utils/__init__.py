"""Tools around tensors: checkpointing, data loading, and more. Each part is loaded when it is first used."""

import importlib
from typing import Any

_MODULES = (
    "_contextlib",
    "_foreach_utils",
    "_mode_utils",
    "_python_dispatch",
    "_pytree",
    "_triton",
    "benchmark",
    "checkpoint",
    "collect_env",
    "cpp_extension",
    "data",
    "deterministic",
    "dlpack",
    "flop_counter",
    "hooks",
    "model_zoo",
    "module_tracker",
    "weak",
)
_FROM = {"swap_tensors": "swapping"}  # functions, and the module that has them

__all__ = [
    "_pytree",
    "benchmark",
    "checkpoint",
    "data",
    "deterministic",
    "dlpack",
    "hooks",
    "swap_tensors",
    "weak",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _FROM:
        return getattr(importlib.import_module(f"{__name__}.{_FROM[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Tools around tensors: checkpointing, data loading, and more. Each part is loaded when it is first used."""

import importlib
from types import ModuleType

__all__ = ["_pytree", "benchmark", "checkpoint", "data", "deterministic", "dlpack", "hooks"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

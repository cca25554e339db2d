"""Operators that programs define: what `rushlight.library` is made of."""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("simple_registry", "infer_schema", "utils"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

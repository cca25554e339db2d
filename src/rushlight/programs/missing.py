"""What a traceback adds to an error about a name of PyTorch's that is not here: what happened, and what to do."""

from __future__ import annotations

import sys
from types import ModuleType, TracebackType
from typing import Any

WHAT_TO_DO = (
    "{name} is not there: torch is Rushlight in this program. What to do: use something else in its place, or "
    'keep PyTorch and take only the compiler, torch.compile(model, backend="rushlight"); docs/programs.md tells '
    "more."
)

_hook: Any = None


def explain_in_tracebacks() -> None:
    global _hook
    _hook, sys.excepthook = sys.excepthook, _explaining


def leave_tracebacks() -> None:
    """Leave tracebacks as they were, unless somebody else has changed them since."""
    if sys.excepthook is _explaining:
        sys.excepthook = _hook


def _explaining(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    name = missing_name(error)
    if name is not None:
        error.add_note(WHAT_TO_DO.format(name=name))
    _hook(kind, error, trace)


def missing_name(error: BaseException) -> str | None:
    """The name of PyTorch's that an error is about, if it is about one that is not here."""
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        return _as_torchs(f"{error.obj.__name__}.{error.name}")
    if isinstance(error, ModuleNotFoundError):
        return _as_torchs(error.name)
    if isinstance(error, ImportError) and error.name is not None:  # from torch.nn import Missing
        words = str(error).split("'")
        return _as_torchs(f"{error.name}.{words[1]}" if len(words) > 1 else error.name)
    return None


def _as_torchs(name: str | None) -> str | None:
    first, _, rest = (name or "").partition(".")
    if first == "functorch":
        return name
    return f"torch.{rest}" if first in ("torch", "rushlight") and rest else None

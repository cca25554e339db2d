"""Names that programs import before they decide whether they need them: what is not available says so when
it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def missing_class(module: str, name: str, why: str) -> type:
    """A class for annotations and `isinstance`, of which there are no objects: making one raises
    NotImplementedError."""

    def refuse(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"torch.{module}.{name} is not available: {why}")

    fields = {
        "__new__": refuse,
        "__module__": f"rushlight.{module}",
        "__doc__": _docstring(module, name, why),
    }
    return type(name, (), fields)


def missing_function(module: str, name: str, why: str) -> Callable[..., NoReturn]:
    """A function that raises NotImplementedError."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"torch.{module}.{name} is not available: {why}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__, refuse.__doc__ = f"rushlight.{module}", _docstring(module, name, why)
    return refuse


def _docstring(module: str, name: str, why: str) -> str:
    return (
        f"Not available: {why}.\n\n>>> rl.{module}.{name}()\nTraceback (most recent call last):\n"
        f"NotImplementedError: torch.{module}.{name} is not available: {why}\n"
    )

"""Kinds of Python's objects, as the collector of an environment tells them apart."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

from ..core.tensor import Tensor
from .locations import PLAIN

PACKAGE = __name__.partition(".")[0]
LIBRARIES = frozenset({PACKAGE, "math", "numpy", "scipy"})
_OWN = LIBRARIES | (sys.stdlib_module_names - {"test"})  # whose functions are not looked into
# whose objects are not looked into: a log that is written is seen when that happens (programs/effects.py)
_PASSIVE = LIBRARIES | {"builtins", "logging"}
CACHED = functools._lru_cache_wrapper


def is_module(value: Any) -> bool:
    own = getattr(value, "__dict__", None)
    return isinstance(own, dict) and "_parameters" in own and "_modules" in own


def is_callable_object(value: Any) -> bool:
    """Whether `value` is an object of a class of the user's that can be called."""
    return (
        callable(value)
        and not is_own(type(value).__module__)
        and not isinstance(value, (type, Tensor, types.FunctionType, types.MethodType))
        and not is_module(value)
        and isinstance(
            getattr(type(value), "__call__", None),  # noqa: B004
            types.FunctionType,
        )
    )


def has_attributes(value: Any) -> bool:
    return (
        is_plain_object(value) or is_callable_object(value) or is_users_class(value) or bool(slots_of(value))
    )


def is_users_class(value: Any) -> bool:
    return isinstance(value, type) and not is_own(value.__module__)


def slots_of(value: Any) -> tuple[str, ...]:
    """The slots of an object of a class of the user's."""
    kind: Any = type(value)
    if isinstance(value, (type, Tensor, *PLAIN)) or is_own(kind.__module__):
        return ()
    return slots(kind)


@functools.lru_cache(maxsize=1024)
def slots(kind: Any) -> tuple[str, ...]:
    """The names of slots, without those in whose place a class further down has something else."""
    found: dict[str, bool] = {}
    for base in reversed(kind.__mro__):
        own = "__slots__" in vars(base)
        found |= {n: own and type(value) is types.MemberDescriptorType for n, value in vars(base).items()}
    return tuple(name for name, is_slot in found.items() if is_slot)


def mentioned(names: set[str], kind: type) -> list[str]:
    """The attributes of a class that are mentioned, and its special methods, which nobody mentions."""
    found = {
        name
        for base in kind.__mro__
        if not is_own(base.__module__)
        for name in vars(base)
        if name in names or (name.startswith("__") and isinstance(vars(base)[name], types.FunctionType))
    }
    return sorted(found)


def is_plain_object(value: Any) -> bool:
    """Whether `value` is an object of the user's: it has attributes, and is no module, class or function."""
    return isinstance(getattr(value, "__dict__", None), dict) and not (
        isinstance(value, (type, Tensor, types.ModuleType))
        or callable(value)
        or str(type(value).__module__).partition(".")[0] in _PASSIVE
    )


def is_own(module: str | None) -> bool:
    return str(module).partition(".")[0] in _OWN

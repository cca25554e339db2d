"""The steps of random programs with values of derived classes of Tensor (see programs.py).

`Plain` has nothing of its own, `Noted` handles functions (`__torch_function__`): it takes a cosine for a sine.
Operators give what their operands are. `Wrapped` holds another tensor and runs operators on that one
(`__torch_dispatch__`): there is no graph of it.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from rushlight.core.pytree import tree_map

from .program_operands import Operation, library, one, undifferentiated


@functools.cache
def classes_of(lib: Any) -> dict[str, Any]:
    """The classes by name, derived from the Tensor of a library."""

    class Plain(lib.Tensor):  # type: ignore[misc]
        pass

    class Noted(Plain):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            other = lib.Tensor.cos if func is lib.Tensor.sin else func
            return super().__torch_function__(other, types, args, kwargs or {})

    return {"Plain": Plain, "Noted": Noted, "Wrapped": _wrapped(lib)}


def _wrapped(lib: Any) -> Any:
    dispatch = importlib.import_module(f"{lib.__name__}.utils._python_dispatch")

    class Wrapped(lib.Tensor):  # type: ignore[misc]
        @staticmethod
        def __new__(cls, held: Any) -> Any:
            made = lib.Tensor._make_wrapper_subclass(
                cls,
                held.size(),
                strides=held.stride(),
                storage_offset=held.storage_offset(),
                dtype=held.dtype,
            )
            made.held = held
            return made

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            def inner(t: Any) -> Any:
                return t.held if isinstance(t, cls) else t

            result = func(*tree_map(inner, tuple(args)), **tree_map(inner, kwargs or {}))
            made = tree_map(lambda t: cls(t) if isinstance(t, lib.Tensor) else t, result)
            return dispatch.return_and_correct_aliasing(func, args, kwargs or {}, made)

    return Wrapped


def plain_values(t: Any) -> Any:
    """A tensor of no derived class with what `t` holds."""
    held = getattr(t, "held", t)
    return held.as_subclass(library(held).Tensor)


def _as_class(name: str) -> Any:
    return lambda t: t.as_subclass(classes_of(library(t))[name])


CLASS_STEPS: dict[str, Operation] = {
    "as_plain": Operation(_as_class("Plain"), one(), exact=True),
    "as_noted": Operation(_as_class("Noted"), one(), exact=True),
    "as_tensor": Operation(lambda t: t.as_subclass(library(t).Tensor), one(), exact=True),
}

WRAPPER_STEPS: dict[str, Operation] = {
    "wrap": Operation(
        lambda t: classes_of(library(t))["Wrapped"](t),
        undifferentiated(one(lambda t: not hasattr(t, "held"))),
        exact=True,
        breaks=True,
    ),
    "unwrap": Operation(lambda t: t.held, one(lambda t: hasattr(t, "held")), exact=True, breaks=True),
}

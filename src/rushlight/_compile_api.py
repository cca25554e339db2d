"""`rushlight.compile`, which loads the compiler when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .core.lazy import LazyModule

_compiler = LazyModule("rushlight.compiler")
_module = LazyModule("rushlight.nn.modules.module")
_compiled_module = LazyModule("rushlight.nn.modules._compiled")


def compile(model: Callable[..., Any] | None = None, *, fullgraph: bool = False, dynamic: bool | None = None,
            backend: Any = None, mode: str | None = None, options: dict[str, Any] | None = None,
            disable: bool = False) -> Any:
    """A function with the same results as `model`, compiled to native code, once for every kind of call; of a
    module, a module with the same parameters and attributes.

    `fullgraph=True` raises where the program cannot be captured whole; otherwise such a call runs eagerly,
    with its modules and the steps of its optimizers compiled on their own.
    `backend`, `mode` and `options` are accepted for compatibility. Without `model` it is a decorator:
    `@rushlight.compile(fullgraph=True)`.
    """
    if model is None:
        return lambda function: compile(
            function,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
        )
    if disable:
        return model
    if isinstance(model, _module.Module):
        return _compiled_module.OptimizedModule(model, {"fullgraph": fullgraph})
    return _compiler.CompiledFunction(model, fullgraph)


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Every stage of compiling `function` for a call with these arguments, as text, with times and bytes
    moved.
    """
    return LazyModule("rushlight.explaining").explain(function, *args, **kwargs)


def set_num_threads(number: int) -> None:
    """How many threads compiled functions use."""
    LazyModule("rushlight.runtime.threads").pool().resize(number)


def get_num_threads() -> int:
    return int(LazyModule("rushlight.runtime.threads").pool().size)

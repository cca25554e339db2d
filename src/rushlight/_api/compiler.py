"""What a program says to the compiler, or asks it: the functions of `rushlight.compiler`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..core.dispatch import AMBIENT
from ..core.lazy import LazyModule
from ..core.modes import MODES
from .compile import NATIVE, UNCOMPILED

_module = LazyModule("rushlight.nn.modules.module")


def is_compiling() -> bool:
    """Whether the program is being captured: what runs now is recorded, on tensors without data."""
    trace = AMBIENT.trace
    return trace is not None and getattr(trace, "reason", None) is None


def is_dynamo_compiling() -> bool:
    return is_compiling()


def is_exporting() -> bool:
    """Whether a program is being captured to be written to a file, which rushlight does not do."""
    return False


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """`fn`, never compiled: a captured program that calls it is left there and goes on eagerly, or is refused
    under fullgraph=True, with `reason`. Of a module it is the forward that is so. If not `recursive`, modules
    that `fn` calls may still be compiled on their own. Without `fn` it is a decorator.
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    if isinstance(fn, _module.Module):
        fn.forward = disable(fn.forward, recursive, reason=reason)
        return fn
    name = getattr(fn, "__qualname__", type(fn).__name__)

    @functools.wraps(fn)
    def uncompiled(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            AMBIENT.trace.refuse(
                f"{name}, for which compilation is disabled" + (f" ({reason})" if reason else "")
            )
        if not recursive or not MODES.pieces:
            return fn(*args, **kwargs)
        MODES.pieces = False
        try:
            return fn(*args, **kwargs)
        finally:
            MODES.pieces = True

    return uncompiled


def reset() -> None:
    """Forget every compiled form: the next calls compile anew."""
    loaded = sys.modules.get("rushlight.compiler.function")
    if loaded is not None:
        loaded.forget_entries()


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """The names that `compile(backend=)` takes; those that compile nothing are for debugging."""
    debugging = () if exclude_tags is not None and "debug" in exclude_tags else UNCOMPILED
    return sorted((*NATIVE, *debugging))


def allow_in_graph(fn: Any) -> Any:
    """`fn` itself: capture records the operators of any function, whatever its code."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """`fn` itself: it runs when a program is captured, and what it gives is part of the captured program."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Nothing: there are no CUDA graphs here, whose memory another step could take over."""

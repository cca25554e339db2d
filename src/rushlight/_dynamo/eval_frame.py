"""`optimize`, the older form of `compile`, and what a program may say where it is captured."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

from .._api.compile import compile
from .._api.compiler import is_compiling, reset
from .._inductor.compile_fx import compile_fx, compile_fx_inner
from ..capture.errors import CaptureError
from ..core.dispatch import AMBIENT
from ..core.tensor import Tensor
from ..nn.modules._compiled import OptimizedModule  # noqa: F401  programs look for it here

_NATIVE = (compile_fx, compile_fx_inner)


class GuardFail(NamedTuple):
    """Why a call was compiled anew, and the code of the function."""

    reason: str
    orig_code: CodeType | None


def optimize(
    backend: Any = "inductor",
    *,
    nopython: bool = False,
    guard_fail_fn: Callable[[GuardFail], Any] | None = None,
    disable: bool = False,
    dynamic: bool | None = None,
) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that compiles: `compile(fullgraph=nopython, ...)`. `guard_fail_fn` is told why, whenever a call
    was compiled anew because no compiled form served it."""
    name = "inductor" if any(backend is own for own in _NATIVE) else backend
    compiled = compile(fullgraph=nopython, backend=name, dynamic=dynamic, disable=disable)
    if guard_fail_fn is None:
        return compiled
    return lambda function: _telling(compiled(function), function, guard_fail_fn)


def optimize_assert(
    backend: Any = "inductor", *, dynamic: bool | None = None
) -> Callable[[Callable[..., Any]], Any]:
    """As `optimize`, of functions that must have one graph."""
    return optimize(backend, nopython=True, dynamic=dynamic)


def _telling(compiled: Any, function: Any, tell: Callable[[GuardFail], Any]) -> Any:
    code = getattr(function, "__code__", None)

    @functools.wraps(function)
    def telling(*args: Any, **kwargs: Any) -> Any:
        known = len(compiled.reasons)
        result = compiled(*args, **kwargs)
        for reason in compiled.reasons[max(known, 1) :]:
            tell(GuardFail(reason, code))
        return result

    return telling


def graph_break(msg: str = "") -> None:
    """A captured program is left here and goes on eagerly, or is refused under fullgraph=True."""
    if is_compiling():
        AMBIENT.trace.refuse("graph_break()" + (f": {msg}" if msg else ""))


def reset_code_caches() -> None:
    """Forget every compiled form."""
    reset()


def is_dynamo_supported() -> bool:
    """Whether programs can be captured here."""
    return True


def is_inductor_supported() -> bool:
    """Whether captured programs can be compiled here."""
    return True


def mark_static_address(t: Tensor, guard: bool = True) -> None:
    """A tensor stays where it is in memory: compiled code takes addresses anew in every call, and needs no
    such promise."""
    if not isinstance(t, Tensor):
        raise TypeError(f"mark_static_address expects a tensor but received {type(t)}")


def forbid_in_graph(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` as a function that must not be captured: calling it while a program is captured raises an error."""

    @functools.wraps(fn)
    def refused(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            raise CaptureError(f"it calls {fn.__name__}, which was forbidden in graphs", "")
        return fn(*args, **kwargs)

    return refused

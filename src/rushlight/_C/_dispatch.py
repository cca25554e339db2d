"""Classes and modes that decide what functions and operators do, and operators by their schemas."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ..backends.cpu import get_cpu_capability as _get_cpu_capability
from ..batching.vmap import FALLBACK
from ..core.aten import FunctionSchema, Tag, namespace
from ..core.modes import MODES
from ..core.overrides import plainly, refuse_dispatch, undispatched
from ..core.resolve import bind
from ..core.schema import parse_schema as _parse_schema
from ..core.tensor import TensorMeta, refuse_overrides

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "Tag",
    "_AutoDispatchBelowAutograd",
    "_DisableTorchDispatch",
    "_TensorMeta",
    "_debug_only_are_vmap_fallback_warnings_enabled",
    "_debug_only_display_vmap_fallback_warnings",
    "_disabled_torch_dispatch_impl",
    "_disabled_torch_function_impl",
    "_get_cpu_capability",
    "_get_dispatch_stack_at",
    "_is_torch_function_enabled",
    "_jit_resolve_packet",
    "_len_torch_dispatch_stack",
    "parse_schema",
]

_TensorMeta = TensorMeta
_disabled_torch_function_impl = refuse_overrides
_disabled_torch_dispatch_impl = refuse_dispatch


def DisableTorchFunction() -> AbstractContextManager[None]:
    """A context in which neither classes nor modes with `__torch_function__` are asked."""
    return plainly(modes=False)


def DisableTorchFunctionSubclass() -> AbstractContextManager[None]:
    """A context in which no class is asked by its `__torch_function__`."""
    return plainly()


def _DisableTorchDispatch() -> AbstractContextManager[None]:
    """A context in which neither classes nor modes are given operators."""
    return undispatched()


def _len_torch_dispatch_stack() -> int:
    return len(MODES.dispatchers)


def _get_dispatch_stack_at(i: int) -> Any:
    return MODES.dispatchers[i]


def _is_torch_function_enabled() -> bool:
    return not MODES.plain


def _debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    return FALLBACK.warns


def _debug_only_display_vmap_fallback_warnings(enabled: bool) -> None:
    FALLBACK.warns = enabled


def parse_schema(schema: str) -> FunctionSchema:
    """The schema written in a text."""
    return FunctionSchema(_parse_schema(schema))


def _jit_resolve_packet(op_name: str, *args: Any, **kwargs: Any) -> str:
    """Which overload of "aten::sum" serves a call."""
    space, _, name = op_name.partition("::")
    packet = getattr(namespace(space), name)
    for overload in packet.overloads():
        if not isinstance(bind(getattr(packet, overload).op, args, kwargs), str):
            return str(overload)
    raise RuntimeError(f"failed to match any schema of {op_name}")


class _AutoDispatchBelowAutograd:
    """A context in which operators are run without being recorded by autograd."""

    def __enter__(self) -> None:
        self._saved = MODES.silent, MODES.below
        MODES.silent, MODES.below = MODES.silent | {None}, True

    def __exit__(self, *exception: object) -> None:
        MODES.silent, MODES.below = self._saved

"""Classes and modes that decide what functions and operators do, and operators by their schemas."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any

from ..backends.cpu import get_cpu_capability as _get_cpu_capability
from ..batching.vmap import FALLBACK
from ..core.aten import FunctionSchema, Tag, namespace
from ..core.dispatch_keys import ALIASES, RECORDING, TRANSFORMS, DispatchKey, DispatchKeySet
from ..core.errors import check
from ..core.modes import MODES
from ..core.overrides import plainly, refuse_dispatch, undispatched
from ..core.resolve import bind
from ..core.schema import parse_schema as _parse_schema
from ..core.tensor import TensorMeta, refuse_overrides

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "DispatchKey",
    "DispatchKeySet",
    "Tag",
    "_AutoDispatchBelowAutograd",
    "_DisableTorchDispatch",
    "_ExcludeDispatchKeyGuard",
    "_TensorMeta",
    "_debug_only_are_vmap_fallback_warnings_enabled",
    "_debug_only_display_vmap_fallback_warnings",
    "_disabled_torch_dispatch_impl",
    "_disabled_torch_function_impl",
    "_dispatch_tls_local_exclude_set",
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


def _dispatch_tls_local_exclude_set() -> DispatchKeySet:
    """The dispatch keys that the program has excluded."""
    return MODES.excluded or DispatchKeySet()


class _ExcludeDispatchKeyGuard:
    """A context in which operators are run as if no tensor had these dispatch keys.

    Without a key of autograd nothing is recorded; without Python, neither classes nor modes are given operators.
    Transforms open what they need for what they run, and aliases stand for no layer: to exclude these changes
    nothing, as in PyTorch.
    """

    def __init__(self, keys: DispatchKeySet) -> None:
        unknown = [key.name for key in keys if key not in RECORDING and key.name not in _EXCLUDABLE]
        check(
            not unknown, f"dispatch keys that cannot be excluded: {', '.join(unknown)}", NotImplementedError
        )
        self.keys = keys

    def __enter__(self) -> None:
        self._saved = MODES.excluded
        MODES.excluded = _dispatch_tls_local_exclude_set() | self.keys
        self._contexts = ExitStack()
        if any(key in RECORDING for key in self.keys):
            self._contexts.enter_context(_AutoDispatchBelowAutograd())
        if self.keys.has("Python"):
            self._contexts.enter_context(undispatched())

    def __exit__(self, *exception: object) -> None:
        self._contexts.close()
        MODES.excluded = self._saved


_EXCLUDABLE = frozenset((*TRANSFORMS, *ALIASES, "Python"))


class _AutoDispatchBelowAutograd:
    """A context in which operators are run without being recorded by autograd."""

    def __enter__(self) -> None:
        self._saved = MODES.silent, MODES.below
        MODES.silent, MODES.below = MODES.silent | {None}, True

    def __exit__(self, *exception: object) -> None:
        MODES.silent, MODES.below = self._saved

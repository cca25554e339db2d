"""Parts of PyTorch's private module that programs name, as what they are here."""

from __future__ import annotations

import enum
from contextlib import AbstractContextManager
from typing import Any

from . import _functions as _all_functions
from .backends.cpu import get_cpu_capability as _get_cpu_capability
from .batching.vmap import FALLBACK
from .core.modes import MODES
from .core.overrides import plainly, refuse_dispatch, undispatched
from .core.tensor import Tensor, TensorMeta, refuse_overrides

__all__: list[str] = ["_get_cpu_capability"]

TensorBase = _TensorBase = Tensor
_TensorMeta = TensorMeta
_VariableFunctions = _all_functions
_disabled_torch_function_impl = refuse_overrides
_disabled_torch_dispatch_impl = refuse_dispatch
has_lapack = _has_lapack = has_spectral = has_openmp = True
_has_mkldnn = False


def DisableTorchFunction() -> AbstractContextManager[None]:
    """A context in which neither classes nor modes with `__torch_function__` are asked."""
    return plainly(modes=False)


def DisableTorchFunctionSubclass() -> AbstractContextManager[None]:
    """A context in which no class is asked by its `__torch_function__`."""
    return plainly()


def _DisableTorchDispatch() -> AbstractContextManager[None]:
    """A context in which neither classes nor modes are given operators."""
    return undispatched()


def _len_torch_function_stack() -> int:
    return len(MODES.functions)


def _len_torch_dispatch_stack() -> int:
    return len(MODES.dispatchers)


def _get_dispatch_stack_at(i: int) -> Any:
    return MODES.dispatchers[i]


def _is_torch_function_enabled() -> bool:
    return not MODES.plain


def _get_privateuse1_backend_name() -> str:
    """What a device of another library would be called; there is none."""
    return "privateuseone"


def _is_privateuse1_backend_available() -> bool:
    return False


class _TorchFunctionState(enum.Enum):
    ENABLED = 0
    SUBCLASSES_DISABLED = 1
    ALL_DISABLED = 2


def _get_torch_function_state() -> _TorchFunctionState:
    """Whether classes with `__torch_function__` are asked."""
    return _TorchFunctionState.SUBCLASSES_DISABLED if MODES.plain else _TorchFunctionState.ENABLED


def _debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    return FALLBACK.warns


def _debug_only_display_vmap_fallback_warnings(enabled: bool) -> None:
    FALLBACK.warns = enabled

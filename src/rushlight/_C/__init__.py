"""Names that programs reach for inside PyTorch's extension module, as far as the library has what they mean.

Nothing here does work of its own: each name is an alias of, or a question to, the part that has it.
"""

from __future__ import annotations

import contextlib
import weakref
from types import SimpleNamespace
from typing import Any

from .. import fft as _public_fft
from .. import linalg as _public_linalg
from .. import special as _public_special
from .._api import link as _package
from ..autograd.engine import Run
from ..autograd.grad_mode import is_grad_enabled, is_inference_mode_enabled
from ..autograd.tape import Node, running_node
from ..core.determinism import DETERMINISM, set_fill
from ..core.errors import LinAlgError as _LinAlgError
from ..core.generator import Generator, default_generator
from ..core.missing import missing_class
from ..core.modes import MODES
from ..core.storage import StorageBase as StorageBase
from ..core.tensor import Tensor
from . import _autograd, _functions, _functorch, _nn
from ._dispatch import *  # noqa: F403

TensorBase = _TensorBase = Tensor


class _Functions:
    """The functions of a library under the names that they have as operators: `special_erf`."""

    def __init__(self, library: Any, prefix: str) -> None:
        self._library, self._prefix = library, prefix

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(self._prefix):
            raise AttributeError(f"torch._C._{self._prefix[:-1]} has no attribute {name!r}")
        return getattr(self._library, name.removeprefix(self._prefix))


_special = _Functions(_public_special, "special_")
_linalg = _Functions(_public_linalg, "linalg_")
_fft = _Functions(_public_fft, "fft_")

has_lapack = _has_lapack = True  # SciPy brings it
has_spectral = True
has_openmp = False
has_mps = has_cuda = _has_mkldnn = False


_NOT_SCRIPTED = "functions are not scripted"
ScriptModule, ScriptFunction, ScriptMethod, ScriptObject, Graph, Value = (
    missing_class("_C", name, _NOT_SCRIPTED)
    for name in ("ScriptModule", "ScriptFunction", "ScriptMethod", "ScriptObject", "Graph", "Value")
)


def _get_tracing_state() -> None:
    """What traces a program for TorchScript: nothing does."""


def _log_api_usage_once(event: str) -> None:
    """Nothing is told of the use of the library to anybody."""


def _get_privateuse1_backend_name() -> str:
    return "privateuseone"


def _is_privateuse1_backend_available() -> bool:
    return False


def _get_deterministic_fill_uninitialized_memory() -> bool:
    return DETERMINISM.fill


def _set_deterministic_fill_uninitialized_memory(mode: Any) -> None:
    set_fill(mode)


def is_inference_mode() -> bool:
    return is_inference_mode_enabled()


def _is_fwd_grad_enabled() -> bool:
    return MODES.forward_grad


def _set_fwd_grad_enabled(enabled: bool) -> None:
    MODES.forward_grad = bool(enabled)


def _set_grad_enabled(enabled: bool) -> None:
    MODES.grad = bool(enabled)


# The backward pass that is running.


def _current_graph_task_id() -> int:
    """The number of the backward pass that is running; -1 outside of one."""
    return -1 if MODES.run is None else int(MODES.run.id)


def _current_autograd_node() -> Node | None:
    """The node whose backward is running."""
    return running_node()


def _current_graph_task_execution_order() -> list[Node]:
    """The nodes that the running pass has still to call, the present one first."""
    run = _running("_current_graph_task_execution_order")
    if MODES.multithreading:
        raise RuntimeError(
            "_current_graph_task_execution_order expects the current backward to be executed with multithreading "
            "disabled: `with set_multithreading_enabled(False)`"
        )
    return run.planned()


def _will_engine_execute_node(node: Node) -> bool:
    """Whether the running backward pass calls `node`."""
    if not isinstance(node, Node):
        raise RuntimeError(
            "_will_engine_execute_node expects an grad_fn, a node of the graph, but got an "
            f"object of type {type(node).__name__}"
        )
    return _running("_will_engine_execute_node").executes(node)


def _running(what: str) -> Run:
    if MODES.run is None:
        raise RuntimeError(f"{what} should only be called during the backward pass")
    run: Run = MODES.run
    return run


class _WeakTensorRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        return self._reference() is None


# Functions of subclasses and modes: the state is in core/modes.py.

_TorchFunctionState = SimpleNamespace(ENABLED=0, SUBCLASSES_DISABLED=1, ALL_DISABLED=2)


def _get_torch_function_state() -> int:
    return _TorchFunctionState.SUBCLASSES_DISABLED if MODES.plain else _TorchFunctionState.ENABLED


def _len_torch_function_stack() -> int:
    return len(MODES.functions)


_DisableFuncTorch = contextlib.nullcontext  # a transform works on wrapped tensors: nothing is switched on


def __getattr__(name: str) -> Any:
    if name == "_VariableFunctions":  # the functions of the package itself
        return _package
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Generator",
    "TensorBase",
    "_LinAlgError",
    "_autograd",
    "_functions",
    "_functorch",
    "_nn",
    "default_generator",
    "is_grad_enabled",
    "is_inference_mode",
]

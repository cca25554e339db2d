"""The parts of `torch._C._autograd` that the tape has."""

from __future__ import annotations

from ..autograd.saved_tensor import SavedTensor
from ..core.modes import MODES
from ..core.tensor import Tensor


def _saved_tensors_hooks_is_enabled() -> bool:
    return MODES.hooks_disabled is None


def _saved_tensors_hooks_get_disabled_error_message() -> str | None:
    return MODES.hooks_disabled


def _get_current_graph_task_keep_graph() -> bool:
    """Whether the running backward pass keeps the graph; True outside of one."""
    return True if MODES.run is None else bool(MODES.run.retain_graph)


def _unsafe_set_version_counter(
    tensors: Tensor | tuple[Tensor, ...], versions: int | tuple[int, ...]
) -> None:
    """Say how often tensors were written to."""
    given = (tensors,) if isinstance(tensors, Tensor) else tensors
    numbers = (versions,) if isinstance(versions, int) else versions
    for tensor, number in zip(given, numbers, strict=True):
        if number < 0:
            raise RuntimeError(f"Cannot set a version counter to {number}: it counts writes")
        tensor.version_counter.value = number


__all__ = ["SavedTensor"]

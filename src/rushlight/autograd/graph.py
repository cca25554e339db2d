"""Tools on the recorded graph: saved-tensor hooks, hooks on several gradients, edges and versions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..core.errors import check
from ..core.modes import MODES
from ..core.tensor import Tensor
from .api import GradientEdge, get_gradient_edge
from .tape import Node, RemovableHandle

__all__ = ["GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
           "get_gradient_edge",
           "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks"]


class saved_tensors_hooks:
    """Inside, `pack_hook(tensor)` is kept in place of each tensor saved for backward, and `unpack_hook`
    undoes it."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        reason = MODES.hooks_disabled
        check(reason is None, str(reason))
        MODES.saved_hooks = (*MODES.saved_hooks, (self.pack_hook, self.unpack_hook))

    def __exit__(self, *exception: Any) -> None:
        MODES.saved_hooks = MODES.saved_hooks[:-1]


class save_on_cpu(saved_tensors_hooks):
    """Saved tensors are copied, so that later writes to them do not matter. All tensors live on the CPU
    already."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cpu") -> None:
        super().__init__(lambda tensor: tensor.clone(), lambda packed: packed)


class disable_saved_tensors_hooks:
    """Inside, saved-tensor hooks are refused with `error_message`."""

    def __init__(self, error_message: str) -> None:
        self.message = error_message

    def __enter__(self) -> None:
        check(not MODES.saved_hooks, self.message)
        self._saved = MODES.hooks_disabled
        MODES.hooks_disabled = self.message

    def __exit__(self, *exception: Any) -> None:
        MODES.hooks_disabled = self._saved


class allow_mutation_on_saved_tensors:
    """Inside, tensors saved for backward are copied when they are saved, so that they may be written to
    afterwards."""

    def __enter__(self) -> allow_mutation_on_saved_tensors:
        self._hooks = saved_tensors_hooks(lambda tensor: tensor.detach().clone(), lambda packed: packed)
        self._hooks.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._hooks.__exit__(*exception)

    def clear(self) -> None:
        """Nothing is kept here: copies belong to the nodes that saved them."""


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a write that the library did not see."""
    for one in [tensor] if isinstance(tensor, Tensor) else tensor:
        one.version_counter.value += 1


class _MultiHandle(RemovableHandle):
    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., None], *,
                             mode: str = "all") -> RemovableHandle:
    """`fn` runs once per backward: with all gradients (None for missing ones) when the last is computed, or
    with the first."""
    check(mode in ("all", "any"), f"Expects mode to be one of ('all', 'any') but got {mode}", ValueError)
    lock = threading.Lock()
    return _MultiHandle(_any_hook(tensors, fn, lock) if mode == "any" else _all_hook(tensors, fn, lock))


def _all_hook(tensors: Sequence[Tensor], fn: Callable[..., None],
              lock: threading.Lock) -> list[RemovableHandle]:
    runs: dict[Any, list[Any]] = {}
    nodes = [edge_node(tensor) for tensor in tensors]

    def for_index(index: int) -> Callable[[Tensor], None]:
        def inner(grad: Tensor) -> None:
            run = MODES.run
            with lock:
                state = runs.setdefault(run, [0, [None] * len(tensors), run.count_of(nodes)])
                state[0] += 1
                state[1][index] = grad
                done = state[0] == state[2]
                if done:
                    del runs[run]
            if done:
                fn(state[1])
        return inner

    return [tensor.register_hook(for_index(i)) for i, tensor in enumerate(tensors)]


def edge_node(tensor: Tensor) -> Node:
    return get_gradient_edge(tensor)[0]


def _any_hook(tensors: Sequence[Tensor], fn: Callable[..., None],
              lock: threading.Lock) -> list[RemovableHandle]:
    seen: list[Any] = []

    def hook(grad: Tensor) -> None:
        with lock:
            if MODES.run in seen:
                return
            seen[:] = [MODES.run]
        fn(grad)

    return [tensor.register_hook(hook) for tensor in tensors]



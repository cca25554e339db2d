"""Tools on the recorded graph: saved-tensor hooks, hooks on several gradients, edges and versions."""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..core.errors import check
from ..core.modes import MODES
from ..core.tensor import Tensor
from .api import GradientEdge, get_gradient_edge
from .mutable import allow_mutation_on_saved_tensors
from .saved_hooks import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from .tape import Node as RecordedNode
from .tape import RemovableHandle

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class Node(abc.ABC):
    """What `tensor.grad_fn` returns, for `isinstance(fn, Node)`; the tape makes the nodes themselves.

    >>> isinstance((rl.ones(1, requires_grad=True) * 2).grad_fn, rl.autograd.graph.Node)
    True
    """

    @abc.abstractmethod
    def name(self) -> str:
        """The name of the node."""

    @property
    @abc.abstractmethod
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes that its gradients go to, each with the number of the output."""

    @abc.abstractmethod
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for what users want to keep with the node."""

    @property
    @abc.abstractmethod
    def _input_metadata(self) -> list[Any]:
        """Shape, dtype and device of the gradient of each output."""

    @abc.abstractmethod
    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """`fn(grad_inputs, grad_outputs)` runs after the node; it may return other grad_inputs."""

    @abc.abstractmethod
    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """`fn(grad_outputs)` runs before the node; it may return other grad_outputs."""

    @classmethod
    def __subclasshook__(cls, subclass: type) -> bool:
        return cls is Node and issubclass(subclass, RecordedNode)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a write that the library did not see.

    >>> x = rl.ones(1)
    >>> rl.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for one in [tensor] if isinstance(tensor, Tensor) else tensor:
        one.version_counter.value += 1


class _MultiHandle(RemovableHandle):
    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: str = "all"
) -> RemovableHandle:
    """`fn` runs once per backward: with all gradients (None for missing ones) when the last is computed, or
    with the first.

    >>> x, seen = rl.ones(1, requires_grad=True), []
    >>> handle = rl.autograd.graph.register_multi_grad_hook([x], seen.append)
    >>> (x * 2).sum().backward()
    >>> len(seen)
    1
    """
    check(mode in ("all", "any"), f"Expects mode to be one of ('all', 'any') but got {mode}", ValueError)
    lock = threading.Lock()
    return _MultiHandle(_any_hook(tensors, fn, lock) if mode == "any" else _all_hook(tensors, fn, lock))


def _all_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], lock: threading.Lock
) -> list[RemovableHandle]:
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


def edge_node(tensor: Tensor) -> RecordedNode:
    return get_gradient_edge(tensor)[0]


def _any_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], lock: threading.Lock
) -> list[RemovableHandle]:
    seen: list[Any] = []

    def hook(grad: Tensor) -> None:
        with lock:
            if MODES.run in seen:
                return
            seen[:] = [MODES.run]
        fn(grad)

    return [tensor.register_hook(hook) for tensor in tensors]

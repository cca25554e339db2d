"""Hooks and the order they run in: a tensor's own, its retain_grad, the node's pre-hooks, the node, its
post-hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.modes import MODES
from ..core.tensor import Tensor
from .tape import AccumulateGrad, HookDict, Node

_listeners: list[Callable[[], None]] = []
_changes = 0


def on_change(listener: Callable[[], None]) -> None:
    """`listener` is called whenever some leaf gets or loses a hook."""
    _listeners.append(listener)


def changes() -> int:
    """How often leaves got or lost hooks."""
    return _changes


def _changed() -> None:
    global _changes
    _changes += 1
    for listener in _listeners:
        listener()


class LeafHooks(HookDict):
    """Hooks of a leaf, which compiled programs know."""

    __slots__ = ()

    def __setitem__(self, number: int, hook: Any) -> None:
        super().__setitem__(number, hook)
        _changed()

    def __delitem__(self, number: int) -> None:
        super().__delitem__(number)
        _changed()

    def pop(self, *args: Any) -> Any:
        found = super().pop(*args)
        _changed()
        return found

    def clear(self) -> None:
        super().clear()
        _changed()

    def update(self, *args: Any, **kwargs: Any) -> None:
        super().update(*args, **kwargs)
        _changed()


class TensorHooks:
    """Hooks that belong to a leaf: on its gradient, and after its gradient was accumulated."""

    __slots__ = ("accumulated", "grad")

    def __init__(self) -> None:
        self.grad = LeafHooks()
        self.accumulated = LeafHooks()


def hooks_of(tensor: Tensor) -> tuple[Any, ...]:
    """The hooks of a leaf, in the order they run."""
    hooks = tensor._hooks
    return (
        ()
        if hooks is None
        else (*hooks.grad.values(), None, *hooks.accumulated.values())
        if (hooks.grad or hooks.accumulated)
        else ()
    )


def told(hook: Any) -> Any:
    """`hook`, of which the capture that is open is told."""
    if MODES.watch is not None:
        MODES.watch(hook)
    return hook


def run_tensor_hooks(node: Node, grads: list[Any]) -> None:
    """Hooks on the outputs' tensors; each may replace the gradient."""
    if isinstance(node, AccumulateGrad):
        hooks = node.variable._hooks
        if hooks is not None:
            for hook in list(hooks.grad.values()):
                grads[0] = replaced(grads[0], hook)
        return
    assert node._hooks is not None
    for number, by_id in list(node._hooks.tensor.items()):
        for hook in list(by_id.values()):
            grads[number] = replaced(grads[number], hook)
    for number, retain in list(node._hooks.retain.items()):
        if grads[number] is not None:
            retain(grads[number])


def replaced(grad: Tensor | None, hook: Callable[[Any], Any]) -> Tensor | None:
    """What a hook makes of `grad`, None where nothing arrived: itself if the hook returns None."""
    new = told(hook)(grad)
    if new is None:
        return grad
    if not isinstance(new, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
    if grad is None:
        return new
    if new.dtype is not grad.dtype:
        raise RuntimeError(f"hook has changed the type of value (was {grad.dtype.name} got {new.dtype.name})")
    if new.shape != grad.shape:
        raise RuntimeError(f"hook '{getattr(hook, '__name__', hook)}' has changed the size of value")
    return new


def run_pre_hooks(node: Node, grads: list[Any]) -> list[Any]:
    assert node._hooks is not None
    for hook in list(node._hooks.pre.values()):
        new = told(hook)(tuple(grads))
        if new is not None:
            grads = list(new) if isinstance(new, tuple | list) else [new]
    return grads


def run_post_hooks(node: Node, outputs: Any, grads: list[Any]) -> Any:
    assert node._hooks is not None
    count = len(outputs)
    seen = [*outputs, *[None] * (len(node.next_functions) - count if count else 0)]
    for hook in list(node._hooks.post.values()):
        new = told(hook)(tuple(seen), tuple(grads))
        if new is not None:
            seen = _checked(hook, seen, list(new) if isinstance(new, tuple | list) else [new])
    return seen[:count]


def _checked(hook: Callable[..., Any], outputs: Any, new: list[Any]) -> list[Any]:
    """What a hook returned in place of the gradients `outputs`, which it must be like."""
    if len(new) != len(outputs):
        name = getattr(hook, "__name__", hook)
        raise RuntimeError(
            f"hook '{name}' has returned an incorrect number of values (got {len(new)}, but "
            f"expected {len(outputs)})"
        )
    return new

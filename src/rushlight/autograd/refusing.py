"""Nodes that stand for what has no derivative: an error to raise in backward, or no gradient at all."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.modes import MODES
from ..core.tensor import AUTOGRAD, Tensor
from .edges import edge_of
from .tape import Node, meta_of


class Error(Node):
    """The history of tensors that refuse to be differentiated."""

    __slots__ = ("message",)

    message: str

    def name(self) -> str:
        return "torch::autograd::Error"

    def apply(self, grads: list[Any], wanted: Any) -> Any:
        raise RuntimeError(self.message)


class UndefinedGradBackward(Node):
    """The history of a tensor whose gradient is not passed on."""

    __slots__ = ()

    def name(self) -> str:
        return "torch::autograd::UndefinedGradBackward"

    def apply(self, grads: list[Any], wanted: Any) -> Any:
        return [None] * len(self._next)


def with_node(tensors: Sequence[Any], kind: type[Node]) -> tuple[Node, list[Any]]:
    """Aliases of `tensors` (None for what is not one) that are the outputs of one new node."""
    edges = tuple([edge_of(t) if isinstance(t, Tensor) else None for t in tensors])
    outputs = [t.detach() if isinstance(t, Tensor) else None for t in tensors]
    node = kind(edges, tuple([None if o is None else meta_of(o) for o in outputs]))  # type: ignore[misc]
    for number, output in enumerate(outputs):
        if output is not None:
            output._node, output._output_nr = node, number
            output._keys |= AUTOGRAD
    return node, outputs


class DelayedError:
    """Called with tensors it returns them, with a history that raises `message` in backward."""

    def __init__(self, message: str, num_inputs: int) -> None:
        self.message = message
        self.num_inputs = num_inputs

    def __call__(self, *tensors: Any) -> Any:
        node, outputs = with_node(tensors, Error)
        node.message = self.message  # type: ignore[attr-defined]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


class UndefinedGrad:
    """Called with tensors it returns them, with a history that passes no gradient on."""

    def __call__(self, *tensors: Any) -> Any:
        outputs = with_node(tensors, UndefinedGradBackward)[1]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a backward that cannot itself be differentiated; it runs with recording switched off."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        saved, MODES.grad = MODES.grad, False
        try:
            outputs = fn(ctx, *args)
        finally:
            MODES.grad = saved
        if not saved or not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return outputs
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        leaves = [
            o.detach()._set_requires_grad() if isinstance(o, Tensor) and o.dtype.is_differentiable else o
            for o in several
        ]
        error = DelayedError(
            "trying to differentiate twice a function that was marked with @once_differentiable", len(leaves)
        )
        refused = error(*leaves)
        return (
            refused
            if isinstance(outputs, tuple) and isinstance(refused, tuple)
            else ((refused,) if isinstance(outputs, tuple) else refused)
        )

    return wrapper

"""The autograd side of Tensor: backward, grad, hooks."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..core.dispatch import AMBIENT, run_name
from ..core.errors import check
from ..core.modes import MODES, refuse_in_transform
from ..core.tensor import Tensor, tensor_method
from . import inner
from .api import backward as run_backward
from .edges import current_node
from .hooks import TensorHooks
from .tape import HookDict, RemovableHandle, add_hook


class _VariableType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class _Engine:
    """The engine, as far as programs reach for it."""

    @staticmethod
    def queue_callback(callback: Callable[[], None]) -> None:
        """Have `callback()` called when the backward pass that is running is done."""
        check(MODES.run is not None, "Final callbacks can only be installed during backward pass.")
        MODES.run.callbacks.append(callback)


class Variable(metaclass=_VariableType):
    """The older name of tensors with a history; every tensor is one.

    >>> isinstance(rl.ones(1), rl.autograd.Variable)
    True
    """

    _execution_engine = _Engine

    def __new__(cls, data: Tensor, requires_grad: bool = False, volatile: bool = False) -> Any:
        return run_name("detach", data).requires_grad_(requires_grad)


@tensor_method
def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Add the gradients of this tensor to `.grad` of the leaves it was computed from."""
    run_backward(self, gradient, retain_graph, create_graph, inputs=inputs)


@tensor_method
def retain_grad(self: Tensor) -> None:
    """Keep the gradient of a tensor that is not a leaf in its `.grad`."""
    if MODES.transforms:
        refuse_in_transform("retain_grad()")
    check(self.requires_grad, "can't retain_grad on Tensor that has requires_grad=False")
    node = current_node(self)
    if node is None or self._retains:
        return
    inner.ask(node, self._output_nr)
    reference = weakref.ref(self)

    def keep(grad: Tensor) -> None:
        tensor = reference()
        if tensor is not None:
            tensor._grad = grad.clone() if tensor._grad is None else tensor._grad + grad

    node._hook_set().retain[self._output_nr] = keep
    self._retains = True


@tensor_method
def register_hook(self: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """`hook(grad)` runs when the gradient of this tensor is computed, and may return another one to use
    instead."""
    check(self.requires_grad, "cannot register a hook on a tensor that doesn't require gradient")
    node = current_node(self)
    if node is None:
        return add_hook(_leaf_hooks(self).grad, hook)
    inner.ask(node, self._output_nr)
    hooks = node._hook_set().tensor.setdefault(self._output_nr, HookDict())
    return add_hook(hooks, hook)


@tensor_method
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """`hook(tensor)` runs after the gradient of this leaf was added to `.grad`."""
    check(self.requires_grad, "cannot register a hook on a tensor that doesn't require gradient")
    check(current_node(self) is None, "post accumulate grad hooks cannot be registered on non-leaf tensors")
    return add_hook(_leaf_hooks(self).accumulated, hook)


def _leaf_hooks(tensor: Tensor) -> TensorHooks:
    if tensor._hooks is None:
        tensor._hooks = TensorHooks()
    return tensor._hooks


def _grad(self: Tensor) -> Any:
    if AMBIENT.trace is not None:
        AMBIENT.trace.sees_gradient(self)
    retained = self._retains
    if self._grad is None and self.requires_grad and self._node is not None and not retained:
        warnings.warn(
            "The .grad of a tensor that is not a leaf is not filled in by backward(); call "
            ".retain_grad() on it before, or look at the leaf it was computed from.",
            UserWarning,
            stacklevel=2,
        )
    return self._grad


def _set_grad(self: Tensor, value: Any) -> None:
    if AMBIENT.trace is not None:
        AMBIENT.trace.sees_gradient(self, replaces=True)
    if value is not None:
        check(
            isinstance(value, Tensor),
            f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}",
            TypeError,
        )
        check(value is not self, "can't assign Variable as its own grad")
        check(
            value.dtype is self.dtype,
            f"attempting to assign a gradient with dtype '{value.dtype.name}' "
            f"to a tensor with dtype '{self.dtype.name}'; they must be the same",
        )
        check(
            value.device == self.device,
            f"attempting to assign a gradient with device '{value.device}' "
            f"to a tensor on '{self.device}'; they must be the same",
        )
        check(
            value.shape == self.shape,
            f"attempting to assign a gradient of size '{list(value.shape)}' to "
            f"a tensor of size '{list(self.shape)}'; they must be the same",
        )
    self._grad = value


def _delete_grad(self: Tensor) -> None:
    _set_grad(self, None)


def _is_leaf(self: Tensor) -> bool:
    return current_node(self) is None


for _name, _property in {
    "grad": property(_grad, _set_grad, _delete_grad),
    "grad_fn": property(current_node),
    "is_leaf": property(_is_leaf),
    "retains_grad": property(lambda self: self._retains),
}.items():
    setattr(Tensor, _name, _property)


@tensor_method
def _is_view(self: Tensor) -> bool:
    return self._base is not None

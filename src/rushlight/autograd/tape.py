"""The tape: nodes, the edges between them, and the hooks on both.

A `Node` is a recorded call. `next` has one edge per differentiable input: (node, output number) or None.
Edges only lead to nodes made earlier, so `sequence` numbers order the graph topologically; leaves'
accumulators come first of all that is ready. `meta` describes each output: (shape, dtype, whether it is on
the meta device).
"""

from __future__ import annotations

import itertools
import re
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.dispatch import AMBIENT, call
from ..core.dtypes import DType
from ..core.modes import MODES
from ..core.quiet import quietly
from ..core.registry import REGISTRY
from ..core.shapes import contiguous_strides, is_dense
from ..core.tensor import AUTOGRAD, CPU, META, META_DEVICE, Tensor, is_whole
from ..core.tokens import contiguous_format

Edge = tuple["Node", int]
Meta = tuple[tuple[int, ...], DType, bool]

sequence = itertools.count()
ACCUMULATE = sys.maxsize
_ADD, _CLONE, _COPY = REGISTRY["add.Tensor"], REGISTRY["clone"], REGISTRY["copy"]
FREED: Any = object()  # stands for the saved values of a node whose graph was freed


class Hooks:
    """Hooks of one node, made when the first is registered."""

    __slots__ = ("post", "pre", "retain", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, dict[int, Callable[..., Any]]] = {}  # by output number
        self.retain: dict[int, Callable[..., Any]] = {}
        self.pre: dict[int, Callable[..., Any]] = {}
        self.post: dict[int, Callable[..., Any]] = {}


class RemovableHandle:
    """Returned by every register_*hook; `remove()` takes the hook away."""

    _ids = itertools.count()

    def __init__(self, hooks: dict[int, Any]) -> None:
        self.id = next(RemovableHandle._ids)
        self.hooks_dict_ref = weakref.ref(hooks) if isinstance(hooks, HookDict) else lambda: hooks

    def remove(self) -> None:
        hooks = self.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


class HookDict(dict[int, Any]):
    """A dictionary that handles can refer to weakly."""

    __slots__ = ("__weakref__",)


def add_hook(hooks: dict[int, Any], hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


class InputMetadata(NamedTuple):
    """What a node knows of the gradient that comes to one of its outputs."""

    shape: Any
    dtype: DType
    device: Any


class Node:
    """A recorded call; what `tensor.grad_fn` returns."""

    __slots__ = ("__weakref__", "_hooks", "_meta", "_metadata", "_next", "_parent", "_sequence", "_trace")

    runs_on_nothing = False  # whether it is called where no gradient arrives at any of its outputs
    renumbered = False  # whether a program has given any node a number, so that edges may lead to higher ones

    def __init__(self, edges: tuple[Edge | None, ...], meta: tuple[Meta, ...]) -> None:
        self._next = edges
        self._meta = meta
        self._sequence = next(sequence)
        self._hooks: Hooks | None = None
        self._trace: Any  # with anomaly mode: where it was recorded, and by which node's backward (`parent`)
        if MODES.anomaly:
            self._trace, self._parent = where_made(), running_node()
        else:
            self._trace = None

    # What the engine calls.

    def apply(self, grads: list[Any], wanted: tuple[bool, ...] | None) -> Any:
        """The gradients of the inputs, one per edge; `wanted` says which of them are used (None: all that
        have an edge)."""
        raise NotImplementedError

    def _release(self) -> None:
        """Forget what was saved."""

    def _owns_results(self) -> bool:
        """Whether gradients this node returns are tensors of its own making, held by nobody else."""
        return False

    def show(self, output: int) -> None:
        """The program asks for the gradient of an output; an error if it would not be the whole one."""

    # What users see.

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        return tuple((None, 0) if edge is None else edge for edge in self._next)

    def name(self) -> str:
        return type(self).__name__

    def _operator(self) -> str:
        """The name without "Backward0": what was recorded, for messages."""
        return re.sub(r"Backward\d*$", "", self.name().rpartition("::")[2])

    @property
    def metadata(self) -> dict[Any, Any]:
        try:
            return self._metadata
        except AttributeError:
            self._metadata: dict[Any, Any] = {}
            return self._metadata

    @property
    def _input_metadata(self) -> list[InputMetadata | None]:
        return [
            None if meta is None else InputMetadata(meta[0], meta[1], META_DEVICE if meta[2] else CPU)
            for meta in self._meta
        ]

    def _sequence_nr(self) -> int:
        return self._sequence

    def _set_sequence_nr(self, number: int) -> None:
        """Among the nodes that are ready, the one with the highest number runs first."""
        self._sequence = number
        Node.renumbered = True

    def __call__(self, *grads: Any) -> Any:
        """The gradients of the inputs for given gradients of the outputs."""
        if len(grads) != len(self._meta):
            raise TypeError(f"{self.name()}: expected {len(self._meta)} arguments, got {len(grads)} instead")
        found = self.apply(list(grads), None)
        return found[0] if len(found) == 1 else tuple(found)

    def _hook_set(self) -> Hooks:
        if self._hooks is None:
            self._hooks = Hooks()
        return self._hooks

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """`fn(grad_inputs, grad_outputs)` runs after this node; it may return other grad_inputs."""
        return add_hook(self._hook_set().post, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """`fn(grad_outputs)` runs before this node; it may return other grad_outputs."""
        return add_hook(self._hook_set().pre, fn)

    def __repr__(self) -> str:
        return f"<{self.name().rpartition('::')[2]} object at {id(self):#x}>"


def running_node() -> Node | None:
    """The node whose backward is running."""
    run = MODES.run
    return None if run is None else run.node


def where_made() -> str:
    """The stack of the user's program at this point."""
    package = __name__.partition(".")[0]
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame = frame.f_back
    return "".join(traceback.format_stack(frame))


def recorded_line() -> str | None:
    """In anomaly mode, inside of a backward pass: the line of the user's whose node is running, "file:line"."""
    node = running_node()
    found = re.findall(r'^  File "(.*)", line (\d+)', (node and node._trace) or "", re.M)
    return ":".join(found[-1]) if found else None


class AccumulateGrad(Node):
    """The sink of a leaf: adds what arrives to `variable.grad`."""

    __slots__ = ("lock", "variable")

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable
        self._next = ()
        self._meta = (meta_of(variable),)
        self._sequence = ACCUMULATE
        self._hooks = None
        self._trace = None
        self.lock = threading.Lock()

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def apply(self, grads: list[Any], wanted: Any) -> Any:
        if grads[0] is not None:
            self.accumulate(grads[0], False)
        return ()

    def reference(self) -> weakref.ref[AccumulateGrad]:
        return weakref.ref(self)

    def accumulate(self, grad: Tensor, owned: bool) -> None:
        """Add `grad`; where it is `owned`, nobody else holds it and it may become the gradient itself."""
        variable = self.variable
        if AMBIENT.trace is not None:
            AMBIENT.trace.sees_gradient(variable)
        with self.lock:
            current = variable._grad
            if MODES.grad:
                variable._grad = _recorded_copy(variable, grad) if current is None else added(current, grad)
            elif current is None:
                variable._grad = _in_order_of(variable, grad, owned)
            elif _plain(current) and _plain(grad) and current.dtype is grad.dtype:
                quietly(np.add, current._array, grad._array, current._array)
                current.version_counter.value += 1
            elif current._parts is not None and grad._parts is None:
                variable._grad = added(current, grad)
            else:
                current.add_(grad)


def _in_order_of(variable: Tensor, grad: Tensor, owned: bool) -> Tensor:
    """`grad`, or a copy of it that lies in memory as the leaf does (in order, if the leaf has gaps)."""
    mine, other = variable._array, grad._array
    simple = mine is not None and other is not None and mine.flags.c_contiguous and other.flags.c_contiguous
    strided = simple or (
        variable._parts is None and grad._parts is None and not (variable.is_nested or grad.is_nested)
    )
    if simple or not strided or variable.dtype is not grad.dtype:
        if owned:
            return _stripped(grad)
        return call(_CLONE, (_plainly(grad), None))
    if is_whole(variable) and other is not None:
        return call(_CLONE, (_plainly(grad), contiguous_format))
    dense = is_dense(variable.shape, variable.strides())
    wanted = variable.strides() if dense else contiguous_strides(variable.shape)
    if all(a == b for a, b, n in zip(grad.strides(), wanted, variable.shape, strict=True) if n > 1):
        return _stripped(grad) if owned else call(_CLONE, (grad.detach(), None))
    if not dense:
        return call(_CLONE, (grad.detach(), contiguous_format))
    result: Tensor = call(_COPY, (variable.detach(), grad.detach(), False))
    return result


def _plainly(grad: Tensor) -> Tensor:
    """`grad` to be copied in a pass that is not recorded: without history for others that may look."""
    return grad if grad._keys <= AUTOGRAD and not AMBIENT.keys and not MODES.dual_levels else grad.detach()


def _recorded_copy(variable: Tensor, grad: Tensor) -> Tensor:
    """The first gradient of a leaf in a pass that is itself recorded: a copy, so that no other tensor of the
    program becomes its gradient."""
    strided = variable._parts is None and grad._parts is None and not (variable.is_nested or grad.is_nested)
    if not strided or not is_dense(variable.shape, variable.strides()):
        copy: Tensor = call(_CLONE, (grad, None))
    else:
        copy = call(_COPY, (variable.detach(), grad, False))
    return copy


def set_to_zero(grad: Tensor) -> None:
    """Write zeros to a gradient, which forgets its history."""
    array = grad._array
    seen = AMBIENT.keys or MODES.functions or grad._inference
    if array is not None and not grad._keys and not seen and array.flags.carray:
        array.fill(0)
        grad.version_counter.value += 1
        return
    if grad.grad_fn is not None:
        grad.detach_()
    elif grad.requires_grad:
        grad.requires_grad_(False)
    grad.zero_()


def added(current: Tensor, grad: Tensor) -> Tensor:
    """The sum of two gradients; that of a sparse one and a strided one is strided."""
    if current._parts is not None and grad._parts is None:
        current, grad = grad, current
    total: Tensor = call(_ADD, (current, grad, 1))
    return total


def accumulator(tensor: Tensor) -> AccumulateGrad:
    """The accumulator of a leaf; it lives as long as a graph refers to it."""
    node = None if tensor._accumulator is None else tensor._accumulator()
    if node is None:
        node = AccumulateGrad(tensor)
        tensor._accumulator = node.reference()
    return node


def _plain(tensor: Tensor) -> bool:
    return tensor._array is not None and not tensor._keys


def _stripped(grad: Tensor) -> Tensor:
    return grad if not grad._keys & 1 else grad.detach()


def meta_of(tensor: Tensor) -> Meta:
    array = tensor._array
    if array is not None and tensor._spec is None:
        return (array.shape, tensor.dtype, False)
    return (tuple(tensor.shape), tensor.dtype, bool(tensor._keys & META))

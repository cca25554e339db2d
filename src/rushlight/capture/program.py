"""A captured call: its graph, where its inputs come from, and what its outputs are for.

`capture_call(function, args, kwargs)` runs the function once under a `Capture` and returns a `CapturedCall`.
The graph's outputs are, in order: the tensors the call returns that are new, the new contents of the
caller's storages that it wrote to, and
the gradients it left on leaves. Where a returned tensor requires grad, the graph of its gradients is captured
with it (`backward`): the joint graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..autograd import grad as autograd_grad
from ..autograd.tape import FREED
from ..core.modes import MODES
from ..core.pytree import TreeSpec, flatten
from ..core.shapes import Spec
from ..core.tensor import Tensor
from ..graph.ir import Graph, Value
from .trace import Capture, CaptureError, user_line


@dataclass(frozen=True)
class Leaf:
    """One leaf of what the call returns."""

    kind: str  # "value": a new tensor; "alias": a view of a tensor of the caller; "python": anything else
    index: int = 0  # of the graph output, or of the source
    spec: Spec | None = None
    python: Any = None
    requires_grad: bool = False


@dataclass
class CapturedCall:
    """What running the function once has shown."""

    graph: Graph
    sources: list[Tensor]  # the caller's tensor behind each graph input, in order
    leaves: list[Leaf]
    structure: TreeSpec
    writes: list[tuple[int, int, int]]  # (source, graph output, number of writes)
    gradients: list[tuple[Tensor, int]]  # (leaf, graph output)
    differentiable: list[int] = field(default_factory=list)  # sources that returned tensors may depend on
    tangents: list[Value] = field(default_factory=list)  # graph inputs for the gradients of returned tensors
    backward: list[Value | None] = field(default_factory=list)  # gradients of `differentiable`


def capture_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> CapturedCall:
    """Run `function` on abstract tensors and return what it did. Nothing of the caller is changed."""
    capture = Capture()
    try:
        with capture:
            returned = function(*args, **kwargs)
            return _Summary(capture).summarize(returned)
    finally:
        capture.restore()


class _Summary:
    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.graph = capture.graph
        self.outputs: dict[Value, int] = {}

    def summarize(self, returned: Any) -> CapturedCall:
        flat, structure = flatten(returned)
        tensors = [leaf for leaf in flat if isinstance(leaf, Tensor)]
        leaves = [self._leaf(leaf) for leaf in flat]
        writes = self._writes()
        gradients = self._gradients()
        call = CapturedCall(self.graph, [], leaves, structure, writes, gradients)
        call.sources = self._sources()
        self._joint(call, tensors)
        self.graph.outputs = list(self.outputs)
        return call

    def _output(self, value: Value) -> int:
        return self.outputs.setdefault(value, len(self.outputs))

    def _leaf(self, leaf: Any) -> Leaf:
        if not isinstance(leaf, Tensor):
            return Leaf("python", python=leaf)
        capture = self.capture
        if leaf._trace is not capture:
            return Leaf("python", python=leaf) if id(leaf) not in capture.lifted else self._alias(leaf)
        state = capture.states[id(leaf.storage_object)]
        if state.source is not None:
            return self._alias(leaf)
        value = capture.value_of(leaf)
        return Leaf(
            "value", self._output(value), value.spec, requires_grad=leaf.requires_grad and not _is_freed(leaf)
        )

    def _alias(self, leaf: Tensor) -> Leaf:
        """A view of a tensor that the caller already has."""
        abstract = self.capture.abstract(leaf)
        state = self.capture.states[id(abstract.storage_object)]
        if leaf.requires_grad and leaf._trace is self.capture:
            raise CaptureError("the program returns a differentiable view of one of its inputs", user_line())
        offset = abstract._offset - state.spec.offset  # from where the graph input begins
        spec = Spec(tuple(leaf.shape), leaf.dtype, leaf.strides(), offset, leaf._conj, leaf._neg)
        return Leaf(
            "alias", self.graph.inputs.index(state.input), spec, python=leaf if leaf._trace is None else None
        )

    def _writes(self) -> list[tuple[int, int, int]]:
        found = []
        seen: set[int] = set()
        for state in self.capture.states.values():
            if state.source is not None and state.writes and id(state) not in seen:
                seen.add(id(state))
                found.append((self.graph.inputs.index(state.input), self._output(state.value), state.writes))
        return found

    def _gradients(self) -> list[tuple[Tensor, int]]:
        found = []
        for entry in list(self.capture.lifted.values()):
            current = entry.tensor._grad
            if current is not entry.grad and isinstance(current, Tensor):
                if current._trace is not self.capture:
                    raise CaptureError("the program sets .grad to a tensor it did not compute", user_line())
                found.append((entry.tensor, self._output(self.capture.value_of(current))))
        return found

    def _joint(self, call: CapturedCall, tensors: list[Tensor]) -> None:
        """Capture the gradients of the returned tensors with respect to the caller's."""
        roots = [t for t in tensors if t.requires_grad and t._trace is self.capture and not _is_freed(t)]
        if not roots or not MODES.grad:
            return
        inputs = [e.tensor for e in self.capture.lifted.values() if e.tensor.requires_grad]
        tangents = []
        for root in roots:
            tangent = self.capture.new_input(Spec(tuple(root.shape), root.dtype, None), "tangent")
            tangents.append(tangent)
        grads = autograd_grad(roots, inputs, tangents, allow_unused=True)
        where = {id(source): i for i, source in enumerate(call.sources)}
        if any(id(tensor) not in where for tensor in inputs):
            raise CaptureError("differentiable inputs that share memory", user_line())
        call.differentiable = [where[id(tensor)] for tensor in inputs]
        call.tangents = [self.capture.value_of(t) for t in tangents]
        call.backward = [None if g is None else self.capture.value_of(g) for g in grads]

    def _sources(self) -> list[Tensor]:
        by_input = {
            state.input: state.source for state in self.capture.states.values() if state.source is not None
        }
        return [by_input[value] for value in self.graph.inputs if value in by_input]


def _is_freed(tensor: Tensor) -> bool:
    """Whether the program itself has run backward through the history of `tensor`, so that nobody can do so
    again.
    """
    seen: set[int] = set()
    stack = [tensor.grad_fn]
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if getattr(node, "saved", None) is FREED:
            return True
        stack.extend(following for following, _ in node.next_functions)
    return False

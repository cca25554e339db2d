"""A part of a graph of PyTorch's as a graph of ours.

Operators are called, by their schemas, on abstract tensors of a capture (capture/trace.py): shapes, dtypes and
strides come out of our own shape rules, and are compared with what PyTorch says of the node. Where strides
differ, the result is laid out as PyTorch has it, for the views that follow rely on that.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ..autograd.grad_mode import no_grad
from ..capture.checks import keep_checks
from ..capture.decompose import decompose
from ..capture.live_inputs import LiveInputs
from ..capture.memory import spec_of
from ..capture.partition import extract
from ..capture.trace import Capture
from ..core.autocast import autocast_off
from ..core.dispatch import call
from ..core.errors import InternalError
from ..core.registry import REGISTRY, Kind, OpDef
from ..core.resolve import bind
from ..core.shapes import Spec, extent, is_dense, surely_dense
from ..core.tensor import Tensor
from ..graph.ir import Graph, Value
from .libraries import library_operator
from .sizes import Bindings, Sizes
from .steps import PartStep, our_name
from .types import TO_OURS, to_ours

_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


@dataclass(frozen=True)
class Result:
    """What a part gives for a node: an output of its program, an input of the part, or a view of one of these."""

    kind: str  # "output" or "input"
    index: int
    spec: Spec | None = None  # of a view; its offset is that in the output, or in the input


@dataclass(frozen=True)
class TranslatedPart:
    """A part as a graph. `inputs`: for each graph input, the number of the part's input, or the type of the live
    numbers that it holds."""

    graph: Graph
    live: LiveInputs
    inputs: list[int | type]
    results: list[Result]
    writes: list[tuple[int, int]]  # (output, input): outputs that are the new contents of an input


class Translation:
    """The translation of one part, for the numbers of a call."""

    def __init__(self, module: GraphModule, part: PartStep, bindings: Bindings) -> None:
        self._module, self._part = module, part
        self._capture = Capture(Graph())
        self._sizes = Sizes(self._capture.numbers, bindings)
        self._known: dict[Node, Any] = {}
        self._given: dict[Value, int] = {}  # graph inputs that are inputs of the part
        self._roots: dict[int, int] = {}  # the inputs of the part, by the identities of storages
        self._outputs: dict[Value, int] = {}

    def run(self, *, checks: bool) -> TranslatedPart:
        """Translate it; with `checks`, errors that depend on data are found although nobody uses a result."""
        part, capture = self._part, self._capture
        with no_grad(), autocast_off(), capture:
            for i, node in enumerate(part.inputs):
                self._known[node] = self._input(i, node)
            for node in part.nodes:
                self._known[node] = self._node(node)
            results = [self._result(node) for node in part.outputs]
            writes = self._writes()
        live = capture.numbers.finish()
        capture.numbers.symbols.capturing = False
        graph = capture.graph
        graph.outputs = list(self._outputs)
        decompose(graph)
        if checks:
            keep_checks(graph, ())
        whole = extract(graph, list(graph.inputs), graph.outputs)
        whole.updates = {output: self._graph_input(given) for output, given in writes}
        kinds = {value: kind for kind, value in capture.numbers.inputs.items()}
        inputs = [self._given[v] if v in self._given else kinds[v] for v in graph.inputs]
        capture.close()
        return TranslatedPart(whole, live, inputs, results, writes)

    # Inputs.

    def _input(self, i: int, node: Node) -> Tensor:
        fake = node.meta["val"]
        shape, strides = (tuple(map(self._sizes.size, part)) for part in (fake.shape, fake.stride()))
        dtype = TO_OURS[fake.dtype]
        if surely_dense(shape, strides):
            tensor = self._capture.new_input(Spec(shape, dtype, strides, 0), "arg")
        else:  # the memory that it spans is the graph's input, and the tensor a view
            whole = self._capture.new_input(Spec((extent(shape, strides),), dtype, (1,), 0), "arg")
            tensor = call(REGISTRY["as_strided"], (whole, shape, strides, 0))
        state = self._capture.states[id(tensor.storage_object)]
        self._given[state.value] = i
        self._roots[id(tensor.storage_object)] = i
        return tensor

    def _graph_input(self, given: int) -> int:
        return next(k for k, v in enumerate(self._capture.graph.inputs) if self._given.get(v) == given)

    # Nodes.

    def _argument(self, argument: Any) -> Any:
        if isinstance(argument, Node):
            known = self._known.get(argument)
            return self._sizes.size(argument.meta["val"]) if known is None else known
        if isinstance(argument, (list, tuple)):
            return tuple(map(self._argument, argument))
        return to_ours(argument)

    def _node(self, node: Node) -> Any:
        args = [self._argument(a) for a in node.args]
        if node.target is operator.getitem:
            return args[0][args[1]]
        kwargs = {name: self._argument(a) for name, a in node.kwargs.items()}
        whole = library_operator(node.target)
        result = self._operator(node, args, kwargs) if whole is None else whole(*args, **kwargs)
        expected = node.meta["val"]
        if isinstance(expected, torch.Tensor):
            return self._laid_out(node, result, expected)
        return tuple(
            r if e is None else self._laid_out(node, r, e) for r, e in zip(result, expected, strict=True)
        )

    def _operator(self, node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
        name = our_name(node.target)
        if name == "_to_copy" and node.target.namespace == "prims":
            args, kwargs = args[:1], {"dtype": args[1]}
        op, values = self._bound(node, REGISTRY.ops[name], args, kwargs)
        return _attention(op, values) if name.startswith(_ATTENTION) else call(op, values)

    def _bound(
        self, node: Node, op: OpDef, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[OpDef, tuple[Any, ...]]:
        """The operator and its complete arguments; of another overload where a number is given for a tensor."""
        if "dtype" in op.schema.argument_names and not any(isinstance(a, Tensor) for a in args):
            expected = node.meta["val"]  # not our default
            kwargs.setdefault("dtype", TO_OURS[expected.dtype])
        problem = ""
        for other in (op, *REGISTRY.overloads(op.schema.name)):
            values = bind(other, args, kwargs)
            if not isinstance(values, str):
                return other, values
            problem = problem or values
        raise TypeError(f"{node.target}: {problem}")

    def _laid_out(self, node: Node, result: Tensor, expected: Any) -> Tensor:
        """`result` with the strides that PyTorch's rules give."""
        shape, strides = (tuple(map(self._sizes.size, part)) for part in (expected.shape, expected.stride()))
        if tuple(result.shape) != shape or result.dtype is not TO_OURS[expected.dtype]:
            raise InternalError(f"{node.target}: {spec_of(result)} where PyTorch has {expected}")
        same = all(a == b or n == 1 for a, b, n in zip(result.strides(), strides, shape, strict=True))
        if same or 0 in shape:
            return result
        if any(step == 0 and size != 1 for size, step in zip(shape, strides, strict=True)):
            raise InternalError(f"{node.target}: strides {result.strides()} where PyTorch has {strides}")
        if not is_dense(shape, strides):
            row = call(REGISTRY["full"], ((extent(shape, strides),), 0, result.dtype, None, None, None))
            row = call(REGISTRY["as_strided_scatter"], (row, result, shape, strides, 0))
            return call(REGISTRY["as_strided"], (row, shape, strides, 0))
        capture = self._capture
        given = (capture.value_of(result), None)
        made = capture.graph.call(REGISTRY["clone"], given, Spec(shape, result.dtype, strides), "")
        return capture.stand_in(made.outputs[0])

    # Results.

    def _output(self, value: Value) -> int:
        return self._outputs.setdefault(value, len(self._outputs))

    def _result(self, node: Node) -> Result:
        tensor, capture = self._known[node], self._capture
        spec = spec_of(tensor)
        given = self._roots.get(id(tensor.storage_object))
        if given is not None and self._part.inputs[given] not in {target for target, _ in self._part.writes}:
            return Result("input", given, spec)
        value, state = capture.value_of(tensor), capture.states[id(tensor.storage_object)]
        if given is not None:  # of an input that is about to be written
            return Result("output", self._output(self._copy(value, spec)))
        if value.node is not None and value.node.op.kind is Kind.VIEW:
            return Result("output", self._output(state.value), spec)
        return Result("output", self._output(value))

    def _copy(self, value: Value, spec: Spec) -> Value:
        """A copy of a value, laid out as `spec` if that has no gaps."""
        shape, strides = spec.known_shape(), spec.known_strides()
        copy = Spec(shape, spec.dtype, strides if is_dense(shape, strides) else None)
        return self._capture.graph.call(REGISTRY["clone"], (value, None), copy, "").outputs[0]

    def _writes(self) -> list[tuple[int, int]]:
        """(output, input) for each input that gets new contents. An output that is nothing else may be written in
        the place of the input."""
        writes = []
        for target, source in self._part.writes:
            value, held = self._capture.value_of(self._known[source]), spec_of(self._known[target])
            is_new = value.node is not None and value.node.op.kind is not Kind.VIEW
            if value in self._outputs or not is_new or value.spec.known_strides() != held.known_strides():
                value = self._copy(value, held)
            writes.append((self._output(value), self._part.inputs.index(target)))
        return writes


def _attention(op: OpDef, values: tuple[Any, ...]) -> Any:
    """Attention whose keys and values may have fewer heads than its queries: each serves several of these."""
    first = op.schema.argument_names.index("query")
    query, key, value = values[first : first + 3]
    heads, groups = query.shape[1], key.shape[1]
    if heads == groups:
        return call(op, values)
    each = heads // groups

    def repeated(tensor: Tensor) -> Tensor:
        batch, count, length, width = tensor.shape
        return (
            tensor.unsqueeze(2).expand(batch, count, each, length, width).reshape(batch, heads, length, width)
        )

    result = call(op, (*values[:first], query, repeated(key), repeated(value), *values[first + 3 :]))
    if not op.schema.name.endswith("backward"):
        return result

    def added(tensor: Tensor) -> Tensor:
        batch, _, length, width = tensor.shape
        return tensor.reshape(batch, groups, each, length, width).sum(2)

    grad, grad_key, grad_value = result
    return grad, added(grad_key), added(grad_value)

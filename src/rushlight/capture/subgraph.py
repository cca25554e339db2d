"""Capturing a function as the body of a higher-order operator, and running a body on tensors.

`capture_body` runs a function once on abstract tensors of its own. Tensors from outside that it uses become
further inputs of the body. Where gradients are recorded, the derivative is captured in the same run, by the
tape, so that functions with a backward of their own and regions without recording mean what they say; the joint
graph is cut in two (partition.py).

`run_body` runs the operators of a body on any tensors: plain ones, those of a transform, or those of another
capture.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..autograd.api import grad
from ..core.autocast import autocast_off
from ..core.dispatch import AMBIENT, Arguments, call, run_name
from ..core.modes import MODES
from ..core.pytree import TreeSpec, flatten
from ..core.registry import REGISTRY, Kind, OpDef
from ..core.shapes import Spec, memory_order
from ..core.tensor import RANDOM, Tensor
from ..core.tokens import contiguous_format
from ..graph.ir import Value, map_values
from ..graph.subgraph import BodyHalves, Joint, Subgraph
from .errors import CaptureError, Problem, user_line
from .locations import NOTHING_KNOWN
from .numbers import LiveNumber
from .partition import extract, partition
from .program_tensors import depends_on_data
from .trace import Capture


@dataclass(frozen=True)
class Body:
    """A captured function.

    The inputs of `subgraph` are those that were given, then `captured`, tensors from outside; its outputs are
    the tensors that the function returned. `structure` rebuilds what it returned from leaves, of which `leaves`
    has None where a tensor goes.
    """

    subgraph: Subgraph
    captured: list[Tensor]
    structure: TreeSpec
    leaves: list[Any]

    def rebuilt(self, tensors: Sequence[Tensor]) -> Any:
        """What the function returns, with these tensors."""
        given = iter(tensors)
        return self.structure.unflatten([next(given) if leaf is None else leaf[0] for leaf in self.leaves])


class BodyCapture(Capture):
    """The capture of a body: tensors from outside are inputs of it."""

    takes_all = True

    def __init__(self, outer: Capture | None) -> None:
        super().__init__(environment=NOTHING_KNOWN if outer is None else outer.environment)
        self.captured: list[Tensor] = []
        self.inputs: list[Tensor] = []
        self.opaque = False

    def given(self, spec: Spec, requires_grad: bool) -> Tensor:
        """A new input."""
        tensor = self.new_input(Spec(spec.shape, spec.dtype), "arg")
        if requires_grad:
            tensor._set_requires_grad()
        self.inputs.append(tensor)
        return tensor

    def _lift(self, tensor: Tensor) -> Tensor:
        recorded = self.grad_mode and tensor.requires_grad
        twin = self.given(Spec(tuple(tensor.shape), tensor.dtype), recorded)
        self._twins[id(tensor)] = twin
        self._keep.append(tensor)
        self.captured.append(tensor)
        return twin

    def taken(self, op: OpDef, args: Arguments) -> Arguments:
        """`args` with the inputs that stand for tensors from outside."""
        return self._map(op, args, self.inside)

    def inside(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        inner = value._trace is not None and value._trace.number >= self.number  # also of a transform in here
        return value if inner else self.abstract(value)

    def process(self, op: OpDef, args: Arguments) -> Any:
        if isinstance(op, HigherOrderOp):
            self.opaque = self.opaque or any(a.opaque for a in args if isinstance(a, Subgraph))
        elif self.grad_mode and not MODES.grad:
            self.opaque = True
        return super().process(op, tuple(_without_live_numbers(a) for a in args))

    def sees_function(self, function: Any) -> None:
        super().sees_function(function)
        own = getattr(function, "is_control_flow", False)  # whose derivative is that of its body
        self.opaque = self.opaque or (isinstance(function, type) and not own)

    # What has no place in a body.

    def item(self, tensor: Tensor) -> Any:
        return NotImplemented

    def _defer(self, op: OpDef, args: Arguments, specs: Any) -> Any:
        raise depends_on_data(op.name)

    def draws_of(self, generator: Any) -> Any:
        raise CaptureError(
            "a function that control flow runs draws random numbers: how many are drawn, and where the next ones "
            "begin, would depend on the run",
            user_line(),
            Problem.BODY,
        )

    def check_writes(self) -> None:
        """Refuse a body that writes to its inputs."""
        if any(self.states[id(tensor.storage_object)].writes for tensor in self.inputs):
            raise CaptureError(
                "a function that control flow runs writes to a tensor that it was given or that is from outside",
                user_line(),
                Problem.BODY,
            )


def _without_live_numbers(argument: Any) -> Any:
    if type(argument) is LiveNumber:
        return argument.specialise()
    if type(argument) is tuple and any(type(a) is LiveNumber for a in argument):
        return tuple(_without_live_numbers(a) for a in argument)
    return argument


@contextmanager
def _outside_of_transforms() -> Iterator[None]:
    """Inside, no transform is open: a body is captured as it is written, and transformed as a whole."""
    modes = {**_NO_TRANSFORM, "transforms": [], "traces": []}
    saved, keys = {name: getattr(MODES, name) for name in modes}, AMBIENT.keys
    for name, value in modes.items():
        setattr(MODES, name, value)
    AMBIENT.keys &= ~RANDOM
    try:
        yield
    finally:
        AMBIENT.keys = keys
        for name, value in saved.items():
            setattr(MODES, name, value)


# The modes of a thread where no transform is open, besides the lists of those that are.
_NO_TRANSFORM: dict[str, Any] = {
    "transforming": None,
    "silent": frozenset(),
    "below": False,
    "limit": float("inf"),
    "forward_grad": True,
    "hooks_disabled": None,
}


def capture_body(
    outer: Capture | None, function: Callable[..., Any], specs: Sequence[Spec], recorded: Sequence[bool] = ()
) -> Body:
    """The body that `function` is of tensors with these specs; `recorded` says which of them require grad."""
    flags = [bool(r) for r in recorded] or [False] * len(specs)
    watch, MODES.watch = MODES.watch, None
    with _outside_of_transforms():
        capture = BodyCapture(outer)
        MODES.watch = None if watch is None else capture.sees_function
        try:
            with capture:
                given = [capture.given(spec, flag) for spec, flag in zip(specs, flags, strict=True)]
                leaves, structure = flatten(function(*given))
                outputs = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
                outputs = [capture.inside(tensor) for tensor in outputs]
                values = [_contiguous(capture, tensor) for tensor in outputs]
                opaque = capture.opaque
                joint = _joint(capture, outputs, values)
                capture.check_writes()
            inputs = [_input_value(capture, tensor) for tensor in capture.inputs]
            subgraph = Subgraph(extract(capture.graph, inputs, values), opaque, joint)
        finally:
            MODES.watch = watch
            capture.close()
    kept = [None if isinstance(leaf, Tensor) else (leaf,) for leaf in leaves]
    return Body(subgraph, capture.captured, structure, kept)


def _contiguous(capture: BodyCapture, tensor: Tensor) -> Value:
    value = capture.value_of(capture.abstract(tensor))
    spec = value.spec
    plain = Spec(spec.known_shape(), spec.dtype)
    is_view = value.node is not None and value.node.op.kind is Kind.VIEW
    shifted = spec.offset or spec.conj or spec.neg
    if spec.known_strides() == plain.known_strides() and not shifted and not is_view:
        return value
    return capture.graph.call(REGISTRY["clone"], (value, None), plain, user_line()).outputs[0]


def _input_value(capture: BodyCapture, tensor: Tensor) -> Value:
    return capture.states[id(tensor.storage_object)].input


def _joint(capture: BodyCapture, outputs: list[Tensor], values: list[Value]) -> Joint | None:
    """The body with its derivative, which the tape gives."""
    numbers = [i for i, tensor in enumerate(outputs) if tensor.requires_grad]
    wanted = [i for i, tensor in enumerate(capture.inputs) if tensor.requires_grad]
    if not capture.grad_mode or not wanted:
        return None
    roots = [outputs[i] for i in numbers]
    tangents = [capture.new_input(Spec(tuple(t.shape), t.dtype), "tangent") for t in roots]
    sources = [capture.inputs[i] for i in wanted]
    found = grad(roots, sources, tangents, allow_unused=True) if roots else [None] * len(wanted)
    gradients = {i: _contiguous(capture, g) for i, g in zip(wanted, found, strict=True) if g is not None}
    return Joint(
        capture.graph,
        tuple(_input_value(capture, tensor) for tensor in capture.inputs),
        tuple(values),
        tuple(_input_value(capture, tensor) for tensor in tangents),
        tuple(gradients.values()),
        tuple(numbers),
        tuple(gradients),
        frozenset(wanted),
    )


def cut(subgraph: Subgraph, there: Collection[int]) -> BodyHalves:
    """A body with a joint graph in two halves; the inputs with the numbers `there` need not be saved."""
    joint = subgraph.joint
    assert joint is not None
    joint.graph.inputs = [*joint.given, *joint.tangents]
    found = partition(
        joint.graph,
        list(joint.results),
        list(joint.tangents),
        list(joint.gradients),
        {joint.given[i] for i in there},
    )
    forward, backward = (Subgraph(graph, subgraph.opaque) for graph in (found.forward, found.backward))
    return BodyHalves(forward, backward, tuple(found.kept))


def backward_body(subgraph: Subgraph) -> Subgraph:
    """From all inputs of a body with a joint graph, and the tangents, the gradients."""
    joint = subgraph.joint
    assert joint is not None
    return Subgraph(
        extract(joint.graph, [*joint.given, *joint.tangents], list(joint.gradients)), subgraph.opaque
    )


def widened(subgraph: Subgraph, specs: Sequence[Spec], places: Sequence[int]) -> Subgraph:
    """The same body with more inputs: input i is number places[i] of those that `specs` describe."""
    own = dict(zip(places, range(len(places)), strict=True))

    def inputs(given: Sequence[Value]) -> list[Value]:
        return [given[own[n]] if n in own else Value("unused", spec) for n, spec in enumerate(specs)]

    joint = subgraph.joint
    if joint is not None:
        joint = replace(
            joint,
            given=tuple(inputs(joint.given)),
            inputs=tuple(places[i] for i in joint.inputs),
            recorded=frozenset(n for n in range(len(specs)) if n not in own or own[n] in joint.recorded),
        )
    graph = extract(subgraph.graph, inputs(subgraph.graph.inputs), subgraph.graph.outputs)
    return Subgraph(graph, subgraph.opaque, joint)


# Running.


class HigherOrderOp(OpDef):
    """An operator that takes bodies. `apply` runs it with its derivatives and batching rule, which go through
    those of the bodies (_higher_order_ops)."""

    __slots__ = ("apply",)
    apply: Callable[..., Any]


def run_operator(op: OpDef, args: Arguments) -> Any:
    return op.apply(*args) if isinstance(op, HigherOrderOp) else call(op, args)


def run_body(subgraph: Subgraph, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The outputs of a body for these inputs."""
    if isinstance(AMBIENT.trace, BodyCapture):
        AMBIENT.trace.opaque = AMBIENT.trace.opaque or subgraph.opaque
    graph = subgraph.graph
    values: dict[Value, Any] = {}
    with autocast_off():  # the graph has its casts
        for value, tensor in zip(graph.inputs, tensors, strict=True):
            values[value] = run_name("contiguous", tensor, contiguous_format)
        for node in graph.nodes:
            result = run_operator(node.op, map_values(node.args, values.__getitem__))
            results = result if node.returns_list else (result,)
            for value, made in zip(node.outputs, results, strict=True):
                values[value] = made if node.op.kind is Kind.VIEW else laid_out(made, value.spec)
    return [values[value] for value in graph.outputs]


def laid_out(tensor: Tensor, spec: Spec) -> Tensor:
    """`tensor` with the strides of `spec`, which views that follow rely on."""
    found, wanted = (
        [step for step, size in zip(strides, tensor.shape, strict=True) if size > 1]
        for strides in (tensor.strides(), spec.known_strides())
    )
    if found == wanted or not tensor.numel():
        return tensor
    order = memory_order(spec.known_shape(), spec.known_strides())
    moved = run_name("contiguous", run_name("permute", tensor, tuple(order)), contiguous_format)
    back: Tensor = run_name("permute", moved, tuple(order.index(d) for d in range(len(order))))
    return back

"""What a recorded operator saves, and how its backward gets it back.

Inputs are saved as the tensors themselves with the version they had; outputs as copies of the tensor object
that do not refer to the node, since the node must not keep itself alive. A tensor that was written to since
is refused when it is unpacked. Saved-tensor hooks replace a tensor by whatever they pack it to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from ..core.dispatch import run_name
from ..core.modes import MODES
from ..core.tensor import AUTOGRAD, META_DEVICE, Tensor, is_whole
from ..core.views import copied_object
from ..derivatives.declare import ALL, Capture, Entry, Plan, Take
from .backward_functions import write_plan
from .tape import FREED, Edge, Meta, Node, accumulator, running_node, sequence, where_made

Fetch = Callable[[Any, Any], Any]


_OF_ONE_OBJECT = (
    "_node",
    "_output_nr",
    "_requires_grad",
    "_grad",
    "_hooks",
    "_accumulator",
    "_seen",
    "_transform",
)


def shallow_copy(tensor: Tensor) -> Tensor:
    """Another object for the same tensor (memory, versions, tangents), without history, hooks and gradient."""
    tensor.version_counter  # noqa: B018  made here, so that both share it
    copy = copied_object(tensor)
    fields = copy.__dict__
    for name in _OF_ONE_OBJECT:
        fields.pop(name, None)
    copy._keys &= ~AUTOGRAD
    return copy


def _apart(tensor: Tensor) -> Tensor:
    """The same tensor without history, as an object that hooks may keep."""
    copy = shallow_copy(tensor)
    copy._base = copy._view_of = copy._creation = None
    if copy._tangents:
        copy._keys |= AUTOGRAD
    return copy


class Packed:
    """A saved tensor in the keeping of a pair of hooks."""

    __slots__ = ("leaf", "node", "output_nr", "packed", "unpack", "version", "versions")

    def __init__(
        self, tensor: Tensor, hooks: tuple[Callable[..., Any], Callable[..., Any]], is_output: bool
    ) -> None:
        pack, self.unpack = hooks
        self.node = None if is_output else tensor._node
        self.output_nr = tensor._output_nr
        is_leaf = self.node is None and not is_output and tensor.requires_grad
        self.leaf = accumulator(tensor) if is_leaf else None
        self.versions = tensor.version_counter
        self.version = self.versions.value
        saved, MODES.grad = MODES.grad, False
        try:
            self.packed = pack(tensor if tensor._node is None and not is_output else _apart(tensor))
        finally:
            MODES.grad = saved
        if self.versions.value != self.version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place; it must leave "
                "the tensor as it is (pack a copy)"
            )

    def value(self, node: Node, output_nr: int | None) -> Tensor:
        tensor = self.unpack(self.packed)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of "
                f"type {type(tensor).__name__}"
            )
        source = node if output_nr is not None else self.node
        if source is not None:
            return with_node(tensor, source, self.output_nr if output_nr is None else output_nr)
        if self.leaf is None or tensor is self.leaf.variable:
            return tensor
        copy = shallow_copy(tensor)  # another object for the leaf, whose gradients go where the leaf's go
        copy._accumulator, copy._requires_grad = self.leaf.reference(), True
        copy._keys |= AUTOGRAD
        return copy


def with_node(tensor: Tensor, node: Node, output_nr: int) -> Tensor:
    copy = shallow_copy(tensor)
    copy._node, copy._output_nr = node, output_nr
    copy._base = copy._view_of = None
    copy._keys |= AUTOGRAD
    return copy


# Saving.


def save_tensor(tensor: Any) -> Any:
    if tensor is None:
        return None
    if tensor._inference:
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. Clone the tensor to get one "
            "that can, or make it under `rushlight.no_grad()` instead of "
            "`rushlight.inference_mode()`."
        )
    if MODES.saved_hooks:
        return Packed(tensor, MODES.saved_hooks[-1], False)
    if tensor._tangents and MODES.limit != _NO_LIMIT:
        tensor = without_tangents(tensor, MODES.limit)
    versions = tensor._versions
    return (tensor, 0 if versions is None else versions.value, tensor._node)


_NO_LIMIT = float("inf")


def save_copy(item: tuple[Tensor, int, Any]) -> Any:
    """A saved input with its values copied, for a tensor that is about to be overwritten by the very call
    that saved it."""
    tensor, _, node = item
    copy = shallow_copy(tensor)
    copy._versions = copy._base = copy._view_of = None
    if copy._trace is not None:
        copy._trace.keep_values(copy)
    else:
        copy._storage = None
    if copy._array is not None:
        copy._array = copy._array.copy()
        copy._strides, copy._offset = None, 0
    elif copy._parts is not None:
        copy._parts = copy._parts.copy()
    copy._node, copy._output_nr, copy._requires_grad = node, tensor._output_nr, tensor._requires_grad
    if tensor.requires_grad or tensor._tangents:
        copy._keys |= AUTOGRAD
    return (copy, 0, node)


def without_tangents(tensor: Tensor, limit: float) -> Tensor:
    """`tensor` as seen by the computation of a tangent of level `limit`: without tangents of that level and
    inner ones."""
    kept = {level: t for level, t in tensor._tangents.items() if level.number < limit}
    if len(kept) == len(tensor._tangents):
        return tensor
    copy = shallow_copy(tensor)
    copy._tangents = kept or None
    copy._node, copy._output_nr, copy._requires_grad = tensor._node, tensor._output_nr, tensor._requires_grad
    copy._accumulator = tensor._accumulator
    if kept or tensor.requires_grad:
        copy._keys |= AUTOGRAD
    return copy


def save_output(tensor: Any) -> Any:
    if tensor is None:
        return None
    if MODES.saved_hooks:
        return Packed(tensor, MODES.saved_hooks[-1], True)
    if (
        type(tensor) is Tensor
        and not tensor._keys & ~AUTOGRAD
        and is_whole(tensor)
        and tensor._storage is None
    ):
        plain: Tensor = object.__new__(Tensor)
        plain._array, plain.dtype, plain._versions = tensor._array, tensor.dtype, tensor.version_counter
        if tensor._tangents is None and not tensor._foreign:
            return (plain, plain._versions.value)
    copy = shallow_copy(tensor)
    if copy._tangents:
        copy._keys |= AUTOGRAD
    return (copy, copy._versions.value)  # type: ignore[union-attr]


def _raw_shape(tensor: Any) -> Any:
    return None if tensor is None else tuple(tensor.shape)


_FACTS: dict[Take, Callable[[Any], Any]] = {
    Take.SHAPE: _raw_shape,
    Take.DTYPE: lambda t: None if t is None else t.dtype,
    Take.NDIM: lambda t: None if t is None else t.ndim,
    Take.NUMEL: lambda t: None if t is None else t.numel(),
    Take.SPEC: lambda t: None if t is None else t.spec(),
    Take.DEVICE: lambda t: None if t is None else t.device,
}


def fact(take: Take, value: Any) -> Any:
    """A shape, dtype, ... of a tensor, or a tuple of them for a list."""
    return _facts(_FACTS[take], value)


def _facts(get: Callable[[Any], Any], value: Any) -> Any:
    return tuple([get(v) for v in value]) if isinstance(value, (tuple, list)) else get(value)


def _fetch(capture: Capture) -> Fetch:
    take, index, output = capture
    if take is Take.TENSORS:
        return lambda args, results: None if args[index] is None else [save_tensor(t) for t in args[index]]
    if take is Take.RESULT:
        return lambda args, results: save_output(results[index])
    if take is Take.RESULTS:
        return lambda args, results: [save_output(t) for t in results]
    get = _FACTS[take]
    if output:
        return lambda args, results: _facts(get, results if index == ALL else results[index])
    return lambda args, results: _facts(get, args[index])


def capture_values(plan: Plan, args: Any, results: Any) -> Any:
    """The values that the formulas of `plan` will ask for."""
    fetch = plan.fetch
    if fetch is None:
        prepare(plan)
        fetch = plan.fetch
    values = []
    for get, index in fetch:
        if get is None:
            values.append(args[index])
        elif get is save_tensor:
            values.append(save_tensor(args[index]))
        else:
            values.append(get(args, results))
    return values


def prepare(plan: Plan) -> None:
    """Find out how a plan saves and restores its captures: where the values are arguments, or tensors among
    them, by their places; else by functions of the arguments and results."""
    plan.unpack = [_UNPACK.get(capture[0]) for capture in plan.captures]
    _output_numbers(plan)
    short = {Take.VALUE: None, Take.TENSOR: save_tensor}
    plan.fetch = [
        (short[take] if take in short else _fetch((take, index, output)), index)
        for take, index, output in plan.captures
    ]


def _output_numbers(plan: Plan) -> None:
    for i, (take, index, _) in enumerate(plan.captures):
        if take is Take.RESULT:
            plan.unpack[i] = lambda saved, node, index=index: unpack_output(saved, node, index)


# Restoring.


def unpack_tensor(saved: Any, node: Node) -> Any:
    if saved is None:
        return None
    if type(saved) is Packed:
        return saved.value(node, None)
    tensor, version, source = saved
    versions = tensor._versions
    if versions is not None and versions.value != version:
        raise modified(tensor, version, tensor._node or source, tensor._output_nr, node)
    if tensor._node is not source:
        if source is not None and tensor._node is None and not tensor._requires_grad:
            raise RuntimeError(
                "Trying to use a saved tensor that has been detached in place: it is not "
                f"differentiable any more. It was saved for the backward of {node.name()}; "
                "call detach() instead of detach_(), or clone the tensor first."
            )
        return shallow_copy(tensor) if source is None else with_node(tensor, source, tensor._output_nr)
    return tensor


def unpack_output(saved: Any, node: Node, output_nr: int) -> Any:
    if saved is None:
        return None
    if type(saved) is Packed:
        return saved.value(node, output_nr)
    tensor, version = saved
    if tensor._versions.value != version:
        raise modified(tensor, version, node, output_nr, node)
    return with_node(tensor, node, output_nr) if MODES.grad else tensor


def modified(tensor: Tensor, version: int, source: Node | None, output_nr: int, node: Node) -> RuntimeError:
    made = "" if source is None else f", which is output {output_nr} of {source._operator()},"
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[rushlight.{tensor.dtype.torch_name}Tensor {list(tensor.shape)}]{made} is at version "
        f"{tensor._version}; expected version {version} instead. It was saved for the backward of "
        f"{node.name()}; rushlight.autograd.set_detect_anomaly(True) shows where."
    )


_UNPACK: dict[Take, Callable[..., Any]] = {
    Take.TENSOR: unpack_tensor,
    Take.TENSORS: lambda saved, node: (
        None if saved is None else tuple([unpack_tensor(s, node) for s in saved])
    ),
    Take.RESULTS: lambda saved, node: tuple([unpack_output(s, node, i) for i, s in enumerate(saved)]),
}


def zeros(meta: Meta) -> Tensor:
    """The gradient of an output that nothing was said about."""
    shape, dtype, on_meta = meta
    return run_name("zeros", shape, dtype, None, META_DEVICE if on_meta else None, None)


def second_time() -> RuntimeError:
    return RuntimeError(
        "Trying to backward through the graph a second time, or directly access saved tensors after they "
        "have already been freed. backward() and autograd.grad() free what they no longer need. Specify "
        "retain_graph=True in the first call to keep it."
    )


class OpNode(Node):
    """A recorded operator: an entry of the derivative table, the plan for what needs a gradient, and what it
    saved."""

    __slots__ = ("counts", "entry", "plan", "saved")

    def __init__(
        self,
        entry: Entry,
        plan: Plan,
        edges: tuple[Edge | None, ...],
        meta: tuple[Meta, ...],
        counts: tuple[int, ...] | None,
    ) -> None:
        self._next = edges
        self._meta = meta
        self._sequence = next(sequence)
        self._hooks = None
        if MODES.anomaly:
            self._trace, self._parent = where_made(), running_node()
        else:
            self._trace = None
        self.entry = entry
        self.plan = plan
        self.counts = counts  # the number of edges of each target, where some are lists
        self.saved: Any = ()

    def name(self) -> str:
        return self.entry.node_name

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """As PyTorch shows it, where a number is a tensor without history: `x * 2` has two."""
        found = super().next_functions
        return (*found, (None, 0)) if self.entry.number_as_tensor else found

    def _release(self) -> None:
        if self.plan.saves_tensors:
            self.saved = FREED

    def _owns_results(self) -> bool:
        return True

    def kept(self) -> Iterator[Tensor]:
        """The inputs that it keeps as they are; a write to one of them makes its backward fail."""
        for item in () if self.saved is FREED else self.saved:
            if type(item) is tuple and len(item) == 3 and isinstance(item[0], Tensor):
                yield item[0]

    def values(self, grads: list[Any]) -> list[Any]:
        """What the formulas' parameters are picked from: gradients, then captures."""
        plan = self.plan
        if plan.values is None:
            self._write()
        found: list[Any] = plan.values(self, grads)
        return found

    def apply(self, grads: list[Any], wanted: Any) -> Any:
        plan = self.plan
        if plan.values is None:
            self._write()
        values = plan.values(self, grads)
        return (
            self._apply_lists(values, wanted)
            if self.counts is not None
            else plan.applied(self, values, wanted)
        )

    def applied(self, values: list[Any], wanted: Any) -> Any:
        """As `apply`, of what `values` gives."""
        return (
            self._apply_lists(values, wanted)
            if self.counts is not None
            else self.plan.applied(self, values, wanted)
        )

    def _write(self) -> None:
        write(self.entry, self.plan)

    def _apply_lists(self, values: list[Any], wanted: Any) -> Any:
        """As `apply`, where a target may be a list of tensors with one edge each."""
        counts, edges = self.counts, self._next
        assert counts is not None
        live = [edge is not None for edge in edges]
        if wanted is not None:
            live = [there and use for there, use in zip(live, wanted, strict=True)]
        ends = list(itertools.accumulate(counts))
        parts = [slice(end - count, end) for count, end in zip(counts, ends, strict=True)]
        out: list[Any] = [None] * len(edges)
        for step in self.plan.steps:
            needs = tuple([True in live[parts[t]] for t in step.targets])
            if True not in needs:
                continue
            if step.needs_at is not None:
                values[step.needs_at] = needs
            grads = step.function(*step.pick(values))
            for target, grad in zip(step.targets, (grads,) if step.single else grads, strict=True):
                if self.entry.lists[target]:
                    if grad is not None:
                        out[parts[target]] = grad
                else:
                    out[parts[target].start] = grad
        if False in live:
            return [grad if use else None for grad, use in zip(out, live, strict=True)]
        return out

    def __getattr__(self, name: str) -> Any:
        """`_saved_self`, `_raw_saved_result`, ...: saved_tensor.py puts its own method here."""
        raise AttributeError(f"{self.name()} has no attribute {name}")


_SCOPE: dict[str, Any] = {
    "__name__": __name__,  # captures look into functions of others alone
    "FREED": FREED,
    "second_time": second_time,
    "zeros": zeros,
}


def write(entry: Entry, plan: Plan) -> None:
    """Write the functions of a plan, if they are not there."""
    if plan.fetch is None:
        prepare(plan)
    if plan.values is None:
        write_plan(plan, len(entry.targets), _SCOPE)


def node_class(entry: Entry) -> type[OpNode]:
    """The class of the nodes of an entry, whose name is that of the node."""
    if entry.node_class is None:
        entry.node_class = type(
            entry.node_name,
            (OpNode,),
            {
                "__slots__": (),
                "__module__": OpNode.__module__,
                "__doc__": f"A recorded call of {entry.op.name}.",
            },
        )
    found: type[OpNode] = entry.node_class
    return found

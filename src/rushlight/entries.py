"""Entries: the compiled forms of a function, how they are built of a captured call and how they run.

A captured call becomes one program, or two that are one node of the tape if results require grad. To run an
entry is to fill the program's inputs from the arguments, their gradients, tensors from elsewhere and numbers,
and then to do what the function did besides computing: write to the caller's tensors, set gradients, return
views and aliases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from sys import getrefcount
from typing import Any

import numpy as np

from .autograd.function import Function
from .backend import Artifact, compile_graph
from .capture.decompose import decompose
from .capture.guards import Environment
from .capture.numbers import LiveInputs
from .capture.partition import extract, partition
from .capture.program import CapturedCall, Leaf
from .capture.random import Draws
from .core.dispatch import call as run_operator
from .core.dispatch import run_name
from .core.garbage import uncollected
from .core.modes import MODES
from .core.pytree import LEAF
from .core.tensor import Tensor, alias, wrap
from .logs import logger
from .runtime.invoke import Invoker, Source, available


def describe(tensor: Tensor) -> Any:
    array = tensor._array
    if tensor._parts is not None:
        return tensor.shape, tensor.dtype, tensor.layout, tensor.requires_grad
    if array is None:
        return tensor.shape, tensor.dtype, tensor.strides(), tensor.device
    return (
        array.shape,
        array.strides,
        tensor.dtype,
        tensor.requires_grad,
        tensor._offset,
        tensor._conj,
        tensor._neg,
        type(tensor),
    )


@dataclass(frozen=True, eq=False)
class GradientOf:
    """A source that is the gradient of a leaf: of an argument, given by its number, or of another tensor."""

    leaf: int | Tensor
    looks: Any  # as `describe` gives them

    def find(self, tensors: Sequence[Tensor]) -> Any:
        return (tensors[self.leaf] if isinstance(self.leaf, int) else self.leaf)._grad


@dataclass
class Entry:
    """One compiled form of a function."""

    call: CapturedCall
    artifact: Artifact
    backward: Artifact | None
    outputs: int  # how many outputs of the forward program are results; the others are saved for backward
    # for each source: the number of the tensor argument it is, or whose gradient it is, or None
    arguments: list[int | GradientOf | None]
    # tensors from elsewhere and what they must look like
    captured: list[tuple[Tensor, Any]] = field(default_factory=list)
    # leaves that the program uses, and whether they had a gradient
    grads: list[tuple[int | Tensor, bool]] = field(default_factory=list)
    environment: Environment = field(default_factory=lambda: Environment([]))

    def __post_init__(self) -> None:
        call = self.call
        self.live: LiveInputs = call.live
        # No effect but new tensors.
        effects = (call.writes, call.gradients, call.draws, call.changes, call.replaced, call.flags)
        self.pure = not (any(effects) or self.live.fills)
        # outputs whose gradients the backward program takes, in its order
        self.differentiated = list(dict.fromkeys(
            leaf.index for leaf in call.leaves if leaf.kind == "value" and leaf.requires_grad))
        self.taken = taken_over(call)
        # inputs that the program itself writes to, if they are in memory that is reached through them alone
        self.updated = self.artifact.executable.updates
        self.invoker: Invoker | None = None  # the native callable, made when the entry is used again
        self.gradients = [a for a in self.arguments if isinstance(a, GradientOf)]
        self.single = call.structure == LEAF and [leaf.kind for leaf in call.leaves] == ["value"]
        self.quick = (
            self.backward is None and self.pure and not self.live.guarded and not self.grads
            and all(leaf.kind == "value" for leaf in call.leaves)
            and not self.gradients
        )

    def change(self, tensors: Sequence[Tensor], leaves: Sequence[Any]) -> str | None:
        """Why this entry does not serve a call whose key is right; None if it does."""
        for tensor, looks in self.captured:
            if describe(tensor) != looks:
                return "a captured tensor changed its shape, dtype, strides or requires_grad"
        for place, had in self.grads:
            leaf = tensors[place] if isinstance(place, int) else place
            if (leaf._grad is not None) != had:
                return "a gradient is there that was not" if not had else "a gradient is no longer there"
        for gradient in self.gradients:
            grad = gradient.find(tensors)
            if grad is None or describe(grad) != gradient.looks:
                return "a gradient has another dtype, layout or requires_grad"
        if self.live.guarded and not self.live.holds(self.live.read(leaves)):
            return f"a number has another value: {', '.join(self.live.guards)}"
        return self.environment.change()

    def holds(self, tensors: Sequence[Tensor], leaves: Sequence[Any]) -> bool:
        """`change` is None, quicker."""
        if self.environment.places and not self.environment.holds():
            return False
        for tensor, looks in self.captured:
            array = tensor._array
            if array is None or len(looks) != 8:
                return False
            shape, strides, dtype, requires_grad, offset, conj, neg, kind = looks
            if (array.shape != shape or array.strides != strides or tensor.dtype is not dtype
                    or tensor.requires_grad is not requires_grad or tensor._offset != offset
                    or tensor._conj is not conj or tensor._neg is not neg or type(tensor) is not kind):
                return False
        for place, had in self.grads:
            leaf = tensors[place] if isinstance(place, int) else place
            if (leaf._grad is not None) != had:
                return False
        for gradient in self.gradients:
            if describe(gradient.find(tensors)) != gradient.looks:
                return False
        return not self.live.guarded or self.live.holds(self.live.read(leaves))


# Building.

def decompose_call(call: CapturedCall) -> None:
    """Replace operators of its graph by simpler ones."""
    replaced = decompose(call.graph)
    call.backward = [None if grad is None else replaced.get(grad, grad) for grad in call.backward]


@uncollected()
def build_entry(call: CapturedCall, tensors: list[Tensor], *, use_cache: bool = True) -> Entry:
    """Compile a captured call."""
    graph = call.graph
    logger("graph").info("captured\n%s", graph)
    decompose_call(call)
    results = list(graph.outputs)
    backward = None
    if call.tangents:
        wanted = [g for g in call.backward if g is not None]
        halves = partition(graph, results, call.tangents, wanted)
        forward = compile_graph(halves.forward, use_cache=use_cache)
        backward = compile_graph(halves.backward, use_cache=use_cache)
    else:
        whole = extract(graph, list(graph.inputs), results)
        taken = taken_over(call)
        # not of tensors with gaps: a copy of one has not the memory that the program writes to
        whole.updates = {output: source for source, output in call.writes if output in taken
                         and call.sources[source]._array.shape == graph.inputs[source].shape}
        forward = compile_graph(whole, use_cache=use_cache)
    where = {id(tensor): i for i, tensor in enumerate(tensors)}
    owners: dict[int, int | GradientOf] = {
        id(grad): GradientOf(where.get(id(leaf), leaf), describe(grad))
        for leaf, grad in call.leaves_used if grad is not None}
    placed = owners | where
    arguments = [placed.get(id(s)) for s in call.sources]
    captured = [(s, describe(s)) for s, a in zip(call.sources, arguments, strict=True)
                if isinstance(s, Tensor) and a is None]
    captured += [(c.target, describe(c.target)) for c in call.changes if id(c.target) not in where]
    call.versions = [(placed.get(id(tensor), tensor), count) for tensor, count in call.versions]
    call.flags = [(where[id(tensor)], flag) for tensor, flag in call.flags]
    call.replaced = [(where.get(id(target), target), _placed(leaf, where)) for target, leaf in call.replaced]
    call.changes = [replace(c, target=where.get(id(c.target), c.target)) for c in call.changes]
    grads: list[tuple[int | Tensor, bool]] = [
        (where.get(id(leaf), leaf), grad is not None) for leaf, grad in call.leaves_used]
    call.differentiable = [placed.get(id(tensor), tensor) for tensor in call.differentiable]
    call.leaves = [_placed(leaf, where) for leaf in call.leaves]
    call.gradients = [(where.get(id(target), target), _placed(leaf, where))
                      for target, leaf in call.gradients]
    # the tensors of this call are of no use to others, and their memory is the caller's
    call.sources = [s if a is None else None for s, a in zip(call.sources, arguments, strict=True)]
    call.leaves_used = []
    return Entry(call, forward, backward, len(results), arguments, captured, grads)


def _placed(leaf: Leaf, where: dict[int, int]) -> Leaf:
    """A leaf that is a tensor of the caller, with its place among the arguments."""
    if isinstance(leaf.of, Tensor):
        leaf = replace(leaf, of=where.get(id(leaf.of), leaf.of))
    if not isinstance(leaf.python, Tensor) or leaf.kind not in ("alias", "given"):
        return leaf
    return replace(leaf, python=None, given=where.get(id(leaf.python), leaf.python))


def make_invoker(entry: Entry, tensors: Sequence[Tensor]) -> Invoker | None:
    """A native callable for an entry that has no effects, if there can be one."""
    executable = entry.artifact.executable
    if not executable.native or not available() or MODES.inference:
        return None
    sources = []
    for source, argument, slot in zip(entry.call.sources, entry.arguments, executable.inputs, strict=True):
        example = source if argument is None else tensors[argument]  # type: ignore[index]
        if example._array is None or example._keys > 1 or example._base is not None:
            return None
        which = argument if isinstance(argument, int) else -1
        sources.append(Source(which, source, example, slot))
    used = {source.which for source in sources}
    for i, tensor in enumerate(tensors):  # an argument that the program does not use must still look the same
        if i not in used:
            if tensor._array is None or tensor._keys > 1 or tensor._base is not None:
                return None
            sources.append(Source(i, None, tensor, None))
    return executable.invoker(len(tensors), sources, tensors=True, single=entry.single)


# Running.

def finish_quick(entry: Entry, found: Any) -> Any:
    """The result of a native call that is not a single tensor."""
    if type(found) is int:
        entry.artifact.executable.report(found)
    return entry.call.structure.unflatten([found[leaf.index] for leaf in entry.call.leaves])


def run_entry(entry: Entry, tensors: Sequence[Tensor], leaves: Sequence[Any]) -> Any:
    """Run a compiled form on the leaves of a call, of which `tensors` are the tensors."""
    call = entry.call
    numbers = entry.live.read(leaves) if entry.live.roots else []
    sources: list[Any] = []
    for place, source in zip(entry.arguments, call.sources, strict=True):
        if place is None:
            sources.append(source)
        elif isinstance(place, int):
            sources.append(tensors[place])
        else:
            sources.append(place.find(tensors))
    for argument, flag in call.flags:
        if flag:
            tensors[argument].requires_grad_()
    shared = [i for i in entry.updated.values() if not _may_update(sources[i])]
    arrays = [_array(entry, source, numbers) for source in sources]
    for i in shared:
        arrays[i] = arrays[i].copy(order="K")
    if entry.backward is None:
        found = entry.artifact.executable.run(arrays)
        for i in shared:
            np.copyto(sources[i]._array, arrays[i])
        updated = entry.updated  # nobody asks for these outputs
        outputs: list[Any] = [None if i in updated else wrap(array) for i, array in enumerate(found)]
        del found
    else:
        different = [_found(place, tensors) for place in call.differentiable]
        results = _Differentiable.apply(entry, arrays, *different)
        outputs = list(results) if isinstance(results, tuple) else [results]
    del arrays  # nothing but its owner shall hold the memory of a tensor that is written
    _write_back(entry, sources, outputs)
    returned = [_returned(leaf, tensors, sources, outputs, numbers) for leaf in call.leaves]
    for target, leaf in call.gradients:
        owner = tensors[target] if isinstance(target, int) else target
        owner._grad = _returned(leaf, tensors, sources, outputs, numbers)
    _change(call, tensors, [_returned(leaf, tensors, sources, outputs, numbers) for _, leaf in call.replaced])
    return call.structure.unflatten(returned)


def _change(call: CapturedCall, tensors: Sequence[Tensor], data: list[Tensor]) -> None:
    """What the program did to the caller's tensors besides writing to their memory."""
    for place, count in call.versions:
        _found(place, tensors).version_counter.value += count
    for change in call.changes:
        change.apply(_found(change.target, tensors))
    for (place, _), value in zip(call.replaced, data, strict=True):
        _found(place, tensors).data = value
    for argument, flag in call.flags:
        if not flag:
            tensors[argument].requires_grad_(False)


def _found(place: Any, tensors: Sequence[Tensor]) -> Tensor:
    """A tensor of the caller: an argument, given by its number, the gradient of one, or itself."""
    if isinstance(place, int):
        return tensors[place]
    found: Tensor = place.find(tensors) if isinstance(place, GradientOf) else place
    return found


def _array(entry: Entry, source: Any, numbers: list[Any]) -> np.ndarray:
    if isinstance(source, Tensor):
        assert source._array is not None
        return source._array  # conjugation is part of the graph
    return source.fill() if isinstance(source, Draws) else entry.live.fill(source, numbers)


class _Differentiable(Function):
    """The forward and backward programs as one node of the tape."""

    @staticmethod
    def forward(ctx: Any, entry: Entry, inputs: list[np.ndarray], *different: Tensor) -> Any:
        arrays = entry.artifact.executable.run(inputs)
        outputs = [wrap(array) for array in arrays[:entry.outputs]]
        ctx.entry = entry
        ctx.saved = arrays[entry.outputs:]
        ctx.set_materialize_grads(True)
        wanted = entry.differentiated
        ctx.mark_non_differentiable(*[output for i, output in enumerate(outputs) if i not in wanted])
        return tuple(outputs) if len(outputs) != 1 else outputs[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        entry: Entry = ctx.entry
        tangents = [np.ascontiguousarray(grads[i].numpy_array()) for i in entry.differentiated]
        assert entry.backward is not None
        arrays = iter(entry.backward.executable.run([*ctx.saved, *tangents]))
        return (None, None, *[None if g is None else wrap(next(arrays)) for g in entry.call.backward])


def _write_back(entry: Entry, sources: list[Any], outputs: list[Tensor]) -> None:
    """What the program wrote to the caller's tensors.

    A tensor that nobody else shares memory with takes over the array that was computed; into others it is
    copied.
    """
    for source, output in entry.call.writes:
        target = sources[source]
        if output in entry.updated:
            continue
        new = outputs[output]._array
        assert new is not None
        if output in entry.taken and _sole_owner(target) and new.strides == target._array.strides:
            target._array, target._storage = new, None
        else:
            np.copyto(_whole(target._array, new), new)


def _whole(array: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The memory that `new` is the contents of: of an array with gaps, all from its first element to its
    last.
    """
    if array.shape == new.shape:
        return array
    return np.lib.stride_tricks.as_strided(array, new.shape, new.strides)


def taken_over(call: CapturedCall) -> set[int]:
    """Outputs that are nothing but the new contents of one tensor."""
    used = {leaf.index for leaf in (*call.leaves, *(leaf for _, leaf in (*call.gradients, *call.replaced)))
            if leaf.kind in ("value", "view")}
    written = [output for _, output in call.writes]
    return {output for output in written if output not in used and written.count(output) == 1}


def _may_update(tensor: Tensor) -> bool:
    """Whether a program may write to the memory of `tensor` while it runs: no other input has a part in it.
    """
    return _sole_owner(tensor) and tensor._array.flags.writeable  # type: ignore[union-attr]


def _sole_owner(tensor: Tensor) -> bool:
    """Whether the memory of `tensor` can be reached through it alone.

    Every way to share memory holds a reference: views and detached tensors to the Storage, NumPy and DLPack
    to the array or to the array that owns its bytes.
    """
    storage, array = tensor._storage, tensor._array
    if tensor._base is not None or tensor._offset or type(array) is not np.ndarray:
        return False
    owner = array.base
    held = 0  # references by the storage
    if storage is not None:
        if getrefcount(storage) != 3:
            return False
        buffer = storage.buffer
        base = array if owner is None else owner
        if buffer is None or getrefcount(buffer) != 3 or buffer.base is not base:
            return False
        del base
        held = 1
    if owner is None:
        return getrefcount(array) == 3 + held
    return type(owner) is np.ndarray and owner.base is None and getrefcount(array) == 3 \
        and getrefcount(owner) == 3 + held


def _returned(leaf: Leaf, tensors: Sequence[Tensor], sources: list[Any], outputs: list[Tensor],
              numbers: list[Any]) -> Any:
    if leaf.kind == "value":
        return outputs[leaf.index]
    if leaf.kind == "view":
        assert leaf.spec is not None
        return alias(outputs[leaf.index], leaf.spec)
    if leaf.kind == "python":
        return leaf.python
    if leaf.kind == "number":
        return leaf.python(numbers)
    given = tensors[leaf.given] if isinstance(leaf.given, int) else leaf.given
    if leaf.kind == "given":
        return given
    source = sources[leaf.index]
    viewed = source if leaf.of is None else _found(leaf.of, tensors)
    if leaf.kind == "replayed":
        for op, rest in leaf.python:
            viewed = run_operator(op, (viewed, *rest))
        return viewed
    spec = leaf.spec
    assert spec is not None
    if given is not None:
        return given
    offset = spec.offset + source.storage_offset()
    if leaf.requires_grad:
        return run_name("as_strided", viewed, spec.known_shape(), spec.known_strides(), offset)
    return alias(source, replace(spec, offset=offset))

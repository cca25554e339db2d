"""`rushlight.compile`: a function becomes native code, once for every kind of call.

    capture -> decompose -> joint graph, partition -> backend (graph passes, lower, schedule, code generation,
    JIT) -> run

A call is described by a key: the structure of its arguments, the shapes, dtypes, strides, aliasing and
requires_grad of its tensors, the types of its numbers, the values of everything else, and the modes it runs
under. A new key compiles a new entry. An entry also guards on what the function took from elsewhere: tensors,
values of Python variables, numbers whose value it needed (capture/guards.py, capture/numbers.py). A program
that cannot be captured whole runs eagerly (capture/tentative.py), or raises under `fullgraph=True`.

A call of plain tensors takes the short way: the native callable of the entry used last looks at the arguments
itself (runtime/invoke.py).
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from sys import getrefcount
from typing import Any

import numpy as np

from .autograd.function import Function
from .backend import Artifact, compile_graph
from .capture.decompose import decompose
from .capture.guards import Environment, environment_of
from .capture.numbers import LiveInputs
from .capture.partition import extract, partition
from .capture.program import CapturedCall, Leaf, capture_call, try_capture
from .capture.random import Draws
from .core import dtypes
from .core.autocast import autocast_key
from .core.dispatch import AMBIENT, run_name
from .core.dispatch import call as run_operator
from .core.modes import MODES
from .core.nested import NestedTensor
from .core.pytree import LEAF, TreeSpec, flatten
from .core.tensor import TRACED, Tensor, alias, wrap
from .logs import logger
from .runtime import guards
from .runtime.invoke import Invoker, Source, available

MOST_ENTRIES = 64  # for one key, of which the oldest are dropped
MOST_LENGTHS = 16  # batches of nested rows; with other lengths than these it runs eagerly
MOST_CHANGES = 16  # recompilations for one key because of values from elsewhere; then it runs eagerly


@dataclass(frozen=True, eq=False)
class GradientOf:
    """A source that is the gradient of a leaf: of an argument, given by its number, or of another tensor."""

    leaf: int | Tensor
    looks: Any  # as `_describe` gives them

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
        self.pure = not (call.writes or call.gradients or call.draws or self.live.fills)
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
            if _describe(tensor) != looks:
                return "a captured tensor changed its shape, dtype, strides or requires_grad"
        for place, had in self.grads:
            leaf = tensors[place] if isinstance(place, int) else place
            if (leaf._grad is not None) != had:
                return "a gradient is there that was not" if not had else "a gradient is no longer there"
        for gradient in self.gradients:
            grad = gradient.find(tensors)
            if grad is None or _describe(grad) != gradient.looks:
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
            if _describe(gradient.find(tensors)) != gradient.looks:
                return False
        return not self.live.guarded or self.live.holds(self.live.read(leaves))


class CompiledFunction:
    """A compiled function. `entries` are its compiled forms by key."""

    def __init__(self, function: Callable[..., Any], fullgraph: bool) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.fullgraph = fullgraph
        self.entries: dict[Any, list[Entry]] = {}
        self.reasons: list[str] = []  # why each entry was compiled
        self.eager: dict[Any, str] = {}  # keys of calls that run eagerly, and why
        # of the entry used last: its native callable, itself, and the ambient state it is for; read and
        # replaced as one, since calls run in several threads
        self._fast: tuple[Any, Entry, tuple[Any, ...]] | None = None
        self._changes: dict[Any, int] = {}
        self._lock = threading.RLock()
        _functions.add(self)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fast = self._fast
        if fast is not None and not kwargs:
            native, entry, states = fast
            if (not AMBIENT_STATE or _states() == states) and (
                    not entry.environment.places or entry.environment.holds()):
                found = native(*args)
                if type(found) is Tensor:
                    return found
                if found is not NotImplemented:
                    return _finish_quick(entry, found)
        return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, structure = _leaves(args, kwargs)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if AMBIENT.keys & TRACED or any(t._keys & TRACED for t in tensors):
            return self.function(*args, **kwargs)
        key = _key(leaves, structure)
        if key in self.eager:
            return self.function(*args, **kwargs)
        entry = self._find(key, tensors, leaves)
        if entry is None:
            with self._lock:
                entry = self._find(key, tensors, leaves)
                if entry is None:
                    entry, result = self._compile(key, args, kwargs, tensors, leaves)
            if entry is None:
                return result
        aliasing = key[2]  # an entry for arguments that share memory serves no others
        plain = structure == len(args) == len(tensors)  # no containers, whose parts look like arguments
        if entry.quick and not aliasing and not kwargs and plain:
            self._prepare(entry, tensors)
        return run_entry(entry, tensors, leaves)

    def _find(self, key: Any, tensors: list[Tensor], leaves: list[Any]) -> Entry | None:
        for entry in reversed(self.entries.get(key, ())):  # what was compiled last is what runs now
            if entry.holds(tensors, leaves):
                return entry
        return None

    def _prepare(self, entry: Entry, tensors: list[Tensor]) -> None:
        """Let the next call like this one find its entry at once."""
        if guards.enabled():
            return
        if entry.invoker is None:
            entry.invoker = _invoker(entry, tensors)
        if entry.invoker is not None:
            self._fast = (entry.invoker.call, entry, _states())

    def _forget(self) -> None:
        """The default dtype or the guard mode, which the short way does not look at, has changed."""
        self._fast = None

    def _compile(self, key: Any, args: Any, kwargs: Any, tensors: list[Tensor],
                 leaves: list[Any]) -> tuple[Entry | None, Any]:
        """A new entry; or None and the result of the call, for a program that has no graph."""
        reason = self._reason(key, tensors, leaves)
        if (_ragged(key[0]) and not self.fullgraph
                and sum(_ragged(known[0]) for known in self.entries) >= MOST_LENGTHS):
            self.eager["nested tensors"] = f"compiled for {MOST_LENGTHS} batches of rows of different lengths"
            return None, self.function(*args, **kwargs)
        if self._changes.get(key, 0) >= MOST_CHANGES and not self.fullgraph:
            self.eager[key] = f"compiled {MOST_CHANGES} times for values that keep changing; last: {reason}"
            logger("recompile").warning("%s runs eagerly: %s", self.function, self.eager[key])
            return None, self.function(*args, **kwargs)
        environment = environment_of(self.function, (args, kwargs))
        if self.fullgraph:
            call = capture_call(self.function, args, kwargs)
        else:
            found, result, problem = try_capture(self.function, args, kwargs)
            if found is None:
                self.eager[key] = str(problem)
                logger("breaks").info("%s runs eagerly: %s", self.function, problem)
                return None, result
            call = found
        entry = build_entry(call, tensors)
        entry.environment = environment.without_numbers_of(call.live.containers)
        self.reasons.append(reason)
        logger("recompile").info("compiled %s: %s", self.function, reason)
        entries = self.entries.setdefault(key, [])
        self._changes[key] = len(entries)
        entries.append(entry)
        del entries[:-MOST_ENTRIES]
        return entry, None

    def _reason(self, key: Any, tensors: list[Tensor], leaves: list[Any]) -> str:
        if not self.entries:
            return "first call"
        if key in self.entries:
            return self.entries[key][-1].change(tensors, leaves) or "new arguments"
        nearest = min(self.entries, key=lambda known: sum(a != b for a, b in zip(known, key, strict=True)))
        return _difference(nearest, key)


_functions: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()


def _forget_all() -> None:
    for function in list(_functions):
        function._forget()


dtypes.on_default_change(_forget_all)
guards.on_change(_forget_all)


KEY_PARTS = ("the structure of the arguments", "an argument", "the aliasing of the arguments",
             "the modes (grad, inference, default dtype, autocast)")


def _difference(known: Any, key: Any) -> str:
    """In what a call differs from one that is compiled, in words."""
    for name, old, new in zip(KEY_PARTS, known, key, strict=True):
        if old == new:
            continue
        if name != "an argument":
            return f"{name} changed from {old} to {new}"
        i, before, after = next((i, a, b) for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)
        return f"argument {i} changed from {_in_words(before)} to {_in_words(after)}"
    return "new arguments"


def _in_words(described: Any) -> str:
    if isinstance(described, tuple) and len(described) == 8:
        shape, strides, dtype, requires_grad, offset, *_ = described
        steps = ", ".join(str(s // dtype.itemsize) for s in strides)
        grad = ", requires grad" if requires_grad else ""
        return f"{dtype.name}{list(shape)} with strides ({steps}) and offset {offset}{grad}"
    return repr(described[1]) if isinstance(described, tuple) and len(described) == 2 else str(described)

# Further ambient state that changes what a program does: functions that give a hashable value each.
AMBIENT_STATE: list[Callable[[], Any]] = []


def _states() -> tuple[Any, ...]:
    return tuple([state() for state in AMBIENT_STATE])


def _modes() -> tuple[Any, ...]:
    return (MODES.grad, MODES.inference, dtypes.get_default_dtype(), autocast_key(), *_states())


_FLAT = frozenset({Tensor, float, int, bool, type(None)})


def _leaves(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """The leaves of the arguments, and something that tells their structure."""
    if not kwargs and _FLAT.issuperset(map(type, args)):
        return list(args), len(args)
    return flatten((args, kwargs), records=True)


def _ragged(structure: Any) -> bool:
    """Whether there is a nested tensor among the arguments."""
    return isinstance(structure, TreeSpec) and (
        structure.type is NestedTensor or any(_ragged(child) for child in structure.children))


def _key(leaves: list[Any], structure: TreeSpec | int) -> Any:
    """What decides which compiled form serves a call."""
    described = tuple([_describe(leaf) if isinstance(leaf, Tensor) else _constant(leaf) for leaf in leaves])
    storages: dict[int, int] = {}
    objects: dict[int, int] = {}
    # (an argument, the first that shares memory with it, how far that is, the first that is the same tensor)
    aliasing: list[Any] = []
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            first = storages.setdefault(id(leaf if leaf._storage is None else leaf._storage), i)
            itself = objects.setdefault(id(leaf), i)
            if first != i:
                aliasing.append((i, first, leaf._offset - leaves[first]._offset, itself))
    return structure, described, tuple(aliasing), _modes()


def _describe(tensor: Tensor) -> Any:
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


def _constant(leaf: Any) -> Any:
    """A value that was specialised; kept apart from equal values of other types. Numbers are live."""
    kind = type(leaf)
    if kind is float or kind is int:
        return kind
    try:
        hash(leaf)
    except TypeError:
        return kind, id(leaf)
    return kind, repr(leaf) if isinstance(leaf, float | complex) else leaf


# Building.

def decompose_call(call: CapturedCall) -> None:
    """Replace operators of its graph by simpler ones."""
    replaced = decompose(call.graph)
    call.backward = [None if grad is None else replaced.get(grad, grad) for grad in call.backward]


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
        whole.updates = {output: source for source, output, _ in call.writes if output in taken
                         and call.sources[source]._array.shape == graph.inputs[source].shape}
        forward = compile_graph(whole, use_cache=use_cache)
    where = {id(tensor): i for i, tensor in enumerate(tensors)}
    owners: dict[int, int | GradientOf] = {
        id(grad): GradientOf(where.get(id(leaf), leaf), _describe(grad))
        for leaf, grad in call.leaves_used if grad is not None}
    arguments = [(owners | where).get(id(s)) for s in call.sources]
    captured = [(s, _describe(s)) for s, a in zip(call.sources, arguments, strict=True)
                if isinstance(s, Tensor) and a is None]
    grads: list[tuple[int | Tensor, bool]] = [
        (where.get(id(leaf), leaf), grad is not None) for leaf, grad in call.leaves_used]
    placed = owners | where
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
    if not isinstance(leaf.python, Tensor) or leaf.kind not in ("alias", "given"):
        return leaf
    return replace(leaf, python=None, given=where.get(id(leaf.python), leaf.python))


def _invoker(entry: Entry, tensors: Sequence[Tensor]) -> Invoker | None:
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

def _finish_quick(entry: Entry, found: Any) -> Any:
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
        different = [tensors[place] if isinstance(place, int) else
                     place.find(tensors) if isinstance(place, GradientOf) else place
                     for place in call.differentiable]
        results = _Differentiable.apply(entry, arrays, *different)
        outputs = list(results) if isinstance(results, tuple) else [results]
    del arrays  # nothing but its owner shall hold the memory of a tensor that is written
    _write_back(entry, sources, outputs)
    returned = [_returned(leaf, tensors, sources, outputs, numbers) for leaf in call.leaves]
    for target, leaf in call.gradients:
        owner = tensors[target] if isinstance(target, int) else target
        owner._grad = _returned(leaf, tensors, sources, outputs, numbers)
    return call.structure.unflatten(returned)


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
    for source, output, writes in entry.call.writes:
        target = sources[source]
        if output in entry.updated:
            target.version_counter.value += writes
            continue
        new = outputs[output]._array
        assert new is not None
        if output in entry.taken and _sole_owner(target) and new.strides == target._array.strides:
            target._array, target._storage = new, None
        else:
            np.copyto(_whole(target._array, new), new)
        target.version_counter.value += writes


def _whole(array: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The memory that `new` is the contents of: of an array with gaps, all from its first element to its
    last.
    """
    if array.shape == new.shape:
        return array
    return np.lib.stride_tricks.as_strided(array, new.shape, new.strides)


def taken_over(call: CapturedCall) -> set[int]:
    """Outputs that are nothing but the new contents of one tensor."""
    used = {leaf.index for leaf in (*call.leaves, *(leaf for _, leaf in call.gradients))
            if leaf.kind in ("value", "view")}
    written = [output for _, output, _ in call.writes]
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
    if leaf.kind == "replayed":
        for op, rest in leaf.python:
            source = run_operator(op, (source, *rest))
        return source
    spec = leaf.spec
    assert spec is not None
    if given is not None and spec.shape == tuple(given.shape):
        return given
    offset = spec.offset + source.storage_offset()
    if leaf.requires_grad:
        return run_name("as_strided", source, spec.known_shape(), spec.known_strides(), offset)
    return alias(source, replace(spec, offset=offset))

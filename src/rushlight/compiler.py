"""`rushlight.compile`: a function becomes native code, once for every kind of call.

    capture -> joint graph, partition -> backend (graph passes, lower, schedule, code generation, JIT) -> run

A call is described by a key: the structure of its arguments, the shapes, dtypes, strides, aliasing and
requires_grad of its tensors, the values of everything else, and the modes it runs under. A new key
compiles a new entry; entries also check the
tensors that the function took from elsewhere (parameters, closures). A program that cannot be captured runs
eagerly, or raises under `fullgraph=True`.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .autograd.function import Function
from .backend import Artifact, compile_graph
from .capture.partition import extract, partition
from .capture.program import CapturedCall, Leaf, capture_call
from .capture.trace import CaptureError
from .core import dtypes
from .core.dispatch import AMBIENT
from .core.modes import MODES
from .core.pytree import LEAF, TreeSpec, flatten
from .core.tensor import TRACED, Tensor, alias, wrap

log = logging.getLogger("rushlight.compile")

MOST_ENTRIES = 64


@dataclass
class Entry:
    """One compiled form of a function."""

    call: CapturedCall
    artifact: Artifact
    backward: Artifact | None
    outputs: int  # how many outputs of the forward program are results; the others are saved for backward
    arguments: list[int | None]  # for each source: which tensor argument it is, None for one from elsewhere
    # tensors from elsewhere and what they must look like
    captured: list[tuple[Tensor, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        call = self.call
        # One new tensor from tensors of the call alone, and nothing else to do.
        self.simple = (
            self.backward is None
            and not call.writes
            and not call.gradients
            and None not in self.arguments
            and call.structure == LEAF
            and [leaf.kind for leaf in call.leaves] == ["value"]
        )

    def holds(self) -> bool:
        return all(_describe(tensor) == looks for tensor, looks in self.captured)


class CompiledFunction:
    """A compiled function. `entries` are its compiled forms by key."""

    def __init__(self, function: Callable[..., Any], fullgraph: bool) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.fullgraph = fullgraph
        self.entries: dict[Any, list[Entry]] = {}
        self.reasons: list[str] = []  # why each entry was compiled
        self.eager: dict[Any, str] = {}  # keys of calls that run eagerly, and why
        self._plain: dict[Any, Entry] = {}  # entries of calls whose arguments are tensors alone
        self._lock = threading.RLock()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and not AMBIENT.keys:
            key = _plain_key(args)
            if key is not None:
                entry = self._plain.get(key)
                if entry is not None and (not entry.captured or entry.holds()):
                    return run_entry(entry, args)
                result = self._call(args, kwargs)
                self._remember(key, args)
                return result
        return self._call(args, kwargs)

    def _remember(self, key: Any, args: tuple[Any, ...]) -> None:
        """Let the next call of plain tensors like these find its entry at once."""
        leaves, structure = flatten((args, {}))
        for entry in self.entries.get(_key(leaves, structure), ()):
            if entry.holds():
                self._plain[key] = entry

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, structure = flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if AMBIENT.keys & TRACED or any(t._keys & TRACED for t in tensors):
            return self.function(*args, **kwargs)
        key = _key(leaves, structure)
        if key in self.eager:
            return self.function(*args, **kwargs)
        for entry in self.entries.get(key, ()):
            if entry.holds():
                return run_entry(entry, tensors)
        with self._lock:
            compiled = self._compile(key, args, kwargs, tensors)
        return self.function(*args, **kwargs) if compiled is None else run_entry(compiled, tensors)

    def _compile(self, key: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> Entry | None:
        for entry in self.entries.get(key, ()):
            if entry.holds():
                return entry
        try:
            call = capture_call(self.function, args, kwargs)
        except CaptureError as error:
            if self.fullgraph:
                raise
            self.eager[key] = str(error)
            log.info("%s runs eagerly: %s", self.function, error)
            return None
        entry = build_entry(call, tensors)
        self.reasons.append(self._reason(key))
        log.info("compiled %s: %s", self.function, self.reasons[-1])
        found = self.entries.setdefault(key, [])
        found.append(entry)
        del found[:-MOST_ENTRIES]
        return entry

    def _reason(self, key: Any) -> str:
        if not self.entries:
            return "first call"
        if key in self.entries:
            return "a captured tensor changed its shape, dtype, strides or requires_grad"
        known = next(iter(self.entries))
        for name, old, new in zip(KEY_PARTS, known, key, strict=True):
            if old != new:
                return f"{name} changed from {old} to {new}"
        return "new arguments"


KEY_PARTS = ("the structure of the arguments", "an argument", "the aliasing of the arguments", "the modes")


def _plain_key(args: tuple[Any, ...]) -> Any:
    """A quick key for a call of plain tensors that share no memory; None for any other call."""
    parts: list[Any] = [MODES.grad, MODES.inference, dtypes.get_default_dtype()]
    for arg in args:
        if type(arg) is not Tensor or arg._array is None or arg._storage is not None or arg._keys > 1:
            return None
        array = arg._array
        parts.append((array.shape, array.strides, arg.dtype, arg._keys))
    return tuple(parts)


def _key(leaves: list[Any], structure: TreeSpec) -> Any:
    """What decides which compiled form serves a call."""
    described = tuple([_describe(leaf) if isinstance(leaf, Tensor) else _constant(leaf) for leaf in leaves])
    storages: dict[int, int] = {}
    aliasing: list[Any] = []
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor) and leaf._storage is not None:
            first = storages.setdefault(id(leaf._storage), i)
            aliasing.append((first, leaf._offset - leaves[first]._offset) if first != i else None)
    return structure, described, tuple(aliasing), (MODES.grad, MODES.inference, dtypes.get_default_dtype())


def _describe(tensor: Tensor) -> Any:
    array = tensor._array
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
    )


def _constant(leaf: Any) -> Any:
    """A value that was specialised; kept apart from equal values of other types."""
    try:
        hash(leaf)
    except TypeError:
        return type(leaf), id(leaf)
    return type(leaf), repr(leaf) if isinstance(leaf, float | complex) else leaf


# Building.

def build_entry(call: CapturedCall, tensors: list[Tensor]) -> Entry:
    """Compile a captured call."""
    graph = call.graph
    results = list(graph.outputs)
    backward = None
    if call.tangents:
        wanted = [g for g in call.backward if g is not None]
        halves = partition(graph, results, call.tangents, wanted)
        forward = compile_graph(halves.forward)
        backward = compile_graph(halves.backward)
    else:
        forward = compile_graph(extract(graph, list(graph.inputs), results))
    where = {id(tensor): i for i, tensor in enumerate(tensors)}
    arguments = [where.get(id(source)) for source in call.sources]
    captured = [
        (source, _describe(source)) for source, i in zip(call.sources, arguments, strict=True) if i is None
    ]
    return Entry(call, forward, backward, len(results), arguments, captured)


# Running.

def run_entry(entry: Entry, tensors: Sequence[Tensor]) -> Any:
    """Run a compiled form on the tensors of a call."""
    if entry.simple:
        arrays: Any = [tensors[i]._array for i in entry.arguments if i is not None]
        return wrap(entry.artifact.executable.run(arrays)[0])
    sources = [source if i is None else tensors[i]
               for i, source in zip(entry.arguments, entry.call.sources, strict=True)]
    if entry.backward is None:
        outputs = [wrap(array) for array in entry.artifact.executable.run([s.numpy_array() for s in sources])]
    else:
        different = [sources[i] for i in entry.call.differentiable]
        results = _Differentiable.apply(entry, sources, *different)
        outputs = list(results) if isinstance(results, tuple) else [results]
    _write_back(entry, sources, outputs)
    return entry.call.structure.unflatten([_returned(leaf, sources, outputs) for leaf in entry.call.leaves])


class _Differentiable(Function):
    """The forward and backward programs as one node of the tape."""

    @staticmethod
    def forward(ctx: Any, entry: Entry, sources: list[Tensor], *different: Tensor) -> Any:
        arrays = entry.artifact.executable.run([s.numpy_array() for s in sources])
        outputs = [wrap(array) for array in arrays[:entry.outputs]]
        ctx.entry = entry
        ctx.saved = arrays[entry.outputs:]
        ctx.set_materialize_grads(True)
        return tuple(outputs) if len(outputs) != 1 else outputs[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        entry: Entry = ctx.entry
        wanted = [leaf.index for leaf in entry.call.leaves if leaf.kind == "value" and leaf.requires_grad]
        tangents = [np.ascontiguousarray(grads[i].numpy_array()) for i in wanted]
        assert entry.backward is not None
        arrays = iter(entry.backward.executable.run([*ctx.saved, *tangents]))
        return (None, None, *[None if g is None else wrap(next(arrays)) for g in entry.call.backward])


def _write_back(entry: Entry, sources: list[Tensor], outputs: list[Tensor]) -> None:
    """What the program wrote to the caller's tensors, and the gradients it left."""
    for source, output, writes in entry.call.writes:
        target = sources[source]
        assert target._array is not None
        np.copyto(target._array, outputs[output].numpy_array())
        target.version_counter.value += writes
    for leaf, output in entry.call.gradients:
        leaf._grad = outputs[output]


def _returned(leaf: Leaf, sources: list[Tensor], outputs: list[Tensor]) -> Any:
    if leaf.kind == "value":
        return outputs[leaf.index]
    if leaf.kind == "python":
        return leaf.python
    source = sources[leaf.index]
    assert leaf.spec is not None
    if leaf.python is not None and source._array is not None and leaf.spec.shape == source._array.shape:
        return source
    offset = leaf.spec.offset + source.storage_offset()
    return alias(source, replace(leaf.spec, offset=offset))

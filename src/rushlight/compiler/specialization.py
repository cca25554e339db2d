"""Entries: the compiled forms of a function, how they are built of a captured call and how they run.

A captured call becomes one program, or two that are one node of the tape if results require grad. To run an
entry is to fill the program's inputs from the arguments, their gradients, tensors from elsewhere and numbers,
and then to do what the function did besides computing: write to the caller's tensors, set gradients, return
views and aliases.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from sys import getrefcount
from typing import Any, Literal

import numpy as np

from ..autograd import hooks
from ..capture.differentiable import Differentiable
from ..capture.effects import settled
from ..capture.locations import NOTHING_KNOWN, Environment
from ..capture.numbers import LiveInputs
from ..capture.program import CapturedCall, Leaf
from ..capture.programs import Programs, taken_over
from ..capture.random import Draws
from ..core.dispatch import call as run_operator
from ..core.dispatch import run_name
from ..core.errors import check
from ..core.garbage import uncollected
from ..core.modes import MODES
from ..core.mutation import READ_ONLY
from ..core.passes import PassLog
from ..core.pytree import LEAF
from ..core.tensor import AUTOGRAD, Tensor, alias, wrap
from ..runtime import redzones
from ..runtime.invoke import NO_GUARDS, Invoker, Source, available
from .native_call import HELD, Step, guards_of, is_plain, make_step, may_update, target_name, write_back
from .pipeline import CALL_PASSES, Artifact, compile_graph


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


@dataclass(frozen=True, eq=False)
class Held:
    """A source that is read from a place of Python's, where the program puts another tensor."""

    container: Any
    key: Any
    looks: Any

    def find(self, tensors: Sequence[Tensor]) -> Any:
        return self.container[self.key]


def _nothing() -> None:
    """In place of a reference to an array."""


@dataclass
class Entry:
    """One compiled form of a function."""

    call: CapturedCall
    artifact: Artifact
    backward: Artifact | None
    outputs: int  # how many outputs of the forward program are results; the others are saved for backward
    # for each source: the number of the tensor argument it is, or whose gradient it is, or None
    arguments: list[int | GradientOf | Held | None]
    kept: list[int] = field(default_factory=list)  # sources that the backward program uses as they are
    # tensors from elsewhere and what they must look like
    captured: list[tuple[Tensor, Any]] = field(default_factory=list)
    # leaves that the program uses, and whether they had a gradient
    grads: list[tuple[int | Tensor, bool]] = field(default_factory=list)
    environment: Environment = field(default_factory=lambda: Environment([]))
    # arguments that the program knows from elsewhere, too: (which, the tensor)
    pinned: list[tuple[int, Tensor]] = field(default_factory=list)
    related: list[Any] = field(default_factory=list)  # arguments over memory of captured tensors

    def __post_init__(self) -> None:
        call = self.call
        self.live: LiveInputs = call.live
        # No effect but new tensors.
        effects = (
            call.writes,
            call.gradients,
            call.draws,
            call.changes,
            call.replaced,
            call.flags,
            call.stores,
        )
        self.pure = not (any(effects) or self.live.fills) and call.grad_mode is None
        # outputs whose gradients the backward program takes, in its order
        self.differentiated = list(
            dict.fromkeys(leaf.index for leaf in call.all_leaves() if leaf.differentiated)
        )
        self.taken = taken_over(call)
        # inputs that the program itself writes to, if they are in memory that is reached through them alone
        self.updated = self.artifact.executable.updates
        # the native callable for plain arguments, made when the entry is used again; False: there is none
        self.invoker: Invoker | Literal[False] | None = None
        self.step: Step | Literal[False] | None = None  # that of a program with effects; False: there is none
        self.gradients = [a for a in self.arguments if isinstance(a, GradientOf | Held)]
        self.single = call.structure == LEAF and [leaf.kind for leaf in call.leaves] == ["value"]
        self.quick = (
            self.backward is None
            and self.pure
            and not self.live.guarded
            and not self.grads
            and all(leaf.kind == "value" for leaf in call.leaves)
            and not self.gradients
            and not self.pinned
            and not self.related
            and not call.inference
            and not call.kinds
        )
        # whether the native callable of its step can do all of a call on plain arguments
        self.direct = (
            self.backward is None
            and call.grad_mode is None
            and all(leaf.kind in ("value", "python") for leaf in call.leaves)
            and not any(
                (
                    call.draws,
                    call.late,
                    call.changes,
                    call.replaced,
                    call.flags,
                    call.stores,
                    call.kinds,
                    call.inference,
                    self.grads,
                    self.gradients,
                    self.pinned,
                    self.related,
                )
            )
        )
        self.guards = guards_of(self.environment)  # for native code; None if it cannot look at all of them
        self.alone = self.quick and self.guards is not None  # the native callable leaves nothing to Python
        self._separate = bool(call.writes or self.related)  # whether it matters what shares memory
        self._seen: list[tuple[Tensor, Any, Any]] = [(tensor, _nothing, None) for tensor, _ in self.captured]
        looked = {target_name(place) for place, _ in self.grads}
        self._dropped = [target for target, _ in call.gradients if target_name(target) not in looked]
        self._fills = [
            i
            for i, source in enumerate(call.sources)
            if self.arguments[i] is None and not isinstance(source, Tensor)
        ]
        self.kinds = [call.sources[i] for i in self._fills]  # of numbers, if there are no draws
        self._given = [(i, place) for i, place in enumerate(self.arguments) if place is not None]
        self._new = [(source, output) for source, output in call.writes if output not in self.updated]
        # the hooks of leaves from elsewhere, and how often leaves had got or lost any by then
        self._hooked = [
            (tensor, hooks.hooks_of(tensor)) for tensor, _ in self.captured if tensor.requires_grad
        ]
        self._hook_changes = hooks.changes()
        self._places = {id(tensor): j for j, (tensor, _) in enumerate(self.captured)}
        self._repeated = len({id(leaf) for leaf in call.leaves}) < len(call.leaves)

    def _same_hooks(self) -> bool:
        if self._hook_changes != hooks.changes():
            if not all(_identical(hooks.hooks_of(tensor), known) for tensor, known in self._hooked):
                return False
            self._hook_changes = hooks.changes()
        return True

    def relation(self, tensors: Sequence[Tensor]) -> list[Any]:
        """Which arguments are, or share memory with, tensors from elsewhere."""
        found: list[Any] = []
        storages: dict[int, int] | None = None
        for i, tensor in enumerate(tensors):
            storage = tensor._storage
            if storage is not None and getrefcount(storage) != HELD:
                if storages is None:
                    storages = {id(t._storage): j for j, (t, _) in enumerate(self.captured)}
                j = storages.get(id(storage))
                if j is not None:
                    found.append((i, j, tensor._offset - self.captured[j][0]._offset))
            elif id(tensor) in self._places:
                found.append((i, self._places[id(tensor)], 0))
        return found

    def change(self, tensors: Sequence[Tensor], leaves: Sequence[Any]) -> str | None:
        """Why this entry does not serve a call whose key is right; None if it does."""
        for tensor, looks in self.captured:
            if describe(tensor) != looks:
                return "a captured tensor changed its shape, dtype, strides or requires_grad"
        if not self._same_hooks():
            return "a tensor has other hooks"
        for place, had in self.grads:
            leaf = tensors[place] if isinstance(place, int) else place
            if (leaf._grad is not None) != had:
                return "a gradient is there that was not" if not had else "a gradient is no longer there"
        for gradient in self.gradients:
            grad = gradient.find(tensors)
            if grad is None or describe(grad) != gradient.looks:
                return "a gradient has another dtype, layout or requires_grad"
        if any(tensors[i] is not tensor for i, tensor in self.pinned):
            return "an argument is, or was, a tensor that the function knows from elsewhere"
        if self._separate and self.relation(tensors) != self.related:
            return "an argument shares memory with another captured tensor, or no longer does"
        if self.live.guarded and not self.live.holds(self.live.read(leaves)):
            return f"a number has another value: {', '.join(self.live.guards)}"
        return self.environment.change()

    def numbers(self, tensors: Sequence[Tensor], leaves: Sequence[Any]) -> list[Any] | None:
        """The live numbers of a call that this entry serves; None for others. `change`, quicker."""
        step = self.step
        for i in step.others if step and step.looks_right() else range(len(self._seen)):
            tensor, array, flag = self._seen[i]
            # with the memory and the flag that it had when it looked right it still does
            if tensor._array is not array() or tensor._requires_grad is not flag or tensor._node is not None:
                if describe(tensor) != self.captured[i][1] or tensor._array is None:
                    return None
                self._seen[i] = tensor, weakref.ref(tensor._array), tensor._requires_grad
        if (self.environment.places and not self.environment.holds()) or not self._same_hooks():
            return None
        for place, had in self.grads:
            leaf = tensors[place] if isinstance(place, int) else place
            if (leaf._grad is not None) != had:
                return None
        for gradient in self.gradients:
            if describe(gradient.find(tensors)) != gradient.looks:
                return None
        for i, tensor in self.pinned:
            if tensors[i] is not tensor:
                return None
        if self._separate and self.captured and self.relation(tensors) != self.related:
            return None
        numbers = self.live.read(leaves) if self.live.roots else []
        return numbers if not self.live.guarded or self.live.holds(numbers) else None


def _identical(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


# Building.


@uncollected()
def build_entry(
    call: CapturedCall,
    tensors: list[Tensor],
    environment: Environment = NOTHING_KNOWN,
    *,
    use_cache: bool = True,
    log: PassLog | None = None,
) -> Entry:
    """Compile a captured call; `log` keeps what the passes over the whole call made."""
    log = log or PassLog()
    programs: Programs = log.run_all(CALL_PASSES, call)
    forward = compile_graph(programs.forward, use_cache=use_cache, keep=log.keep)
    backward = None
    if programs.backward is not None:
        backward = compile_graph(programs.backward, use_cache=use_cache, keep=log.keep)
    where = {id(tensor): i for i, tensor in enumerate(tensors)}
    owners: dict[int, int | GradientOf] = {
        id(grad): GradientOf(where.get(id(leaf), leaf), describe(grad))
        for leaf, grad in call.leaves_used
        if grad is not None
    }
    held = {id(s.old): Held(s.place, s.key, describe(s.old)) for s in call.stores if s.old is not None}
    call.stores = [replace(store, old=None) for store in call.stores]
    placed: dict[int, Any] = owners | held | where
    arguments = [placed.get(id(s)) for s in call.sources]
    captured = [
        (s, describe(s))
        for s, a in zip(call.sources, arguments, strict=True)
        if isinstance(s, Tensor) and a is None
    ]
    captured += [(c.target, describe(c.target)) for c in call.changes if id(c.target) not in where]
    call.versions = [(placed.get(id(tensor), tensor), count) for tensor, count in call.versions]
    call.flags = [(where[id(tensor)], flag) for tensor, flag in call.flags]
    call.replaced = [(where.get(id(target), target), _placed(leaf, where)) for target, leaf in call.replaced]
    call.changes = [replace(c, target=where.get(id(c.target), c.target)) for c in call.changes]
    grads: list[tuple[int | Tensor, bool]] = [
        (where.get(id(leaf), leaf), grad is not None) for leaf, grad in call.leaves_used
    ]
    call.differentiable = [placed.get(id(tensor), tensor) for tensor in call.differentiable]
    placed_leaves = {id(leaf): _placed(leaf, where) for leaf in call.leaves}
    call.leaves = [placed_leaves[id(leaf)] for leaf in call.leaves]
    call.late = [
        replace(late, args=late.mapped(Leaf, lambda leaf: _placed(leaf, where))) for late in call.late
    ]
    call.gradients = [
        (where.get(id(target), target), _placed(leaf, where)) for target, leaf in call.gradients
    ]
    # the tensors of this call are of no use to others, and their memory is the caller's
    call.sources = [s if a is None else None for s, a in zip(call.sources, arguments, strict=True)]
    call.leaves_used = []
    entry = Entry(call, forward, backward, programs.outputs, arguments, programs.kept, captured, grads)
    known = {id(value) for _, _, value, _ in environment.places if isinstance(value, Tensor)}
    related = entry.relation(tensors) if captured else []
    guards = settled(environment.without_numbers_of(call.live.containers), call.stores)
    if call.live.places:
        guards = Environment([*guards.places, *call.live.places])
    pinned = [(i, t) for i, t in enumerate(tensors) if id(t) in known]
    return replace(entry, environment=guards, pinned=pinned, related=related)


def _placed(leaf: Leaf, where: dict[int, int]) -> Leaf:
    """A leaf that is a tensor of the caller, with its place among the arguments."""
    if isinstance(leaf.of, Tensor):
        leaf = replace(leaf, of=where.get(id(leaf.of), leaf.of))
    if not isinstance(leaf.python, Tensor) or leaf.kind not in ("alias", "given"):
        return leaf
    return replace(leaf, python=None, given=where.get(id(leaf.python), leaf.python))


def make_invoker(entry: Entry, tensors: Sequence[Tensor]) -> Invoker | Literal[False] | None:
    """A native callable that takes plain arguments, if there can be one for these; False: not for others
    either."""
    return _make_quick(entry, tensors) if entry.quick else _make_direct(entry, tensors)


def _make_direct(entry: Entry, tensors: Sequence[Tensor]) -> Invoker | Literal[False] | None:
    """A native callable for an entry with effects, of which it does all but to read the numbers.

    Arguments that require no gradient may share memory with others: what is written to does not.
    """
    if not entry.step or not entry.direct or entry.guards is None:
        return None if entry.step is None else False
    if not all(is_plain(tensor) and not tensor._keys for tensor in tensors):
        return None
    numbers = entry.live.filled(entry.kinds)
    return None if numbers is None else entry.step.direct(entry, tensors, numbers, entry.guards) or False


def _make_quick(entry: Entry, tensors: Sequence[Tensor]) -> Invoker | None:
    """A native callable for an entry that has no effects."""
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
    return executable.invoker(
        len(tensors),
        sources,
        tensors=True,
        single=entry.single and entry.outputs == 1,
        guards=entry.guards or NO_GUARDS,
    )


# Running.


def run_directly(entry: Entry, native: Any, args: tuple[Any, ...]) -> Any:
    """A call of a native callable that leaves something to Python: its result; NotImplemented if it was
    refused, and nothing is done."""
    if entry.quick:
        return native(*args) if entry.environment.holds() else NotImplemented
    if MODES.transforming or MODES.traces or MODES.dual_levels:
        return NotImplemented
    numbers = entry.live.filled(entry.kinds)
    return NotImplemented if numbers is None else native(*args, *numbers)


def finish_directly(entry: Entry, found: Any) -> Any:
    """The result of such a call that is not a single tensor."""
    if type(found) is int:
        entry.artifact.executable.report(found)
    outputs = dict(zip(entry.step.listed, found, strict=True)) if entry.step else found
    return entry.call.structure.unflatten(
        [outputs[leaf.index] if leaf.kind == "value" else leaf.python for leaf in entry.call.leaves]
    )


def run_entry(entry: Entry, tensors: Sequence[Tensor], numbers: list[Any], arguments: Any = ((), {})) -> Any:
    """Run a compiled form on the tensors and the live numbers of a call."""
    call = entry.call
    sources: list[Any] = list(call.sources)
    for i, place in entry._given:
        sources[i] = tensors[place] if isinstance(place, int) else place.find(tensors)
    if not entry.step or call.draws or redzones.enabled():  # a step looks itself; but before it draws
        _check_writes(call, sources)
    for argument, flag in call.flags:
        if flag:
            tensors[argument]._set_requires_grad()
    for i in entry._fills:
        sources[i] = _filled(entry, sources[i], numbers)
    # gradients whose writes are counted, which may be gone afterwards
    written = {id(place): place.find(tensors) for place, _ in call.versions if isinstance(place, GradientOf)}
    outputs, writes, gradients, counts = _computed(entry, tensors, sources)
    write_back(entry, sources, outputs, writes)
    late: list[Any] = []

    def given(leaf: Leaf) -> Any:
        if leaf.kind == "late":
            return late[leaf.index] if leaf.python is None else late[leaf.index][leaf.python]
        return _returned(leaf, tensors, sources, outputs, numbers)

    for later in call.late:
        late.append(later.run(later.mapped(Leaf, given)))
    if entry._repeated:
        once = {id(leaf): given(leaf) for leaf in call.leaves}
        returned = [once[id(leaf)] for leaf in call.leaves]
    else:
        returned = [given(leaf) for leaf in call.leaves]
    for i, kind in call.kinds.items():
        returned[i] = returned[i].as_subclass(kind)
    for i in call.inference:
        returned[i]._inference, returned[i]._keys = True, returned[i]._keys | AUTOGRAD
    for target, leaf in gradients:
        owner = tensors[target] if isinstance(target, int) else target
        owner._grad = given(leaf)
    counts = [(written.get(id(place), place), count) for place, count in counts]
    _change(call, tensors, counts, [given(leaf) for _, leaf in call.replaced])
    result = call.structure.unflatten(returned)
    if call.grad_mode is not None:
        MODES.grad = call.grad_mode
    if call.stores:
        result, values = result
        for store, value in zip(call.stores, values, strict=True):
            store.put(value, arguments)
    return result


def _computed(entry: Entry, tensors: Sequence[Tensor], sources: list[Any]) -> tuple[Any, Any, Any, Any]:
    """Run the program. The outputs by number, and which writes, gradients and counts of writes are left."""
    call = entry.call
    if entry.step is None and not redzones.enabled():
        entry.step = make_step(entry, sources) or False
    step = entry.step
    if step and not redzones.enabled():
        for i, _ in step.writes:
            check(sources[i]._array.flags.writeable, READ_ONLY)
        _drop(step.dropped, tensors)
        outputs: Any = step.run(tensors, sources)
        if outputs is not None:
            return outputs, step.writes, step.gradients, step.counts
        _check_writes(call, sources)
    shared = [i for i in entry.updated.values() if not may_update(sources[i])]
    _drop(entry._dropped, tensors)
    arrays: list[Any] = [s._array if isinstance(s, Tensor) else s for s in sources]
    for i in shared:
        arrays[i] = arrays[i].copy(order="K")
    if entry.backward is None:
        found = entry.artifact.executable.run(arrays)
        for i in shared:
            np.copyto(sources[i]._array, arrays[i])
        updated = entry.updated  # nobody asks for these outputs
        outputs = [None if i in updated else wrap(array) for i, array in enumerate(found)]
        return outputs, entry._new, call.gradients, call.versions
    different = [_found(place, tensors) for place in call.differentiable]
    grad, MODES.grad = MODES.grad, True  # a program may record in spite of no_grad around it
    try:
        results = Differentiable.apply(entry, arrays, sources, *different)
    finally:
        MODES.grad = grad
    outputs = list(results) if isinstance(results, tuple) else [results]
    return outputs, entry._new, call.gradients, call.versions


def _check_writes(call: CapturedCall, sources: list[Any]) -> None:
    for i, _ in call.writes:
        check(sources[i]._array.flags.writeable, READ_ONLY)


def _drop(targets: list[int | Tensor], tensors: Sequence[Tensor]) -> None:
    """Let gradients go, as the program does before it computes others: their memory is free then."""
    for target in targets:
        (tensors[target] if isinstance(target, int) else target)._grad = None


def _change(
    call: CapturedCall, tensors: Sequence[Tensor], counts: list[tuple[Any, int]], data: list[Tensor]
) -> None:
    """What the program did to the caller's tensors besides writing to their memory."""
    for place, count in counts:
        _found(place, tensors).version_counter.value += count
    for change in call.changes:
        change.apply(_found(change.target, tensors))
    for (place, _), value in zip(call.replaced, data, strict=True):
        _found(place, tensors).data = value
    for argument, flag in call.flags:
        if not flag:
            tensors[argument]._set_requires_grad(False)


def _found(place: Any, tensors: Sequence[Tensor]) -> Tensor:
    """A tensor of the caller: an argument, given by its number, the gradient of one, or itself."""
    if isinstance(place, int):
        return tensors[place]
    found: Tensor = place.find(tensors) if isinstance(place, GradientOf) else place
    return found


def _filled(entry: Entry, source: Any, numbers: list[Any]) -> np.ndarray:
    """The contents of an input that is no tensor of the caller."""
    return source.fill() if isinstance(source, Draws) else entry.live.fill(source, numbers)


def _returned(
    leaf: Leaf, tensors: Sequence[Tensor], sources: list[Any], outputs: Any, numbers: list[Any]
) -> Any:
    if leaf.kind == "value":
        return outputs[leaf.index]
    if leaf.kind == "view":
        assert leaf.spec is not None
        return alias(outputs[leaf.index], leaf.spec)
    if leaf.kind == "shared" and leaf.python is not None:
        return _replayed(outputs[leaf.index], leaf.python)
    if leaf.kind == "shared":
        assert leaf.spec is not None
        shape, strides = leaf.spec.known_shape(), leaf.spec.known_strides()
        return run_name("as_strided", outputs[leaf.index], shape, strides, leaf.spec.offset)
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
        return _replayed(viewed, leaf.python)
    spec = leaf.spec
    assert spec is not None
    if given is not None:
        return given
    offset = spec.offset + source.storage_offset()
    if leaf.requires_grad:
        return run_name("as_strided", viewed, spec.known_shape(), spec.known_strides(), offset)
    return alias(source, replace(spec, offset=offset))


def _replayed(tensor: Tensor, steps: list[tuple[Any, tuple[Any, ...]]]) -> Tensor:
    """The view of `tensor` that view operators make, one after the other."""
    for op, rest in steps:
        tensor = run_operator(op, (tensor, *rest))
    return tensor

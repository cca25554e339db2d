"""`rushlight.compile`: a function becomes native code, once for every kind of call.

    capture -> decompose -> joint graph, partition -> backend (graph passes, lower, schedule, code generation,
    JIT) -> run

A call is described by a key: the structure of its arguments, the shapes, dtypes, strides, aliasing and
requires_grad of its tensors, the types of its numbers, the values of everything else, and the modes it runs
under. A new key compiles a new entry. An entry also guards on what the function took from elsewhere: tensors,
values of Python variables, numbers whose value it needed (capture/redzones.py, capture/numbers.py). A program
that cannot be captured whole runs eagerly (capture/tentative.py), or raises under `fullgraph=True`.

A call of plain tensors takes the short way: the native callable of the entry used last looks at the arguments
itself, and at most of what the entry guards on (runtime/invoke.py).
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd import hooks
from ..capture.effects import StateError
from ..capture.guards import Surroundings, environment_of
from ..capture.program import CapturedCall
from ..capture.trace import CaptureError
from ..core import determinism, dtypes, stance
from ..core.autocast import autocast_key
from ..core.determinism import DETERMINISM
from ..core.dispatch import AMBIENT
from ..core.lazy import LazyModule
from ..core.modes import MODES
from ..core.nested_base import NestedBase
from ..core.passes import PassLog
from ..core.pytree import TreeSpec, flatten
from ..core.stance import STANCE
from ..core.tensor import DISPATCH, META, TRACED, Tensor
from ..logs import logger
from ..runtime import redzones
from .pipeline import CAPTURE, CallToCapture, Captured
from .specialization import (
    Entry,
    build_entry,
    describe,
    finish_directly,
    make_invoker,
    run_directly,
    run_entry,
)

_pieces = LazyModule("rushlight.compiler.graph_breaks")

MOST_ENTRIES = 64  # for one key, of which the oldest are dropped
MOST_KINDS = 32  # of calls that are compiled at once; each further one when it comes as often as
MET_ENOUGH = 3  # this, until when it runs eagerly
MOST_LENGTHS = 16  # batches of nested rows; with other lengths than these it runs eagerly
MOST_UNSETTLED = 3  # calls for one key that change Python's state; then it runs eagerly
MOST_CHANGES = 16  # recompilations for one key because of values from elsewhere; then it runs eagerly


class CompiledFunction:
    """A compiled function. `entries` are its compiled forms by key."""

    def __init__(self, function: Callable[..., Any], fullgraph: bool, use_cache: bool = True) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.fullgraph = fullgraph
        self.use_cache = use_cache  # on disk
        self.entries: dict[Any, list[Entry]] = {}
        self.reasons: list[str] = []  # why each entry was compiled
        self.eager: dict[Any, str] = {}  # keys of calls that run eagerly, and why
        # of the entry used last: its native callable and itself, read and replaced as one, since calls run in
        # several threads
        self._fast: tuple[Any, Entry] | None = None
        self._changes: dict[Any, int] = {}
        self._unsettled: dict[Any, int] = {}
        self._unforeseen: list[Any] = []  # functions that it calls, of which nothing tells before it runs
        self._met: dict[Any, int] = {}  # how often calls came that are not compiled yet
        self._lock = threading.RLock()
        _functions.add(self)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fast = self._fast
        if fast is not None and not kwargs:
            native, entry = fast
            found = native(*args) if entry.alone else run_directly(entry, native, args)
            if type(found) is Tensor:
                return found
            if found is not NotImplemented:
                return finish_directly(entry, found)
        return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, structure = _leaves(args, kwargs)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if (
            AMBIENT.keys & (TRACED | DISPATCH)
            or any(t._keys & (TRACED | META) for t in tensors)
            or (MODES.transforming or MODES.traces or MODES.dual_levels)
        ):  # which see operators, not programs
            return self.function(*args, **kwargs)
        if STANCE.name == "force_eager":
            return self.function(*args, **kwargs)
        for tensor in tensors:
            if tensor._keys & DISPATCH:
                return self._dispatched(tensor, args, kwargs)
        key = _key(leaves, structure)
        if key in self.eager:
            return _pieces.in_pieces(self.function, args, kwargs)
        found = self._find(key, tensors, leaves)
        if found is None:
            with self._lock:
                found = self._find(key, tensors, leaves)
                if found is None:
                    made, result = self._compile(key, args, kwargs, tensors, leaves)
                    if made is None:
                        return result
                    found = made, made.live.read(leaves)
        entry, numbers = found
        aliasing = key[2]  # an entry for arguments that share memory serves no others
        plain = structure == len(args) == len(tensors)  # no containers, whose parts look like arguments
        if (entry.quick or entry.direct) and not aliasing and not kwargs and plain:
            self._prepare(entry, tensors)
        return run_entry(entry, tensors, numbers, (args, kwargs))

    def _dispatched(self, tensor: Tensor, args: Any, kwargs: Any) -> Any:
        """The result of a call with a tensor whose class runs operators itself: there is no graph of it."""
        name = type(tensor).__name__
        problem = CaptureError(f"an argument of the class {name}, which runs operators itself", "")
        if self.fullgraph:
            raise problem
        self.eager[name] = str(problem)
        return self.function(*args, **kwargs)

    def _find(self, key: Any, tensors: list[Tensor], leaves: list[Any]) -> tuple[Entry, list[Any]] | None:
        """The entry that serves a call, and the call's live numbers."""
        for entry in reversed(self.entries.get(key, ())):  # what was compiled last is what runs now
            numbers = entry.numbers(tensors, leaves)
            if numbers is not None:
                return entry, numbers
        return None

    def _prepare(self, entry: Entry, tensors: list[Tensor]) -> None:
        """Let the next call like this one find its entry at once."""
        if redzones.enabled() or STANCE.name == "force_eager":
            return
        if entry.invoker is None:
            entry.invoker = make_invoker(entry, tensors)
        if entry.invoker:
            self._fast = (entry.invoker.call, entry)

    def _forget(self) -> None:
        """The default dtype, determinism or the guard mode, which the short way does not ask, has changed."""
        self._fast = None

    def _compile(
        self, key: Any, args: Any, kwargs: Any, tensors: list[Tensor], leaves: list[Any]
    ) -> tuple[Entry | None, Any]:
        """A new entry; or None and the result of the call, for a program that has no graph."""
        reason = self._reason(key, tensors, leaves)
        if STANCE.name != "default" and self._stays_eager(key, reason):
            return None, self.function(*args, **kwargs)
        if (
            _ragged(key[0])
            and not self.fullgraph
            and sum(_ragged(known[0]) for known in self.entries) >= MOST_LENGTHS
        ):
            self.eager["nested tensors"] = f"compiled for {MOST_LENGTHS} batches of rows of different lengths"
            return None, self.function(*args, **kwargs)
        if len(self.entries) >= MOST_KINDS and not self.fullgraph and key not in self.entries:
            if len(self._met) > 100 * MOST_KINDS:
                self._met.clear()
            self._met[key] = self._met.get(key, 0) + 1
            if self._met[key] < MET_ENOUGH:
                return None, self.function(*args, **kwargs)
        if self._changes.get(key, 0) >= MOST_CHANGES and not self.fullgraph:
            self.eager[key] = f"compiled {MOST_CHANGES} times for values that keep changing; last: {reason}"
            logger("recompile").warning("%s runs eagerly: %s", self.function, self.eager[key])
            return None, self.function(*args, **kwargs)
        if any(part[0] == _OVERLAP for part in key[2]):
            shared = CaptureError("arguments that share memory through NumPy", "")
            if self.fullgraph:
                raise shared
            self.eager[key] = str(shared)
            return None, self.function(*args, **kwargs)
        environment = environment_of(self.function, (args, kwargs), self._unforeseen)
        if environment.unfinished:
            return None, self.function(*args, **kwargs)
        if MODES.saved_hooks and not self.fullgraph:  # the hooks must see all of a program that runs eagerly
            try:
                call = self._captured(args, kwargs, environment).call
            except CaptureError as error:
                self.eager[key] = str(error)
                return None, self.function(*args, **kwargs)
        elif self.fullgraph:
            call = self._capture_whole(args, kwargs, environment)
        else:
            captured = self._captured(args, kwargs, environment, or_run=True)
            if captured.call is None:
                problem, result = captured.problem, captured.returned
                new = [f for f in environment.unforeseen if f not in self._unforeseen]
                self._unforeseen.extend(new[:MOST_UNSETTLED])
                if isinstance(problem, StateError) or new:  # may be so in the first calls only
                    self._unsettled[key] = self._unsettled.get(key, 0) + 1
                    if self._unsettled[key] <= MOST_UNSETTLED:
                        return None, result
                self.eager[key] = str(problem)
                logger("breaks").info("%s runs eagerly: %s", self.function, problem)
                return None, result
            call = captured.call
        assert call is not None
        entry = build_entry(call, tensors, environment, use_cache=self.use_cache)
        self.reasons.append(reason)
        logger("recompile").info("compiled %s: %s", self.function, reason)
        entries = self.entries.setdefault(key, [])
        self._changes[key] = len(entries)
        entries.append(entry)
        del entries[:-MOST_ENTRIES]
        return entry, None

    def _stays_eager(self, key: Any, reason: str) -> bool:
        """Whether a call that nothing serves runs eagerly, because of the stance; or it raises."""
        if STANCE.name == "fail_on_recompile":
            raise RuntimeError(
                f"Detected recompile when the stance of the compiler is 'fail_on_recompile': {self.function} "
                f"would be compiled for this call ({reason}). Make such a call before the stance is set, or "
                "use rushlight.compiler.set_stance('eager_on_recompile')."
            )
        if STANCE.name == "eager_then_compile":
            self._met[key] = self._met.get(key, 0) + 1
            return self._met[key] == 1
        return STANCE.name == "eager_on_recompile"

    def _captured(
        self, args: Any, kwargs: Any, environment: Surroundings, *, or_run: bool = False
    ) -> Captured:
        request = CallToCapture(self.function, args, kwargs, environment, or_run)
        captured: Captured = PassLog().run(CAPTURE, request)
        return captured

    def _capture_whole(self, args: Any, kwargs: Any, environment: Surroundings) -> CapturedCall | None:
        """Capture a program that must have one graph: again, if it calls functions that were not foreseen."""
        for _ in range(MOST_UNSETTLED):
            try:
                return self._captured(args, kwargs, environment).call
            except CaptureError:
                new = [f for f in environment.unforeseen if f not in self._unforeseen]
                if not new:
                    raise
                self._unforeseen.extend(new)
                environment = environment_of(self.function, (args, kwargs), self._unforeseen)
        return self._captured(args, kwargs, environment).call

    def _reason(self, key: Any, tensors: list[Tensor], leaves: list[Any]) -> str:
        if not self.entries:
            return "first call"
        if key in self.entries:
            return self.entries[key][-1].change(tensors, leaves) or "new arguments"
        return _difference(min(reversed(self.entries), key=lambda known: _distance(known, key)), key)


_functions: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()


def forget_entries() -> None:
    """Let every compiled function begin anew."""
    for function in list(_functions):
        with function._lock:
            function._forget()
            for known in (
                function.entries,
                function.reasons,
                function.eager,
                function._changes,
                function._unsettled,
                function._met,
            ):
                known.clear()


def _forget_all() -> None:
    for function in list(_functions):
        function._forget()


dtypes.on_default_change(_forget_all)
determinism.on_change(_forget_all)
redzones.on_change(_forget_all)
hooks.on_change(_forget_all)
stance.on_change(_forget_all)


KEY_PARTS = (
    "the structure of the arguments",
    "an argument",
    "the aliasing or the hooks of the arguments",
    "the modes (grad, inference, default dtype, autocast, determinism)",
)


def _distance(known: Any, key: Any) -> tuple[int, int]:
    """In how many parts two keys differ, and in how many arguments."""
    parts = sum(a != b for a, b in zip(known, key, strict=True))
    return parts, sum(a != b for a, b in zip(known[1], key[1], strict=False))


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
    if isinstance(described, type):
        return f"a number of type {described.__name__}"
    if isinstance(described, tuple) and len(described) == 8:
        shape, strides, dtype, requires_grad, offset, *_ = described
        steps = ", ".join(str(s // dtype.itemsize) for s in strides)
        grad = ", requires grad" if requires_grad else ""
        return f"{dtype.name}{list(shape)} with strides ({steps}) and offset {offset}{grad}"
    return repr(described[1]) if isinstance(described, tuple) and len(described) == 2 else str(described)


def _modes() -> tuple[Any, ...]:
    return (MODES.grad, MODES.inference, dtypes.get_default_dtype(), autocast_key(), DETERMINISM.key)


_OVERLAP = "overlap"
_HOOKED = "hooks"
_FLAT = frozenset({Tensor, float, int, bool, type(None)})


def _leaves(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """The leaves of the arguments, and something that tells their structure."""
    if not kwargs and _FLAT.issuperset(map(type, args)):
        return list(args), len(args)
    return flatten((args, kwargs), records=True)


def _ragged(structure: Any) -> bool:
    """Whether there is a nested tensor among the arguments."""
    return isinstance(structure, TreeSpec) and (
        issubclass(structure.type or object, NestedBase) or any(map(_ragged, structure.children))
    )


def _key(leaves: list[Any], structure: TreeSpec | int) -> Any:
    """What decides which compiled form serves a call."""
    described = tuple([describe(leaf) if isinstance(leaf, Tensor) else _constant(leaf) for leaf in leaves])
    storages: dict[int, int] = {}
    objects: dict[int, int] = {}
    # (an argument, the first that shares memory with it, how far that is, the first that is the same tensor)
    aliasing: list[Any] = []
    owners: dict[int, int] = {}  # of memory, which may be NumPy's
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            first = storages.setdefault(id(leaf if leaf._storage is None else leaf._storage), i)
            array = leaf._array
            if array is not None and first == i:
                other = owners.setdefault(id(array if array.base is None else array.base), i)
                if other != i and np.may_share_memory(array, leaves[other]._array):
                    aliasing.append((_OVERLAP, other, i))
            if leaf._hooks is not None and hooks.hooks_of(leaf):
                aliasing.append((_HOOKED, i, tuple(map(_Itself, hooks.hooks_of(leaf)))))
            itself = objects.setdefault(id(leaf), i)
            if first != i:
                aliasing.append((i, first, leaf._offset - leaves[first]._offset, itself))
    return structure, described, tuple(aliasing), _modes()


class _Itself:
    """An object that is told from others by identity. It is kept, so that no other can take its place."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.of is self.of

    def __hash__(self) -> int:
        return id(self.of)

    def __repr__(self) -> str:
        return repr(self.of)


def _constant(leaf: Any) -> Any:
    """A value that was specialised; kept apart from equal values of other types. Numbers are live."""
    kind = type(leaf)
    if kind is float or (kind is int and -(2**63) <= leaf < 2**63):
        return kind
    if isinstance(leaf, set):
        return kind, frozenset(leaf)
    try:
        hash(leaf)
    except TypeError:
        return kind, _Itself(leaf)
    return kind, repr(leaf) if isinstance(leaf, float | complex) else leaf

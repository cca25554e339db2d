"""`rushlight.compile`: a function becomes native code, once for every kind of call.

    capture -> decompose -> joint graph, partition -> backend (graph passes, lower, schedule, code generation,
    JIT) -> run

A call is looked up by its key (compiler/call_key.py): the structure, layouts and types of its arguments, and
the modes it runs under. Each specialization also guards on what the function took from elsewhere: tensors,
values of Python variables, numbers whose value it needed (compiler/guards.py). A call that none serves compiles
a new one. A program that cannot be captured whole runs eagerly (capture/tentative.py), or raises under
`fullgraph=True`.

A call of plain tensors takes the short path: the native callable of the specialization used last looks at the
arguments itself, and at most of its guards (runtime/invoke.py).
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any

from .._api.compiler import on_reset
from ..autograd import hooks, inner
from ..autograd.profiler import compiling
from ..capture.captured_call import CapturedCall
from ..capture.environment import Surroundings, environment_of
from ..capture.errors import CaptureError, Problem, StateError
from ..core import determinism, dtypes, stance
from ..core.dispatch import AMBIENT
from ..core.garbage import uncollected
from ..core.modes import MODES
from ..core.passes import PassLog
from ..core.stance import STANCE
from ..core.tensor import DISPATCH, META, TRACED, Tensor
from ..logs import logger
from ..runtime import profile, redzones
from .at_sizes import SizedSpecializations
from .build import build_specialization
from .call_key import OVERLAP, CallKey, is_ragged, key_of_call, leaves_of
from .changing_sizes import ChangingSizes, seen_as
from .graph_breaks import in_pieces
from .guards import Call
from .pipeline import CAPTURE, CallToCapture, CaptureResult, compile_call
from .run import finish_native, native_entry, run_specialization
from .size_profile import SizeProfile
from .specialization import CallPath, Specialization

MOST_SPECIALIZATIONS = 64  # for one key, of which the oldest are dropped
MOST_KINDS = 32  # of calls that are compiled at once; each further one when it comes as often as
MET_ENOUGH = 3  # this, until when it runs eagerly
MOST_LENGTHS = 16  # batches of nested rows; with other lengths than these it runs eagerly
MOST_UNSETTLED = 3  # calls for one key that change Python's state; then it runs eagerly
MOST_SEEN = 10_000  # kinds of calls that a patient function remembers
MOST_CHANGES = 16  # recompilations for one key because of values from elsewhere; then it runs eagerly


class CompiledFunction:
    """A compiled function. `specializations` are its compiled forms by key."""

    def __init__(
        self,
        function: Callable[..., Any],
        fullgraph: bool,
        use_cache: bool = True,
        patient: bool = False,
        dynamic: bool | None = None,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.fullgraph = fullgraph
        self.use_cache = use_cache  # on disk
        # whether it compiles only what comes a second time: a shape that comes once (the growing text of a
        # generation, the rest of a data set) is not worth it
        self.patient = patient
        self.specializations: dict[CallKey, list[Specialization]] = {}
        self.reasons: list[str] = []  # why each specialization was compiled
        self.eager: dict[Any, str] = {}  # keys of calls that run eagerly, and why
        # of the specialization used last: what is called with plain arguments, and itself; read and replaced
        # as one, since calls run in several threads
        self._fast: tuple[Any, Specialization] | None = None
        self._changes: dict[CallKey, int] = {}
        self._unsettled: dict[CallKey, int] = {}
        self._unforeseen: list[Any] = []  # functions that it calls, of which nothing tells before it runs
        self._met: dict[CallKey, int] = {}  # how often calls came that are not compiled yet
        self._seen: set[CallKey] = set()  # what a patient one has met
        known = SizeProfile(function) if use_cache else None
        self.sizes = ChangingSizes(dynamic, known, unbacked=fullgraph)
        self._at_sizes = SizedSpecializations()
        # the forms with clocks, while programs have none, and the other way round
        self._other_forms: tuple[dict[CallKey, list[Specialization]], SizedSpecializations] = (
            {},
            SizedSpecializations(),
        )
        self._lock = threading.RLock()
        self._exact: Any = None  # the key of the call that is being compiled, with all of its sizes
        _functions[id(self)] = self

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fast = self._fast
        if fast is not None and not kwargs:
            native, specialization = fast
            found = native(*args)
            if found is NotImplemented and specialization.fixed:
                others = self._at_sizes.native(args)
                if others is not None:
                    native, specialization = others
                    found = native(*args)
            if type(found) is Tensor:
                return found
            if found is not NotImplemented:
                return finish_native(specialization, found)
        return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, structure = leaves_of(args, kwargs)
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
        key = key_of_call(leaves, structure)
        if self.eager and (key in self.eager or self.sizes.key(key) in self.eager):
            return self._in_pieces(args, kwargs)
        found = self._find(key, leaves)
        if found is None:
            with self._lock:
                found = self._find(key, leaves)
                if found is None:
                    self._exact = key
                    self.sizes.learn(key, leaves)
                    made, result = self._compile(self.sizes.key(key), args, kwargs, leaves)
                    if made is None:
                        return result
                    found = made, made.live.read(leaves)
        specialization, numbers = found
        if specialization.live.sizes:
            self._at_sizes.met(key, leaves, specialization, numbers)
        # no containers, whose parts look like arguments, and nothing that shares memory with another
        plain = structure == len(args) == len(tensors) and not kwargs and not key.sharing
        if plain and specialization.path is not CallPath.PYTHON:
            native = self._prepare(specialization, tensors)
            result = native(*args) if native else NotImplemented
            if result is not NotImplemented:
                return result if type(result) is Tensor else finish_native(specialization, result)
        return run_specialization(specialization, leaves, numbers, (args, kwargs))

    def _in_pieces(self, args: Any, kwargs: Any) -> Any:
        return in_pieces(self.function, args, kwargs, _compile_region)

    def _dispatched(self, tensor: Tensor, args: Any, kwargs: Any) -> Any:
        """The result of a call with a tensor whose class runs operators itself: there is no graph of it."""
        name = type(tensor).__name__
        problem = CaptureError(
            f"an argument of the class {name}, which runs operators itself", "", Problem.TENSOR_CLASS
        )
        problem.locate(self.function)
        if self.fullgraph:
            raise problem
        self.eager[name] = problem.summary
        return self.function(*args, **kwargs)

    def _find(self, key: CallKey, leaves: list[Any]) -> tuple[Specialization, list[Any]] | None:
        """The specialization that serves a call, and the call's live numbers."""
        fixed = self._at_sizes.find(key, leaves)
        if fixed is not None:
            numbers = fixed.numbers(leaves)
            if numbers is not None:
                return fixed, numbers
        keys = (key, self.sizes.key(key)) if self.sizes.watching else (key,)
        for each in keys:
            for known in reversed(
                self.specializations.get(each, ())
            ):  # what was compiled last is what runs now
                numbers = known.numbers(leaves)
                if numbers is not None:
                    return known, numbers
        return None

    def _prepare(self, specialization: Specialization, tensors: list[Tensor]) -> Any:
        """Let the next call like this one find its specialization at once: its native callable, if it has one."""
        if redzones.enabled() or STANCE.name == "force_eager":
            return None
        if specialization.native_entry is None:
            specialization.native_entry = native_entry(specialization, tensors)
        if specialization.native_entry:
            self._fast = (specialization.native_entry, specialization)
            if specialization.fixed:
                self._at_sizes.call_natively(tensors, *self._fast)
        return specialization.native_entry

    def _forget(self) -> None:
        """The default dtype, determinism or the guard mode, which the short path does not ask, has changed."""
        self._fast = None
        self._at_sizes.forget_native()

    def forget(self) -> None:
        """Begin anew."""
        with self._lock:
            self._forget()
            for known in (
                self.specializations,
                self.reasons,
                self.eager,
                self.sizes,
                self._at_sizes,
                self._changes,
                self._unsettled,
                self._met,
                self._seen,
            ):
                known.clear()

    # Compiling.

    def _compile(
        self, key: CallKey, args: Any, kwargs: Any, leaves: list[Any]
    ) -> tuple[Specialization | None, Any]:
        """A new specialization; or None and the result of the call, for a program that has no graph."""
        if self.patient and key not in self._seen:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen.add(key)
            return None, self._in_pieces(args, kwargs)
        reason = self._reason(leaves)
        if (STANCE.name != "default" and self._stays_eager(key, reason)) or self._runs_eagerly(key, reason):
            return None, self.function(*args, **kwargs)
        environment = environment_of(self.function, (args, kwargs), self._unforeseen)
        if environment.unfinished:
            return None, self.function(*args, **kwargs)
        self._note_numbers(key, leaves)
        name = getattr(self.function, "__name__", "function")
        with uncollected(), compiling(f"compile {name}: {reason}"):
            call, result = self._captured(key, args, kwargs, environment)
            if call is None:
                return None, result
            compiled = compile_call(call, use_cache=self.use_cache)
            made = build_specialization(compiled, leaves, environment, key=key)
        self.reasons.append(reason)
        logger("recompile").info("compiled %s: %s", self.function, reason)
        known = self.specializations.setdefault(key, [])
        self._changes[key] = len(known)
        known.append(made)
        del known[:-MOST_SPECIALIZATIONS]
        return made, None

    def _stays_eager(self, key: CallKey, reason: str) -> bool:
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

    def _runs_eagerly(self, key: CallKey, reason: str) -> bool:
        """Whether a call is not worth a specialization, or cannot have one."""
        if any(part[0] == OVERLAP for part in key.sharing):
            shared = CaptureError("arguments that share memory through NumPy", "", Problem.SHARED_MEMORY)
            shared.locate(self.function)
            if self.fullgraph:
                raise shared
            self.eager[key] = shared.summary
            return True
        if self.fullgraph:
            return False
        if (
            is_ragged(key.structure)
            and sum(is_ragged(known.structure) for known in self.specializations) >= MOST_LENGTHS
        ):
            self.eager["nested tensors"] = f"compiled for {MOST_LENGTHS} batches of rows of different lengths"
            return True
        if len(self.specializations) >= MOST_KINDS and key not in self.specializations:
            if len(self._met) > 100 * MOST_KINDS:
                self._met.clear()
            self._met[key] = self._met.get(key, 0) + 1
            if self._met[key] < MET_ENOUGH:
                return True
        if self._changes.get(key, 0) >= MOST_CHANGES:
            self.eager[key] = f"compiled {MOST_CHANGES} times for values that keep changing; last: {reason}"
            logger("recompile").warning("%s runs eagerly: %s", self.function, self.eager[key])
            return True
        return False

    def _note_numbers(self, key: CallKey, leaves: list[Any]) -> None:
        """Ints that were compiled for by value, and are others now, are symbols from now on."""
        changed = [
            i
            for known in self.specializations.get(key, ())
            for i in known.live.numbers_needed()
            if type(leaves[i]) is int
        ]
        self.sizes.number_changes(key, changed)

    def _capture(
        self, key: CallKey, args: Any, kwargs: Any, environment: Surroundings, *, or_run: bool
    ) -> CaptureResult:
        changing = self.sizes.changing(key)
        request = CallToCapture(self.function, args, kwargs, environment, or_run, changing)
        captured: CaptureResult = PassLog().run(CAPTURE, request)
        return captured

    def _captured(
        self, key: CallKey, args: Any, kwargs: Any, environment: Surroundings
    ) -> tuple[CapturedCall | None, Any]:
        """The captured call; or None and the result of the call."""
        if self.fullgraph:
            return self._capture_whole(key, args, kwargs, environment), None
        if MODES.saved_hooks:  # the hooks must see all of a program that runs eagerly
            try:
                return self._capture(key, args, kwargs, environment, or_run=False).call, None
            except CaptureError as error:
                self.eager[key] = error.summary
                return None, self.function(*args, **kwargs)
        captured = self._capture(key, args, kwargs, environment, or_run=True)
        if captured.call is not None:
            return captured.call, None
        new = [f for f in environment.unforeseen if f not in self._unforeseen]
        self._unforeseen.extend(new[:MOST_UNSETTLED])
        if isinstance(captured.problem, StateError) or new:  # may be so in the first calls only
            self._unsettled[key] = self._unsettled.get(key, 0) + 1
            if self._unsettled[key] <= MOST_UNSETTLED:
                return None, captured.returned
        assert captured.problem is not None
        self.eager[key] = captured.problem.summary
        logger("breaks").info("%s runs eagerly: %s", self.function, captured.problem.summary)
        return None, captured.returned

    def _capture_whole(
        self, key: CallKey, args: Any, kwargs: Any, environment: Surroundings
    ) -> CapturedCall | None:
        """Capture a program that must have one graph: again, if it calls functions that were not foreseen."""
        for _ in range(MOST_UNSETTLED):
            try:
                return self._capture(key, args, kwargs, environment, or_run=False).call
            except CaptureError:
                new = [f for f in environment.unforeseen if f not in self._unforeseen]
                if not new:
                    raise
                self._unforeseen.extend(new)
                environment = environment_of(self.function, (args, kwargs), self._unforeseen)
        return self._capture(key, args, kwargs, environment, or_run=False).call

    def _reason(self, leaves: list[Any]) -> str:
        """In what a call differs from the nearest one that is compiled."""
        if not self.specializations:
            return "first call"
        seen = {known: seen_as(self._exact, known) for known in reversed(self.specializations)}
        nearest = min(seen, key=lambda known: seen[known].distance(known))
        return self.specializations[nearest][-1].difference(Call(seen[nearest], leaves)) or "new arguments"


def _compile_region(function: Callable[..., Any]) -> CompiledFunction:
    return CompiledFunction(function, fullgraph=False, patient=True)


_functions: weakref.WeakValueDictionary[int, CompiledFunction] = weakref.WeakValueDictionary()


def _existing() -> list[CompiledFunction]:
    """Every compiled function that there is, whatever other threads make meanwhile."""
    return [function for ref in _functions.valuerefs() if (function := ref()) is not None]


def compiled_forms() -> list[Specialization]:
    """Every compiled form of every function that there is."""
    return [
        form
        for function in _existing()
        for known in list(function.specializations.values())
        for form in known
    ]


def forget_specializations() -> None:
    """Let every compiled function begin anew."""
    for function in _existing():
        function.forget()


def _forget_inner() -> None:
    """Let functions go that nobody asked to compile, and that have results of which others are computed."""
    for function in _existing():
        with function._lock:
            if any(form.call.inner for forms in function.specializations.values() for form in forms):
                function.forget()


def _forget_all() -> None:
    for function in _existing():
        function._forget()


def _exchange_all() -> None:
    """Programs have clocks from now on, or have none any more."""
    for function in _existing():
        with function._lock:
            function._forget()
            mine = function.specializations, function._at_sizes
            function.specializations, function._at_sizes = function._other_forms
            function._other_forms = mine


dtypes.on_default_change(_forget_all)
determinism.on_change(_forget_all)
redzones.on_change(_forget_all)
profile.on_change(_exchange_all)
hooks.on_change(_forget_all)
inner.on_first(_forget_inner)
stance.on_change(_forget_all)
on_reset(forget_specializations)

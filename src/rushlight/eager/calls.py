"""Calls of operators on data: by a native kernel where one is there, else by NumPy's.

A call is looked up by its signature: dtypes, shapes and strides of its tensors, types of its numbers, and all
else by value. What is known of a signature is a kernel bound to it, or the `CallKind` that it is of: calls that
one kernel serves, which has none yet. A kind whose calls have taken NumPy longer than `WORTH` is compiled by the
thread of worker.py.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Container, Iterable
from typing import Any

from ..core.determinism import DETERMINISM
from ..core.determinism import on_change as on_determinism
from ..core.dispatch import AMBIENT, Arguments, forget_runner, forget_runners, install_layer
from ..core.dtypes import on_default_change
from ..core.giving_up import GivenUp
from ..core.lazy import LazyModule
from ..core.modes import MODES
from ..core.registry import Kind, OpDef
from ..core.tensor import Tensor
from ..logs import logger
from . import settings, worker
from .layouts import Form, form_of, tensors_in
from .operators import may_have_kernel
from .signatures import Runner, write_runner

kernels = LazyModule("rushlight.eager.kernels")
compiling = LazyModule("rushlight.eager.compiling")
known_calls = LazyModule("rushlight.eager.known_calls")

# seconds of NumPy's time after which a kernel is worth compiling: about as long as that takes, by the median of
# those of benchmarks/programs.py torchmetrics_metrics (9 ms) and kornia_images (14 ms)
WORTH = 0.01
WORTH_OF_ONE_SIZE = 0.06  # the same, for a kernel that serves one set of sizes: convolutions of the latter
WORTH_LOOKING = (
    0.02  # seconds of NumPy's time, in all, after which kernels that are on disk are taken from there
)
MOST_BOUND = 256  # signatures that an operator knows; when there are more, it begins anew
MOST_TENSORS = 192  # of one call, as of an operator over lists; the code of a kernel grows with them
MOST_KINDS = 256  # of which an operator has kernels; others run on NumPy's
MOST_KERNELS = 8  # of one kind, for sizes that the others do not serve
MOST_REFUSED = 3  # kinds without a kernel after which an operator that has none at all is left alone
LARGE = 1 << 14  # elements from which a kernel is bound to sizes that come for the first time


class CallKind:
    """Calls of one operator that one kernel may serve."""

    __slots__ = ("generation", "kernels", "looked", "queued", "refused", "seconds", "worth")

    def __init__(self, one_size: bool) -> None:
        self.worth = WORTH_OF_ONE_SIZE if one_size else WORTH
        self.kernels: dict[int, Any] = {}  # by stage; other threads may add to them at any time
        self.seconds = 0.0  # that NumPy took, and the way there
        self.queued = False
        self.refused = False  # there is no kernel
        self.looked = False  # for one on disk
        self.generation = worker.generation()

    def compile(self, op: OpDef, form: Form) -> None:
        """Make a kernel for a form, or note that there is none."""
        try:
            served = False
            while not served and len(self.kernels) < MOST_KERNELS:
                stage = len(self.kernels)
                kernel = self.kernels.setdefault(stage, compiling.compile_form(op, form, stage))
                served = kernel.serves(form) or form.fixed
        except GivenUp as reason:
            if reason.again:
                raise
            self.refuse(op, reason)
        except Exception as error:
            self.refuse(op, error)
        self.queued, self.seconds = False, 0.0

    def look(self, op: OpDef, form: Form) -> None:
        """Take kernels for a form from disk, as far as they are there."""
        if self.looked or self.kernels or self.queued:
            return
        if not stored_kernels_are_there(op):
            return
        with _looking:
            self._look_once(op, form)

    def take(self, keys: Iterable[str]) -> None:
        """Take the kernels with these keys from disk, by stage: those that calls of this kind had elsewhere."""
        if not stored_kernels_are_there():
            return
        assert _stored_under is not None
        with _looking:
            for stage, key in enumerate(keys):
                kernel = None if self.kernels.get(stage) or self.queued else _stored_under(key)
                if kernel is None:
                    return
                self.kernels.setdefault(stage, kernel)

    def keys(self) -> list[str]:
        """Of the kernels, as far as they are on disk."""
        known = [kernel.key for _, kernel in sorted(self.kernels.items())]
        return list(itertools.takewhile(bool, known))

    def _look_once(self, op: OpDef, form: Form) -> None:
        if self.looked:  # by another thread, meanwhile
            return
        try:
            self._take(op, form)
        except Exception as error:
            self.refuse(op, error)
        self.looked = True

    def _take(self, op: OpDef, form: Form) -> None:
        assert _stored is not None
        while len(self.kernels) < MOST_KERNELS:
            stage = len(self.kernels)
            kernel = _stored(op, form, stage)
            if kernel is None:
                return
            kernel = self.kernels.setdefault(stage, kernel)
            if kernel.serves(form) or form.fixed:
                return

    def refuse(self, op: OpDef, error: Exception) -> None:
        logger("eager").info("%s runs on NumPy: %s: %s", op.name, type(error).__name__, error)
        self.refused = True

    def waits(self) -> bool:
        """Whether its calls run on NumPy's kernel, and nothing is to be done but to count their time."""
        queued = self.queued and self.generation == worker.generation()
        return (
            not self.kernels
            and not self.refused
            and (queued or self.seconds <= self.worth)
            and (self.looked or _stored is None)
            and settings.get() != "native"
        )

    def bind(self, op: OpDef, form: Form, arrays: list[Any], refused: Container[int]) -> Any:
        """A kernel bound to the sizes of a form, by its stage, if there is one that serves them."""
        try:
            for stage, kernel in sorted(self.kernels.items()):  # in order, whichever call asked for them
                bound = None if stage in refused else kernel.bind(form, arrays)
                if bound is not None:
                    return {stage: bound}
        except Exception as error:
            self.refuse(op, error)
        if len(self.kernels) >= MOST_KERNELS:
            self.refused = True
        return None


class OperatorCalls:
    """What is known of the calls of one operator."""

    def __init__(self, op: OpDef, reference: Runner) -> None:
        self.op, self.reference = op, reference
        self.natives: dict[Any, Callable[..., Any]] = {}  # by signature, of those that have a kernel
        self.bound: dict[Any, dict[int, Any]] = {}  # of calls with numbers: the same, by stage
        self.known: dict[Any, CallKind | None] = {}  # of others that were met; None: NumPy's alone
        self.kinds: dict[Any, CallKind] = {}
        arguments = op.schema.arguments
        self.live = frozenset(
            i for i, a in enumerate(arguments) if a.type.base == "Scalar" and not a.type.is_list
        )
        # what the body of a composite does may be seen by others
        asked = _below_everything if op.kind is Kind.COMPOSITE else None
        self.run: Runner = write_runner(op, reference, self.natives, self.meet, asked)

    def meet(self, args: Arguments, key: Any, arrays: list[Any]) -> Any:
        """Run a call whose signature has no native callable, or one that refused it."""
        started, op, known = time.perf_counter(), self.op, self.known.get(key, _UNKNOWN)
        met = known is not _UNKNOWN
        if known is None or not 0 < len(arrays) <= MOST_TENSORS:
            return self.reference(op, args)
        if met and known.waits():
            result = self.reference(op, args)
            _spend(known, time.perf_counter() - started)
            return result
        refused = self.bound.get(key, {})
        if key in self.natives and not refused:
            return self.reference(op, args)
        form = form_of(op, args, self.live)
        if form is None:
            return self._alone(key, args)
        kind = self.kinds.get(form.key)
        if kind is None:
            if len(self.kinds) >= MOST_KINDS:
                return self._alone(key, args)
            kind = self.kinds.setdefault(form.key, CallKind(form.fixed))
        kind.look(op, form)
        if settings.get() == "native" and not kind.refused:
            bound = kind.bind(op, form, arrays, refused)
            if bound is None and not kind.refused:
                kind.compile(op, form)
                bound = kind.bind(op, form, arrays, refused)
        elif kind.kernels and (met or max(a.size for a in arrays) >= LARGE):
            bound = kind.bind(op, form, arrays, refused)
        else:
            bound = None
        if bound is not None:
            self._call_natively(key, {**bound, **refused}, form)
            if _when_bound is not None:
                _when_bound(op, args, key, kind.keys())
            return self.run(op, args)
        if kind.refused:
            self._give_up()
            return self._alone(key, args)
        if not met:
            self._remember(key, kind)
        result = self.reference(op, args)
        _spend(kind, time.perf_counter() - started)
        if kind.seconds > kind.worth:
            self._request(kind, form)
        return result

    def bind_ahead(self, args: Arguments, key: Any, keys: Iterable[str]) -> None:
        """Bind a kernel that is on disk, perhaps under one of `keys`, to a call that is likely to come."""
        form = None if key in self.natives else form_of(self.op, args, self.live)
        if form is None or len(self.natives) >= MOST_BOUND or len(self.kinds) >= MOST_KINDS:
            return
        kind = self.kinds.setdefault(form.key, CallKind(form.fixed))
        kind.take(keys)
        kind.look(self.op, form)
        bound = None if kind.refused else kind.bind(self.op, form, [t._array for t in tensors_in(args)], ())
        if bound is not None and key not in self.natives:
            self._call_natively(key, bound, form)

    def _call_natively(self, key: Any, bound: dict[int, Any], form: Form) -> None:
        """Have calls with this signature run by these kernels: the first that does not refuse their numbers."""
        if len(self.natives) >= MOST_BOUND:
            self.natives.clear()
            self.bound.clear()
        if form.numbers:
            self.bound[key] = bound
        self.natives[key] = next(iter(bound.values())) if len(bound) == 1 else first_of(bound.values())

    def _give_up(self) -> None:
        """Look no longer at the calls of an operator that has no kernel for any kind of them."""
        met = len(self.kinds) >= MOST_REFUSED and all(kind.refused for kind in self.kinds.values())
        if met or compiling.calls_library(self.op):
            self.run = self.reference
            forget_runner(self.op)

    def _alone(self, key: Any, args: Arguments) -> Any:
        self._remember(key, None)
        return self.reference(self.op, args)

    def _remember(self, key: Any, kind: CallKind | None) -> None:
        if len(self.known) >= MOST_BOUND:
            self.known.clear()
        self.known[key] = kind

    def _request(self, kind: CallKind, form: Form) -> None:
        if not kind.queued or kind.generation != worker.generation():
            kind.queued, kind.generation = True, worker.generation()
            worker.submit(lambda: kind.compile(self.op, form))


_UNKNOWN: Any = object()  # a signature that was not met
_looking = threading.Lock()  # for kernels on disk
_begun = False  # whether was looked for what earlier processes of this program bound
_expected: frozenset[str] = frozenset()  # operators that these had kernels for
_when_bound: Callable[[OpDef, Arguments, Any, list[str]], None] | None = None
_stored: Callable[[OpDef, Form, int], Any] | None = None  # finds kernels on disk, once that can be loaded
_stored_under: Callable[[str], Any] | None = None  # the same, by their keys
_spent = 0.0  # seconds of NumPy's time before that


def on_bound(note: Callable[[OpDef, Arguments, Any, list[str]], None]) -> None:
    """Have `note` called with each call that a kernel is bound to when it comes, and the keys of its kernels."""
    global _when_bound
    _when_bound = note


def bind_ahead(op: OpDef, args: Arguments, key: Any, keys: Iterable[str]) -> None:
    """Bind a kernel that is on disk, perhaps under one of `keys`, to a call that is likely to come."""
    found = _calls.get(op)
    if found is not None:
        found.bind_ahead(args, key, keys)


def stored_kernels_are_there(op: OpDef | None = None) -> bool:
    """Whether what earlier processes have left on disk can be loaded now. Where those of this program had kernels
    (for `op`), it is as soon as it is needed; this may be under way in the background."""
    if _stored is None and (_expected if op is None else op.name in _expected):
        kernels.load()
    return _stored is not None


def install_stored(load: Callable[[OpDef, Form, int], Any], under: Callable[[str], Any]) -> None:
    global _stored, _stored_under
    _stored, _stored_under = load, under


def _spend(kind: CallKind, seconds: float) -> None:
    global _spent
    kind.seconds += seconds
    if _stored is None:
        before, _spent = _spent, _spent + seconds
        if before < WORTH_LOOKING <= _spent:
            worker.submit(kernels.load)


def first_of(natives: Iterable[Callable[..., Any]]) -> Callable[..., Any]:
    """A native callable that asks several, which refuse calls with other numbers than they are made for."""
    runs = tuple(natives)

    def run(*given: Any) -> Any:
        for each in runs:
            found = each(*given)
            if found is not NotImplemented:
                return found
        return NotImplemented

    return run


def runner(op: OpDef, reference: Runner) -> Runner:
    """What runs `op` on data."""
    if not _begun:
        _begin()
    if settings.get() == "reference" or DETERMINISM.enabled or not may_have_kernel(op):
        return reference
    if not op.tensor_positions and not op.list_positions:
        return reference  # what is made of nothing takes no kernel
    calls = _calls.get(op)
    if calls is None:
        calls = _calls.setdefault(op, OperatorCalls(op, reference))
    return calls.run


def _begin() -> None:
    """With the first operator: bind what earlier processes of this program have used."""
    global _begun, _expected
    if settings.get() == "auto":
        _begun = True
        _expected = known_calls.begin()


def _renew_lock() -> None:
    global _looking
    _looking = threading.Lock()  # who held it before a fork is not in the child


def _below_everything(args: Arguments) -> bool:
    """Whether nobody is to see the operators that a composite consists of."""
    if AMBIENT.keys or MODES.dual_levels or MODES.traces:
        return False
    if MODES.grad:
        for value in args:
            for each in value if type(value) is tuple else (value,):
                if isinstance(each, Tensor) and each._keys:
                    return False
    return True


_calls: dict[OpDef, OperatorCalls] = {}


def seconds_on_numpy() -> float:
    """How long NumPy's kernels took for calls that a kernel is still to be made for."""
    kinds = [kind for calls in list(_calls.values()) for kind in list(calls.kinds.values())]
    return sum(kind.seconds for kind in kinds if not kind.refused)


_changes = 0  # of what kernels depend on


def changes() -> int:
    """How often something has changed that kernels depend on: what was captured across a change is of no use."""
    return _changes


def forget() -> None:
    """Drop all kernels: something has changed that they depend on."""
    global _changes
    _changes += 1
    _calls.clear()
    forget_runners()


install_layer("eager", runner)
on_default_change(forget)
on_determinism(forget)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)

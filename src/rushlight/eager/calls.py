"""Calls of operators on data: by a native kernel where one is there, else by NumPy's.

A call is looked up by its signature: dtypes, shapes and strides of its tensors, types of its numbers, and all
else by value. What is known of a signature is a kernel bound to it, or the `CallKind` that it is of: calls that
one kernel serves, which has none yet. A kind whose calls have taken NumPy longer than `WORTH` is compiled by the
thread of worker.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.determinism import DETERMINISM
from ..core.determinism import on_change as on_determinism
from ..core.dispatch import AMBIENT, Arguments, forget_runners, install_layer
from ..core.dtypes import on_default_change
from ..core.lazy import LazyModule
from ..core.modes import MODES
from ..core.registry import Kind, OpDef
from ..core.tensor import AUTOGRAD, Tensor
from ..logs import logger
from . import settings, worker
from .layouts import Form, exactly, form_of, is_live

kernels = LazyModule("rushlight.eager.kernels")

Runner = Callable[[OpDef, Arguments], Any]

WORTH = 0.005  # seconds of NumPy's time after which a kernel is worth compiling
MOST_BOUND = 256  # signatures that an operator knows; when there are more, it begins anew
MOST_KERNELS = 6  # of one kind, for sizes that the others do not serve
MOST_REFUSED = 3  # kinds without a kernel after which an operator that has none at all is left alone
LARGE = 1 << 14  # elements from which a kernel is bound to sizes that come for the first time


@dataclass(frozen=True)
class BoundKernel:
    """A kernel for the sizes of one call. `run` takes the arrays of the operands, then what `numbers` gives for
    the live numbers of a call (None: a guard on them does not hold); `finish` makes results of what it gives."""

    run: Callable[..., Any]
    numbers: Callable[[Sequence[Any]], list[Any] | None] | None
    finish: Callable[[Any], Any]


class CallKind:
    """Calls of one operator that one kernel may serve."""

    __slots__ = ("generation", "kernels", "queued", "refused", "seconds")

    def __init__(self) -> None:
        self.kernels: list[Any] = []
        self.seconds = 0.0  # that NumPy took
        self.queued = False
        self.refused = False  # there is no kernel
        self.generation = worker.generation()

    def compile(self, op: OpDef, form: Form) -> None:
        """Make a kernel for a form, or note that there is none."""
        try:
            self.kernels.append(kernels.compile_form(op, form))
        except Exception as error:
            self.refuse(op, error)
        self.queued, self.seconds = False, 0.0

    def refuse(self, op: OpDef, error: Exception) -> None:
        logger("eager").info("%s runs on NumPy: %s: %s", op.name, type(error).__name__, error)
        self.refused = True

    def bind(self, op: OpDef, form: Form, arrays: list[Any]) -> Any:
        """A kernel bound to the sizes of a form, if there is one that serves them."""
        try:
            for kernel in reversed(self.kernels):
                bound = kernel.bind(form, arrays)
                if bound is not None:
                    return bound
        except Exception as error:
            self.refuse(op, error)
        if len(self.kernels) >= MOST_KERNELS:
            self.refused = True
        return None


class OperatorCalls:
    """What is known of the calls of one operator."""

    def __init__(self, op: OpDef, reference: Runner) -> None:
        self.op, self.reference = op, reference
        self.known: dict[Any, Any] = {}  # by signature: a BoundKernel, a CallKind, or False: NumPy's alone
        self.kinds: dict[Any, CallKind] = {}
        arguments = op.schema.arguments
        self.live = frozenset(
            i for i, a in enumerate(arguments) if a.type.base == "Scalar" and not a.type.is_list
        )

    def meet(self, args: Arguments, key: Any, arrays: list[Any]) -> Any:
        """Run a call whose signature has no kernel bound to it."""
        op, known = self.op, self.known
        found = known.get(key)
        if found is False:
            return self.reference(op, args)
        form = form_of(op, args, self.live)
        if form is None:
            return self._alone(key, args)
        kind = self.kinds.get(form.key)
        if kind is None:
            kind = self.kinds[form.key] = CallKind()
        if settings.get() == "native" and not kind.refused:
            bound = kind.bind(op, form, arrays)
            if bound is None and not kind.refused:
                kind.compile(op, form)
                bound = kind.bind(op, form, arrays)
        elif kind.kernels and (found is not None or max(a.size for a in arrays) >= LARGE):
            bound = kind.bind(op, form, arrays)
        else:
            bound = None
        if bound is not None:
            self._remember(key, bound)
            return self.run(bound, args, arrays)
        if kind.refused:
            self._give_up()
            return self._alone(key, args)
        if found is None:
            self._remember(key, kind)
        started = time.perf_counter()
        result = self.reference(op, args)
        kind.seconds += time.perf_counter() - started
        if kind.seconds > WORTH:
            self._request(kind, form)
        return result

    def _give_up(self) -> None:
        """Look no longer at the calls of an operator that has no kernel for any kind of them."""
        if len(self.kinds) >= MOST_REFUSED and all(kind.refused for kind in self.kinds.values()):
            self.op.run = self.reference

    def _alone(self, key: Any, args: Arguments) -> Any:
        self._remember(key, False)
        return self.reference(self.op, args)

    def _remember(self, key: Any, what: Any) -> None:
        if len(self.known) >= MOST_BOUND:
            self.known.clear()
        self.known[key] = what

    def _request(self, kind: CallKind, form: Form) -> None:
        if not kind.queued or kind.generation != worker.generation():
            kind.queued, kind.generation = True, worker.generation()
            worker.submit(lambda: kind.compile(self.op, form))

    def run(self, bound: Any, args: Arguments, arrays: list[Any]) -> Any:
        """Run a bound kernel; what it refuses runs on NumPy's."""
        if bound.numbers is None:
            found = bound.run(*arrays)
        else:
            numbers = bound.numbers(self._leaves(args))
            if numbers is None:
                return self.reference(self.op, args)
            found = bound.run(*arrays, *numbers)
        if type(found) is Tensor:
            return found
        if found is NotImplemented:
            return self.reference(self.op, args)
        return bound.finish(found)

    def _leaves(self, args: Arguments) -> list[Any]:
        """Tensors and live numbers among the arguments, in order."""
        found: list[Any] = []
        for i, a in enumerate(args):
            if isinstance(a, Tensor) or (i in self.live and is_live(self.op, i, a)):
                found.append(a)
            elif type(a) is tuple:
                found.extend([t for t in a if isinstance(t, Tensor)])
        return found


def runner(op: OpDef, reference: Runner) -> Runner:
    """What runs `op` on data."""
    if settings.get() == "reference" or DETERMINISM.enabled or not _may_have_kernel(op):
        return reference
    calls = _calls.get(op)
    if calls is None:
        calls = _calls[op] = OperatorCalls(op, reference)
    known, live, defaults = calls.known, calls.live, op.defaults
    recorded = op.kind is Kind.COMPOSITE  # what its body does may be

    def run(op: OpDef, args: Arguments) -> Any:
        key: list[Any] = []
        arrays: list[Any] = []
        for i, a in enumerate(args):
            if isinstance(a, Tensor):
                array = a._array
                if array is None or a._keys > AUTOGRAD:
                    return reference(op, args)
                key += (a.dtype, array.shape, array.strides, a._strides)
                arrays.append(array)
            elif a is None or a is defaults[i]:
                key.append(a)
            elif type(a) is tuple:
                if not _add_tuple(a, key, arrays):
                    return reference(op, args)
            elif type(a) is bool:
                key.append("yes" if a else "no")
            elif i in live and type(a) in _NUMBERS:
                key.append(type(a))
            else:
                key.append(exactly(a))
        signature = tuple(key)
        try:
            bound = known.get(signature)
        except TypeError:  # an argument that is like no other
            return reference(op, args)
        if not arrays or (recorded and not _below_everything(args)):
            return reference(op, args)
        if type(bound) is BoundKernel:
            return calls.run(bound, args, arrays)
        return calls.meet(args, signature, arrays)

    return run


_NUMBERS = (float, int)


def _add_tuple(values: tuple[Any, ...], key: list[Any], arrays: list[Any]) -> bool:
    """Add what a tuple of tensors, or of anything else, is to a key; False for tensors that no kernel takes."""
    key.append(len(values))
    for a in values:
        if isinstance(a, Tensor):
            array = a._array
            if array is None or a._keys > AUTOGRAD:
                return False
            key += (a.dtype, array.shape, array.strides, a._strides)
            arrays.append(array)
        else:
            key.append(a)
    return True


def _below_everything(args: Arguments) -> bool:
    """Whether nobody is to see the operators that a composite consists of."""
    if AMBIENT.keys or MODES.dual_levels or MODES.traces:
        return False
    return not MODES.grad or not any(
        t._keys for a in args for t in (a if type(a) is tuple else (a,)) if isinstance(t, Tensor)
    )


def _may_have_kernel(op: OpDef) -> bool:
    if op.random or op.data_dependent or op.family == "library":
        return False
    if op.kind is Kind.POINTWISE:
        return op.body is not None
    return op.kind in (Kind.STRUCTURAL, Kind.COMPOSITE)


_calls: dict[OpDef, OperatorCalls] = {}


def forget() -> None:
    """Drop all kernels: something has changed that they depend on."""
    _calls.clear()
    forget_runners()


install_layer("eager", runner)
on_default_change(forget)
on_determinism(forget)

"""A specialization whose sizes change, for one set of them: as if it had been compiled for these alone.

The native path knows nothing of sizes that change (runtime/invoke.py). A call with sizes that came before finds
the same program with these sizes filled in, whose calls are as short as those of any other program.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from ..runtime.executable import Executable
from ..runtime.sized import SizedExecutable
from .call_key import CallKey
from .specialization import Specialization

MOST_SIZES = 64  # for which a function keeps a specialization; those used last stay


class SizedSpecializations:
    """Those of one function, by the key of a call with all of its sizes, and its ints, which may be sizes."""

    def __init__(self) -> None:
        # None: met once; False: there can be none
        self._known: OrderedDict[Any, Specialization | Literal[False] | None] = OrderedDict()
        self._lock = threading.Lock()
        # by the shapes of plain arguments, native callables, each with its specialization
        self._native: dict[Any, tuple[Callable[..., Any], Specialization]] = {}

    def clear(self) -> None:
        self._known.clear()
        self.forget_native()

    def forget_native(self) -> None:
        self._native.clear()

    def native(self, args: Sequence[Any]) -> tuple[Callable[..., Any], Specialization] | None:
        """The native callable for arguments of these shapes, which looks at all else itself."""
        try:
            return self._native.get(tuple([argument._array.shape for argument in args]))
        except AttributeError:  # an argument that is no tensor, or one without memory
            return None

    def call_natively(
        self, tensors: Sequence[Any], native: Callable[..., Any], specialization: Specialization
    ) -> None:
        if len(self._native) >= MOST_SIZES:
            self._native.clear()
        self._native[tuple([tensor._array.shape for tensor in tensors])] = native, specialization

    def find(self, key: CallKey, leaves: Sequence[Any]) -> Specialization | None:
        if not self._known:
            return None
        exact = _exactly(key, leaves)
        with self._lock:
            found = self._known.get(exact)
            if found:
                self._known.move_to_end(exact)
        return found or None

    def met(
        self, key: CallKey, leaves: Sequence[Any], specialization: Specialization, numbers: Sequence[Any]
    ) -> None:
        """A call is about to run: when one like it comes again, it is worth a specialization."""
        exact = _exactly(key, leaves)
        with self._lock:
            if exact in self._known:
                if self._known[exact] is None:
                    self._known[exact] = at_sizes(specialization, numbers) or False
                self._known.move_to_end(exact)
            else:
                self._known[exact] = None
                if len(self._known) > MOST_SIZES:
                    self._known.popitem(last=False)


def _exactly(key: CallKey, leaves: Sequence[Any]) -> tuple[Any, ...]:
    return (key, *[leaf for leaf in leaves if type(leaf) is int])


def at_sizes(spec: Specialization, numbers: Sequence[Any]) -> Specialization | None:
    """A specialization for the sizes among the live numbers of a call; None if it would gain nothing."""
    found = spec.artifact.executable
    if not isinstance(found, SizedExecutable) or spec.backward is not None or spec.live.asks_places:
        return None
    sizes = spec.live.sizes_of(numbers)
    executable: Executable = found.at(sizes)
    if not executable.native:
        return None
    executable.call_natively()
    call = replace(
        spec.call,
        leaves=[spec.sized(leaf, sizes) for leaf in spec.call.leaves],
        gradients=[(target, spec.sized(leaf, sizes)) for target, leaf in spec.call.gradients],
        live=spec.live.at(numbers),
    )
    artifact = replace(spec.artifact, executable=executable)
    return replace(spec, call=call, artifact=artifact, fixed=True)

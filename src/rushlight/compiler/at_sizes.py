"""A specialization whose sizes change, for one set of them: as if it had been compiled for these alone.

The native path knows nothing of sizes that change (runtime/invoke.py). A call with sizes that came before finds
the same program with these sizes filled in, whose calls are as short as those of any other program.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..runtime.executable import Executable
from ..runtime.sized import SizedExecutable
from .call_key import CallKey
from .specialization import CallPath, Specialization

MOST_SIZES = 64  # for which a function keeps a specialization; those used last stay
MOST_WORKSPACE = 256 << 10  # bytes, which each of them has for itself: longer programs need no short calls


class SizedSpecializations:
    """Those of one function, by the key of a call with all of its sizes, and its ints, which may be sizes."""

    def __init__(self) -> None:
        self._known: OrderedDict[Any, Specialization | None] = OrderedDict()  # None: met once
        self._lock = threading.Lock()

    def clear(self) -> None:
        self._known.clear()

    def find(self, key: CallKey, leaves: Sequence[Any]) -> Specialization | None:
        if not self._known:
            return None
        exact = _exactly(key, leaves)
        with self._lock:
            found = self._known.get(exact)
            if found is not None:
                self._known.move_to_end(exact)
        return found

    def met(
        self, key: CallKey, leaves: Sequence[Any], specialization: Specialization, numbers: Sequence[Any]
    ) -> None:
        """A call is about to run: when one like it comes again, it is worth a specialization."""
        exact = _exactly(key, leaves)
        with self._lock:
            if exact in self._known:
                self._known[exact] = self._known[exact] or at_sizes(specialization, numbers)
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
    if not isinstance(found, SizedExecutable) or spec.backward is not None:
        return None
    sizes = spec.live.sizes_of(numbers)
    executable: Executable = found.at(sizes)
    if not executable.native or executable.workspace_size > MOST_WORKSPACE:
        return None
    call = replace(
        spec.call,
        leaves=[spec.sized(leaf, sizes) for leaf in spec.call.leaves],
        gradients=[(target, spec.sized(leaf, sizes)) for target, leaf in spec.call.gradients],
        live=spec.live.at(numbers),
    )
    fixed = replace(spec, call=call, artifact=replace(spec.artifact, executable=executable))
    return None if fixed.path is CallPath.PYTHON else fixed

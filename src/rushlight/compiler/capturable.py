"""`rushlight.compile(fullgraph=True, backend="eager")`: a function that runs as it is, where it has a graph.

In: calls. Out: what the function itself returns. Of every kind of call (call_key.py) the first is captured before
it runs: a program that cannot be captured whole raises CaptureError, and nothing has happened.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..capture.environment import environment_of
from ..core.dispatch import AMBIENT
from ..core.modes import MODES
from ..core.passes import PassLog
from ..core.tensor import DISPATCH, META, TRACED, Tensor
from .call_key import CallKey, key_of_call, leaves_of
from .pipeline import CAPTURE, CallToCapture


class CapturableFunction:
    """A function whose calls are captured once of each kind, and run eagerly."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._known: set[CallKey] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = leaves_of(args, kwargs)
        if not _is_inside(leaves):
            key = key_of_call(leaves, structure)
            if key not in self._known:
                environment = environment_of(self.function, (args, kwargs))
                PassLog().run(CAPTURE, CallToCapture(self.function, args, kwargs, environment))
                self._known.add(key)
        return self.function(*args, **kwargs)


def _is_inside(leaves: list[Any]) -> bool:
    """Whether transforms, captures or modes see the operators of a call: there is no program to capture then."""
    return bool(
        AMBIENT.keys & (TRACED | DISPATCH)
        or any(isinstance(leaf, Tensor) and leaf._keys & (TRACED | META) for leaf in leaves)
        or MODES.transforms
        or MODES.traces
        or MODES.dual_levels
    )

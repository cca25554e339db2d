"""A piece of a program as a compiled function that nobody has asked for: nothing but time may change."""

from __future__ import annotations

from typing import Any

from ..capture.captured_call import CapturedCall
from ..capture.environment import Surroundings
from ..compiler.call_key import CallKey
from ..compiler.function import CompiledFunction
from ..compiler.pipeline import CaptureResult
from ..compiler.specialization import Specialization
from ..logs import logger
from . import effects
from .automatic import Kind, run_eagerly

MOST_CHANGES = 4  # recompilations of one kind of call because of values from elsewhere; then it runs eagerly


class PieceFunction(CompiledFunction):
    """A compiled function that nobody has asked for."""

    kind: Kind

    # of the call that ran last
    ran_eagerly = False
    tried = False  # whether it was captured, and had no graph

    def _capture(
        self, key: CallKey, args: Any, kwargs: Any, environment: Surroundings, *, or_run: bool
    ) -> CaptureResult:
        environment.all_gradients = True
        with effects.refused():
            return super()._capture(key, args, kwargs, environment, or_run=or_run)

    def _compile(
        self, key: CallKey, args: Any, kwargs: Any, leaves: list[Any]
    ) -> tuple[Specialization | None, Any]:
        made, result = super()._compile(key, args, kwargs, leaves)
        self.ran_eagerly = made is None
        return made, result

    def _captured(
        self, key: CallKey, args: Any, kwargs: Any, environment: Surroundings
    ) -> tuple[CapturedCall | None, Any]:
        self.kind.captures += 1
        call, result = super()._captured(key, args, kwargs, environment)
        self.tried = call is None
        return call, result

    def _runs_eagerly(self, key: CallKey, reason: str) -> bool:
        if self._changes.get(key, 0) >= MOST_CHANGES:
            self.eager[key] = f"compiled {MOST_CHANGES} times for values that keep changing; last: {reason}"
            logger("breaks").info("%s runs eagerly: %s", self.function, self.eager[key])
        return key in self.eager or super()._runs_eagerly(key, reason)

    def _in_pieces(self, args: Any, kwargs: Any) -> Any:
        self.ran_eagerly = True
        if not self.eager:  # nothing has broken: the call is the first of its kind
            return run_eagerly(self.function, args, kwargs)
        return self.function(*args, **kwargs)  # its modules are pieces, too

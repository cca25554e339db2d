"""The state of a thread, handed to another one that goes on for it.

Every thread-local object of the library that a computation depends on is registered here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .autocast import AUTOCAST_STATE
from .dispatch import AMBIENT
from .modes import MODES

_STATES: tuple[Any, ...] = (MODES, AMBIENT, AUTOCAST_STATE)


def on_fresh_stack(function: Callable[[], Any]) -> Any:
    """`function()` on a new thread, which has a stack of its own; this thread waits and its state, as the
    function leaves it, comes back."""
    before = [dict(vars(state)) for state in _STATES]
    after: list[dict[str, Any]] = []
    outcome: list[Any] = []

    def run() -> None:
        for state, fields in zip(_STATES, before, strict=True):
            vars(state).update(fields)
        try:
            outcome.append((function(), None))
        except BaseException as error:  # raised again below, on the thread that waits
            outcome.append((None, error))
        after.extend(dict(vars(state)) for state in _STATES)

    thread = threading.Thread(target=run, name="rushlight-nested")
    thread.start()
    thread.join()
    for state, fields in zip(_STATES, after, strict=True):
        vars(state).update(fields)
    result, error = outcome[0]
    if error is not None:
        raise error
    return result

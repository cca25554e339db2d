"""The stance of the compiler: what a compiled function does with a call that no specialization serves.

default              compile a specialization
force_eager          run every call eagerly, also those that are compiled
eager_on_recompile   run it eagerly
fail_on_recompile    raise
eager_then_compile   run the first call of a kind eagerly, compile from the second on
"""

from __future__ import annotations

from collections.abc import Callable

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile")


class _Stance:
    name = "default"


STANCE = _Stance()
_on_change: list[Callable[[], None]] = []


def on_change(listener: Callable[[], None]) -> None:
    _on_change.append(listener)


def set_stance_name(name: str) -> None:
    STANCE.name = name
    for listener in _on_change:
        listener()

"""Whether the program looks at gradients on their way: those of tensors that are no leaves.

A compiled call is one node of the tape. Of a result that others of its results are computed from, a backward pass
finds only what comes from outside of the call. Code that nobody has asked to compile (programs/) is therefore not
compiled into a call with such a result once the program has asked for the gradient of a tensor that is no leaf.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.dispatch import AMBIENT
from .tape import Node


class _Asked:
    yet = False


ASKED = _Asked()
_listeners: list[Callable[[], None]] = []


def on_first(listener: Callable[[], None]) -> None:
    """`listener` is called when the program asks for such a gradient for the first time."""
    _listeners.append(listener)


def ask(node: Node, output: int) -> None:
    """The program asks for the gradient of an output of a node."""
    if AMBIENT.trace is not None:  # a capture has the whole history
        return
    if not ASKED.yet:
        ASKED.yet = True
        for listener in _listeners:
            listener()
    node.show(output)

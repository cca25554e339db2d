"""The modes of a thread: whether operations are recorded for autograd, and whether inference mode is on.

Everything that reads or changes these goes through `MODES`; whoever changes one restores it in `finally`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Modes(threading.local):
    grad = True  # operations on tensors that require grad are recorded
    constant = False  # the program has turned recording off: derivatives take its results as constants
    forward_grad = True  # tangents are propagated
    inference = False
    dual_levels = 0  # how many levels of forward mode are open
    limit: float = float("inf")  # tangents of this level and inner ones are ignored: they are being computed
    silent: frozenset[Any] = frozenset()  # interpreters at whose level nothing is recorded
    transforming: Any = None  # the innermost transform that differentiates the function that is running
    saved_hooks: tuple[Any, ...] = ()  # pairs (pack, unpack) in force, the innermost last
    before_write: Any = None  # called with every tensor that is about to be written to
    hooks_disabled: str | None = None  # why saved-tensor hooks are refused at present
    run: Any = None  # the backward pass that is running
    anomaly = False  # record where each node was made, and blame it when its backward fails
    profiler: Any = None  # what records the operators that run
    multithreading = True  # whether a backward pass may use threads
    check_nan = True  # with anomaly: backward refuses NaN
    plain: bool | int = False  # no class is asked what functions do with its objects (see overrides.py)
    watch: Any = None  # of a capture: is told of every function of the user's that is about to run
    # what runs modules and steps of optimizers, each compiled on its own (compiler/graph_breaks.py); None: they
    # run themselves
    pieces: Any = None
    dispatchers: tuple[Any, ...] = ()  # modes that are given every operator, the innermost last
    undispatched = False  # no class and no mode is given operators (see python_dispatch.py)
    asking: tuple[str, ...] = ()  # facts that an object of such a class is being asked for
    excluded: Any = None  # the dispatch keys that the program has excluded, if any
    below = False  # an operator is being run by a class or mode: autograd has seen it already
    pending: Any = None  # the operator whose in-place form a class may run, and the tensor it writes to
    functions: tuple[Any, ...] = ()  # modes that see every call of a function, the innermost last
    default_device = False  # whether the first of `devices` was set for good, by no context
    devices: tuple[Any, ...] = ()  # where factories put new tensors if nobody says, the innermost last

    def __init__(self) -> None:
        self.dual_stack: list[Any] = []  # the dual levels a user opened, innermost last
        self.traces: list[Any] = []  # the open vmaps and their like, which run operators, innermost last
        self.transforms: list[Any] = []  # what a program transforms its functions by (see transforms.py)


MODES = _Modes()


@contextmanager
def run_pieces_by(runner: Any) -> Iterator[None]:
    """Have `runner` run the modules and steps that this thread meets, or nobody if it is None. Afterwards it is
    again who it was, or, if the thread had nobody of its own, who it is for all threads."""
    own = vars(MODES)
    before = own.get("pieces", own)
    MODES.pieces = runner
    try:
        yield
    finally:
        if before is own:
            del MODES.pieces
        else:
            MODES.pieces = before


def refuse_in_transform(name: str) -> None:
    """Refuse what would change how a tensor is recorded, inside of a function that is being transformed."""
    if MODES.transforms:
        raise RuntimeError(
            f"You are attempting to call Tensor.{name}, perhaps by a function of autograd.functional "
            "(torch.autograd.functional), inside of a function that is being transformed by func.grad, "
            "vmap or the like. Transforms record what they need themselves: take the derivative with them "
            "instead."
        )

"""The errors of capture: what happened, where in the user's program, and what to do.

    /home/me/train.py:12: the program reads a value that is known only when it runs (item(), bool(), ...)
        if loss > best:
    What to do: compute with the tensor instead of its value, ...
        best = rushlight.minimum(best, loss)        # instead of: if loss < best: best = loss
    Without fullgraph=True ...

Whoever raises one says what happened and which `Problem` it is; the text of the remedy belongs to the problem,
and the line is that of the innermost frame outside of this package (`user_line`) or, of what concerns a
function as a whole, that of its definition (`CaptureError.locate`).
"""

from __future__ import annotations

import linecache
import sys
from enum import Enum
from types import CodeType, FrameType
from typing import Any

KEPT = (
    "a tensor was kept that a function made while it was captured by rushlight.compile; such a tensor "
    "has no data. Return it from the function instead"
)


class Problem(Enum):
    """A kind of program that has no graph: what to do about it, and an example."""

    READS_VALUE = (
        "compute with the tensor instead of its value, or return it and look at it outside of the function",
        "y = rushlight.where(x.sum() > 0, x, -x)        # instead of: y = x if x.sum() > 0 else -x",
    )
    SHAPE_FROM_DATA = (
        "return the result as it is, or select elements by a mask: their number may be data",
        "total = x[x > 0].sum()        # instead of: total = x.unique(dim=0).sum()",
    )
    SIZE_FROM_DATA = (
        "say with rushlight._check what holds of it, or choose by a tensor (where, cond)",
        "rushlight._check(n < 8)        # a run raises an error where it does not hold",
    )
    WRITE_BEFORE_USE = (
        "write to a copy, so that the selection still finds what it is made of",
        "rows = x.clone().unique(dim=0); x.zero_()        # instead of: rows = x.unique(dim=0); x.zero_()",
    )
    TENSOR_CLASS = (
        "compile a function of plain tensors, and wrap and unwrap around it",
        "y = Wrapper(compiled(x.inner))        # instead of: y = compiled(x)",
    )
    LAYOUT = (
        "convert to a dense tensor before the call, or do this part outside of the compiled function",
        "y = compiled(x.to_dense())        # quantized: compiled(x.dequantize())",
    )
    LARGE_NUMBER = (
        "use a number of 64 bits, a float or a tensor",
        "y = x * float(2**70)        # instead of: y = x * 2**70",
    )
    SHARED_MEMORY = (
        "pass copies of what shares memory",
        "compiled(x, y.clone())        # where y is a view of the memory of x",
    )
    RETURNED_MEMORY = (
        "return a copy, or take the view outside of the function",
        "return y.clone()        # instead of: return y",
    )
    HISTORY = (
        "write without recording, or compute a new tensor and return it",
        "with rushlight.no_grad(): weight.add_(step)        # or: return weight + step",
    )
    OVERLAPPING_WRITE = (
        "write to a tensor whose elements have memory of their own",
        "y = x.expand(3, 4).clone(); y.add_(1)        # instead of: x.expand(3, 4).add_(1)",
    )
    EARLIER_HISTORY = (
        "compute what is differentiated inside of the compiled function, too",
        "def step(x): loss = model(x).sum(); loss.backward()        # not: def step(loss): loss.backward()",
    )
    OWN_LEAF = (
        "make leaves outside of the compiled function and pass them to it",
        "w = rushlight.zeros(3, requires_grad=True); y = compiled(x, w)",
    )
    DIFFERENTIATED = (
        "take these gradients inside of the compiled function, or make the step that differs without recording",
        "grad, = rushlight.autograd.grad(loss, weights)        # inside of the function",
    )
    RANDOM_STATE = (
        "set and read the state of the generator outside of the compiled function",
        "rushlight.manual_seed(0); y = compiled(x)",
    )
    STATE = (
        "return the new value, and keep it outside of the compiled function",
        "y, total = compiled(x, total)        # instead of changing `total` in the function",
    )
    RETURNED_OBJECT = (
        "return tensors, numbers, and containers of them",
        "return [f(x) for f in fs]        # instead of: return (f(x) for f in fs)",
    )
    BODY = (
        "let the function return what it computes, and write or draw outside of it",
        "noise = rushlight.rand(n, 3); scan(lambda h, e: (h + e, h * e), h, noise)",
    )
    EFFECT = (
        "do it outside of the compiled function, or in a function that is never compiled",
        "@rushlight.compiler.disable        # above the function that does it",
    )

    def __init__(self, remedy: str, example: str) -> None:
        self.remedy, self.example = remedy, example


OTHERWISE = "Without fullgraph=True such a call runs eagerly, with its modules compiled on their own."


class CaptureError(Exception):
    """The program does something that has no place in a graph. `what` is that, `place` the line of the user's
    program as file:line, `problem` the kind of it."""

    otherwise: tuple[str, ...] = (OTHERWISE,)

    def __init__(self, what: str, place: str, problem: Problem = Problem.EFFECT) -> None:
        super().__init__(what, place, problem)
        self.what, self.place, self.problem = what, place, problem

    def locate(self, function: Any) -> None:
        """The error concerns `function` as a whole, if nothing else is known."""
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if not self.place and isinstance(code, CodeType):
            self.place = f"{code.co_filename}:{code.co_firstlineno}"

    @property
    def summary(self) -> str:
        """One line: where, and what."""
        return f"{self.place}: {self.what}" if self.place else self.what

    def __str__(self) -> str:
        source = _source_line(self.place)
        return "\n".join(
            [
                self.summary,
                *([f"    {source}"] if source else []),
                f"What to do: {self.problem.remedy}.",
                f"    {self.problem.example}",
                *self.otherwise,
            ]
        )


class StateError(CaptureError):
    """The program changes something of Python's in a way that cannot be repeated."""

    def __init__(self, what: str, place: str = "", problem: Problem = Problem.STATE) -> None:
        super().__init__(what, place, problem)


def _source_line(place: str) -> str:
    """The text of a line of the user's program, where its file can be read."""
    file, _, line = place.rpartition(":")
    return linecache.getline(file, int(line)).strip() if line.isdigit() else ""


# Packages whose frames are passed by: this one, and those that logs and warnings of a program go through.
_PASSED_BY = frozenset({__name__.partition(".")[0], "logging", "warnings"})


def user_line() -> str:
    """The innermost line outside of this package, as file:line."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


def user_frame() -> FrameType | None:
    """The innermost frame outside of this package."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (id(frame.f_globals) in _OWN or _is_own(frame.f_globals)):
        frame = frame.f_back
    return frame


_OWN: set[int] = set()  # the globals of modules of this package, which stay as long as the process does


def _is_own(variables: dict[str, Any]) -> bool:
    name = str(variables.get("__name__", ""))
    module = sys.modules.get(name)
    if name.partition(".")[0] not in _PASSED_BY:
        return False
    if module is not None and vars(module) is variables:
        _OWN.add(id(variables))
    return True

"""The table of scalar instructions that can be emitted, by the names of the NumPy handler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..emitter import Emitter


@dataclass(frozen=True, slots=True)
class Function:
    """An instruction: called with an emitter and values of one type, it emits code and gives the result.

    Integers have no sign in LLVM: `signed` says how operands are meant where that changes the result
    (`by_sign`).
    """

    name: str
    emit: Callable[..., Any]
    by_sign: bool

    def __call__(self, e: Emitter, *values: Any, signed: bool = True) -> Any:
        return self.emit(e, *values, signed=signed) if self.by_sign else self.emit(e, *values)


FUNCTIONS: dict[str, Function] = {}


def function(*names: str, by_sign: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register an emitting function under `names`, or under its own name."""

    def register(emit: Callable[..., Any]) -> Callable[..., Any]:
        for name in names or (emit.__name__,):
            if name in FUNCTIONS:
                raise ValueError(f"the instruction {name!r} is defined twice")
            FUNCTIONS[name] = Function(name, emit, by_sign)
        return emit

    return register


def in_double(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A formula for doubles as one for floats too: computed in double and rounded once, as the eager kernels
    do.

    For functions that are rarely used: a float costs twice as much as its own polynomials would.
    """

    def emit(e: Emitter, *values: Any) -> Any:
        if e.is_double(values[0]):
            return formula(e, *values)
        return e.narrow(formula(e, *[e.widen(v) for v in values]))

    return emit

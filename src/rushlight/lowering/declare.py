"""Declaring how an operator is lowered: `@lowering("flip")`, and `extern` for what stays a library call.

A rule takes the arguments it names, tensors as `Lowered`, and returns `Lowered` (a tuple for several
outputs). It may also name `low` (the Lowerer) and `out` (the Spec, or Specs, of the outputs). Pointwise
operators and views need no rule: theirs follows
from the body and from the shape rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.binding import by_name, declaring_module
from ..core.errors import RegistrationError
from ..core.registry import Kind, operator


class LibraryCall:
    """The operator runs as a call of its eager kernel on whole buffers, for the given reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return f"EXTERN: {self.reason}"


def extern(reason: str, *names: str) -> None:
    """Say that the operators `names` stay library calls, and why."""
    module = declaring_module()
    for name in names:
        op = operator(name)
        if op.lowering is not None:
            raise RegistrationError(f"{name} already has a lowering")
        op.lowering = LibraryCall(reason)
        op.declared["lowering"] = module


def lowering(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Attach a lowering rule to the operators `names`."""
    module = declaring_module()

    def declare(rule: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            op = operator(name)
            if op.lowering is not None:
                raise RegistrationError(f"{name} already has a lowering")
            if op.kind is not Kind.STRUCTURAL:
                raise RegistrationError(
                    f"{name} is {op.kind.value}; only structural operators take a lowering rule"
                )
            op.lowering = by_name(rule, (*op.schema.argument_names, "low", "out"), f"lowering of {name}")
            op.declared["lowering"] = module
        return rule

    return declare

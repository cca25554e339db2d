"""The decompositions as a table: which operators are defined by simpler ones, and how.

    get_decompositions([rushlight.ops.aten.addmm])  -> {aten.addmm.default: function, ...}

Composite operators are their decomposition; structural ones may have one beside their kernel. The functions
take an operator's arguments as a caller gives them and are made of ordinary operators, so they can be run,
captured and differentiated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from ..core.aten import FUNCTIONAL, OpOverload, OpOverloadPacket
from ..core.aten import overload as overload_of
from ..core.dispatch import execute
from ..core.registry import REGISTRY, Kind, OpDef
from ..core.resolve import bind

Decomposition = Callable[..., Any]


def get_decompositions(
    operators: Iterable[OpOverload | OpOverloadPacket | str],
) -> dict[OpOverload, Decomposition]:
    """The decompositions of these operators.

    A packet stands for all of its overloads, a name for its operator. Operators that have none are left out.
    """
    found: dict[OpOverload, Decomposition] = {}
    for operator in operators:
        for overload in _overloads(operator):
            if overload.op.decomposition is not None and overload.form == FUNCTIONAL:
                found[overload] = decomposition_of(overload.op)
    return found


def core_aten_decompositions() -> dict[OpOverload, Decomposition]:
    """Every operator that is defined by simpler ones, with its decomposition."""
    return get_decompositions(op.name for op in REGISTRY if op.decomposition is not None)


def decomposition_of(op: OpDef) -> Decomposition:
    """The decomposition of `op` as a function with the operator's signature."""
    body = op.decomposition
    if body is None:
        raise LookupError(f"{op.name} has no decomposition")

    @functools.wraps(body, updated=())
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        values = bind(op, args, kwargs)
        if isinstance(values, str):
            raise TypeError(f"{op.name}: {values}. The signature is {op.schema}")
        return run_decomposition(op, values)

    return decomposition


def run_decomposition(op: OpDef, values: tuple[Any, ...]) -> Any:
    """The decomposition of `op` on its complete argument tuple."""
    assert op.decomposition is not None
    return execute(op, values) if op.kind is Kind.COMPOSITE else op.decomposition(values)


def _overloads(operator: OpOverload | OpOverloadPacket | str) -> list[OpOverload]:
    if isinstance(operator, OpOverload):
        return [operator]
    if isinstance(operator, OpOverloadPacket):
        return [getattr(operator, name) for name in operator.overloads()]
    return [overload_of(REGISTRY[operator])]

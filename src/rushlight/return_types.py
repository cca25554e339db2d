"""The named tuples that operators return: `return_types.max`, `return_types.linalg_svd`, ..."""

from __future__ import annotations

from typing import Any

from .core.registry import REGISTRY, OpDef
from .core.resolve import result_type

_named: dict[str, OpDef] = {op.schema.name: op for op in REGISTRY if op.result_names is not None}

__all__ = [*sorted(_named)]  # noqa: PLE0604  names of operators


def __getattr__(name: str) -> Any:
    """The type of results of the operator `name`, which is made when it is asked for."""
    op = _named.get(name)
    if op is None:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}: no operator of that name returns a named tuple"
        )
    return result_type(op.schema.name, op.result_names)

"""Calls of any operator with arguments chosen by their types alone: to see that it computes, or refuses in
words, whatever it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import dispatch
from ..core.dtypes import DType
from ..core.registry import OpDef
from ..core.schema import REQUIRED
from ..core.tensor import Tensor

# What operators refuse with; quantized_decomposed refuses dtypes with an AssertionError, as PyTorch does.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, AssertionError)


def plain_arguments(op: OpDef, tensor: Callable[[int], Tensor], dtype: DType) -> tuple[Any, ...]:
    """Arguments by their types; tensor(n) gives the nth tensor, of those without None as their default."""
    plain: dict[str, Any] = {"Scalar": 1.5, "float": 1.5, "str": "sum", "ScalarType": dtype}
    found: list[Any] = []
    number = 0
    for argument in op.schema.arguments:
        kind = argument.type
        if kind.base == "Tensor":
            if kind.optional and argument.default is None and number:
                found.append(None)
                continue
            given = tensor(number)
            number += 1
            found.append((given, given) if kind.is_list else given)
        elif argument.default is not REQUIRED:
            found.append(argument.default)
        elif kind.base in ("int", "bool"):
            value: Any = 1 if kind.base == "int" else False
            found.append((value, value, value)[: kind.size or 2] if kind.is_list else value)
        else:
            value = plain.get(kind.base)
            found.append((value, value) if kind.is_list and value is not None else value)
    return tuple(found)


def plain_outcome(op: OpDef, tensor: Callable[[int], Tensor], dtype: DType) -> Any:
    """The result for copies of the tensors, or None for a refusal; other errors go through."""
    try:
        return dispatch.call(op, plain_arguments(op, lambda n: tensor(n).clone(), dtype))
    except REFUSALS:
        return None


def result_tensors(result: Any) -> list[Tensor]:
    return [t for t in (result if isinstance(result, tuple) else (result,)) if isinstance(t, Tensor)]

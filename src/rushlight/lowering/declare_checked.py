"""Lowering rules of programs: what such a rule returns is checked before it becomes code.

In: the rule of an operator that a program defined, as the registry attached it. Out: the same rule, which
raises where its results are not what the shape rule promised, or where it reads an element that may lie outside
of an argument. Invariant: generated code reads inside of its buffers, whoever wrote the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.errors import check
from ..core.index import as_index
from ..core.registry import OpDef
from ..core.shapes import Spec
from ..loops.expr import Expr
from .lowered import Indices, Lowered, Lowerer

Rule = Callable[[tuple[Any, ...]], Any]


def checked(op: OpDef, rule: Rule) -> Rule:
    """`rule`, with its reads and its results checked."""

    def run(args: tuple[Any, ...]) -> Any:
        *values, low, specs = args
        expected = specs if isinstance(specs, tuple) else (specs,)
        if not any(0 in spec.known_shape() for spec in expected):
            _check_reads(op, rule, values, low, specs)
        results = rule(args)
        _check_results(op, results if isinstance(results, tuple) else (results,), expected)
        return results

    return run


def _check_results(op: OpDef, results: Sequence[Any], specs: Sequence[Spec]) -> None:
    check(
        len(results) == len(specs),
        f"the lowering of {op.name} returned {len(results)} results, its shape rule {len(specs)}",
    )
    for result, spec in zip(results, specs, strict=True):
        check(
            isinstance(result, Lowered),
            f"the lowering of {op.name} returned a {type(result).__name__}, not a Lowered",
        )
        check(
            result.shape == spec.known_shape() and result.dtype is spec.dtype,
            f"the lowering of {op.name} returned {result.dtype.name}{list(result.shape)}, its shape rule "
            f"promised {spec.dtype.name}{list(spec.known_shape())}",
        )


def _check_reads(op: OpDef, rule: Rule, values: Sequence[Any], low: Lowerer, specs: Any) -> None:
    """Run the rule on stand-ins that look at each index they are read at; what it defines is dropped."""
    definitions, buffers, operands = len(low.definitions), len(low.buffers), len(low.operands)
    names = op.schema.argument_names
    watched = [_watched(op, name, value, low) for name, value in zip(names, values, strict=True)]
    try:
        results = rule((*watched, low, specs))
        for result in results if isinstance(results, tuple) else (results,):
            if isinstance(result, Lowered):
                result.example()
    finally:
        del low.definitions[definitions:], low.buffers[buffers:]
        for key in list(low.operands)[operands:]:
            del low.operands[key]


def _watched(op: OpDef, name: str, value: Any, low: Lowerer) -> Any:
    if isinstance(value, tuple | list):
        return type(value)([_watched(op, name, part, low) for part in value])
    if not isinstance(value, Lowered):
        return value
    memory = low.stored(low.fresh_buffer(value.dtype, value.shape), value.shape)

    def element(index: Indices) -> Expr:
        check(
            len(index) == len(value.shape),
            f"the lowering of {op.name} reads {name}, which has {len(value.shape)} dimensions, at "
            f"{len(index)} indices",
        )
        for d, (at, size) in enumerate(zip(index, value.shape, strict=True)):
            least, greatest = as_index(at).bounds()
            check(
                least >= 0 and greatest < max(size, 1),
                f"the lowering of {op.name} reads {name} at {at} along dimension {d}, which may be anything "
                f"from {least} to {greatest}, but the size is {size}; bring it back inside by a remainder "
                f"(% {size})",
            )
        return memory.load(index)

    return low.generated(value.shape, value.dtype, element)

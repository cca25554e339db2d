"""Declaring elementwise operators by their scalar bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Unpack

from .binding import by_name, check_names
from .promotion import Promotion
from .registry import FUNCTION, INPLACE, METHOD, OUT, Api, Kind, OpDef, PointwiseFacts, _add, _family
from .schema import Schema, parse_schema


def pointwise(
    *schemas: str,
    promote: Promotion | Callable[..., Promotion] = Promotion.DEFAULT,
    api: Api = FUNCTION | METHOD | INPLACE | OUT,
    conditions: Sequence[str] = (),
    exact: Sequence[str] = (),
    check: Callable[..., None] | None = None,
    checks_numbers: bool = False,
    **facts: Unpack[PointwiseFacts],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare an elementwise operator by its scalar body; several schemas are overloads with the same body.

    The body is `body(ops, *arguments)` over a handler `ops`. Tensor and Scalar arguments are operands:
    promoted, cast to the compute dtype and given as handler values, except the ones listed in
    `parameters`, which stay Python values (as do bool, str, int arguments).

    promote         a Promotion, or a function that names the arguments it depends on and returns one
    conditions      operands that take no part in promotion: bool tensors, as the first argument of where
    exact           operands which, as a number or 0-d tensor, keep the precision of the compute dtype
                    (bfloat16 x * 0.1)
    check           names the arguments it validates: dtypes, types of numbers and parameters, never shapes
                    or data; with `checks_numbers` also the values of numbers
    """
    family = _family()

    def declare(body: Callable[..., Any]) -> Callable[..., Any]:
        for text in schemas:
            schema = parse_schema(text)
            op = OpDef(schema, Kind.POINTWISE, family, api=api, body=_handler_body(body, schema), **facts)
            _set_promotion(op, promote, conditions, exact)
            _set_check(op, check, checks_numbers)
            _add(op)
        return body

    return declare


def _set_promotion(
    op: OpDef, promote: Promotion | Callable[..., Promotion], conditions: Sequence[str], exact: Sequence[str]
) -> None:
    names = op.schema.argument_names
    op.conditions = frozenset(names.index(name) for name in conditions)
    op.exact = frozenset(names.index(name) for name in exact)
    if isinstance(promote, Promotion):
        op.promote = promote
    else:
        op.promote_by = by_name(promote, names, f"promotion of {op.name}")


def _set_check(op: OpDef, check: Callable[..., None] | None, checks_numbers: bool) -> None:
    if check is not None:
        op.check = by_name(check, op.schema.argument_names, f"check of {op.name}")
        op.checks_numbers = checks_numbers


def instruction(*schemas: str, name: str = "", **options: Any) -> None:
    """Declare elementwise operators that are one instruction of the handler, by default the one of the same
    name.
    """
    for text in schemas:
        word = name or parse_schema(text).name
        pointwise(text, instruction=word, **options)(attrgetter(word))


def _handler_body(body: Callable[..., Any], schema: Schema) -> Callable[..., Any]:
    """`body` with its parameters checked against the schema; bodies may leave out arguments they ignore.

    The body of an operator that is one instruction is what gets the instruction from the handler.
    """
    if isinstance(body, attrgetter):
        return lambda ops, *args: body(ops)(*args)
    names = check_names(body, ("ops", *schema.argument_names), schema.full_name)
    if names == ("ops", *schema.argument_names):
        return body
    positions = [schema.argument_names.index(name) for name in names[1:]]
    return lambda ops, *args: body(ops, *[args[i] for i in positions])

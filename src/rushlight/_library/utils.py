"""Questions about schemas and operators."""

from __future__ import annotations

from typing import Any

from ..core.aten import FunctionSchema, OpOverload, find
from ..core.schema import Schema, parse_schema

__all__ = ["is_functional_schema", "is_tensorlist_like_type", "lookup_op", "parse_namespace"]


def is_functional_schema(schema: Any) -> bool:
    """Whether an operator writes to no argument, returns something, and nothing of its arguments."""
    if isinstance(schema, str):
        schema = parse_schema(schema)
    if isinstance(schema, FunctionSchema):
        schema = schema.schema
    elif not isinstance(schema, Schema):
        schema = parse_schema(str(schema))
    return (
        bool(schema.returns)
        and not schema.mutable_arguments
        and all(result.type.alias is None for result in schema.returns)
    )


def is_tensorlist_like_type(typ: Any) -> bool:
    """Whether a type of a schema is a list of tensors, optional or not."""
    return bool(typ.is_list and typ.base == "Tensor")


def parse_namespace(qualname: str) -> tuple[str, str]:
    """The two parts of "namespace::name"."""
    space, separator, name = qualname.partition("::")
    if not separator or "::" in name:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. '
            "The qualname passed to the library APIs must consist of a namespace and a name"
        )
    return space, name


def lookup_op(qualname: str) -> OpOverload:
    """The overload that "namespace::name" or "namespace::name.overload" names."""
    space, name = parse_namespace(qualname)
    short, _, overload = name.partition(".")
    found: OpOverload = find(space, short, overload or "default")
    return found

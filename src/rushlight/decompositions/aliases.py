"""Operators that are another operator under a second name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..core.binding import declaring_module, family_of
from ..core.dispatch import call
from ..core.registry import REGISTRY, Api, Kind, OpDef
from ..core.schema import Schema


def alias(
    target: str,
    name: str,
    *,
    api: Api | None = None,
    namespace: str = "",
    public_name: str = "",
    overloads: Mapping[str, str] | None = None,
) -> None:
    """Declare `name` with the overloads of `target`; `overloads` renames them and drops those not in it.

    `api` is how `name` is exposed; None means as each overload of the target is.
    """
    family = family_of(declaring_module())
    for op in REGISTRY.overloads(target):
        overload = op.schema.overload
        if overloads is not None:
            if overload not in overloads:
                continue
            overload = overloads[overload]
        schema = dataclasses.replace(op.schema, name=name, overload=overload)
        REGISTRY.add(_forward(op, schema, family, op.api if api is None else api, namespace, public_name))


def _forward(target: OpDef, schema: Schema, family: str, api: Api, namespace: str, public_name: str) -> OpDef:
    return OpDef(
        schema,
        Kind.COMPOSITE,
        family,
        api=api,
        namespace=namespace,
        public_name=public_name,
        body=lambda args: call(target, args),
    )

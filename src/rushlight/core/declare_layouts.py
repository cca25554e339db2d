"""Declaring operators and kernels for tensors that are not strided, or quantized."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .binding import by_name, declaring_module
from .errors import RegistrationError
from .registry import FUNCTION, METHOD, Api, Kind, OpDef, Rule, SparseKernel, _add, _family, operator
from .schema import parse_schema
from .traits import Trait


def sparse_operator(
    schema: str,
    *,
    api: Api = FUNCTION | METHOD,
    namespace: str = "",
    public_name: str = "",
    traits: Trait = Trait.NONE,
) -> None:
    """Declare an operator that makes sparse tensors, or looks inside of them.

    What it returns depends on data, so that it has no place in a graph.
    """
    _add(
        OpDef(
            parse_schema(schema),
            Kind.SPARSE,
            _family(),
            api=api,
            data_dependent=True,
            namespace=namespace,
            public_name=public_name,
            traits=traits,
        )
    )


def sparse_kernel(
    *names: str, layouts: Sequence[Any] | None = None, through: bool = True, makes: bool = False
) -> Callable[[Rule], Rule]:
    """Attach how operators run where an argument is not strided.

    The function names the schema arguments it needs; it takes and returns tensors. Arguments of layouts that
    are not listed are refused before it is called. It looks at structure as it likes, but what it does with
    values it does by operators, and is differentiated `through` them; otherwise it runs below autograd, and
    the operator's derivative is what is declared for it. One that `makes` sparse tensors also runs where the
    argument `layout` asks for one.
    """

    def declare(function: Rule) -> Rule:
        for name in names:
            op = operator(name)
            attach_sparse(
                op,
                by_name(function, op.schema.argument_names, f"sparse kernel of {name}"),
                layouts=layouts,
                through=through,
                layout_at=op.schema.argument_names.index("layout") if makes else None,
            )
        return function

    return declare


def attach_sparse(
    op: OpDef,
    function: Callable[[tuple[Any, ...]], Any],
    *,
    layouts: Sequence[Any] | None = None,
    through: bool = True,
    layout_at: int | None = None,
) -> None:
    """Attach a sparse kernel that takes the whole argument tuple."""
    if op.sparse is not None:
        raise RegistrationError(f"{op.name} already has a sparse kernel")
    op.declared["sparse"] = declaring_module()
    op.sparse = SparseKernel(function, None if layouts is None else frozenset(layouts), through, layout_at)


def quantized_operator(schema: str, *, api: Api = FUNCTION | METHOD) -> None:
    """Declare an operator that makes quantized tensors, or looks inside of them.

    Such a tensor has no place in a graph.
    """
    _add(OpDef(parse_schema(schema), Kind.QUANTIZED, _family(), api=api, data_dependent=True))


def quantized_kernel(*names: str) -> Callable[[Rule], Rule]:
    """Attach how operators run where an argument is quantized.

    The function names the schema arguments it needs; it takes and returns tensors.
    """

    def declare(function: Rule) -> Rule:
        for name in names:
            op = operator(name)
            attach_quantized(op, by_name(function, op.schema.argument_names, f"quantized kernel of {name}"))
        return function

    return declare


def attach_quantized(op: OpDef, function: Callable[[tuple[Any, ...]], Any]) -> None:
    """Attach a quantized kernel that takes the whole argument tuple."""
    if op.quantized is not None:
        raise RegistrationError(f"{op.name} already has a quantized kernel")
    op.quantized = function
    op.declared["quantized"] = declaring_module()

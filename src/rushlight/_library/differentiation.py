"""Derivatives and batching rules of operators that programs define, as a `Function` of autograd.

Arguments that are lists of tensors are given to the Function one by one, and gathered again for the kernel
and for the rules, which see arguments and results as the schema has them.
"""

from __future__ import annotations

from typing import Any

from ..autograd import Function
from ..core.dispatch import Arguments
from ..core.errors import check


def apply(custom: Any, args: Arguments) -> Any:
    """Run an operator as a function of autograd."""
    flat, structure = flatten(args)
    returns = custom.op.schema.returns
    if any(result.type.is_list for result in returns):
        shape: list[Any] = []  # of what it returns, known once it has run
        function = _function(custom, structure, shape)
    else:
        shape = [None if len(returns) == 1 else (tuple, [None] * len(returns))]
        key = repr(structure)
        function = custom.functions.get(key) or custom.functions.setdefault(
            key, _function(custom, structure, shape)
        )
    outputs = function.apply(*flat)
    return gather(outputs if isinstance(outputs, tuple) else (outputs,), shape[0])


def flatten(value: Any) -> tuple[list[Any], Any]:
    """The leaves of nested tuples and lists, and what to gather them to."""
    if isinstance(value, tuple | list):
        leaves: list[Any] = []
        parts = []
        for part in value:
            found, structure = flatten(part)
            leaves += found
            parts.append(structure)
        return leaves, (type(value), parts)
    return [value], None


def gather(leaves: Any, structure: Any) -> Any:
    iterator = iter(leaves)

    def build(structure: Any) -> Any:
        if structure is None:
            return next(iterator)
        kind, parts = structure
        return kind([build(part) for part in parts])

    return build(structure)


def inputs_of(custom: Any, values: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """All arguments as the rules get them: the positional ones, and those by keyword only."""
    schema = custom.op.schema
    values = [list(v) if isinstance(v, tuple) else v for v in values]
    positional = tuple(values[: len(schema.positional)])
    return positional, {a.name: v for a, v in zip(schema.arguments, values, strict=True) if a.keyword_only}


def _function(custom: Any, structure: Any, shape: list[Any]) -> Any:
    keyword_only = bool(custom.op.schema.keyword_only)
    lists = any(part is not None for part in structure[1])

    def forward(*flat: Any) -> Any:
        result = custom.run(gather(flat, structure))
        leaves, found = flatten(result)
        shape[:] = [found]
        return tuple(leaves) if found is not None else result

    def setup_context(ctx: Any, flat: Any, output: Any) -> None:
        if lists:
            ctx.needs_input_grad = tuple(_as_lists(gather(ctx.needs_input_grad, structure)))
        ctx._custom_shape = shape[0]
        if custom.setup_context is None:
            return
        positional, keywords = inputs_of(custom, gather(flat, structure))
        outputs = gather(output if isinstance(output, tuple) else (output,), shape[0])
        if keyword_only:
            custom.setup_context(ctx=ctx, inputs=positional, keyword_only_inputs=keywords, output=outputs)
        else:
            custom.setup_context(ctx=ctx, inputs=positional, output=outputs)

    def backward(ctx: Any, *grads: Any) -> Any:
        if custom.backward is None:
            raise RuntimeError(
                f"Trying to backward through {custom.op.name} but no autograd formula was "
                "registered. Please use register_autograd to add one."
            )
        given = gather(grads, ctx._custom_shape)
        given = given if len(custom.op.schema.returns) > 1 else (given,)
        found = custom.backward(ctx, *given)
        found = list(found) if isinstance(found, tuple) else [found]
        wanted = len(custom.op.schema.positional)
        if len(found) == 1 and wanted > 1 and _single(found[0], structure):
            found += [None] * (wanted - 1)
        check(
            len(found) == wanted,
            f"{custom!r}: expected its backward to return {wanted} gradients, one "
            f"for each argument, but got {len(found)}",
        )
        found += [None] * (len(structure[1]) - wanted)
        return tuple(_spread(found, structure))

    members: dict[str, Any] = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
    }
    if custom.batched is not None:
        members["vmap"] = staticmethod(_vmap_rule(custom, structure, shape))
    schema = custom.op.schema
    return type(f"Generated{schema.namespace}_{schema.name}", (Function,), members)


def _single(grad: Any, structure: Any) -> bool:
    return not isinstance(grad, list) or structure[1][0] is not None


def _as_lists(value: Any) -> Any:
    return [list(part) if isinstance(part, tuple | list) else part for part in value]


def _spread(grads: list[Any], structure: Any) -> list[Any]:
    """One gradient per leaf of the arguments."""
    spread: list[Any] = []
    for grad, part in zip(grads, structure[1], strict=True):
        if part is None:
            spread.append(grad)
            continue
        count = len(part[1])
        if grad is None:
            grad = [None] * count
        check(
            isinstance(grad, tuple | list) and len(grad) == count,
            f"expected a list of {count} "
            f"gradients but got {len(grad) if isinstance(grad, tuple | list) else type(grad).__name__}",
        )
        spread += list(grad)
    return spread


def _vmap_rule(custom: Any, structure: Any, shape: list[Any]) -> Any:
    def vmap(info: Any, in_dims: Any, *flat: Any) -> Any:
        positional, keywords = inputs_of(custom, gather(flat, structure))
        dims, _ = inputs_of(custom, gather(in_dims, structure))
        result, out_dims = custom.batched(info, dims, *positional, **keywords)
        leaves, found = flatten(result)
        shape[:] = [found]
        if found is None:
            return result, out_dims
        given, _ = flatten(out_dims)
        return tuple(leaves), tuple(given) if len(given) == len(leaves) else (out_dims,) * len(leaves)

    return vmap

"""Custom functions of nested tensors.

A function that is given nested tensors runs as another custom function, of their values, which is what
autograd knows; the user's methods are given nested tensors made of those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.errors import check
from ..core.nested_base import NestedBase
from ..core.tensor import Tensor
from .function import Function, WrappedContext

Rows = Callable[[Tensor], NestedBase] | None  # what makes nested tensors of the rows of what was nested


def _flat(value: Any) -> tuple[Any, Rows]:
    return (value._values, value.maker()) if isinstance(value, NestedBase) else (value, None)


def _again(value: Any, rows: Rows) -> Any:
    return rows(value) if rows is not None and isinstance(value, Tensor) else value


def _flat_gradient(value: Any, rows: Rows, name: str) -> Any:
    """The values of a gradient or tangent for something that has these rows."""
    if value is None or rows is None:
        return value
    check(isinstance(value, NestedBase), f"{name}: expected a nested tensor, got a {type(value).__name__}")
    return rows(value._values).values_of(value, name)


def on_values(cls: type[Function], args: tuple[Any, ...]) -> Any:
    """`cls.apply(*args)`, where some of the arguments are nested."""
    values, rows = zip(*[_flat(arg) for arg in args], strict=True)
    made: list[Rows] = []  # of the outputs
    several = True

    def forward(ctx: Any, *values: Any) -> Any:
        nonlocal several
        ctx.saved_notes = ctx.forward_notes = ()
        context = WrappedContext(ctx, _flat, _again)
        inputs = tuple(map(_again, values, rows))
        if cls._has_setup_context():
            output = cls.forward(*inputs)
            cls.setup_context(context, inputs, output)
        else:
            output = cls.forward(context, *inputs)
        several = isinstance(output, tuple)
        outputs, found = zip(*map(_flat, output if several else (output,)), strict=True)
        made.extend(found)
        return outputs

    def backward(ctx: Any, *grads: Any) -> Any:
        context = WrappedContext(ctx, _flat, _again)
        found = cls._backward_function()(context, *map(_again, grads, made))
        found = tuple(found) if isinstance(found, tuple | list) else (found,)
        name = f"backward of {cls.__name__}"
        flat = [_flat_gradient(grad, row, name) for grad, row in zip(found, rows, strict=False)]
        return (*flat, *found[len(flat) :])

    def jvp(ctx: Any, *tangents: Any) -> Any:
        found = cls.jvp(WrappedContext(ctx, _flat, _again), *map(_again, tangents, rows))
        found = found if isinstance(found, tuple) else (found,)
        name = f"jvp of {cls.__name__}"
        return tuple(_flat_gradient(t, row, name) for t, row in zip(found, made, strict=True))

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward), "jvp": staticmethod(jvp)}
    function: Any = type(cls.__name__, (Function,), methods)
    outputs = tuple(map(_again, function._apply(values), made))
    return outputs if several else outputs[0]

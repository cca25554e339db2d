"""The steps of random programs that write to a value, or give it another shape (see programs.py).

Where gradients are taken they write to values that need gradients and to views of such; a write to something
that the backward pass has saved is an error there, and is not drawn (`Drawing.add_step`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.core.tensor import Tensor

from .program_operands import (
    Operation,
    a_number,
    any_dim,
    differentiable_target,
    expands_to,
    in_range,
    is_float,
    is_number,
    method,
    one,
    overlaps_partly,
    position,
    target_and_source,
    two_dims,
    undifferentiated,
    writable,
)

if TYPE_CHECKING:
    from .programs import Drawing


def target(wanted: Callable[[Tensor], bool] = lambda t: True, **rest: Any) -> Any:
    """One operand that may be written to."""
    return lambda drawing: one(lambda t: writable(drawing, t) and wanted(t), **rest)(drawing)


def reshaped(wanted: Callable[[Tensor], bool] = lambda t: True, **rest: Any) -> Any:
    """One operand that may get another shape; none once there are wrappers, which would keep the old one."""

    def draw(drawing: Drawing) -> Any:
        if any(hasattr(value, "held") for value in drawing.values):
            return None
        return one(lambda t: wanted(t) and (not drawing.gradients or differentiable_target(t)), **rest)(
            drawing
        )

    return draw


def numbers(draw: Any) -> Any:
    """No bools among the operands."""

    def drawn(drawing: Drawing) -> Any:
        found = draw(drawing)
        return found if found is not None and all(is_number(drawing.values[i]) for i in found[0]) else None

    return drawn


def floats(draw: Any) -> Any:
    """Floats only among the operands."""

    def drawn(drawing: Drawing) -> Any:
        found = draw(drawing)
        return found if found is not None and all(is_float(drawing.values[i]) for i in found[0]) else None

    return drawn


def exactly(draw: Any) -> Any:
    """An exact second operand: the result jumps where it moves a little."""

    def drawn(drawing: Drawing) -> Any:
        found = draw(drawing)
        return found if found is not None and drawing.exact[found[0][1]] else None

    return drawn


def item_and_source(drawing: Drawing) -> Any:
    """A tensor that may be written to, a place in it, and what broadcasts to that."""
    first = drawing.pick(lambda t: writable(drawing, t) and t.ndim > 0)
    if first is None:
        return None
    into = drawing.values[first]
    place = position(drawing, into)
    if place is None:
        return None
    dim, _ = place
    shape = (*into.shape[:dim], *into.shape[dim + 1 :])
    second = drawing.pick(
        lambda t: (
            expands_to(t.shape, shape)
            and (into.is_floating_point() or t.dtype is into.dtype)
            and not overlaps_partly(t, into)
            and t is not into
        )
    )
    return None if second is None else ((first, second), place)


def set_item(t: Any, source: Any, dim: int, index: int) -> Any:
    t[(slice(None),) * dim + (index,)] = source
    return t


def rows_and_index(drawing: Drawing) -> Any:
    """A tensor that may be written to, and a vector of positions in it."""
    first = drawing.pick(lambda t: writable(drawing, t) and t.ndim > 0 and 0 not in t.shape and is_number(t))
    if first is None:
        return None
    second = drawing.pick(lambda t: _is_index(t) and t is not drawing.values[first], exact=True)
    return None if second is None else ((first, second), (drawing.choose(drawing.values[first].ndim),))


def _is_index(t: Tensor) -> bool:
    return t.dtype.itemsize == 8 and not t.is_floating_point() and t.ndim == 1


# Python's operators that write to their left operand.


def add_to(t: Any, b: Any) -> Any:
    t += b
    return t


def subtract_from(t: Any, b: Any) -> Any:
    t -= b
    return t


def multiply_by(t: Any, b: Any) -> Any:
    t *= b.clamp(-1, 1)
    return t


def divide_by(t: Any, b: Any) -> Any:
    t /= b.abs() + 1
    return t


WRITES: dict[str, Operation] = {
    "add_": Operation(method("add_"), target_and_source),
    "copy_": Operation(method("copy_"), target_and_source, exact=True),
    "fill_": Operation(method("fill_"), target(parameters=a_number), exact=True),
    "zero_": Operation(method("zero_"), target(), exact=True),
    "mul_": Operation(lambda t: t.mul_(-1), target(is_number), exact=True),
    "relu_": Operation(method("relu_"), target(is_number), exact=True),
    "clamp_": Operation(lambda t: t.clamp_(-1, 1), target(is_number), exact=True),
    "sin_": Operation(method("sin_"), target(is_float)),
    "tanh_": Operation(method("tanh_"), target(is_float)),  # whose result is saved for the backward pass
    "data_add_": Operation(lambda t: t.data.add_(1), undifferentiated(target(is_number))),
    # Python's operators.
    "iadd_": Operation(add_to, target_and_source),
    "isub_": Operation(subtract_from, numbers(target_and_source)),
    "imul_": Operation(multiply_by, numbers(target_and_source)),
    "itruediv_": Operation(divide_by, floats(target_and_source)),
    "setitem_": Operation(set_item, item_and_source, exact=True),
    # Some of its elements.
    "masked_fill_": Operation(
        lambda t, m: t.masked_fill_(m > 0, 2), exactly(numbers(target_and_source)), exact=True
    ),
    "index_fill_": Operation(
        lambda t, i, dim: t.index_fill_(dim, in_range(i, t.shape[dim]), 1), rows_and_index, exact=True
    ),
    "index_add_": Operation(
        lambda t, i, dim: t.index_add_(
            dim, in_range(i, t.shape[dim]), t.index_select(dim, in_range(i + 1, t.shape[dim]))
        ),
        rows_and_index,
        in_order=True,
    ),
    "addcmul_": Operation(lambda t, b: t.addcmul_(b.sin(), b.cos(), value=0.5), floats(target_and_source)),
    "lerp_": Operation(lambda t, b: t.lerp_(b.to(t.dtype), 0.25), floats(target_and_source)),
    # Other shapes of the same tensor.
    "transpose_": Operation(method("transpose_"), reshaped(parameters=two_dims), exact=True),
    "unsqueeze_": Operation(
        method("unsqueeze_"), reshaped(lambda t: 1 <= t.ndim <= 3, parameters=any_dim), exact=True
    ),
    "squeeze_": Operation(method("squeeze_"), reshaped(), exact=True),
}

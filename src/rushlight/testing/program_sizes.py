"""The steps of random programs whose parameters fit all sizes (see sized_programs.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.tensor import Tensor

from .program_operands import (
    LARGEST,
    Operation,
    any_dim,
    expands_to,
    full_dim,
    is_float,
    is_number,
    library,
    one,
    two,
    writable,
)

if TYPE_CHECKING:
    from .programs import Drawing


def along_dim(dim: int, part: Any) -> tuple[Any, ...]:
    return (slice(None),) * dim + (part,)


# Parts: each takes the size of the dimension.
PARTS = (
    lambda n: slice(1, None),
    lambda n: slice(None, -1),
    lambda n: slice(1, -1),
    lambda n: slice(None, n // 2),
    lambda n: slice(n // 2, None),
    lambda n: slice(None, None, 2),
    lambda n: slice(None, n - 1),
    lambda n: slice(-2, None),
)


def a_part(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    return (drawing.choose(t.ndim), drawing.choose(len(PARTS))) if t.ndim else None


def part(t: Any, dim: int, which: int) -> Any:
    return t[along_dim(dim, PARTS[which](t.shape[dim]))]


def a_place(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    """A dimension, and a place in it from either end."""
    return (drawing.choose(t.ndim), drawing.choose(4) - 2) if t.ndim else None


# Other shapes of the same elements.
VIEWS = (
    lambda t: (-1,),
    lambda t: (1, -1),
    lambda t: (t.numel(), 1),
    lambda t: (t.shape[0], -1),
    lambda t: (-1, t.shape[-1]),
    lambda t: (t.shape[0], t.numel() // t.shape[0]),
    lambda t: (*t.shape[:-1], 1, t.shape[-1]),
    lambda t: (-1, 2),
    lambda t: (2, -1),
)


def a_view(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    return (drawing.choose(len(VIEWS)),) if t.ndim and t.numel() else None


def some_copies(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    """Another size for each dimension of 1, -1 for the others, and perhaps one more in front."""
    if t.numel() > LARGEST or t.ndim > 3:
        return None
    lead = (1 + drawing.choose(3),) if drawing.choose(2) else ()
    return (lead + tuple(1 + drawing.choose(4) if n == 1 else -1 for n in t.shape),)


def item_and_source(drawing: Drawing) -> Any:
    """A tensor that may be written to, a place in it, and what broadcasts to that."""
    first = drawing.pick(lambda t: writable(drawing, t) and t.ndim > 0)
    if first is None:
        return None
    into = drawing.values[first]
    dim = drawing.choose(into.ndim)
    shape = (*into.shape[:dim], *into.shape[dim + 1 :])
    second = drawing.pick(
        lambda t: (
            expands_to(t.shape, shape)
            and (into.is_floating_point() or t.dtype is into.dtype)
            and t.untyped_storage().data_ptr() != into.untyped_storage().data_ptr()
        )
    )
    return None if second is None else ((first, second), (dim, drawing.choose(4) - 2))


def set_item(t: Any, source: Any, dim: int, index: int) -> Any:
    t[along_dim(dim, index)] = source
    return t


def part_and_number(drawing: Drawing) -> Any:
    """A tensor that may be written to, and a part of it."""
    first = drawing.pick(lambda t: writable(drawing, t) and t.ndim > 0)
    return None if first is None else ((first,), a_part(drawing, drawing.values[first]))


def fill_part(t: Any, dim: int, which: int) -> Any:
    return part(t, dim, which).fill_(1)


def layer_norm(t: Any) -> Any:
    functional = library(t).nn.functional
    return functional.layer_norm(t, (t.shape[-1],))


def split_in_two(t: Any, dim: int, which: int) -> Any:
    n = t.shape[dim]
    return t.split((n // 2, n - n // 2), dim)[which]


def numbered(t: Any, dim: int) -> Any:
    """The places along a dimension, added."""
    places = library(t).arange(t.shape[dim])
    return t + places.reshape([-1 if d == dim else 1 for d in range(t.ndim)])


def scores(t: Any) -> Any:
    """Rows against rows, as attention has them, those above the diagonal left out."""
    found = t @ t.transpose(-1, -2) / t.shape[-1]
    upper = library(t).ones(found.shape[-2:], dtype=library(t).bool).triu(1)
    return found.masked_fill(upper, float("-inf")).softmax(-1)


def is_matrix(t: Tensor) -> bool:
    return is_float(t) and 2 <= t.ndim <= 3 and t.numel() <= LARGEST


def dim_and_half(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    return (drawing.choose(t.ndim), drawing.choose(2)) if t.ndim else None


def convolved(t: Any) -> Any:
    functional = library(t).nn.functional
    rows = t.reshape(1, 1, -1)
    return functional.conv1d(rows, t.new_ones(1, 1, 3) / 3, padding=1)


SIZED_STEPS: dict[str, Operation] = {
    # Views.
    "part": Operation(part, one(parameters=a_part), exact=True),
    "place": Operation(lambda t, dim, at: t.select(dim, at), one(parameters=a_place), exact=True),
    "shaped": Operation(lambda t, which: t.reshape(VIEWS[which](t)), one(parameters=a_view), exact=True),
    "expanded": Operation(lambda t, shape: t.expand(shape), one(parameters=some_copies), exact=True),
    "flatten": Operation(lambda t: t.flatten(), one(), exact=True),
    "turned": Operation(lambda t: t.transpose(-1, -2), one(lambda t: t.ndim >= 2), exact=True),
    "split": Operation(split_in_two, one(parameters=dim_and_half), exact=True),
    "tensor_split": Operation(
        lambda t, dim, which: t.tensor_split(2, dim)[which], one(parameters=dim_and_half), exact=True
    ),
    "repeat": Operation(
        lambda t: t.repeat(2, *[1] * t.ndim), one(lambda t: t.ndim <= 2 and t.numel() <= LARGEST), exact=True
    ),
    "expand_as": Operation(lambda a, b: a.expand_as(a + b) + b, two()),
    # Rows.
    "layer_norm": Operation(layer_norm, one(lambda t: is_float(t) and t.ndim >= 1 and t.numel() > 0)),
    "log_softmax": Operation(
        lambda t, dim: t.log_softmax(dim).clamp(-8, 8), one(is_float, parameters=full_dim)
    ),
    "shares": Operation(lambda t, dim: t / (t.abs().sum(dim, True) + 1), one(is_float, parameters=full_dim)),
    "gram": Operation(lambda t: (t @ t.transpose(-1, -2)).tanh(), one(is_matrix)),
    "scores": Operation(scores, one(is_matrix)),
    "outer": Operation(
        lambda a, b: a[:, None] * b[None],
        lambda drawing: two(lambda t: is_number(t) and t.ndim == 1)(drawing),
    ),
    # Sizes as numbers, and new tensors of these sizes.
    "by_size": Operation(
        lambda t, dim: t * 2 / t.shape[dim] + t.shape[dim] // 2, one(is_float, parameters=any_dim)
    ),
    "by_count": Operation(lambda t: t / max(t.numel(), 1), one(is_float)),
    "numbered": Operation(numbered, one(is_number, parameters=any_dim)),
    "new_like": Operation(
        lambda t, dim: t + t.new_full((t.shape[dim], 1, *[1] * (t.ndim - 1)), 2)[-1],
        one(is_number, parameters=any_dim),
    ),
    "eye": Operation(
        lambda t: t + library(t).eye(t.shape[-2], t.shape[-1]), one(lambda t: is_number(t) and t.ndim >= 2)
    ),
    # Writes.
    "set_place_": Operation(set_item, item_and_source, exact=True),
    "fill_part_": Operation(fill_part, part_and_number, exact=True),
    # What is compiled for each size, or each side of a comparison.
    "branch": Operation(
        lambda t, dim: t * 2 if t.shape[dim] > 6 else t - 1, one(is_number, parameters=any_dim)
    ),
    "convolved": Operation(convolved, one(lambda t: is_float(t) and 3 <= t.numel() <= LARGEST)),
}

# Steps that ask for a relation of sizes which the sizes of a program may meet or not.
BRANCHES = {
    "branch": "compares a size with a number",
    "chunk": "has pieces of which the number depends on the size",
    "topk": "takes all of a dimension that is short",
    "squeeze": "drops dimensions of 1",
}
# Steps that give a tensor another shape: one of the caller's is compiled for its sizes.
RESHAPES = ("transpose_", "unsqueeze_", "squeeze_")
# Steps whose gradient does so.
BACKWARD_BRANCHES = {
    "cumprod": "has a gradient that doubles its steps up to the size",
    "prod": "has a gradient that looks at one element less",
}
# Steps that make two parts, of which the other one may have a size of 0 or 1.
HALVES = ("split", "tensor_split")
# Operators that have no form for sizes that change, and are compiled for each.
PINNED = {
    "sort": "sorting networks are made for their length",
    "convolved": "windows of convolutions are tiled for their sizes",
}

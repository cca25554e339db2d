"""What a step of a random program is, and how its operands and parameters are drawn (see programs.py)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import rushlight as rl
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from .programs import Drawing

LARGEST = 400  # elements of a value; larger ones are not used as operands of what grows


@dataclass(frozen=True)
class Operation:
    """How to run a step, and how to draw its operands: `draw` returns (operands, parameters), or None.

    A name that ends in an underscore writes to its first operand, or gives it another shape. A step runs on
    tensors of Rushlight and on tensors of PyTorch.
    """

    run: Callable[..., Any]
    draw: Callable[[Drawing], tuple[tuple[int, ...], tuple[Any, ...]] | None]
    exact: bool = False  # the result is exact if the operands are
    sums: bool = False  # it adds or multiplies many numbers, and rounds on the way: results may cancel
    in_order: bool = (
        False  # it adds one number after the other, as PyTorch does: errors grow with their number
    )
    breaks: bool = False  # it has no place in a graph: the program runs eagerly from there on


def library(t: Any) -> Any:
    """The package whose tensor `t` is."""
    return rl if isinstance(t, Tensor) else sys.modules["torch"]


def memory_of(value: Any) -> int:
    """Where the memory of a tensor, of whatever class, or of an array begins."""
    if isinstance(value, np.ndarray):
        return int(value.ctypes.data)
    return int(getattr(value, "held", value).untyped_storage().data_ptr())


# Operands.


def is_float(t: Tensor) -> bool:
    return t.is_floating_point()


def is_number(t: Tensor) -> bool:
    return t.dtype is not rl.bool


def one(
    wanted: Callable[[Tensor], bool] = lambda t: True,
    exact: bool = False,
    *,
    parameters: Callable[[Drawing, Tensor], tuple[Any, ...] | None] = lambda drawing, t: (),
) -> Any:
    """One operand that fits, and parameters that fit it."""

    def draw(drawing: Drawing) -> Any:
        at = drawing.pick(wanted, exact)
        if at is None:
            return None
        given = parameters(drawing, drawing.values[at])
        return None if given is None else ((at,), given)

    return draw


def two(wanted: Callable[[Tensor], bool] = lambda t: True, exact: bool = False) -> Any:
    """Two operands that broadcast together."""

    def draw(drawing: Drawing) -> Any:
        first = drawing.pick(wanted, exact)
        if first is None:
            return None
        shape = drawing.values[first].shape
        second = drawing.pick(lambda t: wanted(t) and broadcasts(t.shape, shape), exact)
        return None if second is None else ((first, second), ())

    return draw


def undifferentiated(draw: Any) -> Any:
    """For steps that have no gradient."""

    def drawn(drawing: Drawing) -> Any:
        return None if drawing.gradients else draw(drawing)

    return drawn


def broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    fits = all(m == n or m == 1 or n == 1 for m, n in zip(reversed(a), reversed(b), strict=False))
    return (
        fits
        and np.prod(np.maximum(np.resize(a or [1], 3), 1)) * np.prod([max(n, 1) for n in b]) < 20 * LARGEST
    )


def target_and_source(drawing: Drawing) -> Any:
    """A tensor that may be written to, and one that broadcasts to it."""
    first = drawing.pick(lambda t: writable(drawing, t))
    if first is None:
        return None
    target = drawing.values[first]
    second = drawing.pick(
        lambda t: (
            expands_to(t.shape, target.shape)
            and (target.is_floating_point() or t.dtype is target.dtype)
            and not overlaps_partly(t, target)
        )
    )
    return None if second is None else ((first, second), ())


def overlaps_partly(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors share memory without being the same view of it."""
    if memory_of(a) != memory_of(b):
        return False
    return (a.shape, a.stride(), a.storage_offset()) != (b.shape, b.stride(), b.storage_offset())


def writable(drawing: Drawing, t: Tensor) -> bool:
    """No two elements share memory; and, where gradients are taken, it is not a leaf nor a view of one."""
    if any(n > 1 and s == 0 for n, s in zip(t.shape, t.stride(), strict=True)) or overlapping(t):
        return False
    return not drawing.gradients or differentiable_target(t)


def differentiable_target(t: Tensor) -> bool:
    """Whether an operator may write to `t` while its history is recorded."""
    base = t if t._base is None else t._base
    return t.is_floating_point() and not (base.is_leaf and base.requires_grad)


def overlapping(t: Tensor) -> bool:
    steps = sorted((s, n) for n, s in zip(t.shape, t.stride(), strict=True) if n > 1)
    reach = 0
    for stride, size in steps:
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def expands_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    padded = (1,) * (len(target) - len(shape)) + tuple(shape)
    return len(shape) <= len(target) and all(n in (1, m) for n, m in zip(padded, target, strict=True))


def any_dim(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    return (drawing.choose(t.ndim),) if t.ndim else None


def full_dim(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    """A dimension, of a tensor with elements."""
    return any_dim(drawing, t) if t.numel() else None


def two_dims(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    return (drawing.choose(t.ndim), drawing.choose(t.ndim)) if t.ndim else None


def dim_and_keepdim(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    return (drawing.choose(t.ndim), drawing.choose(2) == 1) if t.ndim and t.numel() else None


def some_slice(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    if not t.ndim:
        return None
    dim = drawing.choose(t.ndim)
    start = drawing.choose(t.shape[dim] + 1)
    return dim, start, start + drawing.choose(t.shape[dim] + 1 - start), 1 + drawing.choose(3)


def position(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    filled = [d for d, n in enumerate(t.shape) if n]
    if not filled:
        return None
    dim = filled[drawing.choose(len(filled))]
    return dim, drawing.choose(2 * t.shape[dim]) - t.shape[dim]


def new_shape(drawing: Drawing, t: Tensor) -> tuple[Any, ...]:
    total = t.numel()
    shapes = [(total,), (1, total), (total, 1)]
    shapes += [(k, total // k) for k in range(2, 7) if total and total % k == 0]
    return (shapes[drawing.choose(len(shapes))],)


def expanded(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    if t.numel() > LARGEST or t.ndim > 3:
        return None
    lead = (1 + drawing.choose(3),) if drawing.choose(2) else ()
    return (lead + tuple(1 + drawing.choose(4) if n == 1 else n for n in t.shape),)


def permutation(drawing: Drawing, t: Tensor) -> tuple[Any, ...]:
    left, order = list(range(t.ndim)), []
    while left:
        order.append(left.pop(drawing.choose(len(left))))
    return (tuple(order),)


def a_number(drawing: Drawing, t: Tensor) -> tuple[Any, ...]:
    return ((drawing.choose(9) - 4) / 2,) if t.is_floating_point() else (drawing.choose(7) - 3,)


def product_operands(drawing: Drawing) -> Any:
    first = drawing.pick(lambda t: is_float(t) and 1 <= t.ndim <= 3 and t.numel() <= LARGEST)
    if first is None:
        return None
    left = drawing.values[first]
    second = drawing.pick(
        lambda t: t.dtype is left.dtype and multiplies(left.shape, t.shape) and t.numel() <= LARGEST
    )
    return None if second is None else ((first, second), ())


def multiplies(a: Sequence[int], b: Sequence[int]) -> bool:
    if not 1 <= len(b) <= 3 or a[-1] != (b[-2] if len(b) > 1 else b[0]):
        return False
    return broadcasts(a[:-2], b[:-2])


def rows_of_same_width(drawing: Drawing) -> Any:
    first = drawing.pick(lambda t: t.ndim >= 1 and t.numel() <= LARGEST)
    if first is None:
        return None
    shape = drawing.values[first].shape
    dim = drawing.choose(len(shape))
    rest = shape[:dim] + shape[dim + 1 :]
    second = drawing.pick(
        lambda t: t.ndim == len(shape) and t.shape[:dim] + t.shape[dim + 1 :] == rest and t.numel() <= LARGEST
    )
    return None if second is None else ((first, second), (dim,))


def gather_operands(drawing: Drawing) -> Any:
    source = drawing.pick(lambda t: t.ndim >= 1 and 0 not in t.shape)
    index = drawing.pick(lambda t: t.dtype is rl.int64 and t.ndim == 1, exact=True)
    if source is None or index is None:
        return None
    return (source, index), (drawing.choose(drawing.values[source].ndim),)


def along(index: Tensor, t: Tensor, dim: int) -> Tensor:
    """A vector of positions along `dim`, the same for every row of `t`, as gather and scatter take them."""
    shape = [index.shape[0] if d == dim else n for d, n in enumerate(t.shape)]
    lengthwise = [-1 if d == dim else 1 for d in range(t.ndim)]
    return in_range(index, t.shape[dim]).reshape(lengthwise).expand(shape)


def same_shapes(drawing: Drawing) -> Any:
    first = drawing.pick(lambda t: t.ndim <= 2 and t.numel() <= LARGEST)
    if first is None:
        return None
    shape = drawing.values[first].shape
    second = drawing.pick(lambda t: t.shape == shape)
    return None if second is None else ((first, second), (drawing.choose(len(shape) + 1),))


def half(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    return (drawing.choose(t.ndim), drawing.choose(2)) if t.ndim and t.numel() else None


def pairs(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    long = [d for d, n in enumerate(t.shape) if n >= 2]
    return (long[drawing.choose(len(long))], 1 + drawing.choose(2)) if long else None


def three(drawing: Drawing) -> Any:
    """A condition from an exact value, and two operands."""
    pair = two()(drawing)
    if pair is None:
        return None
    (first, second), _ = pair
    shape = np.broadcast_shapes(drawing.values[first].shape, drawing.values[second].shape)
    test = drawing.pick(lambda t: broadcasts(t.shape, shape), exact=True)
    return None if test is None else ((test, first, second), ())


def in_range(index: Tensor, size: int) -> Tensor:
    return index.remainder(size)


def method(name: str) -> Callable[..., Any]:
    return lambda t, *rest: getattr(t, name)(*rest)

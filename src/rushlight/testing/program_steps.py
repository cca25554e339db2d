"""The steps of random programs: how each runs, and how its operands are drawn (see programs.py).

A name that ends in an underscore writes to its first operand, or gives it another shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import rushlight as rl
from rushlight.core.dispatch import run_name
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from .programs import Drawing

LARGEST = 400  # elements of a value; larger ones are not used as operands of what grows


@dataclass(frozen=True)
class Operation:
    """How to run a step, and how to draw its operands: `draw` returns (operands, parameters), or None."""

    run: Callable[..., Tensor]
    draw: Callable[[Drawing], tuple[tuple[int, ...], tuple[Any, ...]] | None]
    exact: bool = False  # the result is exact if the operands are


# Operands.


def is_float(t: Tensor) -> bool:
    return t.is_floating_point()


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
    if a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr():
        return False
    return (a.shape, a.stride(), a.storage_offset()) != (b.shape, b.stride(), b.storage_offset())


def writable(drawing: Drawing, t: Tensor) -> bool:
    """No two elements share memory; and, where gradients are taken, it is not a leaf nor a view of one."""
    if any(n > 1 and s == 0 for n, s in zip(t.shape, t.stride(), strict=True)) or overlapping(t):
        return False
    return not drawing.gradients


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


def _inplace(name: str) -> Callable[..., Tensor]:
    return lambda target, *rest: getattr(target, name)(*rest)


def _method(name: str) -> Callable[..., Tensor]:
    return lambda t, *rest: getattr(t, name)(*rest)


# Views of floats as integers, and their sign bits.
BITS = {rl.float32: rl.int32, rl.float64: rl.int64}
SIGNS = {rl.float32: -(2**31), rl.float64: -(2**63)}

UNARY = (
    "tanh",
    "sigmoid",
    "sin",
    "cos",
    "exp2",
    "atan",
    "erf",
    "log1p_abs",
    "sqrt_abs",
    "rsqrt_abs",
    "exp_down",
    "reciprocal_up",
    "softplus",
)
SPECIAL_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "log1p_abs": lambda x: x.abs().log1p(),
    "sqrt_abs": lambda x: (x.abs() + 0.5).sqrt(),
    "rsqrt_abs": lambda x: (x.abs() + 0.5).rsqrt(),
    "exp_down": lambda x: (-x.abs()).exp(),
    "reciprocal_up": lambda x: (x.abs() + 1).reciprocal(),
    "exp2": lambda x: x.tanh().exp2(),
    "softplus": lambda x: rl.logaddexp(x, rl.zeros_like(x)),
}

OPERATIONS: dict[str, Operation] = {
    **{name: Operation(SPECIAL_UNARY.get(name) or _method(name), one(is_float)) for name in UNARY},
    "neg": Operation(_method("neg"), one(lambda t: t.dtype is not rl.bool), exact=True),
    "abs": Operation(_method("abs"), one(lambda t: t.dtype is not rl.bool), exact=True),
    "relu": Operation(_method("relu"), one(lambda t: t.dtype is not rl.bool), exact=True),
    "clamp": Operation(lambda t: t.clamp(-1, 1), one(lambda t: t.dtype is not rl.bool), exact=True),
    "floor": Operation(
        _method("floor"), one(exact=True, wanted=lambda t: t.dtype is not rl.bool), exact=True
    ),
    "round": Operation(
        _method("round"), one(exact=True, wanted=lambda t: t.dtype is not rl.bool), exact=True
    ),
    "sign": Operation(_method("sign"), one(exact=True, wanted=lambda t: t.dtype is not rl.bool), exact=True),
    # always new memory, so that a run in double precision alone has the same aliases
    "to_float64": Operation(lambda t: t.to(rl.float64, copy=True), one(), exact=True),
    "to_float32": Operation(lambda t: t.to(rl.float32, copy=True), one()),
    "to_int32": Operation(
        lambda t: t.clamp(-9, 9).to(rl.int32), one(lambda t: t.dtype is rl.int64, exact=True), exact=True
    ),
    "to_uint8": Operation(
        lambda t: t.clamp(0, 9).to(rl.uint8), one(lambda t: t.dtype is rl.int64, exact=True), exact=True
    ),
    "to_int64": Operation(
        lambda t: t.clamp(-9, 9).to(rl.int64), one(exact=True, wanted=is_float), exact=True
    ),
    "add_number": Operation(
        lambda t, n: t + n, one(parameters=a_number, wanted=lambda t: t.dtype is not rl.bool)
    ),
    "mul_number": Operation(
        lambda t, n: t * n, one(parameters=a_number, wanted=lambda t: t.dtype is not rl.bool)
    ),
    "add": Operation(lambda a, b: a + b, two()),
    "sub": Operation(lambda a, b: a - b, two(lambda t: t.dtype is not rl.bool)),
    "mul": Operation(lambda a, b: (a * b).clamp(-8, 8), two(lambda t: t.dtype is not rl.bool)),
    "div": Operation(lambda a, b: a / (b.abs() + 1), two(lambda t: t.dtype is not rl.bool)),
    "floor_divide": Operation(
        lambda a, b: a // (b.abs() + 1), two(lambda t: t.dtype is rl.int64, exact=True), exact=True
    ),
    "remainder": Operation(
        lambda a, b: a % (b.abs() + 1), two(lambda t: t.dtype is rl.int64, exact=True), exact=True
    ),
    "maximum": Operation(lambda a, b: rl.maximum(a, b), two(), exact=True),
    "minimum": Operation(lambda a, b: rl.minimum(a, b), two(), exact=True),
    "atan2": Operation(lambda a, b: rl.atan2(a, b.abs() + 1), two(is_float)),
    "hypot": Operation(lambda a, b: rl.hypot(a, b), two(is_float)),
    "less": Operation(lambda a, b: a < b, two(exact=True), exact=True),
    "equal": Operation(lambda a, b: a == b, two(exact=True), exact=True),
    "logical_not": Operation(_method("logical_not"), one(exact=True), exact=True),
    "where": Operation(lambda test, a, b: rl.where(test > 0, a, b), three, exact=True),
    "masked_fill": Operation(
        lambda t, m: t.masked_fill(m < 0, 2), two(lambda t: t.dtype is not rl.bool, exact=True), exact=True
    ),
    # Reductions and scans.
    "sum": Operation(_method("sum"), one(parameters=dim_and_keepdim)),
    "sum_all": Operation(_method("sum"), one()),
    "mean": Operation(_method("mean"), one(is_float, parameters=dim_and_keepdim)),
    "amax": Operation(_method("amax"), one(parameters=dim_and_keepdim), exact=True),
    "amin_all": Operation(_method("amin"), one(lambda t: t.numel() > 0), exact=True),
    "prod": Operation(
        lambda t, dim, keep: t.sin().prod(dim, keep), one(is_float, parameters=dim_and_keepdim)
    ),
    "var": Operation(
        lambda t, dim, keep: t.var(dim, correction=0, keepdim=keep), one(is_float, parameters=dim_and_keepdim)
    ),
    "logsumexp": Operation(_method("logsumexp"), one(is_float, parameters=dim_and_keepdim)),
    "softmax": Operation(_method("softmax"), one(is_float, parameters=full_dim)),
    "argmax": Operation(
        _method("argmax"),
        one(exact=True, wanted=lambda t: t.dtype is not rl.bool, parameters=dim_and_keepdim),
        exact=True,
    ),
    "any": Operation(_method("any"), one(exact=True, parameters=dim_and_keepdim), exact=True),
    "cumsum": Operation(_method("cumsum"), one(parameters=full_dim)),
    "sort": Operation(lambda t, dim: t.sort(dim).values, one(exact=True, parameters=full_dim), exact=True),
    "cumprod": Operation(lambda t, dim: t.sin().cumprod(dim), one(is_float, parameters=full_dim)),
    "cummax": Operation(
        lambda t, dim: t.cummax(dim).values,
        one(exact=True, wanted=lambda t: t.dtype is not rl.bool, parameters=full_dim),
        exact=True,
    ),
    "topk": Operation(
        lambda t, dim: t.topk(min(2, t.shape[dim]), dim).values,
        one(exact=True, wanted=lambda t: t.dtype is not rl.bool, parameters=full_dim),
        exact=True,
    ),
    "norm": Operation(
        lambda t, dim, keep: (t.norm(2, dim, keep) + 1).log(), one(is_float, parameters=dim_and_keepdim)
    ),
    # Views and copies.
    "transpose": Operation(_method("transpose"), one(parameters=two_dims), exact=True),
    "permute": Operation(_method("permute"), one(parameters=permutation), exact=True),
    "reshape": Operation(_method("reshape"), one(parameters=new_shape), exact=True),
    "expand": Operation(_method("expand"), one(parameters=expanded), exact=True),
    "unsqueeze": Operation(
        _method("unsqueeze"), one(lambda t: 1 <= t.ndim <= 3, parameters=any_dim), exact=True
    ),
    "squeeze": Operation(_method("squeeze"), one(), exact=True),
    "slice": Operation(
        lambda t, dim, a, b, step: run_name("slice.Tensor", t, dim, a, b, step),
        one(parameters=some_slice),
        exact=True,
    ),
    "select": Operation(_method("select"), one(parameters=position), exact=True),
    "flip": Operation(lambda t, dim: t.flip(dim), one(parameters=any_dim), exact=True),
    "roll": Operation(lambda t, dim: t.roll(1, dim), one(parameters=any_dim), exact=True),
    "diagonal": Operation(_method("diagonal"), one(lambda t: t.ndim >= 2), exact=True),
    "tril": Operation(_method("tril"), one(lambda t: t.ndim >= 2), exact=True),
    "clone": Operation(_method("clone"), one(), exact=True),
    "contiguous": Operation(_method("contiguous"), one(), exact=True),
    "cat": Operation(lambda a, b, dim: rl.cat([a, b], dim), rows_of_same_width, exact=True),
    "pad": Operation(
        lambda t: rl.constant_pad_nd(t, (1, 2), 3),
        one(lambda t: t.ndim >= 1 and t.numel() <= LARGEST),
        exact=True,
    ),
    "index_select": Operation(
        lambda t, i, dim: t.index_select(dim, in_range(i, t.shape[dim])), gather_operands, exact=True
    ),
    "index_add": Operation(
        lambda t, i, dim: t.index_add(
            dim, in_range(i, t.shape[dim]), t.index_select(dim, in_range(i + 1, t.shape[dim]))
        ),
        gather_operands,
    ),
    "gather": Operation(lambda t, i, dim: t.gather(dim, along(i, t, dim)), gather_operands, exact=True),
    "scatter": Operation(lambda t, i, dim: t.scatter(dim, along(i, t, dim), 2), gather_operands, exact=True),
    "scatter_add": Operation(
        lambda t, i, dim: t.scatter_add(dim, along(i, t, dim), t.gather(dim, along(i + 1, t, dim))),
        gather_operands,
    ),
    "scatter_amax": Operation(
        lambda t, i, dim: t.scatter_reduce(
            dim, along(i, t, dim), t.gather(dim, along(i + 1, t, dim)), "amax"
        ),
        gather_operands,
        exact=True,
    ),
    "index_put": Operation(
        lambda t, i, dim: t.index_put((in_range(i, t.shape[0]),), t[0], accumulate=dim == 0), gather_operands
    ),
    "stack": Operation(lambda a, b, dim: rl.stack([a, b], dim), same_shapes, exact=True),
    "chunk": Operation(lambda t, dim, which: t.chunk(2, dim)[-which], one(parameters=half), exact=True),
    "unfold": Operation(
        lambda t, dim, step: t.unfold(dim, 2, step),
        one(lambda t: t.ndim <= 2 and t.numel() <= LARGEST, parameters=pairs),
        exact=True,
    ),
    # Products.
    "matmul": Operation(lambda a, b: (a @ b).tanh(), product_operands),
    # Writes.
    "add_": Operation(_inplace("add_"), target_and_source),
    "copy_": Operation(_inplace("copy_"), target_and_source, exact=True),
    "fill_": Operation(
        _inplace("fill_"), lambda d: one(lambda t: writable(d, t), parameters=a_number)(d), exact=True
    ),
    "mul_": Operation(
        lambda t: t.mul_(-1),
        lambda d: one(lambda t: writable(d, t) and t.dtype is not rl.bool)(d),
        exact=True,
    ),
    "relu_": Operation(
        _inplace("relu_"), lambda d: one(lambda t: writable(d, t) and t.dtype is not rl.bool)(d), exact=True
    ),
    "clamp_": Operation(
        lambda t: t.clamp_(-1, 1),
        lambda d: one(lambda t: writable(d, t) and t.dtype is not rl.bool)(d),
        exact=True,
    ),
    "sin_": Operation(lambda t: t.sin_(), lambda d: one(lambda t: writable(d, t) and is_float(t))(d)),
    "add_out": Operation(
        lambda a, b: rl.add(a, b, out=rl.empty_like(a + b)),
        undifferentiated(two(lambda t: t.dtype is not rl.bool)),
    ),
    "other_sign": Operation(
        lambda t: (t.view(BITS[t.dtype]) ^ SIGNS[t.dtype]).view(t.dtype),
        undifferentiated(one(is_float)),
        exact=True,
    ),
    "data_add_": Operation(
        lambda t: t.data.add_(1), lambda d: one(lambda t: writable(d, t) and t.dtype is not rl.bool)(d)
    ),
    # Other shapes of the same tensor.
    "transpose_": Operation(_inplace("transpose_"), one(parameters=two_dims), exact=True),
    "unsqueeze_": Operation(
        _inplace("unsqueeze_"), one(lambda t: 1 <= t.ndim <= 3, parameters=any_dim), exact=True
    ),
    "squeeze_": Operation(_inplace("squeeze_"), one(), exact=True),
}

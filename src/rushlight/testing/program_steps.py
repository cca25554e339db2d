"""The steps of random programs that are one operator or a few (see programs.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as rl

from .program_operands import (
    LARGEST,
    Operation,
    a_number,
    along,
    any_dim,
    dim_and_keepdim,
    expanded,
    full_dim,
    gather_operands,
    half,
    in_range,
    is_float,
    is_number,
    library,
    method,
    new_shape,
    one,
    pairs,
    permutation,
    position,
    product_operands,
    rows_of_same_width,
    same_shapes,
    some_slice,
    three,
    two,
    two_dims,
    undifferentiated,
)


def other_sign(t: Any) -> Any:
    """The sign bit flipped, by a view of floats as integers."""
    single = t.element_size() == 4
    bits = t.view(library(t).int32 if single else library(t).int64)
    return (bits ^ (-(2**31) if single else -(2**63))).view(t.dtype)


def part(t: Any, dim: int, start: int, stop: int, step: int) -> Any:
    return t[(slice(None),) * dim + (slice(start, stop, step),)]


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
SPECIAL_UNARY: dict[str, Callable[[Any], Any]] = {
    "log1p_abs": lambda x: x.abs().log1p(),
    "sqrt_abs": lambda x: (x.abs() + 0.5).sqrt(),
    "rsqrt_abs": lambda x: (x.abs() + 0.5).rsqrt(),
    "exp_down": lambda x: (-x.abs()).exp(),
    "reciprocal_up": lambda x: (x.abs() + 1).reciprocal(),
    "exp2": lambda x: x.tanh().exp2(),
    "softplus": lambda x: x.logaddexp(x.new_zeros(x.shape)),
}

OPERATORS: dict[str, Operation] = {
    **{name: Operation(SPECIAL_UNARY.get(name) or method(name), one(is_float)) for name in UNARY},
    "neg": Operation(method("neg"), one(is_number), exact=True),
    "abs": Operation(method("abs"), one(is_number), exact=True),
    "relu": Operation(method("relu"), one(is_number), exact=True),
    "clamp": Operation(lambda t: t.clamp(-1, 1), one(is_number), exact=True),
    "floor": Operation(method("floor"), one(exact=True, wanted=is_number), exact=True),
    "round": Operation(method("round"), one(exact=True, wanted=is_number), exact=True),
    "sign": Operation(method("sign"), one(exact=True, wanted=is_number), exact=True),
    # always new memory, so that a run in double precision alone has the same aliases
    "to_float64": Operation(lambda t: t.to(library(t).float64, copy=True), one(), exact=True),
    "to_float32": Operation(lambda t: t.to(library(t).float32, copy=True), one()),
    "to_int32": Operation(
        lambda t: t.clamp(-9, 9).to(library(t).int32),
        one(lambda t: t.dtype is rl.int64, exact=True),
        exact=True,
    ),
    "to_uint8": Operation(
        lambda t: t.clamp(0, 9).to(library(t).uint8),
        one(lambda t: t.dtype is rl.int64, exact=True),
        exact=True,
    ),
    "to_int64": Operation(
        lambda t: t.clamp(-9, 9).to(library(t).int64), one(exact=True, wanted=is_float), exact=True
    ),
    "add_number": Operation(lambda t, n: t + n, one(parameters=a_number, wanted=is_number)),
    "mul_number": Operation(lambda t, n: t * n, one(parameters=a_number, wanted=is_number)),
    "add": Operation(lambda a, b: a + b, two()),
    "sub": Operation(lambda a, b: a - b, two(is_number)),
    "mul": Operation(lambda a, b: (a * b).clamp(-8, 8), two(is_number)),
    "div": Operation(lambda a, b: a / (b.abs() + 1), two(is_number)),
    "floor_divide": Operation(
        lambda a, b: a // (b.abs() + 1), two(lambda t: t.dtype is rl.int64, exact=True), exact=True
    ),
    "remainder": Operation(
        lambda a, b: a % (b.abs() + 1), two(lambda t: t.dtype is rl.int64, exact=True), exact=True
    ),
    "maximum": Operation(method("maximum"), two(), exact=True),
    "minimum": Operation(method("minimum"), two(), exact=True),
    "atan2": Operation(lambda a, b: a.atan2(b.abs() + 1), two(is_float)),
    "hypot": Operation(method("hypot"), two(is_float)),
    "less": Operation(lambda a, b: a < b, two(exact=True), exact=True),
    "equal": Operation(lambda a, b: a == b, two(exact=True), exact=True),
    "logical_not": Operation(method("logical_not"), one(exact=True), exact=True),
    "where": Operation(lambda test, a, b: library(a).where(test > 0, a, b), three, exact=True),
    "masked_fill": Operation(lambda t, m: t.masked_fill(m < 0, 2), two(is_number, exact=True), exact=True),
    # Reductions and scans.
    "sum": Operation(method("sum"), one(parameters=dim_and_keepdim), sums=True),
    "sum_all": Operation(method("sum"), one(), sums=True),
    "mean": Operation(method("mean"), one(is_float, parameters=dim_and_keepdim), sums=True),
    "amax": Operation(method("amax"), one(parameters=dim_and_keepdim), exact=True),
    "amin_all": Operation(method("amin"), one(lambda t: t.numel() > 0), exact=True),
    "prod": Operation(
        lambda t, dim, keep: t.sin().prod(dim, keep), one(is_float, parameters=dim_and_keepdim), sums=True
    ),
    "var": Operation(
        lambda t, dim, keep: t.var(dim, correction=0, keepdim=keep),
        one(is_float, parameters=dim_and_keepdim),
        sums=True,
    ),
    "logsumexp": Operation(method("logsumexp"), one(is_float, parameters=dim_and_keepdim), sums=True),
    "softmax": Operation(method("softmax"), one(is_float, parameters=full_dim), sums=True),
    "argmax": Operation(
        method("argmax"), one(exact=True, wanted=is_number, parameters=dim_and_keepdim), exact=True
    ),
    "any": Operation(method("any"), one(exact=True, parameters=dim_and_keepdim), exact=True),
    "cumsum": Operation(method("cumsum"), one(parameters=full_dim), sums=True),
    "sort": Operation(lambda t, dim: t.sort(dim).values, one(exact=True, parameters=full_dim), exact=True),
    "cumprod": Operation(lambda t, dim: t.sin().cumprod(dim), one(is_float, parameters=full_dim), sums=True),
    "cummax": Operation(
        lambda t, dim: t.cummax(dim).values,
        one(exact=True, wanted=is_number, parameters=full_dim),
        exact=True,
    ),
    "topk": Operation(
        lambda t, dim: t.topk(min(2, t.shape[dim]), dim).values,
        one(exact=True, wanted=is_number, parameters=full_dim),
        exact=True,
    ),
    "norm": Operation(
        lambda t, dim, keep: (t.norm(2, dim, keep) + 1).log(),
        one(is_float, parameters=dim_and_keepdim),
        sums=True,
    ),
    # Views and copies.
    "transpose": Operation(method("transpose"), one(parameters=two_dims), exact=True),
    "permute": Operation(method("permute"), one(parameters=permutation), exact=True),
    "reshape": Operation(method("reshape"), one(parameters=new_shape), exact=True),
    "expand": Operation(method("expand"), one(parameters=expanded), exact=True),
    "unsqueeze": Operation(
        method("unsqueeze"), one(lambda t: 1 <= t.ndim <= 3, parameters=any_dim), exact=True
    ),
    "squeeze": Operation(method("squeeze"), one(), exact=True),
    "slice": Operation(part, one(parameters=some_slice), exact=True),
    "select": Operation(method("select"), one(parameters=position), exact=True),
    "flip": Operation(lambda t, dim: t.flip(dim), one(parameters=any_dim), exact=True),
    "roll": Operation(lambda t, dim: t.roll(1, dim), one(parameters=any_dim), exact=True),
    "diagonal": Operation(method("diagonal"), one(lambda t: t.ndim >= 2), exact=True),
    "tril": Operation(method("tril"), one(lambda t: t.ndim >= 2), exact=True),
    "clone": Operation(method("clone"), one(), exact=True),
    "contiguous": Operation(method("contiguous"), one(), exact=True),
    "cat": Operation(lambda a, b, dim: library(a).cat([a, b], dim), rows_of_same_width, exact=True),
    "pad": Operation(
        lambda t: library(t).constant_pad_nd(t, (1, 2), 3),
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
        sums=True,
        in_order=True,
    ),
    "gather": Operation(lambda t, i, dim: t.gather(dim, along(i, t, dim)), gather_operands, exact=True),
    "scatter": Operation(lambda t, i, dim: t.scatter(dim, along(i, t, dim), 2), gather_operands, exact=True),
    "scatter_add": Operation(
        lambda t, i, dim: t.scatter_add(dim, along(i, t, dim), t.gather(dim, along(i + 1, t, dim))),
        gather_operands,
        sums=True,
        in_order=True,
    ),
    "scatter_amax": Operation(
        lambda t, i, dim: t.scatter_reduce(
            dim, along(i, t, dim), t.gather(dim, along(i + 1, t, dim)), "amax"
        ),
        gather_operands,
        exact=True,
    ),
    "index_put": Operation(
        lambda t, i, dim: t.index_put((in_range(i, t.shape[0]),), t[0], accumulate=dim == 0),
        gather_operands,
        sums=True,
        in_order=True,
    ),
    "stack": Operation(lambda a, b, dim: library(a).stack([a, b], dim), same_shapes, exact=True),
    "chunk": Operation(lambda t, dim, which: t.chunk(2, dim)[-which], one(parameters=half), exact=True),
    "unfold": Operation(
        lambda t, dim, step: t.unfold(dim, 2, step),
        one(lambda t: t.ndim <= 2 and t.numel() <= LARGEST, parameters=pairs),
        exact=True,
    ),
    # Products.
    "matmul": Operation(lambda a, b: (a @ b).tanh(), product_operands, sums=True),
    # Into memory that is given, and through views of other dtypes.
    "add_out": Operation(
        lambda a, b: library(a).add(a, b, out=library(a).empty_like(a + b)), undifferentiated(two(is_number))
    ),
    "other_sign": Operation(other_sign, undifferentiated(one(is_float)), exact=True),
}

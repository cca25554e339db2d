"""Writing at positions that are data, into a copy of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.dtypes import DTYPES
from ..core.index import as_index, dot
from ..core.shapes import Spec, contiguous_strides, memory_order, strides_in_order
from ..loops.expr import Access, Expr
from ..loops.kernels import Scatter
from ..loops.nest import Combine, Nest, Phase, Store
from .lowered import Indices, Lowered
from .scan import extreme_value

INT64 = DTYPES["int64"]


@dataclass(frozen=True)
class Points:
    """The points of a scatter: as many as `shape` has, in row-major order.

    `place(index)` is where a point goes in the target, one index for each dimension; `kept(index)`, if given,
    whether it goes anywhere.
    """

    shape: tuple[int, ...]
    place: Callable[[Indices], Sequence[Any]]
    kept: Callable[[Indices], Expr] | None = None


Value = Callable[[Indices], Expr]


def scattered(
    base: Lowered,
    points: Points,
    *stages: tuple[Value, Combine | None],
    strides: tuple[int, ...] | None = None,
) -> Lowered:
    """`base` with values written, or combined with what is there, at points.

    Each stage is over all points, and ends before the next begins. Values have the dtype of `base`.
    """
    low, ops = base.owner, base.owner.recorder
    shape = base.shape
    if 0 in shape or 0 in points.shape:
        return base
    order = memory_order(shape, strides or contiguous_strides(shape))
    steps = strides_in_order(shape, order)
    target = low.fresh_buffer(base.dtype, shape)
    low.check(base.example())
    result = Lowered(low, shape, base.dtype, base.load, None, steps).realize(target)
    for value, mode in stages:
        variables = low.variables(points.shape)
        index = tuple(as_index(v) for v in variables)
        position = dot(points.place(index), steps)
        indirect = ops.indirect_in(position)
        condition = None if points.kept is None else points.kept(index)
        store = Store(Access(target, position, indirect), value(index), mode, condition)
        nest = Nest(f"scatter{len(low.definitions)}", variables, (Phase((), (store,)),))
        for expr in nest.phases[0].values():
            low.check(expr)
        low.definitions.append(Scatter(nest))
    return result


COMBINES = {
    "sum": Combine.SUM,
    "mean": Combine.SUM,
    "prod": Combine.PRODUCT,
    "amax": Combine.MAXIMUM,
    "amin": Combine.MINIMUM,
    "add": Combine.SUM,
    "multiply": Combine.PRODUCT,
}


def reduced_into(
    self: Lowered,
    points: Points,
    value: Callable[[Indices], Expr],
    reduce: str,
    include_self: bool,
    out: Spec,
) -> Lowered:
    """`self` with values combined into it; without `include_self` a place that is written forgets what it
    held."""
    compute = self.dtype.opmath
    ops = self.owner.recorder
    combine = COMBINES[reduce]
    stages: list[tuple[Value, Combine | None]] = [(lambda index: ops.cast(value(index), compute), combine)]
    if not include_self:
        neutral = ops.number(
            {Combine.SUM: 0, Combine.PRODUCT: 1}.get(
                combine, extreme_value(compute, 1 if combine is Combine.MINIMUM else -1)
            ),
            compute,
        )
        stages.insert(0, (lambda index: neutral, None))
    result = scattered(self.cast(compute), points, *stages)
    if reduce == "mean":
        result = _divided(result, points, include_self)
    return result.cast(out.dtype)


def _divided(sums: Lowered, points: Points, include_self: bool) -> Lowered:
    """Means from sums; places without values keep what they have."""
    low = sums.owner
    one = low.recorder.number(1, INT64)
    start = low.full(sums.shape, int(include_self), INT64)
    counts = scattered(start, points, (lambda index: one, Combine.SUM))

    def mean(ops: Any, total: Expr, count: Expr) -> Expr:
        number = ops.cast(ops.maximum(count, one), total.dtype)
        return ops.div(total, number) if total.dtype.is_floating_point else ops.floor_div(total, number)

    return sums.map(mean, sums.dtype, counts)


def at_least_1d(x: Lowered) -> Lowered:
    """A number as a row of one element."""
    return x if x.ndim else x.reindex((1,), lambda index: ())

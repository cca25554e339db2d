"""Sorting rows by the native template, and what follows from sorted rows; searching as unrolled bisection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.data_sizes import not_empty
from ..core.dtypes import DTYPES
from ..core.promotion import common
from ..core.shapes import Spec, memory_order, numel, strides_in_order, wrap_dim
from ..loops.expr import Expr, IndexCheck, NotRecordable, Recorder
from ..loops.kernels import Layout, Sort, SortShape
from ..loops.nest import Combine
from .cost import FEW_VALUES
from .declare import extern, lowering
from .lowered import Indices, Lowered, Lowerer
from .scatter import at_least_1d

INT64, BOOL = DTYPES["int64"], DTYPES["bool"]
Pair = tuple[Lowered, Lowered]


def sorted_rows(
    self: Lowered, dim: int, count: int, descending: bool, strides: tuple[int, ...] | None = None
) -> Pair:
    """The first `count` elements of each row along `dim` in order, and their positions.

    `strides` (dense) say how the results are laid out.
    """
    low = self.owner
    shape = (*self.shape[:dim], count, *self.shape[dim + 1 :])
    if 0 in shape:
        return low.full(shape, 0, self.dtype), low.full(shape, 0, INT64)
    if self.dtype.is_complex:
        raise NotRecordable("complex numbers have no order")
    low.check(self.example())
    placed = self.placed() or self.realize().placed()
    assert placed is not None
    buffer, steps, offset = placed
    dense = strides_in_order(shape, memory_order(shape, strides)) if strides else None
    values, positions = low.fresh_buffer(self.dtype, shape), low.fresh_buffer(INT64, shape)
    results = low.stored(values, shape, dense), low.stored(positions, shape, dense)

    def layout(given: tuple[int, ...], start: int = 0) -> Layout:
        return Layout((*given[:dim], *given[dim + 1 :]), given[dim], start)

    not_empty(self.shape[dim])
    which = SortShape(
        self.dtype,
        (*shape[:dim], *shape[dim + 1 :]),
        self.shape[dim],
        count,
        descending,
        layout(steps, offset),
        layout(results[0].strides),
        layout(results[1].strides),
    )
    low.definitions.append(Sort(f"sort{len(low.definitions)}", which, buffer, values, positions))
    return results


def rows_along(self: Lowered, dim: int) -> tuple[Lowered, int]:
    return at_least_1d(self), wrap_dim(dim, self.ndim)


@lowering("sort.stable")
def sort(self: Lowered, dim: int, descending: bool, out: tuple[Spec, Spec]) -> Pair:
    rows, at = rows_along(self, dim)
    strides = out[0].known_strides() if self.ndim else None
    values, positions = sorted_rows(rows, at, rows.shape[at], descending, strides)
    return values.reshape(self.shape), positions.reshape(self.shape)


@lowering("topk")
def topk(self: Lowered, k: int, dim: int, largest: bool, out: tuple[Spec, Spec]) -> Pair:
    rows, at = rows_along(self, dim)
    values, positions = sorted_rows(rows, at, k if self.ndim else 1, largest)
    shape = out[0].known_shape()
    return values.reshape(shape), positions.reshape(shape)


@lowering("kthvalue")
def kthvalue(self: Lowered, k: int, dim: int, out: tuple[Spec, Spec]) -> Pair:
    rows, at = rows_along(self, dim)
    if 0 in rows.shape:
        return without_elements(self, out)
    values, positions = sorted_rows(rows, at, k, False)
    shape = out[0].known_shape()
    return element_at(values, at, k - 1).reshape(shape), element_at(positions, at, k - 1).reshape(shape)


def element_at(x: Lowered, dim: int, number: int) -> Lowered:
    """The elements with one number along a dimension, whose extent becomes 1."""
    return x.reindex(
        (*x.shape[:dim], 1, *x.shape[dim + 1 :]), lambda index: (*index[:dim], number, *index[dim + 1 :])
    )


def without_elements(self: Lowered, out: tuple[Spec, Spec]) -> Pair:
    shape = out[0].known_shape()
    return self.owner.full(shape, 0, out[0].dtype), self.owner.full(shape, 0, INT64)


# Searching.


def _less(ops: Recorder, a: Expr, b: Expr) -> Expr:
    """Whether a comes before b; NaN comes last."""
    smaller = ops.lt(a, b)
    if not a.dtype.is_floating_point:
        return smaller
    return ops.logical_or(smaller, ops.logical_and(ops.isnan(b), ops.logical_not(ops.isnan(a))))


def bisected(ops: Recorder, count: int, before: Callable[[Expr], Expr]) -> Expr:
    """How many of the first `count` numbers satisfy `before`, which holds up to some number."""
    found = ops.number(0, INT64)
    step = 1 << max(count.bit_length() - 1, 0)
    while step and count:
        probe = ops.add(found, ops.number(step, INT64))
        inside = ops.le(probe, ops.number(count, INT64))
        safe = ops.minimum(ops.sub(probe, ops.number(1, INT64)), ops.number(count - 1, INT64))
        found = ops.where(ops.logical_and(inside, before(safe)), probe, found)
        step //= 2
    return found


def insertion_points(
    sequence: Lowered, values: Lowered, right: bool, sorter: Lowered | None, out: Spec
) -> Lowered:
    """How many elements of its sorted row of `sequence` are below each value; with `right`, or equal."""
    low, ops = sequence.owner, sequence.owner.recorder
    compute = common([(sequence.dtype, False), (values.dtype, values.ndim == 0)]).opmath
    n = sequence.shape[-1]
    source, given = sequence.cheap(), values.cast(compute).cheap()
    order = None if sorter is None else sorter.cheap()
    check = IndexCheck("searchsorted()", RuntimeError, negative=False, message="sorter index out of range")
    inside = None if order is None else _all_inside(order, n)

    def element(index: Indices) -> Expr:
        value = given.load(index)
        row = index[:-1] if sequence.ndim > 1 else ()

        def before(number: Expr) -> Expr:
            at = ops.indirect(number, n, None)
            if order is not None:
                at = ops.indirect(order.load((*row, at)), n, check)
            known = ops.cast(ops.keep_checks(source.load((*row, at)), (at,)), compute)
            return ops.logical_not(_less(ops, value, known)) if right else _less(ops, known, value)

        found = bisected(ops, n, before)
        if inside is not None:
            found = ops.checked(found, inside.load(()), check.message)
        return ops.cast(found, out.dtype)

    return low.generated(out.known_shape(), out.dtype, element)


def _all_inside(order: Lowered, count: int) -> Lowered:
    """Whether all elements of a sorter are indices, those that a search does not come across as well."""
    zero, end = (order.owner.recorder.number(n, order.dtype) for n in (0, count))
    inside = order.map(lambda ops, x: ops.logical_and(ops.ge(x, zero), ops.lt(x, end)), BOOL)
    return inside.reduce(tuple(range(order.ndim)), Combine.ALL, False)


def _number(low: Lowerer, value: Any, like: Lowered) -> Lowered:
    """A Python number as a tensor that takes part in promotion as one."""
    dtype = common([(like.dtype, False), value])
    return low.full((), value, dtype)


@lowering("searchsorted.Tensor")
def searchsorted(
    sorted_sequence: Lowered, self: Lowered, right: bool, side: str | None, sorter: Lowered | None, out: Spec
) -> Lowered:
    return insertion_points(sorted_sequence, self, right or side == "right", sorter, out)


@lowering("searchsorted.Scalar")
def searchsorted_number(
    sorted_sequence: Lowered,
    self: Any,
    right: bool,
    side: str | None,
    sorter: Lowered | None,
    low: Lowerer,
    out: Spec,
) -> Lowered:
    value = _number(low, self, sorted_sequence)
    return insertion_points(sorted_sequence, value, right or side == "right", sorter, out)


lowering("bucketize.Tensor")(
    lambda self, boundaries, right, out: insertion_points(boundaries, self, right, None, out)
)
lowering("bucketize.Scalar")(
    lambda self, boundaries, right, low, out: insertion_points(
        boundaries, _number(low, self, boundaries), right, None, out
    )
)


# Membership.


def _is_in(elements: Lowered, known: Lowered, invert: bool, low: Lowerer) -> Lowered:
    dtype = common([(x.dtype, x.ndim == 0) for x in (elements, known)]).opmath
    count = numel(known.shape)
    wanted, values = elements.cast(dtype).cheap(), known.cast(dtype).reshape((count,))
    if count == 0 or 0 in elements.shape:
        return low.full(elements.shape, invert, BOOL)
    if count > FEW_VALUES:
        values = sorted_rows(values, 0, count, False)[0]
    else:
        values = values.cheap()

    def element(index: Indices) -> Expr:
        ops = low.recorder
        value = wanted.load(index)
        if count <= FEW_VALUES:
            found = ops.eq(value, values.load((0,)))
            for k in range(1, count):
                found = ops.logical_or(found, ops.eq(value, values.load((k,))))
        else:
            place = bisected(
                ops,
                count,
                lambda number: _less(ops, values.load((ops.indirect(number, count, None),)), value),
            )
            at = ops.indirect(ops.minimum(place, ops.number(count - 1, INT64)), count, None)
            found = ops.eq(values.load((at,)), value)
        return ops.logical_not(found) if invert else found

    return low.generated(elements.shape, BOOL, element)


def _python_number(low: Lowerer, value: Any) -> Lowered:
    dtype = DTYPES["float64" if isinstance(value, float) else "int64"]
    return low.full((), value, dtype)


lowering("isin.Tensor_Tensor")(
    lambda elements, test_elements, invert, low: _is_in(elements, test_elements, invert, low)
)
lowering("isin.Tensor_Scalar")(
    lambda elements, test_element, invert, low: _is_in(
        elements, _python_number(low, test_element), invert, low
    )
)
lowering("isin.Scalar_Tensor")(
    lambda element, test_elements, invert, low: _is_in(
        _python_number(low, element), test_elements, invert, low
    )
)


extern(
    "the shape of the result depends on data",
    "_unique",
    "_unique2",
    "unique_dim",
    "unique_dim_consecutive",
    "unique_consecutive",
)

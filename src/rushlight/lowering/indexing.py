"""Reading and writing at positions that are data: gather, scatter, indexing with tensors, take and put.

Every loaded index is checked where it is used; one out of range gives the error that the eager kernel raises,
when the program has run, and nothing that the caller can see was written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.dtypes import DTYPES, Category
from ..core.index import Index, as_index
from ..core.shapes import Shape, Spec, broadcast_shapes, contiguous_strides, numel, wrap_dim
from ..loops.expr import Expr, IndexCheck, NotRecordable
from .declare import extern, lowering
from .lowered import Indices, Lowered, Lowerer
from .scan import Running, scan
from .scatter import Points, at_least_1d, reduced_into, scattered

INT64 = DTYPES["int64"]


def position(index: Lowered, at: Indices, extent: int, check: IndexCheck) -> Index:
    """The element of an index tensor as an index into a dimension of `extent`."""
    return index.owner.recorder.indirect(index.load(at), extent, check)


def _check_sizes(self: Lowered, *others: Lowered) -> None:
    """Indexing of no elements may be an error that depends on data, which eager kernels tell."""
    if any(0 in x.shape for x in (self, *others)):
        raise NotRecordable("indexing without elements")


# One index in place of one dimension, of the same rank as the tensor.


def _along(index: Lowered, dim: int, extent: int, check: IndexCheck) -> Callable[[Indices], list[Index]]:
    """Where the points of gather and scatter lie."""
    return lambda i: [position(index, i, extent, check) if d == dim else i[d] for d in range(len(i))]


@lowering("gather")
def gather(self: Lowered, dim: int, index: Lowered, low: Lowerer, out: Spec) -> Lowered:
    if 0 in index.shape:
        return low.full(out.known_shape(), 0, out.dtype)
    _check_sizes(self)
    at = wrap_dim(dim, self.ndim)
    source, where = at_least_1d(self.cheap()), at_least_1d(index.cheap())
    place = _along(where, at, source.shape[at], IndexCheck("gather", RuntimeError, negative=False))
    return source.gathered(where.shape, place).reshape(out.known_shape())


def _scatter_points(self: Lowered, dim: int, index: Lowered) -> tuple[Lowered, Points]:
    target, where = at_least_1d(self), at_least_1d(index.cheap())
    at = wrap_dim(dim, self.ndim)
    check = IndexCheck("scatter", RuntimeError, negative=False)
    return target, Points(where.shape, _along(where, at, target.shape[at], check))


def _overwritten(self: Lowered, dim: int, index: Lowered, value: Any, out: Spec) -> Lowered:
    if 0 in index.shape or 0 in self.shape:
        return self
    target, points = _scatter_points(self, dim, index)
    strides = out.known_strides() if self.ndim else None
    return scattered(target, points, (value, None), strides=strides).reshape(self.shape)


def _reduced(
    self: Lowered, dim: int, index: Lowered, value: Any, reduce: str, include_self: bool, out: Spec
) -> Lowered:
    if 0 in index.shape or 0 in self.shape:
        return self
    target, points = _scatter_points(self, dim, index)
    return reduced_into(target, points, value, reduce, include_self, out).reshape(self.shape)


def _of_tensor(src: Lowered) -> Callable[[Indices], Expr]:
    return at_least_1d(src.cheap()).load


def _of_number(low: Lowerer, value: Any, out: Spec) -> Callable[[Indices], Expr]:
    number = low.full((), value, out.dtype)
    return lambda index: number.load(())


lowering("scatter.src")(
    lambda self, dim, index, src, out: _overwritten(self, dim, index, _of_tensor(src), out)
)
lowering("scatter.value")(
    lambda self, dim, index, value, low, out: _overwritten(self, dim, index, _of_number(low, value, out), out)
)
lowering("scatter.reduce")(
    lambda self, dim, index, src, reduce, out: _reduced(self, dim, index, _of_tensor(src), reduce, True, out)
)
lowering("scatter.value_reduce")(
    lambda self, dim, index, value, reduce, low, out: _reduced(
        self, dim, index, _of_number(low, value, out), reduce, True, out
    )
)
lowering("scatter_add")(
    lambda self, dim, index, src, out: _reduced(self, dim, index, _of_tensor(src), "sum", True, out)
)
lowering("scatter_reduce.two")(
    lambda self, dim, index, src, reduce, include_self, out: _reduced(
        self, dim, index, _of_tensor(src), reduce, include_self, out
    )
)


# Whole slices at the indices of one dimension.


@lowering("index_select")
def index_select(self: Lowered, dim: int, index: Lowered, low: Lowerer, out: Spec) -> Lowered:
    if 0 in out.known_shape():
        return low.full(out.known_shape(), 0, out.dtype)
    _check_sizes(self, index)
    at, source, where = wrap_dim(dim, self.ndim), at_least_1d(self.cheap()), at_least_1d(index.cheap())
    place = _slices(source, at, where, IndexCheck("index_select", negative=False))
    shape = (*source.shape[:at], where.shape[0], *source.shape[at + 1 :])
    return source.gathered(shape, place).reshape(out.known_shape())


def _slices(self: Lowered, dim: int, index: Lowered, check: IndexCheck) -> Callable[[Indices], list[Index]]:
    return lambda i: [
        position(index, (i[dim],), self.shape[dim], check) if d == dim else i[d] for d in range(len(i))
    ]


def _slice_points(self: Lowered, dim: int, index: Lowered, check: IndexCheck) -> tuple[Lowered, Points]:
    target, where = at_least_1d(self), at_least_1d(index.cheap())
    at = wrap_dim(dim, self.ndim)
    shape = (*target.shape[:at], where.shape[0], *target.shape[at + 1 :])
    return target, Points(shape, _slices(target, at, where, check))


@lowering("index_add")
def index_add(
    self: Lowered, dim: int, index: Lowered, source: Lowered, alpha: Any, low: Lowerer, out: Spec
) -> Lowered:
    if 0 in index.shape or 0 in self.shape:
        return self
    check = IndexCheck("index_add", RuntimeError if self.ndim > 1 else IndexError, negative=False)
    target, points = _slice_points(self, dim, index, check)
    compute = self.dtype.opmath
    values = at_least_1d(source).cast(compute)
    if alpha != 1:
        factor = low.full((), alpha, self.dtype).cast(compute)
        values = values.map(lambda ops, x: ops.mul(x, factor.load(())), compute)
    return reduced_into(target, points, values.cheap().load, "sum", True, out).reshape(self.shape)


@lowering("index_reduce")
def index_reduce(
    self: Lowered, dim: int, index: Lowered, source: Lowered, reduce: str, include_self: bool, out: Spec
) -> Lowered:
    if 0 in index.shape or 0 in self.shape:
        return self
    target, points = _slice_points(self, dim, index, IndexCheck("index_reduce", negative=False))
    return reduced_into(target, points, _of_tensor(source), reduce, include_self, out).reshape(self.shape)


def _replaced(
    self: Lowered,
    dim: int,
    index: Lowered,
    value: Callable[[Indices], Expr],
    name: str,
    negative: bool,
    out: Spec,
) -> Lowered:
    if 0 in index.shape or 0 in self.shape:
        return self
    target, points = _slice_points(self, dim, index, IndexCheck(name, negative=negative))
    strides = out.known_strides() if self.ndim else None
    return scattered(target, points, (value, None), strides=strides).reshape(self.shape)


lowering("index_copy")(
    lambda self, dim, index, source, out: _replaced(
        self, dim, index, _of_tensor(source), "index_copy", False, out
    )
)
lowering("index_fill.int_Scalar")(
    lambda self, dim, index, value, low, out: _replaced(
        self, dim, index, _of_number(low, value, out), "index_fill", True, out
    )
)


@lowering("index_fill.int_Tensor")
def index_fill(self: Lowered, dim: int, index: Lowered, value: Lowered, out: Spec) -> Lowered:
    number = value.cast(out.dtype).cheap()
    return _replaced(self, dim, index, lambda i: number.load(()), "index_fill", True, out)


# Elements of the flattened tensor.


def _flat_position(index: Lowered, at: Indices, shape: Shape) -> list[Index]:
    """The index of the element whose row-major number is an element of `index`."""
    ops = index.owner.recorder
    number = ops.indirect(index.load(at), numel(shape), IndexCheck("take", message="out of range"))
    if len(shape) == 1:
        return [number]
    return [number // step % size for step, size in zip(contiguous_strides(shape), shape, strict=True)]


@lowering("take")
def take(self: Lowered, index: Lowered, low: Lowerer, out: Spec) -> Lowered:
    if 0 in index.shape:
        return low.full(out.known_shape(), 0, out.dtype)
    _check_sizes(self)
    where = index.cheap()
    source = self.reshape((numel(self.shape),)) if self.placed() else self.realize()
    return source.gathered(index.shape, lambda i: _flat_position(where, i, source.shape))


@lowering("put")
def put(self: Lowered, index: Lowered, source: Lowered, accumulate: bool, out: Spec) -> Lowered:
    if 0 in index.shape:
        return self
    _check_sizes(self)
    count = numel(index.shape)
    where, values = index.reshape((count,)).cheap(), source.reshape((count,)).cheap()
    flat = self.reshape((numel(self.shape),))
    points = Points((count,), lambda i: _flat_position(where, i, flat.shape))
    if accumulate:
        return reduced_into(flat, points, values.load, "sum", True, out).reshape(self.shape)
    return scattered(flat, points, (values.load, None)).reshape(self.shape)


# Indexing with tensors of integers. Masks give results of unknown shape and are not here.


def _advanced(
    self: Lowered, indices: Sequence[Lowered | None], check: IndexCheck
) -> tuple[Shape, Callable[[Indices], list[Index]]]:
    """The shape of what `indices` select, and where its elements lie in `self`.

    The dimensions of the broadcast indices take the place of the indexed ones if those are neighbours, and
    come first otherwise.
    """
    used = [d for d, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if not used or any(
        index.dtype.category is not Category.INTEGRAL or index.dtype.name == "uint8" for index in given
    ):
        raise NotRecordable("an index with masks")
    _check_sizes(self, *given)
    block = broadcast_shapes(*[index.shape for index in given])
    wide = dict(zip(used, [index.expand(block).cheap() for index in given], strict=True))
    kept = [d for d in range(self.ndim) if d not in used]
    at = used[0] if used[-1] - used[0] == len(used) - 1 else 0
    before = len([d for d in kept if d < at]) if at else 0
    shape = (*[self.shape[d] for d in kept[:before]], *block, *[self.shape[d] for d in kept[before:]])

    def place(i: Indices) -> list[Index]:
        inner = i[before : before + len(block)]
        rest = iter((*i[:before], *i[before + len(block) :]))
        return [
            position(wide[d], inner, self.shape[d], check) if d in wide else next(rest)
            for d in range(self.ndim)
        ]

    return shape, place


@lowering("index.Tensor", "_unsafe_index.Tensor")
def index_tensor(self: Lowered, indices: Sequence[Lowered | None]) -> Lowered:
    shape, place = _advanced(self, indices, IndexCheck("index"))
    return self.cheap().gathered(shape, place)


@lowering("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(
    self: Lowered, indices: Sequence[Lowered | None], values: Lowered, accumulate: bool, out: Spec
) -> Lowered:
    mask = _only_mask(indices)
    if mask is not None:
        return _put_where(self, *mask, values, accumulate)
    shape, place = _advanced(self, indices, IndexCheck("index_put"))
    wide = values.expand(shape).cheap()
    points = Points(shape, place)
    if accumulate:
        return reduced_into(self, points, wide.load, "sum", True, out)
    return scattered(self, points, (wide.load, None), strides=out.known_strides())


def _only_mask(indices: Sequence[Lowered | None]) -> tuple[int, Lowered] | None:
    """(the dimension it begins at, the mask) if the index is one mask."""
    given = [(d, index) for d, index in enumerate(indices) if index is not None]
    if len(given) == 1 and given[0][1].dtype.name in ("bool", "uint8"):
        return given[0]
    return None


def _put_where(self: Lowered, first: int, mask: Lowered, values: Lowered, accumulate: bool) -> Lowered:
    """Values that are the same for every element of the mask: a choice for each element."""
    after = self.ndim - first - mask.ndim  # dimensions behind the mask's
    if values.ndim > after and values.shape[values.ndim - 1 - after] != 1:
        raise NotRecordable("as many values as a mask has elements that are set")
    if 0 in self.shape:
        return self
    ops, source, where = self.owner.recorder, values.cheap(), mask.cheap()

    def element(index: Indices) -> Expr:
        old = self.load(index)
        selected = (*index[:first], as_index(0), *index[first + mask.ndim :])
        chosen = selected[len(selected) - source.ndim :] if source.ndim else ()
        new = source.load([0 if n == 1 else i for n, i in zip(source.shape, chosen, strict=True)])
        if accumulate:
            new = ops.add(old, new)
        flag = where.load(index[first : first + mask.ndim])
        return ops.where(ops.ne(flag, ops.number(0, flag.dtype)), new, old)

    return self.owner.generated(self.shape, self.dtype, element)


# Masks.


def _ranks(mask: Lowered) -> Lowered:
    """How many elements are set up to each one, in row-major order."""
    low, count = mask.owner, numel(mask.shape)
    flat = mask.reshape((count,))
    set_here = flat.map(lambda o, m: o.ne(m, o.number(0, m.dtype)), DTYPES["bool"]).cast(INT64)
    return scan(
        low,
        0,
        [
            Running(
                lambda index, _: set_here.load(index), lambda o, a, b: o.add(a, b), 0, Spec((count,), INT64)
            )
        ],
    )[0].reshape(mask.shape)


@lowering("masked_scatter")
def masked_scatter(self: Lowered, mask: Lowered, source: Lowered, low: Lowerer, out: Spec) -> Lowered:
    shape = out.known_shape()
    if 0 in shape:
        return low.full(shape, 0, out.dtype)
    _check_sizes(source)
    base, where = self.expand(shape), mask.expand(shape)
    ranks, flat, ops = _ranks(where), source.reshape((numel(source.shape),)).cheap(), low.recorder
    check = IndexCheck(
        "masked_scatter",
        RuntimeError,
        negative=False,
        message="Number of elements of source < number of ones in mask",
    )

    def element(index: Indices) -> Expr:
        flag = where.load(index)
        rank = ops.sub(ranks.load(index), ops.number(1, INT64))
        at = ops.indirect(ops.where(flag, rank, ops.number(0, INT64)), flat.shape[0], check)
        return ops.where(flag, ops.keep_checks(flat.load((at,)), (at,)), base.load(index))

    return low.generated(shape, out.dtype, element)


@lowering("nonzero_static")
def nonzero_static(self: Lowered, size: int, fill_value: int, low: Lowerer, out: Spec) -> Lowered:
    base = low.full(out.known_shape(), fill_value, INT64)
    if 0 in out.known_shape() or 0 in self.shape:
        return base
    ops, source = low.recorder, self.cheap()
    ranks = _ranks(source)
    one, zero = ops.number(1, INT64), ops.number(0, INT64)

    def kept(index: Indices) -> Expr:
        flag = source.load(index[:-1])
        few = ops.le(ranks.load(index[:-1]), ops.number(size, INT64))
        return ops.logical_and(ops.ne(flag, ops.number(0, flag.dtype)), few)

    def place(index: Indices) -> list[Index]:
        row = ops.where(kept(index), ops.sub(ranks.load(index[:-1]), one), zero)
        return [ops.indirect(row, size, None), index[-1]]

    def value(index: Indices) -> Expr:
        result = zero
        for d in range(self.ndim):
            this = ops.eq(ops.index(index[-1], INT64), ops.number(d, INT64))
            result = ops.where(this, ops.index(index[d], INT64), result)
        return result

    return scattered(base, Points((*self.shape, self.ndim), place, kept), (value, None))


extern("the shape of the result depends on data", "nonzero", "masked_select")

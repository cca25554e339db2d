"""Embeddings: rows of a table at indices, and their gradients added up in the table."""

from __future__ import annotations

from ..core.dtypes import DTYPES
from ..core.index import Index
from ..core.shapes import Spec, numel
from ..loops.expr import Expr, IndexCheck, NotRecordable
from ..loops.nest import Combine
from .declare import extern, lowering
from .indexing import position
from .lowered import Indices, Lowered, Lowerer
from .scatter import Points, reduced_into, scattered

INT64 = DTYPES["int64"]


@lowering("embedding")
def embedding(weight: Lowered, indices: Lowered, low: Lowerer, out: Spec) -> Lowered:
    if 0 in out.known_shape():
        return low.full(out.known_shape(), 0, out.dtype)
    if 0 in weight.shape:
        raise NotRecordable("rows of an empty table")
    source, where = weight.cheap(), indices.cheap()
    check = IndexCheck("embedding", negative=False)
    return source.gathered(
        out.known_shape(), lambda i: [position(where, i[:-1], weight.shape[0], check), i[-1]]
    )


@lowering("embedding_dense_backward")
def embedding_dense_backward(
    grad_output: Lowered,
    indices: Lowered,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
    low: Lowerer,
    out: Spec,
) -> Lowered:
    """Rows of the gradient added up; those for the padding, or for no row of the table, are left out."""
    compute = out.dtype.opmath
    base = low.full(out.known_shape(), 0, compute)
    if 0 in out.known_shape() or 0 in indices.shape:
        return base.cast(out.dtype)
    count, width, ops = numel(indices.shape), out.known_shape()[1], low.recorder
    where = indices.reshape((count,)).cheap()
    rows = grad_output.cast(compute).reshape((count, width)).cheap()

    def kept(index: Indices) -> Expr:
        row = ops.cast(where.load(index[:1]), INT64)
        inside = ops.logical_and(
            ops.ge(row, ops.number(0, INT64)), ops.lt(row, ops.number(num_weights, INT64))
        )
        return ops.logical_and(inside, ops.ne(row, ops.number(padding_idx, INT64)))

    def row_of(index: Indices) -> Index:
        row = ops.cast(where.load(index[:1]), INT64)
        return ops.indirect(ops.where(kept(index), row, ops.number(0, INT64)), num_weights, None)

    values = rows.load
    if scale_grad_by_freq:
        one = ops.number(1, INT64)
        counts = scattered(
            low.full((num_weights,), 0, INT64),
            Points((count,), lambda i: [row_of(i)], kept),
            (lambda index: one, Combine.SUM),
        )

        def values(index: Indices) -> Expr:  # type: ignore[misc]
            often = ops.maximum(counts.load((row_of(index),)), one)
            return ops.div(rows.load(index), ops.cast(often, compute))

    points = Points((count, width), lambda i: [row_of(i), i[1]], kept)
    return reduced_into(base, points, values, "sum", True, out)


@lowering("one_hot")
def one_hot(self: Lowered, num_classes: int, low: Lowerer, out: Spec) -> Lowered:
    shape = out.known_shape()
    if 0 in shape:
        return low.full(shape, 0, out.dtype)
    ops = low.recorder
    check = IndexCheck(
        "one_hot",
        RuntimeError,
        negative=False,
        message=f"Class values must be in the range from 0 to {num_classes - 1}",
    )
    source = self.cheap()

    def element(index: Indices) -> Expr:
        checked = ops.make("checked_index", (source.load(index[:-1]),), INT64, (num_classes, check))
        return ops.cast(ops.eq(checked, ops.index(index[-1], INT64)), out.dtype)

    return low.generated(shape, out.dtype, element)


extern(
    "where bags begin, and whether that is valid, is data",
    "_embedding_bag",
    "_embedding_bag_forward_only",
    "_embedding_bag_dense_backward",
    "_embedding_bag_per_sample_weights_backward",
)
extern("rows are scaled once however often they are named", "embedding_renorm")

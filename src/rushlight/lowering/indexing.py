"""Reading at positions that are data: gather, index_select, indexing with tensors of integers, embedding.

Every loaded index is checked where it is used; one out of range gives IndexError when the program has run,
and nothing that the caller can see was written.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dtypes import Category
from ..core.shapes import Spec, broadcast_shapes, wrap_dim
from ..loops.expr import NotRecordable
from ..loops.index import Index
from .declare import lowering
from .lowered import Indices, Lowered, Lowerer


def position(index: Lowered, at: Indices, extent: int, name: str) -> Index:
    """The element of an index tensor as an index into a dimension of `extent`."""
    return index.owner.recorder.indirect(index.load(at), extent, name)


def _check(self: Lowered, index: Lowered) -> None:
    if 0 in self.shape or 0 in index.shape:
        raise NotRecordable("indexing without elements")


@lowering("gather")
def gather(self: Lowered, dim: int, index: Lowered) -> Lowered:
    _check(self, index)
    if self.ndim == 0 or index.ndim == 0:
        raise NotRecordable("gather of a number")
    at, source, where = wrap_dim(dim, self.ndim), self.cheap(), index.cheap()
    return source.reindex(index.shape, lambda i: [
        position(where, i, self.shape[at], "gather") if d == at else i[d] for d in range(self.ndim)])


@lowering("index_select")
def index_select(self: Lowered, dim: int, index: Lowered, out: Spec) -> Lowered:
    _check(self, index)
    if self.ndim == 0 or index.ndim == 0:
        raise NotRecordable("index_select of a number")
    at, source, where = wrap_dim(dim, self.ndim), self.cheap(), index.cheap()
    return source.reindex(
        out.known_shape(),
        lambda i: [
            position(where, (i[at],), self.shape[at], "index_select") if d == at else i[d]
            for d in range(self.ndim)
        ],
    )


@lowering("embedding")
def embedding(weight: Lowered, indices: Lowered, out: Spec) -> Lowered:
    _check(weight, indices)
    source, where = weight.cheap(), indices.cheap()
    return source.reindex(out.known_shape(), lambda i: [
        position(where, i[:-1], weight.shape[0], "embedding"), i[-1]])


@lowering("index.Tensor")
def index_tensor(self: Lowered, indices: Sequence[Lowered | None], low: Lowerer, out: Spec) -> Lowered:
    """Indexing by tensors of integers that stand side by side.

    Masks give results of unknown shape and are not here.
    """
    used = [d for d, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if not used or used != list(range(used[0], used[0] + len(used))) or any(
            index.dtype.category is not Category.INTEGRAL or index.dtype.name == "uint8" for index in given):
        raise NotRecordable("an index with masks or gaps")
    for index in given:
        _check(self, index)
    shape = broadcast_shapes(*[index.shape for index in given])
    wide = [index.expand(shape).cheap() for index in given]
    first, count, source = used[0], len(used), self.cheap()

    def place(i: Indices) -> list[Index]:
        inner = i[first:first + len(shape)]
        found = [position(index, inner, self.shape[first + k], "index") for k, index in enumerate(wide)]
        return [*i[:first], *found, *i[first + len(shape):]]

    if len(out.known_shape()) != self.ndim - count + len(shape):
        raise NotRecordable("an index whose result has another rank")
    return source.reindex(out.known_shape(), place)

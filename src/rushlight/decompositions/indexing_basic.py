"""Indexing and writing at indices in terms of index and index_put."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.registry import decomposition
from ..core.shapes import wrap_dim
from ..core.tensor import Tensor


def at(dim: int, index: Tensor) -> tuple[Tensor | None, ...]:
    """Indices that take `index` along `dim` and everything along the dimensions before it."""
    return (*[None] * dim, index)


def picked(self: Tensor, dim: int, index: Tensor) -> Tensor:
    found: Tensor = run_name("index.Tensor", self, at(wrap_dim(dim, self.ndim), index))
    return found


def put(self: Tensor, dim: int, index: Tensor, values: Tensor, accumulate: bool = False) -> Tensor:
    """`self` with `values` at `index` along `dim`; a tensor without dimensions counts as a row of one."""
    row = self.reshape((1,)) if self.ndim == 0 else self
    dim, index = wrap_dim(dim, row.ndim), index.reshape((-1,))
    if values.ndim == 0 and row.ndim == 1:
        values = values.expand((index.shape[0],))
    result: Tensor = run_name("index_put", row, at(dim, index), values, accumulate)
    return result.reshape(self.shape)


decomposition("_unsafe_index.Tensor")(lambda self, indices: run_name("index.Tensor", self, indices))
decomposition("_unsafe_index_put")(
    lambda self, indices, values, accumulate: run_name("index_put", self, indices, values, accumulate)
)
decomposition("take")(lambda self, index: run_name("index.Tensor", self.reshape((-1,)), (index,)))
decomposition("index_add")(
    lambda self, dim, index, source, alpha: put(
        self, dim, index, source if alpha == 1 else source * alpha, True
    )
)
decomposition("index_copy")(lambda self, dim, index, source: put(self, dim, index, source))
decomposition("index_fill.int_Tensor")(
    lambda self, dim, index, value: put(self, dim, index, value.to(self.dtype))
)
decomposition("index_fill.int_Scalar")(
    lambda self, dim, index, value: put(self, dim, index, self.new_full((), value))
)

"""What a tensor consists of that is not strided.

Such a tensor has the key SPARSE, no array of its own, and `_parts`: a `Coo` or a `Compressed`, a small record
of strided member tensors. Records are never changed; a write that keeps the structure goes to the memory of
the values, any other gives the tensor a new record. Members have no history: autograd deals with the sparse
tensor as a whole.

    Coo         indices (sparse dims, n), values (n, *dense dims); coalesced: sorted and without duplicates
    Compressed  rows (csr, bsr) or columns (csc, bsc) compressed: compressed (*batch, rows + 1), plain
                (*batch, n), values (*batch, n, *block, *dense dims)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .shapes import Shape, Spec
from .tensor import SPARSE, Tensor, _new
from .tokens import layout as Layout
from .tokens import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr

COMPRESSED = (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
BY_ROWS = (sparse_csr, sparse_bsr)
BLOCKED = (sparse_bsr, sparse_bsc)


class Coo(NamedTuple):
    """Coordinates and values."""

    indices: Tensor
    values: Tensor
    coalesced: bool = False

    @property
    def layout(self) -> Layout:
        return sparse_coo

    @property
    def sparse_dim(self) -> int:
        return self.indices.shape[0]

    @property
    def dense_dim(self) -> int:
        return self.values.ndim - 1

    @property
    def nnz(self) -> int:
        return self.indices.shape[1]

    def with_values(self, values: Tensor) -> Coo:
        return Coo(self.indices, values, self.coalesced)

    def copy(self) -> Coo:
        return Coo(self.indices.clone(), self.values.clone(), self.coalesced)

    def same_structure(self, other: Any) -> bool:
        """Whether both share their indices, so that values correspond one to one."""
        return isinstance(other, Coo) and other.indices is self.indices


class Compressed(NamedTuple):
    """Compressed rows or columns, of elements or of blocks."""

    layout: Layout
    compressed: Tensor
    plain: Tensor
    values: Tensor

    @property
    def batch(self) -> Shape:
        return tuple(self.compressed.shape[:-1])

    @property
    def block(self) -> Shape:
        """The size of a block, (1, 1) where there are none."""
        first = self.compressed.ndim
        return tuple(self.values.shape[first : first + 2]) if self.layout in BLOCKED else (1, 1)

    @property
    def sparse_dim(self) -> int:
        return 2

    @property
    def dense_dim(self) -> int:
        return self.values.ndim - self.compressed.ndim - (2 if self.layout in BLOCKED else 0)

    @property
    def nnz(self) -> int:
        return self.plain.shape[-1]

    def with_values(self, values: Tensor) -> Compressed:
        return Compressed(self.layout, self.compressed, self.plain, values)

    def copy(self) -> Compressed:
        return Compressed(self.layout, self.compressed.clone(), self.plain.clone(), self.values.clone())

    def same_structure(self, other: Any) -> bool:
        return (
            isinstance(other, Compressed)
            and other.layout is self.layout
            and other.compressed is self.compressed
            and other.plain is self.plain
        )


Parts = Coo | Compressed


def make_sparse(parts: Parts, shape: Shape) -> Tensor:
    """The tensor of `shape` that consists of `parts`; nothing is checked."""
    tensor = _new(Tensor)
    tensor._array, tensor.dtype = None, parts.values.dtype
    tensor._spec = Spec(tuple(shape), parts.values.dtype)
    tensor._parts, tensor._keys = parts, SPARSE
    return tensor


def with_values(tensor: Tensor, values: Tensor) -> Tensor:
    """`tensor` with other values at the same places."""
    return make_sparse(tensor._parts.with_values(values), tuple(tensor.shape))

"""Methods of sparse tensors that are no operators: what they look like, and changing them in place."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import AMBIENT, run_name
from ..core.errors import check
from ..core.shapes import Spec
from ..core.sparse import Coo
from ..core.tensor import Tensor, tensor_method
from ..core.tokens import sparse_coo
from ..kernels.sparse import empty_coo


@tensor_method
def sparse_dim(self: Tensor) -> int:
    """How many dimensions are sparse; 0 for a strided tensor."""
    _look_inside()
    return 0 if self._parts is None else int(self._parts.sparse_dim)


@tensor_method
def dense_dim(self: Tensor) -> int:
    """How many dimensions of the values are dense; all of a strided tensor."""
    _look_inside()
    return self.ndim if self._parts is None else int(self._parts.dense_dim)


@tensor_method
def _nnz(self: Tensor) -> int:
    """The number of elements, or blocks, that are stored (in each batch)."""
    check(self._parts is not None, "_nnz is not implemented for strided tensors", NotImplementedError)
    _look_inside()
    return int(self._parts.nnz)


@tensor_method
def is_coalesced(self: Tensor) -> bool:
    """Whether the coordinates are sorted and without duplicates."""
    return bool(_coo_parts(self, "is_coalesced").coalesced)


def _look_inside() -> None:
    """Structure is data: a program that asks for it has no graph."""
    if AMBIENT.trace is not None:
        AMBIENT.trace.refuse("it looks at the structure of a sparse tensor")


def _coo_parts(self: Tensor, name: str) -> Any:
    _look_inside()
    check(
        self.layout is sparse_coo,
        f"{name} expected sparse coordinate tensor layout but got {self.layout.name}",
    )
    return self._parts


@tensor_method
def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Say of a tensor whether it is coalesced."""
    parts = _coo_parts(self, "_coalesced_")
    self._parts = Coo(parts.indices, parts.values, coalesced)
    return self


@tensor_method
def to_sparse_coo(self: Tensor) -> Tensor:
    """The tensor by coordinates."""
    return self.to_sparse()


@tensor_method
def sparse_resize_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Change the size in place; elements stay where they are, and dimensions may not shrink below them."""
    parts = _coo_parts(self, "sparse_resize_")
    shape = tuple(int(n) for n in size)
    check(
        len(shape) == sparse_dim + dense_dim,
        f"number of dimensions must be sparse_dim ({sparse_dim}) + "
        f"dense_dim ({dense_dim}), but got {len(shape)}",
    )
    check(not self.requires_grad, "cannot resize variables that require grad")
    if parts.nnz == 0:
        return sparse_resize_and_clear_(self, shape, sparse_dim, dense_dim)
    check(
        sparse_dim == parts.sparse_dim and dense_dim == parts.dense_dim,
        f"changing the number of sparse or dense dimensions (from {parts.sparse_dim} and {parts.dense_dim} "
        f"to {sparse_dim} and {dense_dim}) on a non-empty sparse tensor is not supported. If you need an "
        "empty sparse tensor of this size, call sparse_resize_and_clear_()",
    )
    for dim, (new, old) in enumerate(zip(shape, self.shape, strict=True)):
        check(
            new >= old,
            f"shrinking the size of dimension {dim} (from {old} to {new}) on a non-empty sparse "
            "tensor is not supported",
        )
    values = parts.values
    for dim in range(dense_dim):
        more = shape[sparse_dim + dim] - values.shape[dim + 1]
        room = values.new_zeros((*values.shape[: dim + 1], more, *values.shape[dim + 2 :]))
        values = run_name("cat", (values, room), dim + 1) if more else values
    self._parts = Coo(parts.indices, values, parts.coalesced)
    self._spec = Spec(shape, self.dtype)
    self.version_counter.value += 1
    return self


@tensor_method
def sparse_resize_and_clear_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Change the size in place and drop all elements."""
    _coo_parts(self, "sparse_resize_and_clear_")
    check(
        len(size) == sparse_dim + dense_dim,
        f"number of dimensions must be sparse_dim ({sparse_dim}) + "
        f"dense_dim ({dense_dim}), but got {len(size)}",
    )
    made = empty_coo(tuple(int(n) for n in size), sparse_dim, self.dtype)
    self._parts, self._spec = made._parts, made._spec
    self.version_counter.value += 1
    return self


@tensor_method
def resize_as_sparse_(self: Tensor, the_template: Tensor) -> Tensor:
    """`sparse_resize_` to the size of another tensor of coordinates."""
    parts = _coo_parts(the_template, "resize_as_sparse_")
    return sparse_resize_(self, the_template.shape, parts.sparse_dim, parts.dense_dim)

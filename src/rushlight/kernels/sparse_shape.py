"""Sparse tensors in other shapes, and parts of them; values are moved by operators, so gradients follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.declare_layouts import sparse_kernel
from ..core.dispatch import run_name
from ..core.errors import check
from ..core.shapes import wrap_dim
from ..core.sparse import BLOCKED, Compressed, Coo, make_sparse
from ..core.tensor import Tensor
from ..core.tokens import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from .sparse import index_tensor, is_sparse, put, settled, stored, values_of
from .sparse_conversion import convert
from .sparse_pointwise import coo

TRANSPOSED = {sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc, sparse_bsc: sparse_bsr}


# Permutations.


@sparse_kernel("permute", layouts=(sparse_coo,))
def permute(self: Tensor, dims: Sequence[int]) -> Tensor:
    order = [wrap_dim(d, self.ndim, name="permute") for d in dims]
    check(
        len(order) == self.ndim,
        f"permute(sparse_coo): number of dimensions in the tensor input does not "
        f"match the length of the desired ordering of dimensions i.e. input.dim() = {self.ndim} is not equal "
        f"to len(dims) = {len(order)}",
    )
    check(len(set(order)) == len(order), "permute(sparse_coo): duplicate dims are not allowed")
    return _permuted(self, order, list(dims[:1]) in ([], [0]))


def _permuted(self: Tensor, order: Sequence[int], sorts: bool) -> Tensor:
    """`sorts`: whether what is coalesced stays so. As PyTorch has it, where 0 is named first."""
    source = stored(self)
    first = source._parts.sparse_dim
    check(
        all(d < first for d in order[:first]),
        "permute(sparse_coo): transpositions between sparse and dense "
        f"dimensions are not allowed; the first {first} dimensions are sparse",
    )
    indices = source._parts.indices.numpy_array()[list(order[:first])]
    values = values_of(source)
    if list(order[first:]) != list(range(first, self.ndim)):
        values = values.permute(0, *[d - first + 1 for d in order[first:]])
    kept = source._parts.coalesced and sorts
    if kept and list(order[:first]) != list(range(first)):  # sorted by the first dimension alone
        places = np.lexsort(indices[::-1])
        indices, values = indices[:, places], values.index_select(0, index_tensor(places))
    return coo(index_tensor(indices), values, source, [self.shape[d] for d in order], kept)


@sparse_kernel("t")
def t(self: Tensor) -> Tensor:
    check(
        self.ndim <= 2,
        f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {self.ndim} dimensions",
    )
    return self if self.ndim < 2 else self.transpose(0, 1)


@sparse_kernel("transpose.int")
def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    first, second = (wrap_dim(d, self.ndim, name="transpose") for d in (dim0, dim1))
    if isinstance(self._parts, Coo):
        order = list(range(self.ndim))
        order[first], order[second] = second, first
        return _permuted(self, order, first == second)
    parts: Compressed = self._parts
    batch = len(parts.batch)
    shape = list(self.shape)
    shape[first], shape[second] = shape[second], shape[first]
    if first == second:
        return self
    if max(first, second) < batch:
        moved = Compressed(
            parts.layout,
            *[
                member.transpose(first, second).contiguous()
                for member in (parts.compressed, parts.plain, parts.values)
            ],
        )
        return put(values_of(self).transpose(first, second), make_sparse(moved, tuple(shape)))
    check(
        {first, second} == {batch, batch + 1},
        "transpose(): can only transpose a compressed sparse tensor "
        "along its batch dimensions or its two sparse dimensions",
    )
    values = values_of(self)
    if parts.layout in BLOCKED:
        values = values.transpose(batch + 1, batch + 2)
    like = Compressed(TRANSPOSED[parts.layout], parts.compressed, parts.plain, values.detach())
    return put(values, make_sparse(like, tuple(shape)))


@sparse_kernel("unsqueeze", layouts=(sparse_coo,))
def unsqueeze(self: Tensor, dim: int) -> Tensor:
    at = wrap_dim(dim, self.ndim + 1, name="unsqueeze")
    source = stored(self)
    parts = source._parts
    shape = [*self.shape[:at], 1, *self.shape[at:]]
    if at > parts.sparse_dim:
        return coo(
            parts.indices,
            values_of(source).unsqueeze(at - parts.sparse_dim + 1),
            source,
            shape,
            parts.coalesced,
        )
    indices = np.insert(parts.indices.numpy_array(), at, 0, axis=0)
    return coo(index_tensor(indices), values_of(source), source, shape, parts.coalesced)


def _without(self: Tensor, dims: Sequence[int]) -> Tensor:
    """`self` without those of `dims` that have size 1."""
    dims = [d for d in dims if self.shape[d] == 1]
    source = stored(self)
    parts = source._parts
    shape = [size for d, size in enumerate(self.shape) if d not in dims]
    kept = [d for d in range(parts.sparse_dim) if d not in dims]
    values = values_of(source)
    for d in sorted((d for d in dims if d >= parts.sparse_dim), reverse=True):
        values = values.squeeze(d - parts.sparse_dim + 1)
    return coo(index_tensor(parts.indices.numpy_array()[kept]), values, source, shape, parts.coalesced)


@sparse_kernel("squeeze", layouts=(sparse_coo,))
def squeeze(self: Tensor) -> Tensor:
    return _without(self, range(self.ndim))


@sparse_kernel("squeeze.dim", "squeeze.dims", layouts=(sparse_coo,))
def squeeze_dim(self: Tensor, dim: Any) -> Tensor:
    dims = dim if isinstance(dim, tuple) else (dim,)
    return _without(self, [wrap_dim(d, self.ndim, name="squeeze") for d in dims])


# Parts.


@sparse_kernel("select.int")
def select(self: Tensor, dim: int, index: int) -> Tensor:
    if self.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    at = wrap_dim(dim, self.ndim, name="select")
    size = self.shape[at]
    check(
        -size <= index < size,
        f"select(): index {index} out of range for tensor of size {list(self.shape)} at dimension {at}",
        IndexError,
    )
    index %= size
    parts = self._parts
    if isinstance(parts, Compressed) and at < len(parts.batch):
        inner = Compressed(
            parts.layout,
            *[member.select(at, index) for member in (parts.compressed, parts.plain, parts.values)],
        )
        shape = tuple(n for d, n in enumerate(self.shape) if d != at)
        return put(values_of(self).select(at, index), make_sparse(inner, shape))
    source = convert(self, sparse_coo, None, None) if isinstance(parts, Compressed) else settled(self)
    return _selected(source, at, index)


def _selected(source: Tensor, at: int, index: int) -> Tensor:
    parts: Coo = source._parts
    shape = [n for d, n in enumerate(source.shape) if d != at]
    if at >= parts.sparse_dim:
        return coo(
            parts.indices,
            values_of(source).select(at - parts.sparse_dim + 1, index),
            source,
            shape,
            parts.coalesced,
        )
    indices = parts.indices.numpy_array()
    kept = np.flatnonzero(indices[at] == index)
    values = values_of(source).index_select(0, index_tensor(kept))
    rest = np.delete(indices, at, axis=0)[:, kept]
    if parts.sparse_dim == 1:  # nothing sparse is left
        return values.sum(0, dtype=source.dtype)
    return coo(index_tensor(rest), values, source, shape, parts.coalesced)


@sparse_kernel("unbind.int")
def unbind(self: Tensor, dim: int) -> tuple[Tensor, ...]:
    at = wrap_dim(dim, self.ndim, name="unbind")
    return tuple([self.select(at, i) for i in range(self.shape[at])])


@sparse_kernel("index_select", layouts=(sparse_coo,))
def index_select(self: Tensor, dim: int, index: Tensor) -> Tensor:
    if self.ndim == 0:
        raise IndexError("index_select() cannot be applied to a 0-dim tensor.")
    at = wrap_dim(dim, self.ndim, name="index_select")
    check(
        index.ndim == 1 and index.dtype.name in ("int64", "int32"),
        "index_select() argument index must be 1-D of dtype int64 or int32",
    )
    wanted = index.numpy_array().astype(np.int64)
    size = self.shape[at]
    check(
        wanted.size == 0 or bool((wanted >= -size).all() and (wanted < size).all()),
        f"index_select(): index contains an index out of range [0, {size})",
        IndexError,
    )
    wanted = np.where(wanted < 0, wanted + size, wanted)
    source = settled(self)
    parts: Coo = source._parts
    shape = [len(wanted) if d == at else n for d, n in enumerate(self.shape)]
    if at >= parts.sparse_dim:
        values = values_of(source).index_select(at - parts.sparse_dim + 1, index_tensor(wanted))
        return coo(parts.indices, values, source, shape, parts.coalesced)
    own = parts.indices.numpy_array()
    order = np.argsort(own[at], kind="stable")
    begin, end = (np.searchsorted(own[at][order], wanted, side) for side in ("left", "right"))
    counts = end - begin
    place = np.repeat(np.arange(len(wanted)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    picked = order[np.repeat(begin, counts) + within]
    indices = own[:, picked].copy()
    indices[at] = place
    return coo(
        index_tensor(indices), values_of(source).index_select(0, index_tensor(picked)), source, shape, at == 0
    )


@sparse_kernel("cat", layouts=(sparse_coo,))
def cat(tensors: tuple[Tensor, ...], dim: int) -> Tensor:
    check(
        all(is_sparse(tensor) for tensor in tensors),
        "Concatenating sparse tensors, but a dense tensor was found among them",
        NotImplementedError,
    )
    sources = [stored(tensor) for tensor in tensors]
    first = sources[0]
    at = wrap_dim(dim, first.ndim, name="cat")
    sparse_dim = first._parts.sparse_dim
    for number, tensor in enumerate(sources):
        check(
            tensor._parts.sparse_dim == sparse_dim and tensor.ndim == first.ndim,
            "All tensors must have the "
            f"same shape and number of sparse and dense dimensions, but tensor at position {number} has "
            f"{tensor._parts.sparse_dim} and {tensor._parts.dense_dim}",
        )
        check(
            all(a == b for d, (a, b) in enumerate(zip(first.shape, tensor.shape, strict=True)) if d != at),
            "All tensors must have the same shape except in the concatenating dimension, but the first has "
            f"{list(first.shape)} and tensor {number} {list(tensor.shape)}",
        )
    shape = list(first.shape)
    shape[at] = sum(tensor.shape[at] for tensor in sources)
    starts = np.cumsum([0, *[tensor.shape[at] for tensor in sources[:-1]]])
    indices = []
    for tensor, start in zip(sources, starts, strict=True):
        own = tensor._parts.indices.numpy_array().copy()
        if at < sparse_dim:
            own[at] += start
        indices.append(own)
    values = [values_of(tensor) for tensor in sources]
    if at >= sparse_dim:
        values = [
            _padded(v, at - sparse_dim + 1, int(start), shape[at])
            for v, start in zip(values, starts, strict=True)
        ]
    in_order = at == 0 and all(tensor._parts.coalesced for tensor in sources)
    return coo(
        index_tensor(np.concatenate(indices, axis=1)),
        run_name("cat", tuple(values), 0),
        first,
        shape,
        in_order,
    )


def _padded(values: Tensor, dim: int, start: int, size: int) -> Tensor:
    """`values` among zeros, from `start` on, so that `dim` has `size` elements."""

    def zeros(count: int) -> Tensor:
        return values.new_zeros((*values.shape[:dim], count, *values.shape[dim + 1 :]))

    return run_name("cat", (zeros(start), values, zeros(size - start - values.shape[dim])), dim)


def narrow_copy(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """The part [start, start + length) of a tensor of coordinates along `dim`."""
    at = wrap_dim(dim, self.ndim, name="narrow_copy")
    size = self.shape[at]
    check(length >= 0, "narrow(): length must be non-negative.")
    check(-size <= start <= size, f"Invalid start ({start}) for dimension of size {size}", IndexError)
    start = start + size if start < 0 else start
    check(
        start + length <= size, f"Invalid range from {start} to {start + length} in dimension of size {size}"
    )
    return index_select(self, at, index_tensor(np.arange(start, start + length)))

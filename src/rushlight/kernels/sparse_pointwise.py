"""Elementwise operators on sparse tensors.

An operator that leaves zero as it is acts on the values. Two tensors are added on the union of their places
and multiplied on the intersection; a strided factor is looked at where the sparse one has elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ..core.declare_layouts import attach_sparse, sparse_kernel
from ..core.dispatch import call, run_name
from ..core.errors import check
from ..core.registry import REGISTRY, OpDef
from ..core.sparse import COMPRESSED, Coo, make_sparse
from ..core.tensor import Tensor
from ..core.tokens import sparse_coo
from .sparse import coordinates, flat, index_tensor, is_sparse, put, settled, sparse_shape, stored, values_of
from .sparse_conversion import convert, pattern

# Additive in their argument: duplicates may stay duplicates.
ADDITIVE = ("neg", "_conj_physical", "mul.Scalar", "div.Scalar")
ZERO_PRESERVING = (
    "abs",
    "deg2rad",
    "rad2deg",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "erf",
    "erfinv",
    "expm1",
    "floor",
    "frac",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "log1p",
    "nan_to_num",
    "relu",
    "round",
    "round.decimals",
    "sgn",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "angle",
    "div.Scalar_mode",
    "floor_divide.Scalar",
    "leaky_relu",
    "hardshrink",
    "softshrink",
)


def _on_values(op: OpDef, *, additive: bool) -> Any:
    def run(args: tuple[Any, ...]) -> Tensor:
        source = stored(args[0]) if additive else settled(args[0])
        return put(call(op, (values_of(source), *args[1:])), source)

    return run


for _name in (*ADDITIVE, *ZERO_PRESERVING):
    attach_sparse(REGISTRY[_name], _on_values(REGISTRY[_name], additive=_name in ADDITIVE))


@sparse_kernel("pow.Tensor_Scalar")
def power(self: Tensor, exponent: Any) -> Tensor:
    check(
        exponent != 0,
        "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense",
    )
    source = settled(self)
    return put(values_of(source) ** exponent, source)


@sparse_kernel("_conj")
def conjugate(self: Tensor) -> Tensor:
    source = stored(self)
    return put(run_name("_conj_physical", values_of(source)), source) if self.dtype.is_complex else self


# Sums.


def _no_sum() -> NoReturn:
    raise RuntimeError(
        "add(sparse, dense) is not supported. Use add(dense, sparse) instead, or to_dense() on "
        "the sparse tensor."
    )


@sparse_kernel("add.Scalar", "sub.Scalar", "rsub.Scalar")
def add_number() -> Tensor:
    _no_sum()


@sparse_kernel("add.Tensor")
def add(self: Tensor, other: Tensor, alpha: Any) -> Tensor:
    if not is_sparse(self):
        return self.add(run_name("_sparse_strided", other), alpha=alpha)
    if not is_sparse(other):
        if self.layout in COMPRESSED and other.ndim:
            return run_name("_sparse_strided", self).add(other, alpha=alpha)
        _no_sum()
    check(
        tuple(self.shape) == tuple(other.shape),
        f"add: expected sizes of 'self' and 'other' to match, but {list(self.shape)} != {list(other.shape)}",
    )
    check(
        self.layout is other.layout,
        f"add: a {self.layout.name} and a {other.layout.name} tensor cannot be "
        "added; convert one of the two to the layout of the other",
        NotImplementedError,
    )
    if self._parts.same_structure(other._parts) or _equal_structure(self, other):
        first, second = stored(self), stored(other)
        return put(values_of(first).add(values_of(second), alpha=alpha), first)
    return _added(self, other, alpha)


def _added(self: Tensor, other: Tensor, alpha: Any) -> Tensor:
    """The sum of two tensors of one layout, by way of coordinates."""
    layout, block = self.layout, None
    if layout in COMPRESSED:
        block = (
            self._parts.block
            if self._parts.values.ndim > self._parts.plain.ndim + self._parts.dense_dim
            else None
        )
        self, other = convert(self, sparse_coo, None, None), convert(other, sparse_coo, None, None)
    first, second = stored(self), stored(other)
    check(
        first._parts.sparse_dim == second._parts.sparse_dim,
        "add: expected 'self' and 'other' to have the "
        f"same number of sparse dimensions, but {first._parts.sparse_dim} != {second._parts.sparse_dim}",
    )
    both = first._parts.coalesced and second._parts.coalesced
    mine, theirs = values_of(first), values_of(second)
    theirs = theirs if alpha == 1 else theirs * alpha
    indices = np.concatenate(
        [first._parts.indices.numpy_array(), second._parts.indices.numpy_array()], axis=1
    )
    values = run_name("cat", (mine, theirs), 0)
    total = coo(index_tensor(indices), values, first)
    total = run_name("_coalesce", total) if both else total
    return total if layout is sparse_coo else convert(total, layout, None, block)


def coo(indices: Tensor, values: Tensor, like: Tensor, size: Any = None, coalesced: bool = False) -> Tensor:
    """A tensor of coordinates, of the size of `like` unless told otherwise."""
    size = tuple(like.shape) if size is None else tuple(size)
    return run_name(
        "_sparse_coo_tensor_with_dims_and_tensors",
        indices.shape[0],
        len(size) - indices.shape[0],
        size,
        indices,
        values,
        None,
        None,
        None,
        None,
        coalesced,
    )


def _equal_structure(self: Tensor, other: Tensor) -> bool:
    mine, theirs = self._parts, other._parts
    if isinstance(mine, Coo):
        return (
            mine.coalesced
            and theirs.coalesced
            and np.array_equal(mine.indices.numpy_array(), theirs.indices.numpy_array())
        )
    return mine.block == theirs.block and all(
        np.array_equal(getattr(mine, name).numpy_array(), getattr(theirs, name).numpy_array())
        for name in ("compressed", "plain")
    )


@sparse_kernel("sub.Tensor")
def subtract(self: Tensor, other: Tensor, alpha: Any) -> Tensor:
    return self.add(other, alpha=-alpha)


@sparse_kernel("rsub.Tensor")
def subtract_from(self: Tensor, other: Tensor, alpha: Any) -> Tensor:
    return other.add(self, alpha=-alpha)


# Products and quotients.


@sparse_kernel("mul.Tensor")
def multiply(self: Tensor, other: Tensor) -> Tensor:
    if not (is_sparse(self) and is_sparse(other)):
        factor, source = (other, stored(self)) if is_sparse(self) else (self, stored(other))
        if factor.ndim == 0:
            return put(values_of(source) * factor, source)
        if factor.ndim > source.ndim and isinstance(source._parts, Coo):
            source = _spread(source, factor.shape[: factor.ndim - source.ndim])
        check(
            factor.ndim <= source.ndim,
            f"mul: a sparse tensor of shape {list(source.shape)} cannot be "
            f"broadcast to the {factor.ndim} dimensions of the strided factor",
        )
        return put(values_of(source) * run_name("_sparse_take", factor.expand(source.shape), source), source)
    if 0 in (self.ndim, other.ndim) and self.ndim != other.ndim:  # a number, stored or zero
        return multiply(self, other.to_dense()) if other.ndim == 0 else multiply(self.to_dense(), other)
    first, second = settled(self), settled(other)
    check(
        tuple(first.shape) == tuple(second.shape),
        "mul: expected sizes of 'self' and 'other' to match, but "
        f"{list(first.shape)} != {list(second.shape)}",
    )
    check(
        first.layout is second.layout,
        f"mul: a {first.layout.name} and a {second.layout.name} tensor cannot "
        "be multiplied; convert one of the two to the layout of the other",
        NotImplementedError,
    )
    if first._parts.same_structure(second._parts) or _equal_structure(first, second):
        return put(values_of(first) * values_of(second), first)
    places = _common_places(first, second)
    return put(run_name("_sparse_take", first, places) * run_name("_sparse_take", second, places), places)


def _spread(source: Tensor, lead: Sequence[int]) -> Tensor:
    """A tensor of coordinates repeated along new leading dimensions, which are sparse ones."""
    source = settled(source)
    parts = source._parts
    places = np.indices(tuple(lead)).reshape(len(lead), -1)
    old = parts.indices.numpy_array()
    indices = np.concatenate([places.repeat(old.shape[1], axis=1), np.tile(old, (1, places.shape[1]))])
    values = values_of(source).repeat((places.shape[1],) + (1,) * parts.dense_dim)
    return coo(index_tensor(indices), values, source, (*lead, *source.shape), True)


def _common_places(first: Tensor, second: Tensor) -> Tensor:
    """The places that two tensors of one layout have in common."""
    mine, theirs = first._parts, second._parts
    check(
        mine.dense_dim == theirs.dense_dim,
        "mul: expected 'self' and 'other' to have the same number of "
        f"dense dimensions, but {mine.dense_dim} != {theirs.dense_dim}",
    )
    sizes, coords = sparse_shape(first), coordinates(first)
    numbers = flat(coords, sizes)
    kept = np.flatnonzero(np.isin(numbers, flat(coordinates(second), sizes)))
    kept = kept[np.argsort(numbers[kept], kind="stable")]
    block = mine.block if not isinstance(mine, Coo) and mine.block != (1, 1) else None
    return pattern(coords[:, kept], first, first.layout, mine.dense_dim, block)


def _divide(op: OpDef, *, additive: bool) -> Any:
    def run(args: tuple[Any, ...]) -> Tensor:
        other = args[1]
        check(
            other.ndim == 0 and not is_sparse(other),
            "Sparse division requires a scalar or zero-dim dense "
            f"tensor divisor (got shape {list(other.shape)} for divisor)",
        )
        source = stored(args[0]) if additive else settled(args[0])
        return put(call(op, (values_of(source), *args[1:])), source)

    return run


for _name in ("div.Tensor", "div.Tensor_mode", "floor_divide"):
    attach_sparse(REGISTRY[_name], _divide(REGISTRY[_name], additive=_name == "div.Tensor"))


# Copies, casts.


@sparse_kernel("clone", through=False)
def clone(self: Tensor) -> Tensor:
    return make_sparse(self._parts.copy(), tuple(self.shape))


@sparse_kernel("_to_copy", through=False)
def to_copy(self: Tensor, dtype: Any, device: Any) -> Tensor:
    check(
        device is None or device.type == "cpu",
        "there are no sparse tensors on the meta device",
        NotImplementedError,
    )
    parts = self._parts.copy()
    values = parts.values if dtype is None else parts.values.to(dtype)
    return make_sparse(parts.with_values(values), tuple(self.shape))


@sparse_kernel("detach", "alias", through=False)
def same(self: Tensor) -> Tensor:
    result = make_sparse(self._parts, tuple(self.shape))
    result._versions = self.version_counter
    return result


@sparse_kernel("copy")
def copy(self: Tensor, src: Tensor) -> Tensor:
    check(
        self.layout is src.layout,
        "copy_() between dense and sparse Tensors, or different sparse layouts, is "
        f"not implemented! Found self layout = {self.layout.name} and src layout = {src.layout.name}",
    )
    check(
        tuple(self.shape) == tuple(src.shape),
        f"copy_(): the sizes of self, {list(self.shape)}, and of src, "
        f"{list(src.shape)}, differ; a sparse tensor is not broadcast",
    )
    return src.clone() if src.dtype is self.dtype else src.to(self.dtype)

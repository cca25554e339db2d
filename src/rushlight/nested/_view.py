"""Views of nested tensors, and joining and indexing them.

Every dimension but the batch and the ragged one is a dimension of the values. The ragged dimension can change
its place, the batch can be cut into rows and ranges of rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.dispatch import AMBIENT, Arguments, call, read_array, run_name
from ..core.errors import check, fail
from ..core.nested import (
    BOOL,
    NestedTensor,
    Ragged,
    beside,
    generic,
    nest,
    no_rule,
    packed,
    ragged_of_sizes,
    rule,
)
from ..core.nested_int import NestedInt
from ..core.registry import REGISTRY, OpDef
from ..core.shapes import wrap_dim
from ..core.tensor import Tensor, wrap
from ._pointwise import aligned, dense_value


def inner_dim(nested: NestedTensor, dim: int, name: str, more: int = 0) -> int:
    """The dimension of the values that `dim` is, neither the batch nor the ragged one."""
    wrapped = wrap_dim(dim, nested.ndim + more)
    check(wrapped != nested._ragged_idx, f"{name}(): not supported for NestedTensor on ragged dim")
    check(wrapped != 0, f"{name}(): not supported for NestedTensor on dim=0")
    return wrapped - 1


# Rows.


def row(nested: NestedTensor, index: int) -> Tensor:
    ragged = nested._ragged
    start, length = int(ragged.starts[index]), int(ragged.sizes[index])
    return run_name("slice.Tensor", nested._values, nested._ragged_idx - 1, start, start + length, 1)


def all_rows(nested: NestedTensor) -> tuple[Tensor, ...]:
    """All rows, views that are one node of the tape where there are no holes."""
    ragged = nested._ragged
    if ragged.holes:
        return tuple([row(nested, i) for i in range(ragged.batch)])
    sizes = tuple(ragged.sizes.tolist())
    rows: tuple[Tensor, ...] = run_name("split_with_sizes", nested._values, sizes, nested._ragged_idx - 1)
    return rows


def some_rows(nested: NestedTensor, start: int, stop: int) -> NestedTensor:
    """The rows from `start` up to `stop`, a view."""
    ragged = nested._ragged
    sizes = ragged.sizes[start:stop]
    if ragged.holes:
        offsets = run_name("slice.Tensor", ragged.offsets, 0, start, stop + 1, 1)
        lengths = run_name("slice.Tensor", ragged.lengths, 0, start, stop, 1)
        return nest(
            nested._values, Ragged(offsets, lengths, ragged.starts[start:stop], sizes), nested._ragged_idx
        )
    first = int(ragged.sizes[:start].sum())
    values = run_name(
        "slice.Tensor", nested._values, nested._ragged_idx - 1, first, first + int(sizes.sum()), 1
    )
    return nest(values, ragged_of_sizes(sizes), nested._ragged_idx)


def gathered_rows(nested: NestedTensor, indices: np.ndarray) -> NestedTensor:
    """The rows `indices`, copied."""
    ragged = nested._ragged
    new = ragged_of_sizes(ragged.sizes[indices])
    places = wrap(np.repeat(ragged.starts[indices], new.sizes) + new.positions())
    return nest(
        run_name("index_select", nested._values, nested._ragged_idx - 1, beside(places, nested._values)),
        new,
        nested._ragged_idx,
    )


@rule("unbind.int")
def unbind(self: NestedTensor, dim: int) -> tuple[Tensor, ...]:
    check(wrap_dim(dim, self.ndim) == 0, "unbind(): only supported for NestedTensor on dim=0")
    return all_rows(self)


@rule("select.int")
def select(self: NestedTensor, dim: int, index: int) -> Any:
    dim = wrap_dim(dim, self.ndim)
    if dim == 0:
        count = self._ragged.batch
        check(
            -count <= index < count,
            f"select(): index {index} out of range for nested tensor of {count} rows",
            IndexError,
        )
        return row(self, index % count)
    inner = inner_dim(self, dim, "select")
    at = self._ragged_idx - (dim < self._ragged_idx)
    return nest(run_name("select.int", self._values, inner, index), self._ragged, at)


@rule("slice.Tensor")
def slice_(self: NestedTensor, dim: int, start: Any, end: Any, step: int) -> Any:
    dim = wrap_dim(dim, self.ndim)
    if step == 1 and start in (None, 0) and (end is None or end == (1 << 63) - 1):
        return self.like(self._values)  # all of it, along any dimension
    if dim == 0:
        rows = np.arange(self._ragged.batch)[slice(start, end, step)]
        if step == 1:
            first = int(rows[0]) if len(rows) else 0
            return some_rows(self, first, first + len(rows))
        return gathered_rows(self, rows)
    inner = inner_dim(self, dim, "slice")
    return self.like(run_name("slice.Tensor", self._values, inner, start, end, step))


@rule("narrow")
def narrow(self: NestedTensor, dim: int, start: int, length: int) -> Any:
    dim = wrap_dim(dim, self.ndim)
    if dim == 0:
        count = self._ragged.batch
        check(
            0 <= start + count * (start < 0) <= count - length and length >= 0,
            f"narrow(): start {start} and length {length} are out of range for {count} rows",
        )
        return some_rows(self, start % max(count, 1), start % max(count, 1) + length)
    return self.like(run_name("narrow", self._values, inner_dim(self, dim, "narrow"), start, length))


@generic("chunk", "split.Tensor", "split_with_sizes", "split.sizes", "tensor_split.sections")
def parts(op: OpDef, args: Arguments) -> tuple[Any, ...]:
    nested, how, dim = args
    dim = wrap_dim(dim, nested.ndim)
    if dim != 0:
        name = "split_with_sizes" if op.name == "split.sizes" else op.schema.name
        inner = inner_dim(nested, dim, name)
        return tuple([nested.like(part) for part in call(op, (nested._values, how, inner))])
    rows = wrap(np.arange(nested._ragged.batch))
    ends = np.cumsum([0] + [part.numel() for part in call(op, (rows, how, 0))])
    return tuple([some_rows(nested, int(a), int(b)) for a, b in itertools.pairwise(ends)])


@rule("index.Tensor")
def index(self: NestedTensor, indices: tuple[Any, ...]) -> Any:
    first, *others = indices
    if first is None or any(other is not None for other in others) or first.ndim != 1:
        raise no_rule(REGISTRY["index.Tensor"])
    return index_rows(self, first)


@rule("index_select")
def index_select(self: NestedTensor, dim: int, index: Tensor) -> Any:
    dim = wrap_dim(dim, self.ndim)
    if dim == 0:
        return index_rows(self, index)
    return self.like(run_name("index_select", self._values, inner_dim(self, dim, "index_select"), index))


def index_rows(nested: NestedTensor, index: Tensor) -> NestedTensor:
    count = nested._ragged.batch
    rows = _read(index)
    if index.dtype is BOOL:
        check(
            len(rows) == count,
            f"the shape of the mask {list(index.shape)} does not match {count} rows",
            IndexError,
        )
        rows = np.flatnonzero(rows)
    check(bool(((rows >= -count) & (rows < count)).all()), f"index out of range for {count} rows", IndexError)
    return gathered_rows(nested, rows % max(count, 1))


def _read(tensor: Tensor) -> np.ndarray:
    return AMBIENT.trace.read(tensor) if AMBIENT.trace is not None else read_array(tensor)


@rule("masked_select", anywhere=True)
def masked_select(self: Any, mask: Any) -> Any:
    check(self.ndim <= 2, "masked_select only support 2-D selections currently")
    check(
        isinstance(self, NestedTensor) and isinstance(mask, NestedTensor) and self.shape == mask.shape,
        f"Mask with shape {tuple(mask.shape)} is not compatible with input's shape {tuple(self.shape)}",
    )
    whole, chosen = packed(self), packed(mask)
    counted = np.concatenate([[0], np.cumsum(_read(chosen._values))])
    starts = whole._ragged.starts
    sizes = counted[starts + whole._ragged.sizes] - counted[starts]
    return nest(run_name("masked_select", whole._values, chosen._values), ragged_of_sizes(sizes))


# Dimensions.


@rule("unsqueeze")
def unsqueeze(self: NestedTensor, dim: int) -> Any:
    dim = wrap_dim(dim, self.ndim + 1)
    check(dim != 0, "unsqueeze(): not supported for NestedTensor on dim=0")
    at = self._ragged_idx + (dim <= self._ragged_idx)
    return nest(run_name("unsqueeze", self._values, dim - 1), self._ragged, at)


@rule("squeeze.dim")
def squeeze_dim(self: NestedTensor, dim: int) -> Any:
    return _squeezed(self, [inner_dim(self, dim, "squeeze")])


@rule("squeeze.dims")
def squeeze_dims(self: NestedTensor, dim: Sequence[int]) -> Any:
    return _squeezed(self, [inner_dim(self, d, "squeeze") for d in dim])


@rule("squeeze")
def squeeze(self: NestedTensor) -> Any:
    return _squeezed(self, [d for d in range(self._values.ndim) if d != self._ragged_idx - 1])


def _squeezed(nested: NestedTensor, dims: list[int]) -> NestedTensor:
    gone = tuple(d for d in dims if nested._values.shape[d] == 1)
    at = nested._ragged_idx - sum(d < nested._ragged_idx - 1 for d in gone)
    return nest(run_name("squeeze.dims", nested._values, gone), nested._ragged, at)


@rule("transpose.int", "swapdims")
def transpose(self: NestedTensor, dim0: int, dim1: int) -> Any:
    first, second = wrap_dim(dim0, self.ndim), wrap_dim(dim1, self.ndim)
    if 0 in (first, second):
        check(
            self._ragged_idx not in (first, second),
            "Transpose is not supported on the batch dimension for jagged NT",
            ValueError,
        )
        fail("transpose(): not supported for NestedTensor on dim=0")
    at = {first: second, second: first}.get(self._ragged_idx, self._ragged_idx)
    return nest(run_name("transpose.int", self._values, first - 1, second - 1), self._ragged, at)


@rule("swapaxes")
def swapaxes(self: NestedTensor, axis0: int, axis1: int) -> Any:
    return transpose(self, axis0, axis1)


@rule("mT", "adjoint")
def matrix_transpose(self: NestedTensor) -> Any:
    return transpose(self, -2, -1)


@rule("permute")
def permute(self: NestedTensor, dims: Sequence[int]) -> Any:
    check(
        len(dims) == self.ndim,
        f"permute(): number of dimensions in the tensor input ({self.ndim}) does "
        f"not match the length of the desired ordering of dimensions ({len(dims)}).",
        ValueError,
    )
    order = [wrap_dim(d, self.ndim) for d in dims]
    check(len(set(order)) == len(order), "permute(): duplicate dims are not allowed.", ValueError)
    check(order[0] == 0, "Permute is not supported on the batch dimension for jagged NT", ValueError)
    inner = tuple(d - 1 for d in order[1:])
    return nest(run_name("permute", self._values, inner), self._ragged, order.index(self._ragged_idx))


@rule("movedim.int")
def movedim(self: NestedTensor, source: int, destination: int) -> Any:
    order = list(range(self.ndim))
    order.insert(wrap_dim(destination, self.ndim), order.pop(wrap_dim(source, self.ndim)))
    return permute(self, order)


# Shapes.


def values_shape(nested: NestedTensor, size: Sequence[Any], name: str) -> tuple[tuple[Any, ...], int]:
    """The shape of the values of `nested` seen as `size`, and which dimension is ragged then."""
    refusal = f"{name}(): cannot view shape {tuple(nested.shape)} as {tuple(size)}"
    at = next((i for i, n in enumerate(size) if isinstance(n, NestedInt)), None)
    if at is None:
        at = nested._ragged_idx  # -1 stands for the ragged size at its place
        check(len(size) > at and size[at] == -1, refusal)
    else:
        check(size[at] == nested._ragged.size, refusal)
    check(at > 0 and size[0] in (nested._ragged.batch, -1), refusal)
    check(not any(isinstance(n, NestedInt) for n in size[at + 1 :]), refusal)
    before, ragged = nested._values.shape[: nested._ragged_idx - 1], nested._ragged_idx - 1
    check(_fits(size[1:at], before) and _fits(size[at + 1 :], nested._values.shape[ragged + 1 :]), refusal)
    return (*size[1:at], nested._values.shape[ragged], *size[at + 1 :]), at


def _fits(size: Sequence[Any], shape: Sequence[int]) -> bool:
    """Whether sizes, one of which may be -1, have as many elements as `shape`."""
    wanted, known = int(np.prod(shape)), int(np.prod([n for n in size if n != -1]))
    return wanted == known if -1 not in size else known > 0 and wanted % known == 0


@generic("view", "reshape", "_unsafe_view")
def view(op: OpDef, args: Arguments) -> Any:
    nested, size = args
    shape, at = values_shape(nested, size, op.schema.name)
    return nest(call(op, (nested._values, shape)), nested._ragged, at)


@generic("view_as", "reshape_as")
def view_as(op: OpDef, args: Arguments) -> Any:
    nested, other = args
    check(isinstance(nested, NestedTensor), f"{op.schema.name}(): a dense tensor has no ragged dimension")
    return view(REGISTRY[op.schema.name.removesuffix("_as")], (nested, tuple(other.shape)))


@rule("flatten.using_ints")
def flatten(self: NestedTensor, start_dim: int, end_dim: int) -> Any:
    start, end = inner_dim(self, start_dim, "flatten"), inner_dim(self, end_dim, "flatten")
    check(not start < self._ragged_idx - 1 < end, "flatten(): not supported for NestedTensor on ragged dim")
    at = self._ragged_idx - (end - start) * (end < self._ragged_idx - 1)
    return nest(run_name("flatten.using_ints", self._values, start, end), self._ragged, at)


@rule("unflatten.int")
def unflatten(self: NestedTensor, dim: int, sizes: Sequence[int]) -> Any:
    inner = inner_dim(self, dim, "unflatten")
    at = self._ragged_idx + (len(sizes) - 1) * (inner < self._ragged_idx - 1)
    return nest(run_name("unflatten.int", self._values, inner, tuple(sizes)), self._ragged, at)


@rule("expand")
def expand(self: NestedTensor, size: Sequence[Any], implicit: bool) -> Any:
    at = self._ragged_idx
    fits = (
        len(size) == self.ndim
        and size[0] in (self._ragged.batch, -1)
        and (size[at] == self._ragged.size or size[at] == -1)
    )
    check(fits, f"expand(): cannot expand shape {tuple(self.shape)} -> {tuple(size)}")
    inner = tuple(-1 if i == at else size[i] for i in range(1, self.ndim))
    return self.like(run_name("expand", self._values, inner, False))


@rule("broadcast_to")
def broadcast_to(self: NestedTensor, size: Sequence[Any]) -> Any:
    return expand(self, size, False)


@rule("expand_as", anywhere=True)
def expand_as(self: Tensor, other: Tensor) -> Any:
    if isinstance(self, NestedTensor):
        return expand(self, tuple(other.shape), False)
    assert isinstance(other, NestedTensor)
    like = packed(other)
    values = dense_value(REGISTRY["expand_as"], self, like)
    return like.like(values.expand(tuple(like._values.shape)))


# Joining.


@generic("cat", "concat", "concatenate")
def cat(op: OpDef, args: Arguments) -> Any:
    tensors, dim = args
    first = next(t for t in tensors if isinstance(t, NestedTensor))
    inner = inner_dim(first, dim, "cat")
    nested = [t if isinstance(t, NestedTensor) else expand_as(t, first) for t in tensors]
    like, values = aligned(op, nested)
    return like.like(run_name("cat", tuple(values), inner))


@rule("stack", anywhere=True)
def stack(tensors: Sequence[Any], dim: int) -> Any:
    first = tensors[0]
    for tensor in tensors:
        check(isinstance(tensor, NestedTensor), "stack(): expected all nested tensors inputs")
        check(tensor.ndim == first.ndim, "stack(): expected all nested tensors to have the same dim")
        check(
            tensor._ragged_idx == first._ragged_idx and tensor._ragged.size == first._ragged.size,
            "stack(): expected all nested tensors to have the same nested structure",
        )
    inner = inner_dim(first, dim, "stack", more=1)
    like, values = aligned(REGISTRY["stack"], list(tensors))
    at = like._ragged_idx + (inner < like._ragged_idx - 1)
    return nest(run_name("stack", tuple(values), inner), like._ragged, at)

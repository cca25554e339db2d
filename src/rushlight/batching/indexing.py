"""Batching rules of gather, scatter and indexing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.shapes import broadcast_shapes, numel
from ..core.tensor import Tensor
from .declare import Along, batching, expand_batch, flat, pad_ndim, shift

batching("gather", Along("dim", like="index", all_batched=True))
batching(
    [
        "scatter.src",
        "scatter.reduce",
        "scatter.value",
        "scatter.value_reduce",
        "scatter_add",
        "scatter_reduce.two",
    ],
    Along("dim", all_batched=True),
)


def along(tensor: Tensor, ndim: int) -> Tensor:
    """A 0-d element of the batch as one of a single element."""
    return tensor.unsqueeze(1) if ndim == 0 else tensor


def spread(index: Tensor, shape: Sequence[int], dim: int) -> Tensor:
    """A batch of 1-d indices as the full index that gather and scatter want along `dim` of a tensor of
    `shape`."""
    view = [index.shape[0], *[1] * (len(shape) - 1)]
    view[dim] = index.shape[1]
    full = [*shape]
    full[dim] = index.shape[1]
    return index.reshape(view).expand(full)


@batching("index_select")
def index_select(
    self: Tensor,
    dim: int,
    index: Tensor,
    self_batched: bool,
    index_batched: bool,
    self_ndim: int,
    index_ndim: int,
    batch: int,
) -> Tensor:
    if not index_batched and self_ndim > 0:
        return run_name("index_select", self, shift(dim, self_ndim), index)
    self = self if self_batched else expand_batch(self, batch)
    index = index if index_batched else expand_batch(index, batch)
    source, at = along(self, self_ndim), shift(dim, max(self_ndim, 1))
    found = source.gather(at, spread(along(index, index_ndim), source.shape, at))
    return found.squeeze(1) if self_ndim == 0 else found


def by_index(name: str, combine: Any) -> None:
    """An operator that writes slices at 1-d indices: through the scatter operator `combine` where indices
    differ."""

    @batching(name, all_batched=True)
    def rule(
        self: Tensor,
        dim: int,
        index: Tensor,
        source: Tensor,
        self_ndim: int,
        index_ndim: int,
        source_ndim: int,
    ) -> Tensor:
        target, at = along(self, self_ndim), shift(dim, max(self_ndim, 1))
        value = along(source, source_ndim)
        done = combine(target, at, spread(along(index, index_ndim), target.shape, at), value)
        return done.squeeze(1) if self_ndim == 0 else done


by_index("index_copy", lambda target, dim, index, source: target.scatter(dim, index, source))


@batching("index_add", all_batched=True)
def index_add(
    self: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    alpha: Any,
    self_ndim: int,
    index_ndim: int,
    source_ndim: int,
) -> Tensor:
    target, at = along(self, self_ndim), shift(dim, max(self_ndim, 1))
    value = along(source, source_ndim)
    value = value if alpha == 1 else value * alpha
    done = target.scatter_add(at, spread(along(index, index_ndim), target.shape, at), value)
    return done.squeeze(1) if self_ndim == 0 else done


@batching("index_reduce", all_batched=True)
def index_reduce(
    self: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool,
    self_ndim: int,
    index_ndim: int,
    source_ndim: int,
) -> Tensor:
    target, at = along(self, self_ndim), shift(dim, max(self_ndim, 1))
    full = spread(along(index, index_ndim), target.shape, at)
    done = target.scatter_reduce(at, full, along(source, source_ndim), reduce, include_self=include_self)
    return done.squeeze(1) if self_ndim == 0 else done


@batching("index_fill.int_Scalar", all_batched=True)
def index_fill(self: Tensor, dim: int, index: Tensor, value: Any, self_ndim: int, index_ndim: int) -> Tensor:
    target, at = along(self, self_ndim), shift(dim, max(self_ndim, 1))
    done = target.scatter(at, spread(along(index, index_ndim), target.shape, at), value)
    return done.squeeze(1) if self_ndim == 0 else done


@batching("index_fill.int_Tensor", all_batched=True)
def index_fill_tensor(
    self: Tensor, dim: int, index: Tensor, value: Tensor, self_ndim: int, index_ndim: int
) -> Tensor:
    target, at = along(self, self_ndim), shift(dim, max(self_ndim, 1))
    full = spread(along(index, index_ndim), target.shape, at)
    done = target.scatter(at, full, value.reshape(-1, *[1] * (target.ndim - 1)).expand(full.shape))
    return done.squeeze(1) if self_ndim == 0 else done


@batching("take")
def take(self: Tensor, index: Tensor, self_batched: bool, index_batched: bool, batch: int) -> Tensor:
    if not self_batched:
        return run_name("take", self, index)
    index = index if index_batched else expand_batch(index, batch)
    return flat(self).gather(1, wrapped(flat(index), flat(self).shape[1])).reshape(index.shape)


def wrapped(index: Tensor, size: int) -> Tensor:
    """Negative indices count from the end."""
    return run_name("where.self", index < 0, index + size, index)


@batching("put", all_batched=True)
def put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    target, at = flat(self), wrapped(flat(index), flat(self).shape[1])
    value = flat(source)
    done = target.scatter_add(1, at, value) if accumulate else target.scatter(1, at, value)
    return done.reshape(self.shape)


@batching("masked_scatter", all_batched=True)
def masked_scatter(self: Tensor, mask: Tensor, source: Tensor, self_ndim: int, mask_ndim: int) -> Tensor:
    """The n-th true element of the mask takes the n-th element of the source."""
    rank = max(self_ndim, mask_ndim)
    self, mask = pad_ndim(self, self_ndim, rank), pad_ndim(mask, mask_ndim, rank)
    shape = broadcast_shapes(self.shape, mask.shape)
    self, mask = self.expand(shape), mask.expand(shape)
    order = (flat(mask).cumsum(1) - 1).clamp(min=0, max=max(flat(source).shape[1] - 1, 0))
    return run_name("where.self", mask, flat(source).gather(1, order).reshape(self.shape), self)


@batching("masked_select")
def masked_select(self: Tensor, mask: Tensor, self_ndim: int, mask_batched: bool, batch: int) -> Tensor:
    """One mask for the whole batch selects as many elements of each."""
    check(
        not mask_batched,
        "vmap: We do not support batching operators that can output dynamic shape. "
        "Attempted to vmap over aten::masked_select with a mask that differs within the batch.",
    )
    shape = broadcast_shapes(self.shape[1:], mask.shape, name="masked_select")
    places = run_name("nonzero", mask.expand(shape).reshape(-1)).squeeze(1)
    elements = pad_ndim(self, self_ndim, len(shape)).expand((batch, *shape))
    return flat(elements).index_select(1, places)


@batching("nonzero_static")
def nonzero_static(self: Tensor, size: int, fill_value: int, batch: int) -> Tensor:
    """True elements first, in order; then their coordinates, and the filling."""
    shape = self.shape[1:]
    mask = flat(self) != 0
    order = run_name("sort.stable", (~mask).long(), True, 1, False)[1]
    short = size - order.shape[1]
    order = run_name("constant_pad_nd", order, (0, short), 0) if short > 0 else order.narrow(1, 0, size)
    steps = [numel(shape[d + 1 :]) for d in range(len(shape))]
    coordinates = [
        run_name("remainder.Scalar", order.div(step, rounding_mode="floor"), n)
        for step, n in zip(steps, shape, strict=True)
    ]
    found = run_name("stack", tuple(coordinates), 2) if coordinates else order.new_zeros((batch, size, 0))
    valid = run_name("arange", size, None, None, self.device, None) < mask.sum(1, keepdim=True)
    return found.masked_fill(~valid.unsqueeze(2), fill_value)


# tensor[indices].


def check_no_masks(indices: Sequence[Tensor | None], batched: Sequence[bool]) -> None:
    for index, has in zip(indices, batched, strict=True):
        if index is not None and has and index.dtype.name in ("bool", "uint8"):
            raise RuntimeError(
                "vmap: We do not support batching operators that can output dynamic shape. "
                "Attempted to index with a batched mask; use where() instead."
            )


def without_masks(indices: Sequence[Any], batched: Sequence[bool]) -> tuple[list[Any], list[bool]]:
    """Masks, which are not batched, as the indices of their true elements."""
    plain: list[Any] = []
    flags: list[bool] = []
    for index, has in zip(indices, batched, strict=True):
        if index is not None and index.dtype.name in ("bool", "uint8"):
            parts = run_name("nonzero", index).unbind(1)
            plain.extend(parts)
            flags.extend([False] * len(parts))
        else:
            plain.append(index)
            flags.append(has)
    return plain, flags


class Layout:
    """Indices of a batch: aligned so that a first index, which counts the batch, can go with them."""

    def __init__(self, indices: Sequence[Any], batched: Sequence[bool], ndim: int, batch: int) -> None:
        check_no_masks(indices, batched)
        self.batch = batch
        plain, flags = without_masks(indices, batched)
        plain += [None] * (ndim - len(plain))
        flags += [False] * (ndim - len(flags))
        given = [(i, has) for i, has in zip(plain, flags, strict=True) if i is not None]
        self.rank = max(i.ndim - has for i, has in given)
        like = given[0][0]
        count = run_name("arange", batch, None, None, like.device, None).reshape(-1, *[1] * self.rank)
        aligned = [
            None if i is None else pad_ndim(i, i.ndim - 1, self.rank) if has else i
            for i, has in zip(plain, flags, strict=True)
        ]
        self.indices = (count, *aligned)
        self.shape = broadcast_shapes(*[i.shape for i in self.indices if i is not None])[1:]
        places = [d for d, i in enumerate(plain) if i is not None]
        adjacent = places == list(range(places[0], places[-1] + 1))
        # Dimensions that come before those of the indices in the result.
        self.lead = places[0] if adjacent else 0

    def to_user(self, tensor: Tensor) -> Tensor:
        """(batch, indices, rest) as (batch, lead, indices, other rest), which is what the user expects."""
        if not self.lead:
            return tensor
        after = 1 + self.rank
        rest = after + self.lead
        order = [0, *range(after, rest), *range(1, after), *range(rest, tensor.ndim)]
        return run_name("permute", tensor, tuple(order))

    def from_user(self, tensor: Tensor) -> Tensor:
        if not self.lead:
            return tensor
        order = [
            0,
            *range(1 + self.lead, 1 + self.lead + self.rank),
            *range(1, 1 + self.lead),
            *range(1 + self.lead + self.rank, tensor.ndim),
        ]
        return run_name("permute", tensor, tuple(order))


def indexed(name: str) -> None:
    @batching(name)
    def rule(
        self: Tensor,
        indices: Sequence[Any],
        self_batched: bool,
        indices_batched: Sequence[bool],
        self_ndim: int,
        batch: int,
    ) -> Tensor:
        self = self if self_batched else expand_batch(self, batch)
        layout = Layout(indices, indices_batched, self_ndim, batch)
        return layout.to_user(run_name(name, self, layout.indices))


indexed("index.Tensor")
indexed("_unsafe_index.Tensor")


def index_put(
    self: Tensor,
    indices: Sequence[Any],
    values: Tensor,
    self_ndim: int,
    values_ndim: int,
    batch: int,
    batched: Sequence[bool],
) -> tuple[Any, Tensor]:
    """The indices and values of a batched index_put."""
    layout = Layout(indices, batched, self_ndim, batch)
    used = sum(i is not None for i in layout.indices[1:])
    untouched = [n for n, i in zip(self.shape[1:], layout.indices[1:], strict=True) if i is None]
    assert used
    full = (*untouched[: layout.lead], *layout.shape, *untouched[layout.lead :])
    value = pad_ndim(values, values_ndim, len(full)).expand(batch, *full)
    return layout.indices, layout.from_user(value)


def put_by_mask(self: Tensor, mask: Tensor, values: Tensor, self_ndim: int) -> Tensor:
    """self[mask] = one value for each element of the batch."""
    shape = [*mask.shape, *[1] * (self.ndim - mask.ndim)]
    return run_name("where.self", mask.reshape(shape), values.reshape(-1, *[1] * self_ndim), self)


class _Target(NamedTuple):
    """What an index_put writes to and what it writes, each with its batch first, and where the indices say."""

    self: Tensor
    values: Tensor
    self_ndim: int
    values_ndim: int
    batch: int


def _target(
    tensors: tuple[Tensor, Tensor], batched: tuple[bool, bool], ndims: tuple[int, int], batch: int
) -> _Target:
    self, values = (t if has else expand_batch(t, batch) for t, has in zip(tensors, batched, strict=True))
    return _Target(self, values, *ndims, batch)


def _put(
    name: str, to: _Target, indices: Sequence[Any], masks: Sequence[bool], accumulate: bool, *rest: Any
) -> Tensor:
    only = [(i, has) for i, has in zip(indices, masks, strict=True) if i is not None]
    if (
        len(indices) == 1
        and only[0][1]
        and only[0][0].dtype.name == "bool"
        and not accumulate
        and to.values.numel() == to.batch
    ):
        return put_by_mask(to.self, only[0][0], to.values, to.self_ndim)
    full, value = index_put(to.self, indices, to.values, to.self_ndim, to.values_ndim, to.batch, masks)
    return run_name(name, to.self, full, value, accumulate, *rest)


def index_put_rule(name: str) -> None:
    @batching(name)
    def rule(
        self: Tensor,
        indices: Sequence[Any],
        values: Tensor,
        accumulate: bool,
        self_batched: bool,
        values_batched: bool,
        indices_batched: Sequence[bool],
        self_ndim: int,
        values_ndim: int,
        batch: int,
    ) -> Tensor:
        to = _target((self, values), (self_batched, values_batched), (self_ndim, values_ndim), batch)
        return _put(name, to, indices, indices_batched, accumulate)


index_put_rule("index_put")
index_put_rule("_unsafe_index_put")


@batching("_index_put_impl")
def index_put_impl(
    self: Tensor,
    indices: Sequence[Any],
    values: Tensor,
    accumulate: bool,
    unsafe: bool,
    self_batched: bool,
    values_batched: bool,
    indices_batched: Sequence[bool],
    self_ndim: int,
    values_ndim: int,
    batch: int,
) -> Tensor:
    to = _target((self, values), (self_batched, values_batched), (self_ndim, values_ndim), batch)
    return _put("_index_put_impl", to, indices, indices_batched, accumulate, unsafe)

"""Changing the placements of a distributed tensor: one collective for each dimension of the mesh that changes.

All functions here take and give the tensor of this process; they run below autograd. Pieces that are not all of
one size are padded for the collective and cut afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._api.link import cat, zeros_like
from ...core.tensor import Tensor
from .. import _results as results
from ._layout import Placements, coordinate, order_of_cuts, piece
from .placement_types import Partial, Placement, Replicate, Shard


def redistribute_local(
    local: Tensor, shape: Sequence[int], mesh: Any, old: Placements, new: Placements
) -> Tensor:
    """What this process holds of a tensor of `shape` with the placements `new`, from what it holds with `old`."""
    if old == new:
        return local
    place = coordinate(mesh)
    current = list(old)
    order = sorted(range(mesh.ndim), key=lambda dim: not isinstance(old[dim], Partial))
    nested = _cuts_twice_on_the_way(old, new, order)
    if nested:  # by way of the whole: the last cut is undone first
        for dim in reversed(order_of_cuts(current)):
            sizes = _size_before(shape, mesh, current, dim)
            local = _change(local, sizes, mesh, dim, place, current[dim], Replicate())
            current[dim] = Replicate()
        cuts = order_of_cuts(new)
        order = [*(dim for dim in range(mesh.ndim) if dim not in cuts), *cuts]
    for dim in order:
        if current[dim] != new[dim]:
            sizes = _size_before(shape, mesh, current, dim)
            local = _change(local, sizes, mesh, dim, place, current[dim], new[dim])
            current[dim] = new[dim]
    return local


def _cuts_twice_on_the_way(old: Placements, new: Placements, order: Sequence[int]) -> bool:
    """Whether two dimensions of the mesh cut one of the tensor, before, after or in between: it matters then
    which of them cut it first."""
    current = list(old)
    found = _cut_twice(current)
    for dim in order:
        current[dim] = new[dim]
        found = found or _cut_twice(current)
    return found


def _cut_twice(placements: Sequence[Placement]) -> bool:
    dims = [placement.dim for placement in placements if isinstance(placement, Shard)]
    return len(dims) != len(set(dims))


def _size_before(
    shape: Sequence[int], mesh: Any, placements: Sequence[Placement], dim: int
) -> dict[int, int]:
    """How long each tensor dimension is before mesh dimension `dim` cuts it."""
    place = coordinate(mesh)
    sizes = dict(enumerate(shape))
    for other, placement in enumerate(placements):
        if other != dim and isinstance(placement, Shard):
            sizes[placement.dim] = piece(sizes[placement.dim], mesh.size(other), place[other])[1]
    return sizes


def _change(
    local: Tensor,
    sizes: dict[int, int],
    mesh: Any,
    dim: int,
    place: Sequence[int],
    old: Placement,
    new: Placement,
) -> Tensor:
    parts, index, group = mesh.size(dim), place[dim], mesh.get_group(dim)
    if isinstance(old, Shard):
        if isinstance(new, Shard):
            return _exchanged(local, sizes, parts, index, group, old.dim, new.dim)
        whole = _gathered(local, sizes[old.dim], old.dim, parts, group)
        return (
            whole if isinstance(new, Replicate) else _change(whole, sizes, mesh, dim, place, Replicate(), new)
        )
    if isinstance(old, Partial):
        if isinstance(new, Shard) and old.reduce_op in ("sum", "avg"):
            return _reduced_piece(local, old.reduce_op, new.dim, parts, index, group)
        if isinstance(new, Partial):
            raise RuntimeError(f"a tensor cannot be redistributed from {old} to {new}")
        whole = results.all_reduce(local, old.reduce_op, group)
        return (
            whole if isinstance(new, Replicate) else _change(whole, sizes, mesh, dim, place, Replicate(), new)
        )
    if isinstance(new, Shard):
        return own_piece(local, new.dim, parts, index)
    assert isinstance(new, Partial)
    if new.reduce_op != "sum":
        if new.reduce_op == "product":
            raise RuntimeError(f"a tensor cannot be redistributed from {old} to {new}")
        return local  # an average, the least, or the largest, of equal ones
    return local if index == 0 else zeros_like(local)


def own_piece(tensor: Tensor, dim: int, parts: int, index: int) -> Tensor:
    begin, size = piece(tensor.shape[dim], parts, index)
    return tensor.narrow(dim, begin, size).contiguous()


def _padded(tensor: Tensor, dim: int, size: int) -> Tensor:
    missing = size - tensor.shape[dim]
    if not missing:
        return tensor
    shape = list(tensor.shape)
    shape[dim] = missing
    return cat([tensor, tensor.new_zeros(shape)], dim)


def _gathered(local: Tensor, size: int, dim: int, parts: int, group: Any) -> Tensor:
    step = -(-size // parts)
    padded = _padded(local, dim, step).contiguous()
    whole = results.all_gather(padded, dim, group)
    # only the last pieces are short, so that what is missing is at the end
    return whole if step * parts == size else whole.narrow(dim, 0, size).contiguous()


def _reduced_piece(local: Tensor, how: str, dim: int, parts: int, index: int, group: Any) -> Tensor:
    size = local.shape[dim]
    step = -(-size // parts)
    padded = _padded(local, dim, step * parts).contiguous()
    mine = results.reduce_scatter(padded, how, dim, group)
    length = piece(size, parts, index)[1]
    return mine if length == step else mine.narrow(dim, 0, length).contiguous()


def _exchanged(
    local: Tensor, sizes: dict[int, int], parts: int, index: int, group: Any, old: int, new: int
) -> Tensor:
    """From pieces of one dimension to pieces of another: all processes exchange blocks."""
    if old == new:
        return local
    if sizes[old] % parts or local.shape[new] % parts:
        return own_piece(_gathered(local, sizes[old], old, parts, group), new, parts, index)
    blocks = cat([block.contiguous().unsqueeze(0) for block in local.chunk(parts, new)])
    received = results.all_to_all(blocks, group)
    return cat(list(received.unbind(0)), old)

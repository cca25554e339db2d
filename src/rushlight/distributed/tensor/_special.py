"""Operators on DTensors that do more than run on what each process has."""

from __future__ import annotations

from typing import Any

from ...core.aten import OpOverload
from ...core.pytree import flatten
from ...core.tensor import Tensor
from .. import _results as results
from ._dispatch import SPECIAL, run
from ._layout import DTensorSpec, TensorMeta, contiguous, local_part, piece
from ._redistribute import redistribute_local
from .placement_types import Partial, Replicate, Shard


def install(kind: Any) -> None:
    """Declare them for the class DTensor."""

    def whole(tensor: Any) -> Tensor:
        spec = tensor._spec_
        target = (Replicate(),) * spec.mesh.ndim
        return redistribute_local(tensor._local_tensor, spec.shape, spec.mesh, spec.placements, target)

    def number(func: OpOverload, args: Any, kwargs: Any) -> Any:
        """One element, or whether two tensors are equal: of whole tensors."""
        leaves, structure = flatten((args, kwargs))
        leaves = [whole(leaf) if isinstance(leaf, kind) else leaf for leaf in leaves]
        given, named = structure.unflatten(leaves)
        return func(*given, **named)

    def norm(func: OpOverload, args: Any, kwargs: Any) -> Any:
        """The norm of a tensor of which processes have pieces: of powers that are added up."""
        tensor, order = args[0], args[1] if len(args) > 1 else kwargs.get("ord", 2)
        spec = tensor._spec_
        rest = (*args[2:], *(v for k, v in kwargs.items() if k != "ord"))
        plain = all(value is None or value is False for value in rest)
        if not plain or order == 0 or any(p.is_partial() for p in spec.placements):
            result = number(func, args, kwargs)
            shape = tuple(result.shape)
            return kind(
                result,
                DTensorSpec(
                    spec.mesh,
                    (Replicate(),) * spec.mesh.ndim,
                    TensorMeta(shape, contiguous(shape), result.dtype),
                ),
            )
        infinite = order in (float("inf"), float("-inf"))
        local = tensor._local_tensor
        if not local.numel():
            value = local.new_zeros(()) if order != float("-inf") else local.new_full((), float("inf"))
        else:
            value = func(local, order)
            value = value if infinite else value.pow(order)
        for dim, placement in enumerate(spec.placements):
            if isinstance(placement, Shard):
                how = "sum" if not infinite else "max" if order > 0 else "min"
                value = results.all_reduce(value, how, spec.mesh.get_group(dim))
        value = value if infinite else value.pow(1.0 / order)
        return kind(
            value, DTensorSpec(spec.mesh, (Replicate(),) * spec.mesh.ndim, TensorMeta((), (), value.dtype))
        )

    SPECIAL.update({"_local_scalar_dense": number, "equal": number, "is_nonzero": number})
    SPECIAL["linalg_vector_norm"] = norm
    _install_tables(kind)


def _install_tables(kind: Any) -> None:
    def lookup(func: OpOverload, args: Any, kwargs: Any) -> Any:
        """Rows of a table that is cut into runs of rows: each process gives those that it has."""
        weight, indices = args[0], args[1]
        if not isinstance(weight, kind) or not isinstance(indices, kind):
            return run(kind, func, args, kwargs, by_rule=True)
        spec: DTensorSpec = weight._spec_
        mesh, given = spec.mesh, indices._spec_.placements
        rows = [dim for dim, placement in enumerate(spec.placements) if placement.is_shard(0)]
        others = [p for dim, p in enumerate(spec.placements) if dim not in rows]
        if len(rows) != 1 or not given[rows[0]].is_replicate() or not all(p.is_replicate() for p in others):
            return run(kind, func, args, kwargs, by_rule=True)
        begin, size = piece(spec.shape[0], mesh.size(rows[0]), mesh.get_coordinate()[rows[0]])
        local = indices._local_tensor - begin
        outside = (local < 0) | (local >= size)
        table = weight._local_tensor if size else weight._local_tensor.new_zeros((1, spec.shape[1]))
        found = func(table, local.masked_fill(outside, 0)).masked_fill(outside.unsqueeze(-1), 0.0)
        placements = tuple(Partial() if dim == rows[0] else p for dim, p in enumerate(given))
        shape = (*indices.shape, spec.shape[1])
        return kind(found, DTensorSpec(mesh, placements, TensorMeta(shape, contiguous(shape), found.dtype)))

    def new(func: OpOverload, args: Any, kwargs: Any) -> Any:
        """A new tensor of a given size, whole everywhere: new_zeros and its like."""
        tensor, size, *rest = args
        made = func(tensor._local_tensor, size, *rest, **kwargs)
        mesh, shape = tensor._spec_.mesh, tuple(made.shape)
        placements = tensor._spec_.placements
        if shape == tensor._spec_.shape and not any(p.is_partial() for p in placements):
            made = func(tensor._local_tensor, list(local_part(shape, mesh, placements)[0]), *rest, **kwargs)
        else:
            placements = (Replicate(),) * mesh.ndim
        return kind(made, DTensorSpec(mesh, placements, TensorMeta(shape, contiguous(shape), made.dtype)))

    SPECIAL["embedding"] = lookup
    SPECIAL.update(dict.fromkeys(("new_zeros", "new_ones", "new_empty", "new_full"), new))

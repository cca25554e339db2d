"""Rules of sharding for operators that move elements and compute nothing. They are linear: what is partial stays
so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ._rules import Call, Places, R, _dim, replicated, rule
from .placement_types import Placement, Shard, _StridedShard

# Of a dimension that is cut: the dimension of the result, None if there is none.
Follow = Callable[[Call, int], int | None]


def view(*names: str) -> Callable[[Follow], Follow]:
    """Declare the rule of views of one tensor by how they move a dimension that is cut."""

    def declare(follow: Follow) -> Follow:
        @rule(*names)
        def apply(call: Call, places: Places) -> tuple[Places, Places]:
            (place,) = places
            if place.is_partial() and not call.inplace:
                return places, (place,) * len(call.results)
            if isinstance(place, Shard) and not (isinstance(place, _StridedShard) and "reshape" in names):
                dim = follow(call, place.dim)
                if dim is not None:
                    return places, (place.along(dim),) * len(call.results)
            return replicated(call, places)

        return follow

    return declare


@view("t")
def _transposed(call: Call, dim: int) -> int | None:
    return len(call.shapes[0]) - 1 - dim


@view("transpose", "swapaxes")
def _swapped(call: Call, dim: int) -> int | None:
    ndim = len(call.shapes[0])
    first, second = _dim(call.values["dim0"], ndim), _dim(call.values["dim1"], ndim)
    return second if dim == first else first if dim == second else dim


@view("permute")
def _permuted(call: Call, dim: int) -> int | None:
    dims = [_dim(d, len(call.shapes[0])) for d in call.values["dims"]]
    return dims.index(dim)


@view("expand")
def _expanded(call: Call, dim: int) -> int | None:
    shape, result = call.shapes[0], call.results[0]
    moved = dim + len(result) - len(shape)
    return moved if shape[dim] == result[moved] else None


@view("unsqueeze")
def _unsqueezed(call: Call, dim: int) -> int | None:
    new = _dim(call.values["dim"], len(call.shapes[0]) + 1)
    return dim + (new <= dim)


@view("squeeze")
def _squeezed(call: Call, dim: int) -> int | None:
    shape = call.shapes[0]
    dims = call.values.get("dim", tuple(range(len(shape))))
    gone = {_dim(d, len(shape)) for d in ((dims,) if isinstance(dims, int) else dims)}
    gone = {d for d in gone if shape[d] == 1}
    return None if dim in gone else dim - sum(d < dim for d in gone)


@view("select")
def _selected(call: Call, dim: int) -> int | None:
    gone = _dim(call.values["dim"], len(call.shapes[0]))
    return None if gone == dim else dim - (gone < dim)


@view("unbind")
def _unbound(call: Call, dim: int) -> int | None:
    return _selected(call, dim)


@view("slice", "split", "split_with_sizes", "chunk", "narrow", "flip", "roll")
def _parts(call: Call, dim: int) -> int | None:
    found = call.values.get("dim", call.values.get("dims", 0))
    dims = {_dim(d, len(call.shapes[0])) for d in ((found,) if isinstance(found, int) else found)}
    whole = len(call.results) == 1 and call.results[0] == call.shapes[0] and call.name == "slice"
    return dim if dim not in dims or whole else None


@view("view", "_unsafe_view", "reshape", "_reshape_copy", "_reshape_alias")
def _reshaped(call: Call, dim: int) -> int | None:
    return followed(call.shapes[0], call.results[0], dim, call.parts)


def followed(shape: Sequence[int], result: Sequence[int], dim: int, parts: int) -> int | None:
    """Which dimension of a view of another shape is cut if `dim` is: the first of those that it is part of, or
    that it becomes."""
    if shape[dim] == 0:
        return None
    i = j = 0
    while i < len(shape) or j < len(result):
        first_in, first_out = i, j
        i, j = i + 1, j + 1
        given = shape[first_in] if first_in < len(shape) else 1
        made = result[first_out] if first_out < len(result) else 1
        while given != made:
            if given < made:
                given *= shape[i]
                i += 1
            else:
                made *= result[j]
                j += 1
        if first_in <= dim < i:
            ins = [d for d in range(first_in, min(i, len(shape))) if shape[d] != 1 or d == dim]
            outs = [d for d in range(first_out, min(j, len(result))) if result[d] != 1]
            if not outs:
                return None
            if len(ins) == len(outs) == 1:
                return outs[0]
            fits = shape[dim] % parts == 0 and result[outs[0]] % parts == 0
            return outs[0] if ins[0] == dim and fits else None
    return None


@rule("cat")
def _joined(call: Call, places: Places) -> tuple[Places, Places]:
    dim = _dim(call.values.get("dim", 0), len(call.shapes[0]))
    return _alike(call, places, lambda cut: cut if cut != dim else None)


@rule("stack")
def _stacked(call: Call, places: Places) -> tuple[Places, Places]:
    dim = _dim(call.values.get("dim", 0), len(call.shapes[0]) + 1)
    return _alike(call, places, lambda cut: cut + (dim <= cut))


def _alike(call: Call, places: Places, follow: Callable[[int], int | None]) -> tuple[Places, Places]:
    first = next((place for place in places if not place.is_replicate()), R)
    if first.is_partial() and all(place == first for place in places):
        return places, (first,)
    cut: Placement | None = next((place for place in places if isinstance(place, Shard)), None)
    if isinstance(cut, Shard):
        moved = follow(cut.dim)
        if moved is not None:
            return (cut,) * len(places), (cut.along(moved),)
    return replicated(call, places)

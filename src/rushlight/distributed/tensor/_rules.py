"""Rules of sharding: which placements an operator takes, and which its results have.

A rule looks at one dimension of the mesh. It is given the call and the placement of every tensor argument there,
and gives the placements that the arguments are to have and those of the results. Arguments are redistributed to
what
a rule asks for; then the operator runs on what each process has. An operator without a rule gets whole tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.registry import Kind, OpDef
from .placement_types import Partial, Placement, Replicate, Shard

R = Replicate()
Places = tuple[Placement, ...]


@dataclass(frozen=True)
class Call:
    """A call of an operator as a whole: `shapes` of its tensors, `values` of its other arguments by name,
    `results`: the shapes of what it returns; `parts`: how many processes the dimension of the mesh has."""

    op: OpDef
    name: str
    inplace: bool
    shapes: tuple[tuple[int, ...], ...]
    values: dict[str, Any]
    results: tuple[tuple[int, ...], ...]
    parts: int = 1

    def even(self, size: int) -> bool:
        return size % self.parts == 0


Rule = Callable[[Call, Places], tuple[Places, Places]]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def declare(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return declare


def rule_of(op: OpDef, name: str) -> Rule | None:
    """The rule of an operator, by its name without an underscore at the end."""
    found = RULES.get(name)
    return pointwise if found is None and op.kind is Kind.POINTWISE else found


def replicated(call: Call, places: Places) -> tuple[Places, Places]:
    return (R,) * len(places), (R,) * len(call.results)


def _dim(dim: int, ndim: int) -> int:
    return dim + ndim if dim < 0 else dim


# Pointwise operators. Sums of partial tensors are partial, and so are multiples.

_COPIES = frozenset(("clone", "_to_copy", "detach", "alias", "neg", "contiguous", "positive"))


def _linear(call: Call, places: Places) -> tuple[Places, Places] | None:
    """The rule for partial operands where the operator is linear in them."""
    partial = [i for i, place in enumerate(places) if place.is_partial("sum") or place.is_partial("avg")]
    if not partial:
        return None
    first = places[partial[0]]
    if call.name in _COPIES or (call.name == "copy" and len(partial) == len(places) == 2):
        same = all(place == first for place in places)
        return (places, (first,) * len(call.results)) if same else None
    if call.name in ("add", "sub") and len(places) == 2 and all(place == first for place in places):
        return places, (first,)
    rest = [place for i, place in enumerate(places) if i != partial[0]]
    whole = all(place.is_replicate() for place in rest)
    if whole and (call.name == "mul" or (call.name == "div" and partial == [0])):
        return places, (first,)
    return None


@rule(
    "clone", "_to_copy", "detach", "alias", "copy", "fill", "zero", "zeros_like", "ones_like", "empty_like",
    "full_like", "where", "masked_fill", "lerp", "addcmul", "addcdiv", "gelu_backward", "contiguous",
    "native_dropout_backward",
)  # fmt: skip
def pointwise(call: Call, places: Places) -> tuple[Places, Places]:
    linear = _linear(call, places)
    if linear is not None:
        return linear
    shape = call.results[0] if call.results else call.shapes[0]
    if call.inplace:
        return _into_first(call, places, shape)
    best: tuple[int, Shard] | None = None  # elements, and how the result is cut
    for place, given in zip(places, call.shapes, strict=True):
        if isinstance(place, Shard):
            dim = place.dim + len(shape) - len(given)
            if given[place.dim] == shape[dim] and (best is None or math.prod(given) > best[0]):
                best = math.prod(given), place.along(dim)
    if best is None:
        return replicated(call, places)
    return _aligned(call, shape, best[1]), (best[1],) * len(call.results)


def _aligned(call: Call, shape: Sequence[int], cut: Shard) -> Places:
    """Operands of a pointwise operator whose result is `cut`: those that are broadcast are whole."""
    found: list[Placement] = []
    for given in call.shapes:
        own = cut.dim - (len(shape) - len(given))
        found.append(cut.along(own) if own >= 0 and given[own] == shape[cut.dim] else R)
    return tuple(found)


def _into_first(call: Call, places: Places, shape: Sequence[int]) -> tuple[Places, Places]:
    """The placement of what is written to stays what it is."""
    first = places[0]
    if isinstance(first, Shard):
        return _aligned(call, shape, first), (first,) * len(call.results)
    if isinstance(first, Partial) and call.name not in ("zero", "fill"):
        if call.name == "copy":
            return (first, first), (first,)
        raise RuntimeError(
            f"{call.op.name} in place on a DTensor that is {first}: redistribute() it first, or use what "
            f"is not in place"
        )
    return (first, *(R,) * (len(places) - 1)), (first,) * len(call.results)


# Products: as sums over letters.

_PRODUCTS = {
    "mm": ("mk", "kn", "mn"),
    "bmm": ("bmk", "bkn", "bmn"),
    "mv": ("mk", "k", "m"),
    "dot": ("k", "k", ""),
    "addmm": ("mk", "kn", "mn"),
    "baddbmm": ("bmk", "bkn", "bmn"),
    "addmv": ("mk", "k", "m"),
}


@rule(*_PRODUCTS)
def product(call: Call, places: Places) -> tuple[Places, Places]:
    *factors, result = _PRODUCTS[call.name]
    added = len(places) - 2  # a bias, first
    own = places[added:]
    if all(place.is_replicate() for place in places):
        return places, (R,)
    options: list[tuple[Places, Placement]] = [((R, R), R)]
    for i, place in enumerate(own):
        if place.is_partial("sum") or place.is_partial("avg"):
            options.append(((place, R) if i == 0 else (R, place), place))
    for letter in dict.fromkeys("".join(factors)):
        sizes = [call.shapes[added + i][f.index(letter)] for i, f in enumerate(factors) if letter in f]
        if letter not in result and not call.even(sizes[0]):
            continue
        cut: Places = tuple(Shard(f.index(letter)) if letter in f else R for f in factors)
        options.append((cut, Shard(result.index(letter)) if letter in result else Partial()))
    shapes = call.shapes[added:]
    given, out = min(options, key=lambda option: sum(map(_moved, own, option[0], shapes)))
    if not added:
        return given, (out,)
    if isinstance(out, Shard):
        shape, bias = call.results[0], call.shapes[0]
        at = out.dim - (len(shape) - len(bias))
        return (Shard(at) if at >= 0 and bias[at] == shape[out.dim] else R, *given), (out,)
    return (out if isinstance(out, Partial) else R, *given), (out,)


def _moved(old: Placement, new: Placement, shape: Sequence[int]) -> float:
    """About how many elements a redistribution moves; a product in pieces is better than a whole one."""
    if old == new:
        return 0.0
    if old.is_replicate():
        return 0.0 if new.is_shard() else 0.5
    return math.prod(shape) * (2.0 if old.is_partial() and new.is_replicate() else 1.0)


# Reductions.

_REDUCED = {"sum": "sum", "mean": "avg", "amax": "max", "amin": "min", "prod": "product"}


@rule("sum", "mean", "amax", "amin", "prod", "var", "std", "logsumexp", "argmax", "argmin", "any", "all")
def reduction(call: Call, places: Places) -> tuple[Places, Places]:
    (shape,), (place,) = call.shapes[:1], places[:1]
    dims = call.values.get("dim")
    dims = range(len(shape)) if dims is None or dims == () else [dims] if isinstance(dims, int) else dims
    reduced = {_dim(dim, len(shape)) for dim in dims} or set(range(len(shape)))
    if place.is_partial("sum") and call.name in ("sum", "mean"):
        return (place,), (place,)
    if not isinstance(place, Shard):
        return replicated(call, places)
    if place.dim in reduced:
        how = _REDUCED.get(call.name)
        if how is None or (call.name != "sum" and not call.even(shape[place.dim])):
            return replicated(call, places)
        return (place,), (Partial(how),)
    if call.values.get("keepdim"):
        return (place,), (place,) * len(call.results)
    left = place.along(place.dim - sum(dim < place.dim for dim in reduced))
    return (place,), (left,) * len(call.results)


@rule(
    "_softmax", "_log_softmax", "_safe_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "cumsum",
    "cumprod", "sort", "topk",
)  # fmt: skip
def along_dimension(call: Call, places: Places) -> tuple[Places, Places]:
    """Operators that need all of one dimension."""
    shape = call.shapes[0]
    dim = _dim(call.values["dim"], len(shape)) if shape else -1
    cut = next((p.dim for p in places if isinstance(p, Shard) and p.dim != dim), None)
    if cut is None:
        return replicated(call, places)
    return (Shard(cut),) * len(places), (Shard(cut),) * len(call.results)


@rule("native_layer_norm", "_fused_rms_norm")
def normalization(call: Call, places: Places) -> tuple[Places, Places]:
    first = len(call.shapes[0]) - len(call.values["normalized_shape"])
    place = places[0]
    if isinstance(place, Shard) and place.dim < first:
        return (place, *(R,) * (len(places) - 1)), (place,) * len(call.results)
    return replicated(call, places)


@rule("tril", "triu")
def triangle(call: Call, places: Places) -> tuple[Places, Places]:
    place = places[0]
    if isinstance(place, Shard) and place.dim < len(call.shapes[0]) - 2:
        return places, places
    return replicated(call, places)


@rule("embedding")
def embedding(call: Call, places: Places) -> tuple[Places, Places]:
    weight, indices = places
    if isinstance(weight, Shard) and weight.dim == 1:
        return (weight, R), (Shard(len(call.results[0]) - 1),)
    if isinstance(indices, Shard):
        return (R, indices), (indices,)
    return replicated(call, places)


@rule("embedding_dense_backward")
def embedding_backward(call: Call, places: Places) -> tuple[Places, Places]:
    grad, _ = places
    last = len(call.shapes[0]) - 1
    if call.values.get("scale_grad_by_freq"):
        return replicated(call, places)
    if isinstance(grad, Shard):
        return ((grad, R), (Shard(1),)) if grad.dim == last else ((grad, grad), (Partial(),))
    return ((grad, R), (grad,)) if grad.is_partial("sum") else replicated(call, places)

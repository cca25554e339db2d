"""`scan`: a loop over slices that carries a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..capture.subgraph import capture_body
from ..capture.trace import Capture
from ..core.dispatch import run_name
from ..core.errors import check
from ..core.pytree import TreeSpec, flatten
from ..core.shapes import wrap_dim
from ..core.tensor import Tensor
from ._bodies import in_graph, is_recorded, slice_specs, specs_of
from ._loops import run_scan


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """`carry, y = combine_fn(carry, x)` for each slice x of `xs` along `dim`, beginning with `init`.

    Gives the last carry, and every y, stacked along `dim`. With `reverse` the last slice comes first.
    """
    starts, start_spec = flatten(init)
    slices, slice_spec = flatten(xs)
    if not slices:
        return init, []
    check(isinstance(dim, int), f"Dim must be an int, but got {type(dim)}")
    dim = wrap_dim(dim, slices[0].ndim if isinstance(slices[0], Tensor) else 1)
    _check(combine_fn, starts, slices, dim, reverse)
    if dim != 0:
        slices = [run_name("movedim.intlist", x, (dim,), (0,)) for x in slices]

    def combine(*given: Tensor) -> tuple[Any, Any]:
        carry = start_spec.unflatten(given[: len(starts)])
        result = combine_fn(carry, slice_spec.unflatten(given[len(starts) :]))
        check(
            isinstance(result, tuple) and len(result) == 2,
            f"scan: combine_fn must return a tuple of a carry and an output, but got {type(result).__name__}",
        )
        _check_carry(starts, start_spec, result[0])
        return result

    carry, outputs = in_graph(
        lambda capture: _in_graph(capture, combine, starts, slices, reverse),
        lambda: _eagerly(combine, starts, slices, reverse),
    )
    if dim != 0:
        leaves, spec = flatten(outputs)
        outputs = spec.unflatten(
            [y if dim >= y.ndim else run_name("movedim.intlist", y, (0,), (dim,)) for y in leaves]
        )
    return carry, outputs


def _check(combine_fn: Any, starts: list[Any], slices: list[Any], dim: int, reverse: Any) -> None:
    check(callable(combine_fn), f"Combine_fn must be a callable, but got {combine_fn}")
    check(isinstance(reverse, bool), f"Reverse must be a bool, but got {type(reverse)}")
    check(len(starts) > 0, "scan() operator requires init leaves.")
    for name, leaves in (("init", starts), ("xs", slices)):
        other = [leaf for leaf in leaves if not isinstance(leaf, Tensor)]
        check(not other, f"All {name} leaves must be a Tensor but got {other}")
    check(
        all(x.ndim > dim and x.shape[dim] > 0 for x in slices),
        "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0",
    )
    lengths = [x.shape[dim] for x in slices]
    check(
        len(set(lengths)) == 1,
        f"scan: all xs leaves must have the same size along the dimension, got {lengths}",
    )


def _check_carry(starts: list[Tensor], spec: TreeSpec, carry: Any) -> None:
    """RuntimeError unless a carry is like the first one."""
    leaves, found = flatten(carry)
    check(
        found == spec,
        f"scan: the carry that combine_fn returns must have the structure of init, {spec}, but has {found}",
    )
    for number, (old, new) in enumerate(zip(starts, leaves, strict=True)):
        check(
            isinstance(new, Tensor),
            f"scan: leaf {number} of the carry is a {type(new).__name__}, not a Tensor",
        )
        check(
            (tuple(old.shape), old.dtype) == (tuple(new.shape), new.dtype),
            f"scan: expected init and carry to have same metadata, but leaf {number} is "
            f"{old.dtype}{list(old.shape)} in init and {new.dtype}{list(new.shape)} in what combine_fn returns",
        )


def _eagerly(combine: Any, starts: list[Tensor], slices: list[Tensor], reverse: bool) -> tuple[Any, Any]:
    steps = range(slices[0].shape[0])
    carry: Any = None
    given, made = list(starts), []
    spec: Any = None
    for step in reversed(steps) if reverse else steps:
        carry, output = combine(*given, *(run_name("select.int", x, 0, step) for x in slices))
        given = flatten(carry)[0]
        leaves, spec = flatten(output)
        made.append(leaves)
    if reverse:
        made.reverse()
    stacked = [run_name("stack", tuple(column), 0) for column in zip(*made, strict=True)]
    return carry, spec.unflatten(stacked)


def _in_graph(
    capture: Capture, combine: Any, starts: list[Tensor], slices: list[Tensor], reverse: bool
) -> tuple[Any, Any]:
    specs = [*specs_of(starts), *slice_specs(slices)]
    count = len(starts)
    recorded = [spec.dtype.is_differentiable for spec in specs[:count]]
    recorded += [x.requires_grad for x in slices]
    body = capture_body(capture, combine, specs, recorded)
    length = int(slices[0].shape[0])
    if not is_recorded((*starts, *slices, *body.captured)):
        body.subgraph.joint = None
    results = run_scan(starts, slices, body.captured, body.subgraph, length, reverse)
    rebuilt: tuple[Any, Any] = body.rebuilt(results)
    return rebuilt

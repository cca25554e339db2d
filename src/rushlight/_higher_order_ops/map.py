"""`map`: a function of every slice along the first dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..capture.subgraph import capture_body
from ..capture.trace import Capture
from ..core.dispatch import run_name
from ..core.errors import check
from ..core.pytree import flatten
from ..core.tensor import Tensor
from ._bodies import in_graph, is_recorded, slice_specs
from ._loops import run_scan


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """`f(x, *args)` for each slice x of `xs` along the first dimension, stacked."""
    slices, spec = flatten(xs)
    check(
        bool(slices) and all(isinstance(x, Tensor) for x in slices),
        f"Mapped xs can only consist of tensors. Got xs {[type(x).__name__ for x in slices]}.",
    )
    shapes = [tuple(x.shape) for x in slices]
    check(all(shapes), f"Mapped xs must have a dimension to map over. Got shapes {shapes}.")
    check(shapes[0][0] != 0, "Leading dimensions of mapped xs cannot be 0.")
    check(
        all(shape[0] == shapes[0][0] for shape in shapes),
        f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}.",
    )

    def function(*given: Tensor) -> Any:
        return f(spec.unflatten(given), *args)

    return in_graph(lambda capture: _in_graph(capture, function, slices), lambda: _eagerly(function, slices))


def _eagerly(function: Any, slices: list[Tensor]) -> Any:
    made = [
        flatten(function(*(run_name("select.int", x, 0, step) for x in slices)))
        for step in range(slices[0].shape[0])
    ]
    columns = zip(*(leaves for leaves, _ in made), strict=True)
    return made[0][1].unflatten([run_name("stack", tuple(column), 0) for column in columns])


def _in_graph(capture: Capture, function: Any, slices: list[Tensor]) -> Any:
    body = capture_body(capture, function, slice_specs(slices), [x.requires_grad for x in slices])
    check(
        all(leaf is None or leaf[0] is None for leaf in body.leaves),
        "map: the function must return tensors, or containers of them",
    )
    if not is_recorded((*slices, *body.captured)):
        body.subgraph.joint = None
    length = int(slices[0].shape[0])
    return body.rebuilt(run_scan((), slices, body.captured, body.subgraph, length, reverse=False))

"""`while_loop`: a function again and again, as long as another says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..batching.vmap import BatchedTensor
from ..capture.errors import CaptureError, Problem, user_line
from ..capture.subgraph import Body, capture_body, widened
from ..capture.trace import Capture
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.pytree import TreeSpec, flatten
from ..core.tensor import Tensor
from ..graph.subgraph import Subgraph
from ._bodies import in_graph, is_recorded, specs_of
from ._repetition import run_while


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """`carried = body_fn(*carried)` as long as `cond_fn(*carried)`, which gives one boolean; the last `carried`.

    `body_fn` returns tensors of the structure, shapes and dtypes of `carried_inputs`.

    >>> rl.while_loop(lambda x: x.sum() < 10, lambda x: (x * 2,), (rl.ones(2),))
    (tensor([8., 8.]),)
    """
    check(callable(cond_fn) and callable(body_fn), "Expect cond_fn and body_fn to be callable.")
    leaves, spec = flatten(carried_inputs)
    others = [type(leaf).__name__ for leaf in leaves if not isinstance(leaf, Tensor | int)]
    check(
        isinstance(carried_inputs, tuple | list) and not others,
        "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only consists of tensor or "
        f"int leaves, but got {', '.join(others) or type(carried_inputs).__name__}.",
    )

    def test(*given: Any) -> Any:
        flag = cond_fn(*spec.unflatten(given))
        check(
            isinstance(flag, bool)
            or (isinstance(flag, Tensor) and flag.ndim == 0 and flag.dtype is DTYPES["bool"]),
            "cond_fn must return a boolean scalar tensor or a boolean but got "
            + (f"{flag.dtype}{list(flag.shape)}" if isinstance(flag, Tensor) else type(flag).__name__),
        )
        return flag

    def body(*given: Any) -> Any:
        result = body_fn(*spec.unflatten(given))
        _check_carried(leaves, result)
        return result

    return in_graph(
        lambda capture: _in_graph(capture, test, body, leaves), lambda: _eagerly(test, body, leaves, spec)
    )


def _check_carried(leaves: list[Any], result: Any) -> None:
    """RuntimeError unless a step returns what it was given."""
    found, _ = flatten(result)
    check(
        len(found) == len(leaves),
        f"body_fn should return the same number of elements as carried_inputs, got {len(found)} vs {len(leaves)}",
    )
    for number, (old, new) in enumerate(zip(leaves, found, strict=True)):
        if not isinstance(old, Tensor) or not isinstance(new, Tensor):
            check(
                isinstance(old, Tensor) == isinstance(new, Tensor) and isinstance(new, Tensor | int),
                f"while_loop: carried input {number} is a {type(old).__name__}, and body_fn returned a "
                f"{type(new).__name__}",
            )
            continue
        check(
            (tuple(old.shape), old.dtype) == (tuple(new.shape), new.dtype),
            f"while_loop: expected carried_inputs and body outputs to have same metadata, but leaf {number} is "
            f"{old.dtype}{list(old.shape)} before and {new.dtype}{list(new.shape)} after a step",
        )


def _eagerly(test: Any, body: Any, leaves: list[Any], spec: TreeSpec) -> Any:
    flag = test(*leaves)
    if not _is_true(flag):
        return spec.unflatten(
            [run_name("clone", leaf, None) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        )
    result: Any = None
    while _is_true(flag):
        result = body(*leaves)
        after, structure = flatten(result)
        if isinstance(flag, BatchedTensor):  # elements of the batch that are done stay as they are
            after = [
                run_name("where.self", flag, new, old) if isinstance(new, Tensor) else new
                for new, old in zip(after, leaves, strict=True)
            ]
            result = structure.unflatten(after)
            leaves = after
            flag = flag & test(*leaves)
        else:
            leaves = after
            flag = test(*leaves)
    return result


def _is_true(flag: Any) -> bool:
    """Whether a flag, or one of those of a batch, is set."""
    while isinstance(flag, BatchedTensor):
        flag = flag._value
    return bool(flag.any()) if isinstance(flag, Tensor) else flag


def _in_graph(capture: Capture, test: Any, step: Any, leaves: list[Any]) -> Any:
    if not all(isinstance(leaf, Tensor) for leaf in leaves):
        raise CaptureError("a while_loop that carries numbers", user_line(), Problem.BODY)
    specs = specs_of(leaves)
    recorded = [spec.dtype.is_differentiable for spec in specs]
    condition = capture_body(capture, test, specs)
    body = capture_body(capture, step, specs, recorded)
    if condition.leaves != [None]:
        raise CaptureError("a while_loop whose condition is no tensor", user_line(), Problem.BODY)
    extra: list[Tensor] = []
    numbers: dict[int, int] = {}
    for tensor in (*condition.captured, *body.captured):
        if id(tensor) not in numbers:
            numbers[id(tensor)] = len(leaves) + len(extra)
            extra.append(tensor)
    wide = specs_of([*leaves, *extra])

    def widen(part: Body) -> Subgraph:
        places = [*range(len(leaves)), *(numbers[id(tensor)] for tensor in part.captured)]
        return widened(part.subgraph, wide, places)

    made = widen(body)
    if not is_recorded([*leaves, *extra]):
        made.joint = None
    return body.rebuilt(run_while(leaves, extra, widen(condition), made)[:-1])

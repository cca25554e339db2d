"""`cond`: one of two functions, chosen when the program runs."""

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
from ..core.pytree import flatten
from ..core.shapes import Spec
from ..core.tensor import Tensor
from ..graph.subgraph import Subgraph
from ._bodies import in_graph, is_recorded, specs_of
from ._branches import run_cond

BOOL = DTYPES["bool"]
_MOST_CHECKED = 1000
_checked: dict[
    Any, None
] = {}  # pairs of branches that are known to return the same, with the operands' specs


def cond(
    pred: bool | int | float | Tensor,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:
    """`true_fn(*operands)` if `pred`, else `false_fn(*operands)`.

    With a tensor of one element as `pred` both must return tensors of the same structure, dtypes and number of
    dimensions. Both are part of a compiled program, where their shapes must be the same, too.

    >>> rl.cond(rl.tensor(True), lambda x: x + 1, lambda x: x - 1, (rl.ones(2),))
    tensor([2., 2.])
    """
    if isinstance(pred, bool | int | float):
        return true_fn(*operands) if pred else false_fn(*operands)
    check(isinstance(pred, Tensor), f"Expected pred to be bool or tensor, but got {type(pred).__name__}.")
    check(
        pred.numel() == 1,
        f"Expected pred to be bool or single-element tensor, but got one of shape {list(pred.shape)}.",
    )
    check(callable(true_fn) and callable(false_fn), "Expect both branches to be callable.")
    leaves, structure = flatten(operands)
    others = [type(leaf).__name__ for leaf in leaves if not isinstance(leaf, Tensor)]
    check(
        isinstance(operands, tuple | list) and not others,
        "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, "
        f"but got {', '.join(others) or type(operands).__name__}.",
    )

    def flat(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: function(*structure.unflatten(given))

    branches = flat(true_fn), flat(false_fn)
    return in_graph(
        lambda capture: _in_graph(capture, pred, branches, leaves),
        lambda: _eagerly(pred, branches, leaves, (true_fn, false_fn)),
    )


def _eagerly(pred: Tensor, branches: Any, leaves: list[Tensor], functions: Any) -> Any:
    if _differs(pred):
        return _select(pred, [branch(*leaves) for branch in branches])
    while isinstance(pred, BatchedTensor):
        pred = pred._value
    _check_once(branches, leaves, functions)
    return branches[0 if bool(pred) else 1](*leaves)


def _differs(tensor: Any) -> bool:
    """Whether a tensor differs along the batch of an open vmap."""
    while isinstance(tensor, BatchedTensor):
        if tensor._bdim is not None:
            return True
        tensor = tensor._value
    return False


def _select(pred: Tensor, results: list[Any]) -> Any:
    """Of both results, for each element of a batch its own."""
    (true, structure), (false, other) = map(flatten, results)
    check(structure == other, _differ("structures", structure, other))
    for a, b in zip(true, false, strict=True):
        if not isinstance(a, Tensor) or not isinstance(b, Tensor):
            check(
                a is b or a == b, "cond: under vmap the branches return different objects that are no tensors"
            )
            continue
        check(
            (tuple(a.shape), a.dtype) == (tuple(b.shape), b.dtype),
            _differ("tensors", f"{a.dtype}{list(a.shape)}", f"{b.dtype}{list(b.shape)}"),
        )
    flag = run_name("reshape", pred, ()).to(BOOL)
    return structure.unflatten(
        [
            run_name("where.self", flag, a, b) if isinstance(a, Tensor) else a
            for a, b in zip(true, false, strict=True)
        ]
    )


def _check_once(branches: Any, leaves: list[Tensor], functions: Any) -> None:
    """RuntimeError if the branches return different things. They are run without data for that, when a pair of
    functions comes for the first time with such operands; what cannot be run so is not checked."""
    codes = tuple(getattr(function, "__code__", None) for function in functions)
    plain = all(leaf._trace is None and leaf._parts is None and leaf._quantizer is None for leaf in leaves)
    specs = tuple(specs_of(leaves))
    key = (codes, specs)
    if None in codes or not plain or key in _checked:
        return
    try:
        found = [capture_body(None, branch, specs) for branch in branches]
    except CaptureError:
        return
    _check_bodies(*found)
    if len(_checked) > _MOST_CHECKED:
        _checked.clear()
    _checked[key] = None


def _differ(what: str, true: Any, false: Any) -> str:
    return f"cond: true_fn and false_fn must return the same, but their {what} differ: {true} and {false}"


def _check_bodies(true: Body, false: Body) -> None:
    """RuntimeError unless two branches return the same."""
    check(true.structure == false.structure, _differ("structures", _structure(true), _structure(false)))
    for a, b in zip(true.leaves, false.leaves, strict=True):
        check(
            (a is None) == (b is None) and (a is None or a[0] is b[0] or a[0] == b[0]),
            _differ("objects", a, b),
        )
    for number, (a, b) in enumerate(
        zip(true.subgraph.output_specs(), false.subgraph.output_specs(), strict=True)
    ):
        check(
            (len(a.known_shape()), a.dtype) == (len(b.known_shape()), b.dtype),
            _differ(f"tensors at leaf {number}", _spelled(a), _spelled(b)),
        )


def _structure(body: Body) -> str:
    kind = body.structure.type
    return f"{len(body.leaves)} leaves in {'no container' if kind is None else kind.__name__}"


def _spelled(spec: Spec) -> str:
    return f"{spec.dtype}{list(spec.known_shape())}"


def _in_graph(capture: Capture, pred: Tensor, branches: Any, leaves: list[Tensor]) -> Any:
    specs = specs_of(leaves)
    recorded = [leaf.requires_grad for leaf in leaves]
    true, false = (capture_body(capture, branch, specs, recorded) for branch in branches)
    _check_bodies(true, false)
    shapes = [[spec.shape for spec in body.subgraph.output_specs()] for body in (true, false)]
    if shapes[0] != shapes[1]:
        raise CaptureError(
            f"the branches of a cond return different shapes: {shapes[0]} and {shapes[1]}",
            user_line(),
            Problem.SHAPE_FROM_DATA,
        )
    operands = list(leaves)
    numbers: dict[int, int] = {}
    for tensor in (*true.captured, *false.captured):
        if id(tensor) not in numbers:
            numbers[id(tensor)] = len(operands)
            operands.append(tensor)
    wide = specs_of(operands)

    def body(branch: Body) -> Subgraph:
        places = [*range(len(leaves)), *(numbers[id(tensor)] for tensor in branch.captured)]
        return widened(branch.subgraph, wide, places)

    bodies = body(true), body(false)
    if not is_recorded(operands):
        for made in bodies:
            made.joint = None
    flag = run_name("reshape", pred, ())
    flag = flag if flag.dtype is BOOL else run_name("ne.Scalar", flag, 0)
    return true.rebuilt(run_cond(flag, operands, *bodies))

"""Regions of a program that are compiled once and called wherever they occur."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..capture.errors import CaptureError, Problem
from ..capture.numbers import LiveNumber
from ..capture.subgraph import capture_body
from ..capture.trace import Capture
from ..core.pytree import flatten
from ..core.tensor import Tensor
from ._bodies import is_recorded, open_capture, specs_of
from ._branches import run_invoke


def nested_compile_region(fn: Callable[..., Any] | None = None) -> Any:
    """`fn` as a region that a compiled program calls, as often as it occurs, and that is compiled once for each
    kind of its arguments. Without `fn` it is a decorator.

    A region that draws random numbers or writes to what it is given is part of the program around it instead, and
    outside of a compiled program it runs as it is.

    >>> rl.compiler.nested_compile_region(lambda x: x + 1)(rl.ones(2))
    tensor([2., 2.])
    """
    if fn is None:
        return nested_compile_region

    @functools.wraps(fn, updated=())  # of a module, its attributes would make a module of the region
    def region(*args: Any, **kwargs: Any) -> Any:
        capture = open_capture()
        return fn(*args, **kwargs) if capture is None else _in_graph(capture, fn, args, kwargs)

    return region


def invoke_subgraph(subgraph: Callable[..., Any], identifier: str | None, *operands: Any) -> Any:
    """Call `subgraph(*operands)` as a region: `nested_compile_region` as an operator. Regions are told apart by
    what they compute, whatever their `identifier`.

    >>> import rushlight as rl
    >>> invoke_subgraph(lambda x, y: (x * y,), "product", rl.tensor(2.0), rl.tensor(3.0))
    (tensor(6.),)
    """
    return nested_compile_region(subgraph)(*operands)


def _in_graph(capture: Capture, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    leaves, structure = flatten((args, kwargs))
    if any(isinstance(leaf, LiveNumber) for leaf in leaves):
        return fn(*args, **kwargs)  # numbers that change stay inputs of the program
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]

    def function(*given: Tensor) -> Any:
        values = iter(given)
        filled = [next(values) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        own, named = structure.unflatten(filled)
        return fn(*own, **named)

    try:
        body = capture_body(capture, function, specs_of(tensors), [t.requires_grad for t in tensors])
    except CaptureError as error:
        if error.problem is not Problem.BODY:
            raise
        return fn(*args, **kwargs)
    operands = [*tensors, *body.captured]
    if not is_recorded(operands):
        body.subgraph.joint = None
    return body.rebuilt(run_invoke(operands, body.subgraph))

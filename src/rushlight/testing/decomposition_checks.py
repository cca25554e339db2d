"""Decompositions in place of kernels: the `decomposed` variant of the conformance run.

Every operator that has both a kernel and a decomposition runs its decomposition, and every elementwise one
its body on tensors, so that the results,
compared with the oracle in value, dtype and shape, tell whether the two are the same operator.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.core.dispatch import run_by
from rushlight.core.pointwise import run_pointwise
from rushlight.core.registry import REGISTRY, Kind, OpDef
from rushlight.decompositions.elementwise import is_composed, run_composed

from .case import Case
from .checks import check_forward
from .record import Recorder


@contextlib.contextmanager
def decomposed() -> Iterator[dict[str, set[str]]]:
    """Run decompositions where there are kernels. Gives {operator: operators that its decomposition ran},
    of all that are defined by simpler ones."""
    calls: dict[str, set[str]] = {}
    running: list[str] = []
    structural = [op for op in REGISTRY if op.kind is Kind.STRUCTURAL and op.decomposition is not None]
    composites = [op for op in REGISTRY if op.kind is Kind.COMPOSITE]
    elementwise = [op for op in REGISTRY if is_composed(op)]
    before = {op: (op.own_run, op.body) for op in (*structural, *composites, *elementwise)}

    def tracked(op: OpDef, body: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if running:
            calls.setdefault(running[-1], set()).add(op.name)
        running.append(op.name)
        try:
            return body(args)
        finally:
            running.pop()

    def run(op: OpDef, args: tuple[Any, ...]) -> Any:
        assert op.decomposition is not None
        results = tracked(op, op.decomposition, args)
        return tuple(results) if isinstance(results, list) else results

    def run_elementwise(op: OpDef, args: tuple[Any, ...]) -> Any:
        try:
            return tracked(op, functools.partial(run_composed, op), args)
        except NotImplementedError:  # a loop, or an instruction that is no operator
            return run_pointwise(op, args)

    for op in structural:
        run_by(op, run)
    for op in elementwise:
        run_by(op, run_elementwise)
    for op in composites:
        assert op.body is not None
        op.body = functools.partial(tracked, op, op.body)
    try:
        yield calls
    finally:
        for op, (runner, body) in before.items():
            op.body = body
            run_by(op, runner)


def check_decomposed(case: Case, record: Recorder) -> None:
    """The forward check with decompositions in place of kernels."""
    with decomposed():
        check_forward(case, record)

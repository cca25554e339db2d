"""Decompositions in place of kernels: the `decomposed` variant of the conformance run.

Every operator that has both a kernel and a decomposition runs its decomposition, so that the results,
compared with the oracle in value, dtype and shape, tell whether the two are the same operator.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from rushlight.core.registry import REGISTRY, Kind, OpDef

from .case import Case
from .checks import check_forward
from .record import Recorder


@contextlib.contextmanager
def decomposed() -> Iterator[dict[str, set[str]]]:
    """Run decompositions where there are kernels. Gives {operator: operators that its decomposition ran}."""
    calls: dict[str, set[str]] = {}
    running: list[str] = []
    chosen = [op for op in REGISTRY if op.kind is Kind.STRUCTURAL and op.decomposition is not None]
    before = {op: op.run for op in chosen}

    def run(op: OpDef, args: tuple[Any, ...]) -> Any:
        if running:
            calls.setdefault(running[-1], set()).add(op.name)
        running.append(op.name)
        try:
            assert op.decomposition is not None
            results = op.decomposition(args)
        finally:
            running.pop()
        return tuple(results) if isinstance(results, list) else results

    for op in chosen:
        op.run = run
    try:
        yield calls
    finally:
        for op, runner in before.items():
            op.run = runner


def check_decomposed(case: Case, record: Recorder) -> None:
    """The forward check with decompositions in place of kernels."""
    with decomposed():
        check_forward(case, record)

"""Functions that are compiled for all sizes give what eager ones give, over PyTorch's OpInfo database, and are
compiled once for samples that differ in sizes alone (but for `tables.COMPILED_AGAIN`).

Every run takes some samples of a fixed choice of entries, the slow one all samples of all entries:
`python -m pytest -m slow tests/conformance/test_compiled_dynamic.py`.
"""

from __future__ import annotations

import pytest

from rushlight.testing.conformance import Task, run_task
from rushlight.testing.entries import entries, entries_by_name
from rushlight.testing.record import FAIL, PASS, Result

# Programs that have no graph, which `fullgraph=True` says by an error, with sizes that change or without.
NO_GRAPH = (
    "the shape of the result of",
    "the program reads a value",
    "the program needs the number",  # of pieces, which is data
    "makes or takes a sparse tensor",
)

SAMPLE = (
    "add",
    "where",
    "clamp",
    "sum",
    "var_mean",
    "argmax",
    "logsumexp",
    "cumsum",
    "softmax",
    "diag",
    "diagonal",
    "tensor_split",
    "select",
    "cat",
    "stack",
    "roll",
    "flip",
    "repeat",
    "gather",
    "scatter_add",
    "index_select",
    "index_put",
    "masked_fill",
    "constant_pad_nd",
    "matmul",
    "bmm",
    "addmm",
    "cov",
    "linalg.qr",
    "linalg.svd",
    "linalg.lu_factor",
    "nn.functional.layer_norm",
    "nn.functional.cross_entropy",
    "nn.functional.embedding",
)
MOST = 12  # samples of an entry
GROUPS = 16


def problem(result: Result) -> str | None:
    """A failure for another reason than that the program has no graph."""
    others = [f.message for f in result.failures if not any(text in f.message for text in NO_GRAPH)]
    return result.line() if result.status == FAIL and others else None


def test_some_entries() -> None:
    known = [name for name in SAMPLE if name in entries_by_name()]
    assert len(known) == len(SAMPLE), set(SAMPLE) - set(known)
    tasks = [Task(name, ("float32",), ("compiled_dynamic",)) for name in SAMPLE]
    results = [result for task in tasks for result in run_task(task, most=MOST)]
    assert not [line for result in results if (line := problem(result)) is not None]
    assert all(result.status in (PASS, FAIL) for result in results)


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_all_entries(group: int) -> None:
    found = []
    for entry in entries()[group::GROUPS]:
        found += [
            line
            for result in run_task(Task(entry.full_name, ("float32",), ("compiled_dynamic",)))
            if (line := problem(result)) is not None
        ]
    assert not found, "\n".join(found)

"""Gradients of compiled functions are those of eager ones, over PyTorch's OpInfo database.

Forward and backward run between guard zones first, and then as they are. Every run takes a few samples of a
fixed choice of entries, the slow one all samples of all entries.
"""

from __future__ import annotations

import pytest

from rushlight.testing.conformance import Task, run_task
from rushlight.testing.entries import entries, entries_by_name
from rushlight.testing.record import FAIL, PASS, Result

# Programs that have no graph, which `fullgraph=True` says by an error: as for the forward program alone.
NO_GRAPH = ("the shape of the result of", "the program reads a value", "makes or takes a sparse tensor")

SAMPLE = (
    # pointwise
    "mul",
    "div.no_rounding_mode",
    "pow",
    "where",
    "clamp",
    "lerp",
    "addcmul",
    "xlogy",
    "atan2",
    "frexp",
    # reductions, scans, sorting
    "sum",
    "mean",
    "prod",
    "var_mean",
    "amax",
    "logsumexp",
    "norm",
    "std",
    "cumsum",
    "cumprod",
    "logcumsumexp",
    "sort",
    "topk",
    "median",
    "cdist",
    # views, shapes, indexing
    "as_strided",
    "as_strided.partial_views",
    "unfold",
    "view_as_complex",
    "diagonal",
    "expand",
    "permute",
    "cat",
    "roll",
    "flip",
    "repeat",
    "index_add",
    "index_put",
    "index_reduce.amax",
    "gather",
    "scatter_add",
    "scatter_reduce.prod",
    "take_along_dim",
    "select_scatter",
    "masked_fill",
    "nn.functional.pad.reflect",
    # products
    "matmul",
    "addmm",
    "einsum",
    "bmm",
    "linalg.vector_norm",
    "linalg.cholesky",
    "linalg.solve",
    "kron",
    # networks
    "softmax",
    "nn.functional.gelu",
    "nn.functional.layer_norm",
    "nn.functional.batch_norm",
    "nn.functional.cross_entropy",
    "nn.functional.ctc_loss",
    "nn.functional.conv2d",
    "nn.functional.max_pool2d",
    "nn.functional.unfold",
    "nn.functional.dropout",
    "nn.functional.embedding",
    "nn.functional.scaled_dot_product_attention",
    "nn.functional.grid_sample",
    "nn.functional.interpolate.bilinear",
    "fft.rfft",
    "special.i0e",
)
GROUPS = 16


def problem(result: Result) -> str | None:
    """A failure for another reason than that the program has no graph."""
    others = [f.message for f in result.failures if not any(text in f.message for text in NO_GRAPH)]
    return result.line() if result.status == FAIL and others else None


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_some_entries(dtype: str) -> None:
    known = [name for name in SAMPLE if name in entries_by_name()]
    assert len(known) == len(SAMPLE), set(SAMPLE) - set(known)
    tasks = [Task(name, (dtype,), ("compiled_bwd",)) for name in SAMPLE[:: 1 if dtype == "float64" else 2]]
    results = [result for task in tasks for result in run_task(task, most=1)]
    assert not [line for result in results if (line := problem(result)) is not None]
    assert sum(result.status == PASS for result in results) >= len(tasks) - 3


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("group", range(GROUPS))
def test_all_entries(group: int, dtype: str) -> None:
    found = []
    for entry in entries()[group::GROUPS]:
        found += [
            line
            for result in run_task(Task(entry.full_name, (dtype,), ("compiled_bwd",)))
            if (line := problem(result)) is not None
        ]
    assert not found, "\n".join(found)

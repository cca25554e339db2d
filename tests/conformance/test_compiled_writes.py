"""In-place operators and out= do inside of compiled functions what they do eagerly, over PyTorch's OpInfo
database: on tensors of the program and on its arguments, and with gradients.

Every run takes a sample of each of some entries, the slow one all samples of all entries.
"""

from __future__ import annotations

import pytest

from rushlight.testing.conformance import Task, run_task
from rushlight.testing.entries import entries, entries_by_name
from rushlight.testing.record import FAIL, PASS, Result

# Programs that have no graph, which `fullgraph=True` says by an error.
NO_GRAPH = (
    "the shape of the result of",
    "the program reads a value",
    "makes or takes a sparse tensor",
    "it changes the shape of a tensor of the caller",
    "of which several elements share one memory",
)

SAMPLE = (
    "mul",
    "div.no_rounding_mode",
    "pow",
    "clamp",
    "addcmul",
    "sin",
    "exp",
    "sigmoid",
    "copysign",
    "lerp",
    "cumsum",
    "tril",
    "index_add",
    "index_fill",
    "index_put",
    "masked_fill",
    "scatter",
    "scatter_reduce.amax",
    "squeeze",
    "transpose",
    "t",
    "addmm",
    "baddbmm",
    "renorm",
    "nan_to_num",
    "eq",
    "fill",
    "logical_not",
    "sort",
    "topk",
    "cat",
    "max.reduction_with_dim",
    "linalg.solve",
    "nn.functional.silu",
    "nn.functional.elu",
    "nn.functional.hardswish",
    "nn.functional.dropout",
)
GROUPS = 16


def problem(result: Result) -> str | None:
    """A failure for another reason than that the program has no graph."""
    others = [f.message for f in result.failures if not any(text in f.message for text in NO_GRAPH)]
    return result.line() if result.status == FAIL and others else None


def check(names: list[str], variant: str, dtype: str, most: int | None) -> int:
    """How many entries pass; the others have no graph, or there is nothing to check."""
    results = [result for name in names for result in run_task(Task(name, (dtype,), (variant,)), most=most)]
    found = [line for result in results if (line := problem(result)) is not None]
    assert not found, "\n".join(found)
    return sum(result.status == PASS for result in results)


@pytest.mark.parametrize(
    ("variant", "dtype"),
    [("compiled_writes", "float32"), ("compiled_writes", "int64"), ("compiled_writes_bwd", "float64")],
)
def test_d1_d2_some_entries(variant, dtype):
    names = [name for name in SAMPLE if name in entries_by_name()]
    assert check(names, variant, dtype, most=1) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "bfloat16", "complex64"])
@pytest.mark.parametrize("group", range(GROUPS))
def test_all_entries(group, dtype):
    check([entry.full_name for entry in entries()[group::GROUPS]], "compiled_writes", dtype, None)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("group", range(GROUPS))
def test_gradients_of_all_entries(group, dtype):
    check([entry.full_name for entry in entries()[group::GROUPS]], "compiled_writes_bwd", dtype, None)

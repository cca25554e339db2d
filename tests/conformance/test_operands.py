"""Operands with gaps, expanded, without dimensions or without elements, and out= into views, over OpInfo.

Every run takes a fixed choice of entries, the slow one all of them.
"""

from __future__ import annotations

import pytest

from rushlight.testing.conformance import Task, run_task
from rushlight.testing.entries import entries, entries_by_name
from rushlight.testing.record import FAIL, PASS, Result

SAMPLE = (
    "add",
    "mul",
    "div.no_rounding_mode",
    "pow",
    "remainder",
    "where",
    "clamp",
    "lerp",
    "addcmul",
    "exp",
    "atan2",
    "isnan",
    "sum",
    "mean",
    "prod",
    "var",
    "amax",
    "logsumexp",
    "linalg.vector_norm",
    "cumsum",
    "cummax",
    "sort",
    "topk",
    "argmax",
    "unique",
    "as_strided",
    "unfold",
    "diagonal",
    "expand",
    "permute",
    "cat",
    "stack",
    "roll",
    "flip",
    "tril",
    "index_add",
    "index_select",
    "gather",
    "scatter_add",
    "take_along_dim",
    "masked_fill",
    "matmul",
    "mm",
    "addmm",
    "dot",
    "einsum",
    "linalg.inv",
    "nn.functional.relu",
    "softmax",
    "nn.functional.layer_norm",
    "nn.functional.conv2d",
    "nn.functional.interpolate.bilinear",
    "nn.functional.adaptive_avg_pool2d",
    "nn.functional.dropout2d",
    "nn.functional.rms_norm",
    "norm.nuc",
    "nn.functional.embedding",
    "fft.rfft",
    "special.i0e",
)
# torch itself crashes on one of the changed samples: it writes past the end of an out= with gaps
CRASHES = ("_chunk_cat", "nn.functional.avg_pool3d", "ormqr")
# (entry, change) that differ, by reason
_LOOKS_FIRST = (
    "addbmm",
    "baddbmm",
    "mv",
    "sparse.mm.reduce",
    "nn.functional.avg_pool2d",
    "nn.functional.bilinear",
    "nn.functional.adaptive_max_pool1d",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "nn.functional.ctc_loss",
    "nn.functional.grid_sample",
    "nn.functional.unfold",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
    "linalg.ldl_solve",
    "_batch_norm_with_update",
)
_STATISTICS = (
    "nn.functional.batch_norm",
    "_native_batch_norm_legit",
    "native_batch_norm",
    "_batch_norm_with_update",
)
KNOWN = {
    # torch asks for the size of a dimension before it says that there is none: another type of error
    *((name, "0-d") for name in _LOOKS_FIRST),
    ("nn.functional.instance_norm", "empty"),
    ("nn.functional.batch_norm", "empty"),
    ("nn.functional.embedding", "empty"),
    ("nn.functional.embedding_bag", "empty"),
    ("addmv", "empty"),
    # torch asks for the least of no lengths
    ("_segment_reduce.lengths", "empty"),
    # torch writes to expanded running statistics, one element over the other; we refuse
    *((name, "expanded") for name in _STATISTICS),
    ("nn.functional.embedding_bag", "expanded"),  # max_norm: the weights are written to
    # torch takes empty operands whose sizes do not fit; its FFT library refuses empty batches
    ("native_batch_norm", "empty"),
    ("cholesky", "empty"),
    ("linalg.tensorsolve", "empty"),
    ("nn.functional.nll_loss", "empty"),
    ("nn.functional.scaled_dot_product_attention", "empty"),
    ("repeat_interleave", "empty"),
    ("stft", "empty"),
    *((name, "empty") for name in entries_by_name() if name.startswith("fft.")),
    # torch reads or writes the wrong elements of strided memory, or says that it cannot
    ("nn.functional.gelu", "between"),
    ("fft.ihfft2", "between"),
    ("fft.ihfftn", "between"),
    ("masked.median", "expanded"),
    ("median", "expanded"),
    ("nanmedian", "expanded"),
    ("take_along_dim", "expanded"),
    ("as_strided_scatter", "expanded"),
    ("native_group_norm", "gaps"),
    ("native_group_norm", "expanded"),
    # torch returns memory that it has not written
    ("nn.functional.multi_margin_loss", "empty"),
    ("nn.functional.multilabel_margin_loss", "empty"),
    # torch returns the input as it is, with its shape; its decomposition has the shape that we have
    ("nn.functional.pixel_unshuffle", "empty"),
    # torch takes one dimension for two, as its other masked reductions do not
    ("masked.prod", "0-d"),
    # the sorter of other rows: the sequence is not sorted, and searches end where they may
    ("searchsorted", "expanded"),
    # torch is 20 times as far from the result in double as we are
    ("matrix_exp", "gaps"),
    # torch has no out= for a tuple of results; ours writes to each of them
    ("nonzero", "between"),
    # torch's overload resolution does not find its own out= form
    ("_batch_norm_with_update", "between"),
}
GROUPS = 16


def problems(result: Result) -> list[str]:
    if result.status != FAIL:
        return []
    return [
        f"{result.line()}: {failure.check}: {failure.message[:300]}"
        for failure in result.failures
        if (result.name, failure.check) not in KNOWN
    ]


def run(name: str, dtype: str, most: int) -> list[Result]:
    return run_task(Task(name, (dtype,), ("operands", "out_views")), most=most)


@pytest.mark.parametrize("part", range(4))
def test_some_entries(part: int) -> None:
    chosen = SAMPLE[part::4]
    assert set(chosen) <= set(entries_by_name())
    results = [result for name in chosen for result in run(name, "float32", 1)]
    assert not [line for result in results for line in problems(result)]
    assert sum(result.status == PASS for result in results) >= len(chosen)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("group", range(GROUPS))
def test_all_entries(group: int, dtype: str) -> None:
    names = [entry.full_name for entry in entries() if entry.full_name not in CRASHES][group::GROUPS]
    found = [line for name in names for result in run(name, dtype, 1) for line in problems(result)]
    assert not found, "\n".join(found)

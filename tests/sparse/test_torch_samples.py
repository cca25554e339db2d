"""PyTorch's own sparse samples: every entry of its database that says it supports a sparse layout."""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from rushlight.testing import snapshot
from rushlight.testing.backends import RushlightBackend, TorchBackend
from rushlight.testing.compare import compare

LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
# Reductions of rushlight.masked are for strided tensors; random values cannot be compared.
LEFT_OUT = (
    "masked.sum",
    "masked.prod",
    "masked.amax",
    "masked.amin",
    "masked.mean",
    "randn_like",
    "to_sparse",
)  # has samples of its own in the sweep
ENTRIES = [op for op in op_db if op.name not in LEFT_OUT and any(map(op.supports_sparse_layout, LAYOUTS))]
MOST = 4  # samples of each layout and dtype


def samples(op: Any, layout: Any, dtype: Any) -> Iterator[Any]:
    """The entry's samples of a layout or, where it has none of its own, its strided ones in that layout."""
    try:
        yield from op.sample_inputs_sparse(layout, "cpu", dtype)
        return
    except (NotImplementedError, unittest.SkipTest):
        pass
    block = (1, 1) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
    for sample in op.sample_inputs("cpu", dtype):
        fits = sample.input.ndim == 2 or (layout is torch.sparse_coo and sample.input.ndim > 0)
        if sample.input.layout is torch.strided and fits and 0 < sample.input.numel() < 999:
            sample.input = sample.input.to_sparse(layout=layout, blocksize=block)
            yield sample


@pytest.mark.parametrize("op", ENTRIES, ids=lambda op: op.formatted_name)
def test_samples(op):
    ours, theirs = RushlightBackend(), TorchBackend()
    compared = 0
    for layout in filter(op.supports_sparse_layout, LAYOUTS):
        for dtype in {torch.float64, torch.complex128} & op.supported_dtypes("cpu"):
            for sample in itertools.islice(samples(op, layout, dtype), MOST):
                arguments = snapshot.take((sample.input, sample.args, sample.kwargs))
                first, args, kwargs = theirs.build(arguments)
                expected = theirs.describe(op.op(first, *args, **kwargs))
                first, args, kwargs = ours.build(arguments)
                compare(ours.describe(ours.translate(op.op)(first, *args, **kwargs)), expected)
                compared += 1
    assert compared

"""Every structural operator of the families here has native code, or says why it stays a library call."""

from __future__ import annotations

import rushlight.compiler.pipeline  # noqa: F401  attaches the lowering rules
from rushlight.core.registry import REGISTRY, Kind
from rushlight.lowering.declare import LibraryCall

FAMILIES = ("scan", "sorting", "indexing", "shape", "reduction", "view", "embedding")

# Operators that stay library calls. To add one is a decision: its reason stands where it is declared.
LIBRARY = {
    "histogram.bin_ct",
    "histogram.bins_tensor",
    "_histogramdd_bin_edges",
    "_histogramdd_from_bin_cts",
    "_histogramdd_from_bin_tensors",
    "segment_reduce",
    "_segment_reduce_backward",
    "hash_tensor",
    "mode",
    "embedding_renorm",
    "_embedding_bag",
    "_embedding_bag_forward_only",
    "_embedding_bag_dense_backward",
    "_embedding_bag_per_sample_weights_backward",
}


def operators() -> list:
    return [op for op in REGISTRY if op.kind is Kind.STRUCTURAL and op.family in FAMILIES]


def test_every_operator_is_lowered_or_says_why_not() -> None:
    missing = [op.name for op in operators() if op.lowering is None]
    assert not missing


def test_library_calls_are_the_ones_that_were_decided() -> None:
    found = {op.name for op in operators() if isinstance(op.lowering, LibraryCall) and not op.data_dependent}
    assert found == LIBRARY


def test_shapes_that_depend_on_data_are_library_calls() -> None:
    assert all(isinstance(op.lowering, LibraryCall) for op in operators() if op.data_dependent)

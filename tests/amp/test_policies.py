"""Which dtype every operator gives under autocast: PyTorch's own samples, both dtypes, on both sides."""

from __future__ import annotations

import itertools

import pytest
import torch

import rushlight as rl
from rushlight.core.autocast import Policy
from rushlight.core.registry import REGISTRY
from rushlight.testing.backends import RushlightBackend, TorchBackend
from rushlight.testing.case import Case, call
from rushlight.testing.entries import entries, quiet

MINE, THEIRS = RushlightBackend(), TorchBackend()
SAMPLES = 3

# Entries that are not compared, and why.
DIFFERENT = {
    "linalg.pinv.hermitian": "of a matrix without elements, for which no product is computed here",
    "sparse.mm.reduce": "its tensors are sparse",
    "sparse.sampled_addmm": "its tensors are sparse",
}


def test_the_operators_are_those_of_torch():
    theirs = {
        name.removeprefix("aten::")
        for name in torch._C._dispatch_get_all_op_names()
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutocastCPU")
    }
    mine = {op.name for op in REGISTRY if op.autocast not in (None, Policy.WHOLE)}
    missing = {name for name in theirs if name in REGISTRY} - mine
    assert not missing
    assert not mine - theirs
    assert theirs - mine <= {"_native_multi_head_attention"}  # the inference path of one module of PyTorch


def dtypes(side, function, sample):
    result = call(function, side.build(sample.arguments))
    return [str(t.dtype).split(".")[-1] for t in side.flat_tensors(result)]


@quiet
def differences(entry, dtype, lower):
    case = Case(entry, dtype, MINE, THEIRS, SAMPLES)
    found = []
    for sample in itertools.islice(case.plain_samples, SAMPLES):
        with torch.autocast("cpu", dtype=getattr(torch, lower)):
            try:
                expected = dtypes(THEIRS, entry.info.op, sample)
            except (RuntimeError, TypeError, ValueError, IndexError):
                continue  # refused, mostly for mixed dtypes
        with rl.autocast("cpu", dtype=getattr(rl, lower)):
            got = dtypes(MINE, case.function, sample)
        if got != expected:
            found.append((sample.index, expected, got))
    return found


ENTRIES = [entry for entry in entries() if entry.excluded is None and "float32" in entry.dtypes]


FAMILIES = sorted({entry.family for entry in ENTRIES})


@pytest.mark.parametrize("family", ["activation", "attention", "conv", "loss", "matmul", "pooling", "shape"])
def test_dtypes(family):
    compare(family, "float32", "bfloat16")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("dtype", "lower"), [("float32", "bfloat16"), ("bfloat16", "bfloat16"), ("float32", "float16")]
)
def test_dtypes_of_everything(family, dtype, lower):
    compare(family, dtype, lower)


def compare(family, dtype, lower):
    found = {}
    for entry in ENTRIES:
        if entry.family == family and dtype in entry.dtypes and entry.full_name not in DIFFERENT:
            wrong = differences(entry, dtype, lower)
            if wrong:
                found[entry.full_name] = wrong[0]
    assert not found, "\n".join(f"{name}: {text}" for name, text in found.items())

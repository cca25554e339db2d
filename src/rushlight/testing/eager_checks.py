"""Native kernels of eager operators against NumPy's, on the same samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..eager import use
from ..runtime.redzones import guarding
from .case import Case, call, is_as_exact
from .compare import Comparison, Mismatch, compare, stride_differences
from .entries import Sample
from .outcome import tensor_outcomes
from .record import Recorder

# Entries whose results are the same bits by either kernel: they round once, or not at all.
_BIT_STABLE = """
abs add alias_copy amax amin argmax argmin argsort argwhere bitwise_and bitwise_left_shift bitwise_not
bitwise_or bitwise_right_shift bitwise_xor cat ceil clamp clamp_max clamp_min clone column_stack copysign
cummax cummin diag diag_embed diagonal_copy diagonal_scatter diff div.no_rounding_mode dstack eq expand_copy
flip fliplr flipud floor fmax fmin gather ge gt heaviside hstack index_copy index_fill index_select isclose
isfinite isin isinf isnan isneginf isposinf isreal kthvalue le logical_and logical_not logical_or
logical_xor lt masked_fill masked_scatter max.binary max.reduction_no_dim max.reduction_with_dim maximum
median min.binary min.reduction_no_dim min.reduction_with_dim minimum msort mul ne neg nextafter
nn.functional.relu nn.functional.relu6 positive put reciprocal repeat roll rot90 round scatter searchsorted
select_scatter sgn sign signbit slice_scatter sort sqrt square stack sub take take_along_dim tile topk
transpose_copy tril triu trunc unfold_copy vstack where zeros_like
"""
BIT_STABLE = frozenset(_BIT_STABLE.split())
# Those of them that round more than once where numbers are complex.
BIT_STABLE_IF_REAL = frozenset(("abs", "div.no_rounding_mode", "mul", "reciprocal", "sgn", "square"))


def check_native(case: Case, record: Recorder) -> None:
    """Native kernels give what NumPy's give: values, dtypes, shapes, strides, errors; between red zones, too."""
    function = case.function
    expected: dict[int, Any] = {}
    with use("reference"):
        for sample in case.plain_samples:
            record.samples += 1
            try:
                expected[sample.index] = _seeded(case, function, sample)
            except Exception as error:
                expected[sample.index] = error
    with use("native"):
        _check_samples(case, record, expected)
        with guarding():
            _check_samples(case, record, expected)


def _check_samples(case: Case, record: Recorder, expected: dict[int, Any]) -> None:
    for sample in case.plain_samples:
        known = expected[sample.index]
        with record.attempt(sample.index, "native"):
            if isinstance(known, Exception):
                _check_raises(case, case.function, sample, known)
            else:
                _judge(case, sample, _seeded(case, case.function, sample), known, record)


def _judge(case: Case, sample: Sample, result: Any, expected: Any, record: Recorder) -> None:
    blank = case.sanity(sample)
    comparison = Comparison(case.entry.tolerances, values=blank is None or blank.values)
    if stride_differences(result, expected):
        raise Mismatch("strides differ")
    name = case.entry.full_name
    if name in BIT_STABLE and not (case.dtype.startswith("complex") and name in BIT_STABLE_IF_REAL):
        _check_bits(result, expected)
    try:
        compare(result, expected, comparison)
    except Mismatch:
        if not is_as_exact(case, sample, result, expected):
            raise
        record.note("as exact as NumPy's kernels, judged by double precision")


def _check_bits(result: Any, expected: Any) -> None:
    for mine, theirs in zip(tensor_outcomes(result), tensor_outcomes(expected), strict=True):
        if mine.array is None or theirs.array is None or mine.array.dtype.kind not in "fc":
            continue
        both = [np.ascontiguousarray(a).reshape(-1) for a in (mine.array, theirs.array)]
        same = both[0].view(np.uint8) == both[1].view(np.uint8)
        nan = np.isnan(both[0]) & np.isnan(both[1])
        if not (same.reshape(nan.size, both[0].itemsize).all(1) | nan).all():
            raise Mismatch("bits differ")


def _check_raises(case: Case, function: Callable[..., Any], sample: Sample, expected: Exception) -> None:
    try:
        _seeded(case, function, sample)
    except Exception as error:
        if type(error) is not type(expected):
            raise Mismatch(
                f"{type(error).__name__} was raised, expected {type(expected).__name__}"
            ) from error
        return
    raise Mismatch(f"nothing was raised, expected {type(expected).__name__}: {expected}")


def _seeded(case: Case, function: Callable[..., Any], sample: Sample) -> Any:
    case.backend.namespace.manual_seed(0)
    return case.backend.describe(call(function, case.backend.build(sample.arguments)))

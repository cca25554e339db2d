"""One entry in one dtype, ready to run: its samples, the two sides, and how a result of ours is judged.

A result is right when it equals torch's. Three other cases are right too, each for a declared reason:
- random and uninitialised results that look sane (`tables.UNPREDICTABLE`);
- indices that pick other elements than torch's, but equal ones (`tables.TIES`);
- half-precision results that equal torch's own float32 result, rounded once (`tables.HALF`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .backends import Backend, TorchBackend
from .compare import Comparison, Mismatch, compare
from .entries import Entry, Sample
from .outcome import Items, TensorOutcome, tensor_outcomes
from .snapshot import Foreign, StorageSpec, TensorSpec, map_tree
from .tables import GAUGE, HALF, TIES, UNPREDICTABLE, Sanity
from .translate import Missing


@dataclass(frozen=True, eq=False)
class Case:
    entry: Entry
    dtype: str
    backend: Backend
    oracle: TorchBackend
    most: int | None = None  # so many samples, where not all of them

    @functools.cached_property
    def function(self) -> Callable[..., Any]:
        found: Callable[..., Any] = present(self.backend.translate.named(self.entry.info.op, self.entry.name))
        return found

    @functools.cached_property
    def plain_samples(self) -> list[Sample]:
        return list(itertools.islice(self.entry.samples(self.dtype, requires_grad=False), self.most))

    @functools.cached_property
    def differentiable_samples(self) -> list[Sample]:
        return list(itertools.islice(self.entry.samples(self.dtype, requires_grad=True), self.most))

    @functools.cached_property
    def comparison(self) -> Comparison:
        return Comparison(self.entry.tolerances)

    def sanity(self, sample: Sample) -> Sanity | None:
        """What to look at instead of values, for a sample whose values cannot be foreseen."""
        sanity = UNPREDICTABLE.get(self.entry.full_name)
        return sanity if sanity is not None and sanity.applies(sample.kwargs) else None

    def outcome(self, side: Backend, function: Callable[..., Any], sample: Sample, arguments: Any) -> Any:
        """What one side gives for built arguments, as plain data, with any gauge freedom removed."""
        return side.describe(self.processed(side, sample, call(function, arguments)))

    def processed(self, side: Backend, sample: Sample, result: Any) -> Any:
        return side.translate(sample.process_output)(result) if self.entry.full_name in GAUGE else result

    def judge(self, sample: Sample, actual: Any, expected: Any) -> None:
        """Raise Mismatch unless the outcome is right."""
        sanity = self.sanity(sample)
        if sanity is not None:
            _judge_sanity(self, sample, actual, expected, sanity)
            return
        try:
            compare(actual, expected, self.comparison)
        except Mismatch:
            if not _differs_in_ties_only(self, sample, actual, expected) and not _is_rounded_once(
                self, sample, actual, expected
            ):
                raise


def call(function: Callable[..., Any], arguments: Any) -> Any:
    first, args, kwargs = arguments
    return function(first, *args, **kwargs)


def present(found: Any) -> Any:
    """A translated callable or class; raises AttributeError at once if the backend lacks it."""
    if isinstance(found, Missing):
        found()
    return found


# --- random and uninitialised results ----------------------------------------------------------------


def _judge_sanity(case: Case, sample: Sample, actual: Any, expected: Any, sanity: Sanity) -> None:
    compare(actual, expected, Comparison({}, values=False))
    if sanity.kept:
        known = math.prod(sample.arguments[0].size)
        compare(_leading(actual, known), _leading(expected, known), case.comparison)
    if sanity.values:
        for mine, theirs in zip(tensor_outcomes(actual), tensor_outcomes(expected), strict=True):
            _check_sanity(mine, theirs, sanity)


def _leading(tensor: TensorOutcome, count: int) -> TensorOutcome:
    """The first elements of a tensor, as a tensor of one dimension."""
    if tensor.array is None:
        return tensor
    array = tensor.array.reshape(-1)[:count]
    return dataclasses.replace(tensor, array=array, shape=array.shape, stride=None)


def _check_sanity(actual: TensorOutcome, expected: TensorOutcome, sanity: Sanity) -> None:
    """Bounds, finiteness and variety of a random result."""
    if actual.array is None or expected.array is None or not actual.array.size:
        return
    wide = np.complex128 if actual.array.dtype.kind == "c" else np.float64
    values, theirs = actual.array.astype(wide).reshape(-1), expected.array.astype(wide).reshape(-1)
    if sanity.finite and np.isfinite(theirs).all() and not np.isfinite(values).all():
        raise Mismatch("a random result is not finite")
    if values.dtype.kind == "f" and ((values < sanity.low).any() or (values > sanity.high).any()):
        raise Mismatch(f"a random result lies outside [{sanity.low}, {sanity.high}]")
    if sanity.varied and values.size >= 16 and (theirs != theirs[0]).any() and (values == values[0]).all():
        raise Mismatch("a random result is constant")


# --- ties --------------------------------------------------------------------------------------------


def _differs_in_ties_only(case: Case, sample: Sample, actual: Any, expected: Any) -> bool:
    """Whether all but the indices agrees, and our indices pick elements equal to those torch's pick."""
    ties = TIES.get(case.entry.full_name)
    if ties is None or not ties.applies(sample.kwargs):
        return False
    mine, theirs = list(tensor_outcomes(actual)), list(tensor_outcomes(expected))
    try:
        compare(actual, expected, Comparison({}, values=False))
        for ours, torchs in zip(mine[:-1], theirs[:-1], strict=True):
            compare(ours, torchs, case.comparison)
        dim = sample.kwargs.get("dim", ([*sample.arguments[1], *[-1] * 3])[ties.dim_position])
        source = _values(sample.arguments[0])
        picked, wanted = (_picked(source, dim, outcome.array) for outcome in (mine[-1], theirs[-1]))
    except (Mismatch, IndexError, ValueError, TypeError):
        return False
    return np.array_equal(picked, wanted, equal_nan=True) and _is_one_to_one(mine[-1].array, source, dim)


def _values(spec: TensorSpec) -> np.ndarray:
    array = spec.storage.array
    strides = [step * array.itemsize for step in spec.stride]
    view = np.lib.stride_tricks.as_strided(array[spec.offset :], spec.size, strides)
    return (
        view
        if view.dtype.kind in "biu"
        else view.astype(np.complex128 if view.dtype.kind == "c" else np.float64)
    )


def _picked(source: np.ndarray, dim: int, indices: np.ndarray | None) -> np.ndarray:
    if indices is None:
        raise TypeError("no indices")
    if not source.ndim:
        return source
    if indices.ndim < source.ndim:
        indices = np.expand_dims(indices, dim)
    return np.take_along_axis(source, indices, dim)


def _is_one_to_one(indices: np.ndarray | None, source: np.ndarray, dim: int) -> bool:
    """Along the dimension no element is picked twice."""
    if indices is None or indices.ndim < source.ndim or not source.ndim:
        return True
    ordered = np.sort(indices, axis=dim)
    return bool((np.diff(ordered, axis=dim) != 0).all())


# --- half precision ----------------------------------------------------------------------------------


def _is_rounded_once(case: Case, sample: Sample, actual: Any, expected: Any) -> bool:
    """Whether a half-precision result agrees with torch's float32 result for the same inputs, rounded."""
    if case.dtype not in HALF:
        return False
    try:
        arguments = case.oracle.build(widened(sample.arguments, dict.fromkeys(HALF, "float32")))
        wide = case.outcome(case.oracle, case.entry.info.op, sample, arguments)
        compare(actual, _rounded(wide, expected), case.comparison)
    except Exception:
        return False
    return True


def widened(arguments: Any, wider: Mapping[str, str]) -> Any:
    """A snapshot with every tensor and dtype in `wider` made so."""
    storages: dict[int, StorageSpec] = {}
    tokens = {getattr(torch, narrow): Foreign(getattr(torch, wide)) for narrow, wide in wider.items()}

    def leaf(value: Any) -> Any:
        if isinstance(value, Foreign) and isinstance(value.value, torch.dtype):
            return tokens.get(value.value, value)
        if not isinstance(value, TensorSpec) or value.dtype not in wider:
            return value
        old, wide = value.storage, wider[value.dtype]
        storage = storages.setdefault(id(old), StorageSpec(old.array.astype(wide), old.shared))
        return dataclasses.replace(value, storage=storage, dtype=wide)

    return map_tree(leaf, arguments)


def _rounded(wide: Any, like: Any) -> Any:
    """A float32 outcome in the dtypes of another."""
    if isinstance(wide, TensorOutcome) and isinstance(like, TensorOutcome):
        if wide.array is None or like.array is None or like.dtype not in HALF or wide.dtype != "float32":
            return wide
        with np.errstate(over="ignore", invalid="ignore"):
            return dataclasses.replace(wide, dtype=like.dtype, array=wide.array.astype(like.array.dtype))
    if isinstance(wide, Items) and isinstance(like, Items):
        pairs = zip(wide.items, like.items, strict=True)
        return dataclasses.replace(wide, items=tuple(_rounded(w, item) for w, item in pairs))
    return wide


# --- single precision --------------------------------------------------------------------------------

DOUBLE = {"float32": "float64", "complex64": "complex128"}
_LOST = 8.0  # three bits: what another order of the same sums may lose more than the first


def is_as_exact(case: Case, sample: Sample, actual: Any, expected: Any) -> bool:
    """Whether a result in single precision, or one of double precision that is made of single, is as near to the
    eager function's own result in double precision as `expected` is, give or take three bits: where terms cancel,
    no two orders of summation agree."""
    compare(actual, expected, Comparison({}, values=False))
    wide = widened(sample.arguments, DOUBLE)
    single = all(outcome.dtype in DOUBLE for outcome in tensor_outcomes(expected))
    if not single and _dtypes_in(wide) == _dtypes_in(sample.arguments):
        return False
    library = case.backend.namespace
    arguments = case.backend.build(wide)
    usual = library.get_default_dtype()
    library.set_default_dtype(library.float64)  # of what is made of integers
    try:
        truth = case.backend.describe(call(case.function, arguments))
    finally:
        library.set_default_dtype(usual)
    triples = zip(*(tensor_outcomes(outcome) for outcome in (actual, expected, truth)), strict=True)
    return all(is_as_near(*[outcome.array for outcome in triple]) for triple in triples)


def _dtypes_in(arguments: Any) -> list[str]:
    """Of the tensors in a snapshot."""
    found: list[str] = []
    map_tree(lambda leaf: found.append(leaf.dtype) if isinstance(leaf, TensorSpec) else None, arguments)
    return found


def is_as_near(ours: np.ndarray | None, theirs: np.ndarray | None, truth: np.ndarray | None) -> bool:
    if ours is None or theirs is None or truth is None:
        return False
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return False
    errors = [np.abs(a[finite] - truth[finite]).max(initial=0.0) for a in (ours, theirs)]
    return bool(errors[0] <= _LOST * errors[1])

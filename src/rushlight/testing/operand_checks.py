"""Operands of unusual shapes and layouts, and out= into views.

Every tensor of a sample is given with gaps between its elements, expanded (its rows share their memory),
without dimensions, or without elements. Ours must give torch's result or raise the type of torch's error.
out= is a view with gaps: it takes the result, and nothing beside it is written. An expanded output is
refused where torch refuses it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .backends import Backend
from .case import Case, call, present
from .compare import Mismatch
from .entries import Sample
from .outcome import TensorOutcome, tensor_outcomes
from .record import Recorder
from .snapshot import StorageSpec, TensorSpec, map_tree

# --- operands ----------------------------------------------------------------------------------------


def _array(spec: TensorSpec) -> np.ndarray:
    array = spec.storage.array
    return np.lib.stride_tricks.as_strided(
        array[spec.offset :], spec.size, [step * array.itemsize for step in spec.stride]
    )


def _steps(size: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(size[dim + 1 :], dtype=np.int64)) for dim in range(len(size)))


def _laid_out(spec: TensorSpec, array: np.ndarray, **layout: Any) -> TensorSpec:
    """`spec` on a storage of its own; `array` holds all of that."""
    return dataclasses.replace(
        spec, storage=StorageSpec(np.ascontiguousarray(array).reshape(-1), True), **layout
    )


def with_gaps(spec: TensorSpec) -> TensorSpec:
    values = _array(spec).reshape(-1)
    if not values.size:
        return spec
    spread = np.repeat(values, 2)
    spread[::2] = values[0]  # between the elements something that any operator can read
    return _laid_out(spec, spread, stride=tuple(2 * step for step in _steps(spec.size)), offset=1)


def expanded(spec: TensorSpec) -> TensorSpec:
    if len(spec.size) == 0 or 0 in spec.size or spec.storage.array.dtype.kind in "biu":
        return spec
    return _laid_out(spec, _array(spec)[0], stride=(0, *_steps(spec.size)[1:]), offset=0)


def without_dimensions(spec: TensorSpec) -> TensorSpec:
    if 0 in spec.size:
        return spec
    return _laid_out(spec, _array(spec).reshape(-1)[:1], size=(), stride=(), offset=0)


def without_elements(spec: TensorSpec) -> TensorSpec:
    if not spec.size:
        return spec
    size = (0, *spec.size[1:])
    return _laid_out(spec, np.zeros(0, spec.storage.array.dtype), size=size, stride=_steps(size), offset=0)


CHANGES: dict[str, Callable[[TensorSpec], TensorSpec]] = {
    "gaps": with_gaps,
    "expanded": expanded,
    "0-d": without_dimensions,
    "empty": without_elements,
}


def changed(arguments: Any, change: Callable[[TensorSpec], TensorSpec]) -> Any:
    """A snapshot with every dense tensor laid out anew."""
    return map_tree(lambda leaf: change(leaf) if isinstance(leaf, TensorSpec) else leaf, arguments)


def check_operands(case: Case, record: Recorder) -> None:
    """The function on every sample with its tensors changed in each of the ways."""
    function = case.function
    for sample in case.plain_samples:
        for name, change in CHANGES.items():
            if name == "expanded" and case.entry.family == "linalg":
                record.note("a matrix of equal rows is singular, and has no one answer")
                continue
            variant = dataclasses.replace(sample, arguments=changed(sample.arguments, change))
            record.samples += 1
            with record.attempt(sample.index, name):
                _check_same(case, function, variant)


def _check_same(case: Case, function: Callable[..., Any], sample: Sample) -> None:
    theirs = attempt(
        lambda: case.outcome(case.oracle, case.entry.info.op, sample, case.oracle.build(sample.arguments))
    )
    ours = attempt(lambda: case.outcome(case.backend, function, sample, case.backend.build(sample.arguments)))
    if agree_on_error(case, ours, theirs):
        return
    case.judge(sample, ours, theirs)


def attempt(function: Callable[[], Any]) -> Any:
    """The result, or the exception."""
    try:
        return function()
    except Exception as error:
        return error


def agree_on_error(case: Case, ours: Any, theirs: Any) -> bool:
    """Whether both raised, of one type; a Mismatch if one alone did, or of another type."""
    if not isinstance(theirs, Exception):
        if isinstance(ours, Exception):
            raise Mismatch(f"{type(ours).__name__} where torch has a result: {str(ours)[:200]}") from ours
        return False
    expected = present(case.backend.translate(type(theirs)))
    if not isinstance(ours, Exception):
        raise Mismatch(f"a result where torch raises {expected.__name__}: {str(theirs)[:200]}")
    if not isinstance(ours, expected):
        raise Mismatch(
            f"{type(ours).__name__} ({str(ours)[:120]}) where torch raises {expected.__name__} "
            f"({str(theirs)[:120]})"
        ) from ours
    return True


# --- out= --------------------------------------------------------------------------------------------

_BESIDE = 77  # what lies beside the output


def check_out_views(case: Case, record: Recorder) -> None:
    """out= into views with gaps and into expanded tensors."""
    function = case.function
    for sample in case.plain_samples:
        record.samples += 1
        plain = attempt(
            lambda sample=sample: case.oracle.describe(  # type: ignore[misc]
                call(case.entry.info.op, case.oracle.build(sample.arguments))
            )
        )
        tensors = list(tensor_outcomes(plain))
        single = isinstance(plain, TensorOutcome)
        if (
            isinstance(plain, Exception)
            or not tensors
            or not (single or len(tensors) == len(plain.items))
            or any(t.array is None or t.layout != "strided" for t in tensors)
        ):
            record.note("torch has no result that out= takes")
            continue
        for make in (_between, _shared_rows):
            with record.attempt(sample.index, make.__name__.strip("_")):
                results = [
                    attempt(functools.partial(_written, side, op, sample, tensors, single, make, case))
                    for side, op in ((case.backend, function), (case.oracle, case.entry.info.op))
                ]
                # An expanded output that torch takes has no defined contents; we refuse it.
                accepted = make is _shared_rows and not isinstance(results[1], Exception)
                if accepted or isinstance(results[1], Mismatch) or agree_on_error(case, *results):
                    continue
                case.judge(sample, *results)


def _between(side: Backend, tensor: TensorOutcome) -> tuple[Any, Any]:
    """(all of the memory, every second element of it as the output)."""
    assert tensor.array is not None
    count = int(np.prod(tensor.shape, dtype=np.int64))
    whole = side.from_array(np.full(2 * count + 1, _BESIDE).astype(tensor.array.dtype), tensor.dtype)
    return whole, whole.as_strided(tensor.shape, tuple(2 * step for step in _steps(tensor.shape)), 1)


def _shared_rows(side: Backend, tensor: TensorOutcome) -> tuple[Any, Any]:
    assert tensor.array is not None
    if not tensor.shape or tensor.shape[0] < 2 or 0 in tensor.shape:
        return _between(side, tensor)
    row = side.from_array(np.zeros((1, *tensor.shape[1:]), tensor.array.dtype), tensor.dtype)
    return row, row.expand(tensor.shape)


def _written(
    side: Backend,
    function: Callable[..., Any],
    sample: Sample,
    tensors: list[TensorOutcome],
    single: bool,
    make: Callable[..., tuple[Any, Any]],
    case: Case,
) -> Any:
    made = [make(side, tensor) for tensor in tensors]
    outputs = tuple(view for _, view in made)
    first, args, kwargs = side.build(sample.arguments)
    function(first, *args, **kwargs, out=outputs[0] if single else outputs)
    for whole, _ in made:
        beside = side.to_array(whole.reshape(-1)[::2]) if make is _between else np.full(1, _BESIDE)
        if not (beside.astype(np.complex128) == np.full(1, _BESIDE).astype(beside.dtype)).all():
            raise Mismatch("something beside the output was written")
    return side.describe(case.processed(side, sample, outputs[0] if single else outputs))

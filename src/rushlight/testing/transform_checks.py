"""The check of vmap, against the operator itself: torch is not asked.

Mapping over a batch of two equals running the function on each element, whichever tensors are mapped. The
slow loop counts as a failure. Sparse tensors are not mapped, as they cannot be; a sample that vmap refuses,
as PyTorch's does, is noted and not counted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .backends import Backend
from .case import Case, call
from .compare import Mismatch, compare
from .derivative_checks import _replace
from .entries import Sample
from .record import Recorder
from .snapshot import dtype_name

_MOST_SAMPLES = 12
_REFUSALS = (
    "vmap: We do not support batching operators",
    "vmap: It looks like you're calling",
    "vmap: called random operation",
    "must only return Tensors",
    "vmap: one_hot with",
    "vmap: an in-place operator cannot write",
    "vmap: a sparse tensor cannot take part",
)


def check_vmap(case: Case, record: Recorder) -> None:
    """vmap(f)(stacked) is the stack of f, for several choices of what is mapped."""
    side, function = case.backend, case.function
    for sample in case.plain_samples[:_MOST_SAMPLES]:
        record.samples += 1
        if case.sanity(sample) is not None:
            record.note("random")
            continue
        for name, batched in _choices(case, sample):
            try:
                expected = [
                    side.describe(call(function, _element(side, sample, batched, n))) for n in range(2)
                ]
            except Exception:
                record.note("refused")
                continue
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message=".*has no batching rule.*")
                try:
                    result = _mapped(case, function, sample, batched)
                except Exception as error:
                    if any(text in str(error) for text in _REFUSALS):
                        record.note("vmap refused")
                    else:
                        record.fail(sample.index, name, error)
                    continue
            with record.attempt(sample.index, name):
                _compare_elements(case, result, expected)


def _choices(case: Case, sample: Sample) -> Iterator[tuple[str, dict[int, int]]]:
    """Which tensors are mapped, and over which dimension: all in front, and each one alone at its end."""
    side = case.backend
    tensors = side.flat_tensors(_plain(sample, side))
    dense = [i for i, tensor in enumerate(tensors) if dtype_name(tensor.layout) == "strided"]
    floating = [i for i in dense if tensors[i].dtype.is_floating_point or tensors[i].dtype.is_complex]
    if not dense or case.entry.full_name == "as_strided.partial_views":  # reads what stacking leaves out
        return
    yield "all", dict.fromkeys(dense, 0)
    if case.entry.name.startswith("as_strided"):  # it tells memory layouts apart
        return
    for i in floating[:3]:
        yield f"only {i}", {i: tensors[i].ndim}


def _plain(sample: Sample, side: Backend) -> Any:
    return side.build(sample.arguments)


def _element(side: Backend, sample: Sample, batched: dict[int, int], n: int) -> Any:
    """The arguments of one element of the batch: the sample's own, or the same with smaller numbers."""
    arguments = _plain(sample, side)
    tensors = side.flat_tensors(arguments)
    changed = [_smaller(tensor) if n and i in batched else tensor for i, tensor in enumerate(tensors)]
    return _replace(side, arguments, tensors, changed)


def _smaller(tensor: Any) -> Any:
    return tensor * 0.9 if tensor.dtype.is_floating_point or tensor.dtype.is_complex else tensor


def _mapped(case: Case, function: Callable[..., Any], sample: Sample, batched: dict[int, int]) -> Any:
    side = case.backend
    library = side.namespace
    arguments = _plain(sample, side)
    tensors = side.flat_tensors(arguments)
    chosen = sorted(batched)
    stacked = [library.stack([tensors[i], _smaller(tensors[i])], batched[i]) for i in chosen]

    def mapped(*values: Any) -> Any:
        return call(function, _replace(side, arguments, [tensors[i] for i in chosen], values))

    return library.func.vmap(mapped, in_dims=tuple(batched[i] for i in chosen))(*stacked)


def _compare_elements(case: Case, result: Any, expected: Sequence[Any]) -> None:
    side = case.backend
    for n in range(2):
        try:
            compare(side.describe(_select(side, result, n)), expected[n], case.comparison)
        except Mismatch as error:
            raise Mismatch(f"element {n}: {error}") from None


def _select(side: Backend, tree: Any, n: int) -> Any:
    if side.is_tensor(tree):
        return tree[n]
    if isinstance(tree, dict):
        return {key: _select(side, value, n) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[_select(side, value, n) for value in tree])
    return type(tree)(_select(side, value, n) for value in tree)

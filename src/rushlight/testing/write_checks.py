"""In-place operators and out= inside of compiled functions: they do what they do eagerly.

Every entry of the database with an in-place form is run on a copy that the program makes, and on its
argument; every entry that takes out= writes to a view of a tensor that the program makes. With gradients, the
in-place form runs on a copy through which the gradient goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..core.tensor import Tensor
from .case import Case
from .checks import compare_compiled, variant_of
from .derivative_checks import compare_compiled_gradients
from .entries import Sample
from .record import Recorder
from .snapshot import TensorSpec

Function = Callable[..., Any]


def check_compiled_writes(case: Case, record: Recorder) -> None:
    """The written tensors and what is returned, compiled and eager."""
    inplace = variant_of(case, case.entry.info.inplace_variant, record, "inplace")
    if inplace is not None:
        samples = list(_writable(case))
        compare_compiled(case, record, "own", _on_copy(inplace), samples)
        compare_compiled(case, record, "argument", _on_argument(inplace), samples)
    if case.entry.info.supports_out:
        compare_compiled(case, record, "out", _with_out(case), case.plain_samples)


def check_compiled_writes_backward(case: Case, record: Recorder) -> None:
    """Gradients through the in-place form of a copy, compiled and eager."""
    inplace = variant_of(case, case.entry.info.inplace_variant, record, "inplace")
    if inplace is not None:
        samples = [s for s in case.differentiable_samples if _is_writable(s)]
        compare_compiled_gradients(case, record, lambda x, *a, **k: inplace(x.clone(), *a, **k), samples)


def _writable(case: Case) -> Iterator[Sample]:
    return (sample for sample in case.plain_samples if _is_writable(sample))


def _is_writable(sample: Sample) -> bool:
    return isinstance(sample.arguments[0], TensorSpec) and not sample.broadcasts_input


def _on_copy(inplace: Function) -> Function:
    def function(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        copy = x.clone()
        return inplace(copy, *args, **kwargs), copy

    return function


def _on_argument(inplace: Function) -> Function:
    def function(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        inplace(x, *args, **kwargs)
        return x, x.clone()  # as it is, and as the program reads it

    return function


def _with_out(case: Case) -> Function:
    """The call with out= tensors in the shapes and dtypes of its results, one of which is a view."""
    namespace, original = case.backend.namespace, case.function

    def function(*args: Any, **kwargs: Any) -> Any:
        results = original(*args, **kwargs)
        single = isinstance(results, Tensor)
        room = [namespace.zeros((2, *r.shape), dtype=r.dtype) for r in ((results,) if single else results)]
        given = original(*args, **kwargs, out=room[0][1] if single else tuple([r[1] for r in room]))
        return given, room

    return function

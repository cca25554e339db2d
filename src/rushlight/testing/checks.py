"""The checks of one entry that need no derivative: forward (function, method, in-place), out=, meta,
compiled, errors.

Each check takes a `Case` and a `Recorder`, runs every sample on both sides and records what differs. Where
torch itself raises on a sample, there is nothing to compare with, and the sample is noted as refused.
"""

from __future__ import annotations

import itertools
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rushlight.runtime.redzones import guarding

from .backends import Backend, Memory
from .case import Case, call, is_as_exact, present
from .compare import Comparison, Mismatch, compare, stride_differences
from .entries import ErrorSample, Sample
from .kinds import Compilations
from .outcome import Items, TensorOutcome, tensor_outcomes
from .record import Recorder
from .snapshot import TensorSpec
from .tables import COMPILED_AGAIN

# --- forward -----------------------------------------------------------------------------------------


def check_forward(case: Case, record: Recorder) -> None:
    """The function on every sample, and the method and in-place variants where the entry has them."""
    function = case.function
    method = variant_of(case, case.entry.info.method_variant, record, "method")
    inplace = variant_of(case, case.entry.info.inplace_variant, record, "inplace")
    for sample, expected in _answered(case, record):
        with record.attempt(sample.index):
            _check_function(case, function, sample, expected, record)
        if not isinstance(sample.arguments[0], TensorSpec):
            continue
        if method is not None:
            with record.attempt(sample.index, "method"):
                _check_method(case, method, sample, expected)
        if inplace is not None and not sample.broadcasts_input:
            _check_inplace(case, inplace, sample, record)


@dataclass(frozen=True, eq=False)
class _Expected:
    """What torch gave: as it is, and with any gauge freedom removed."""

    raw: Any
    outcome: Any
    memory: Memory


def _answered(case: Case, record: Recorder) -> Iterator[tuple[Sample, _Expected]]:
    """The samples that torch has an answer to, with that."""
    for sample in case.plain_samples:
        record.samples += 1
        expected = _expected(case, sample, record)
        if expected is not None:
            yield sample, expected


def _expected(case: Case, sample: Sample, record: Recorder) -> _Expected | None:
    memory = Memory()
    try:
        arguments = case.oracle.build(sample.arguments, memory=memory)
        result = call(case.entry.info.op, arguments)
        raw, processed = case.oracle.describe(result), case.processed(case.oracle, sample, result)
        return _Expected(raw, raw if processed is result else case.oracle.describe(processed), memory)
    except Exception:
        record.note("torch refused")
        return None


def variant_of(case: Case, original: Any, record: Recorder, check: str) -> Callable[..., Any] | None:
    """The backend's counterpart of a variant, None if the entry has none; a missing one is recorded once."""
    if original is None:
        return None
    try:
        return present(case.backend.translate(original))
    except Exception as error:
        record.fail(-1, check, error)
        return None


def _check_function(
    case: Case, function: Callable[..., Any], sample: Sample, expected: _Expected, record: Recorder
) -> None:
    memory = Memory()
    actual = case.outcome(case.backend, function, sample, case.backend.build(sample.arguments, memory=memory))
    case.judge(sample, actual, expected.outcome)
    if memory.changed() and not expected.memory.changed():
        raise Mismatch("an input was written to")
    if shared := _overlaps(actual) - _overlaps(expected.outcome):
        raise Mismatch(f"results share memory: {sorted(shared)}")
    record.note("strides differ", stride_differences(actual, expected.outcome))
    pairs = zip(tensor_outcomes(actual), tensor_outcomes(expected.outcome), strict=True)
    record.note("aliasing differs", sum(memory.shares(a) != expected.memory.shares(e) for a, e in pairs))


def _overlaps(outcome: Any) -> set[tuple[int, int]]:
    """The pairs of results that have elements in common. Of bfloat16 PyTorch's are copies here: bounds alone
    would tell its parts of one tensor apart, and not ours."""
    arrays = [(i, t.array) for i, t in enumerate(tensor_outcomes(outcome)) if t.array is not None]
    return {(i, j) for (i, a), (j, b) in itertools.combinations(arrays, 2) if np.shares_memory(a, b)}


def _check_method(case: Case, method: Callable[..., Any], sample: Sample, expected: _Expected) -> None:
    wanted, original = expected.outcome, case.entry.info.method_variant
    if isinstance(
        original, types.FunctionType
    ):  # written in Python, so it may differ from the function (Tensor.lu)
        wanted = case.outcome(case.oracle, original, sample, case.oracle.build(sample.arguments))
    actual = case.outcome(case.backend, method, sample, case.backend.build(sample.arguments))
    case.judge(sample, actual, wanted)


def _check_inplace(case: Case, inplace: Callable[..., Any], sample: Sample, record: Recorder) -> None:
    theirs = case.oracle.build(sample.arguments)
    try:
        call(case.entry.info.inplace_variant, theirs)
    except Exception:
        record.note("torch refuses in place")
        return
    with record.attempt(sample.index, "inplace"):
        ours = case.backend.build(sample.arguments)
        returned = call(inplace, ours)
        if returned is not ours[0]:
            raise Mismatch("the in-place variant must return its first argument itself")
        case.judge(sample, case.backend.describe(ours[0]), case.oracle.describe(theirs[0]))


# --- out= --------------------------------------------------------------------------------------------


def check_out(case: Case, record: Recorder) -> None:
    """`out=` receives the result, and is what the call returns."""
    function = case.function
    for sample, expected in _answered(case, record):
        wanted = _as_written(expected.outcome)
        try:
            case.judge(
                sample, _call_with_out(case, case.oracle, case.entry.info.op, sample, expected.raw), wanted
            )
        except Exception:
            record.note("torch refuses out=")
            continue
        with record.attempt(sample.index, "out"):
            case.judge(sample, _call_with_out(case, case.backend, function, sample, expected.raw), wanted)


def _call_with_out(
    case: Case, side: Backend, function: Callable[..., Any], sample: Sample, expected: Any
) -> Any:
    """The out= tensors after a call; they start as zeros in the shapes and dtypes of the expected result."""
    blanks = [_blank(side, tensor) for tensor in tensor_outcomes(expected)]
    single = isinstance(expected, TensorOutcome)
    if not blanks or (not single and len(blanks) != len(expected.items)):
        raise TypeError("not a tensor or a tuple of tensors")
    first, args, kwargs = side.build(sample.arguments)
    returned = function(first, *args, **kwargs, out=blanks[0] if single else tuple(blanks))
    if any(a is not b for a, b in zip(side.flat_tensors(returned), blanks, strict=True)):
        raise Mismatch("out= must be returned itself")
    return side.describe(case.processed(side, sample, blanks[0] if single else tuple(blanks)))


def _blank(side: Backend, tensor: TensorOutcome) -> Any:
    if tensor.array is None or tensor.layout != "strided":
        raise TypeError("only dense tensors are written to")
    return side.from_array(np.zeros(tensor.shape, tensor.array.dtype), tensor.dtype)


def _as_written(expected: Any) -> Any:
    """A named tuple compares as the plain tuple of out= tensors."""
    return Items("tuple", expected.items) if isinstance(expected, Items) else expected


# --- meta --------------------------------------------------------------------------------------------


def check_meta(case: Case, record: Recorder) -> None:
    """Shape and dtype without data. A sample counts as refused only if torch's meta device refuses it too."""
    function = case.function
    for sample, expected in _answered(case, record):
        arguments = _on_meta(sample.arguments)
        try:
            actual = case.backend.describe(call(function, case.backend.build(arguments, device="meta")))
        except Exception as error:
            if _torch_refuses_meta(case, arguments):
                record.note("torch has no meta result")
            else:
                record.checked += 1
                record.fail(sample.index, "meta", error)
            continue
        with record.attempt(sample.index, "meta"):
            device = (
                "meta" if case.backend.flat_tensors(case.backend.build(arguments, device="meta")) else None
            )
            compare(actual, expected.raw, Comparison({}, values=False, device=device))
            record.note("strides differ", stride_differences(actual, expected.raw))


def _on_meta(arguments: Any) -> Any:
    first, args, kwargs = arguments
    return (first, args, {**kwargs, "device": "meta"} if kwargs.get("device") == "cpu" else kwargs)


def _torch_refuses_meta(case: Case, arguments: Any) -> bool:
    try:
        call(case.entry.info.op, case.oracle.build(arguments, device="meta"))
    except Exception:
        return True
    return False


# --- compiled ----------------------------------------------------------------------------------------


def check_compiled(case: Case, record: Recorder) -> None:
    """The compiled function gives what the eager one gives, random numbers included, and writes nowhere else.

    Where rounding makes the difference, it is as near to the same computation in double precision.
    """
    compare_compiled(case, record, "compiled", case.function, case.plain_samples)


def check_compiled_dynamic(case: Case, record: Recorder) -> None:
    """The same of a function that is compiled for all sizes, which are symbols from the start: samples that
    differ in sizes alone share a compilation, but for the entries that `tables.COMPILED_AGAIN` tells of."""
    compare_compiled(case, record, "compiled_dynamic", case.function, case.plain_samples, dynamic=True)


def compare_compiled(
    case: Case,
    record: Recorder,
    name: str,
    function: Callable[..., Any],
    samples: Iterable[Sample],
    *,
    dynamic: bool = False,
) -> None:
    """`function`, compiled and eager, on the samples."""
    compiled = case.backend.compile(function, dynamic)
    compilations = Compilations(compiled)
    for sample in samples:
        record.samples += 1
        try:
            expected = _seeded(case, function, sample)
        except Exception:
            record.note("eager fails")
            continue
        blank = case.sanity(sample)
        comparison = Comparison(case.entry.tolerances, values=blank is None or blank.values)
        with record.attempt(sample.index, name):
            with guarding():  # first, so that the program is compiled in this mode
                results = [_seeded(case, compiled, sample)]
            results.append(_seeded(case, compiled, sample))
            for result in results:
                try:
                    compare(result, expected, comparison)
                except Mismatch:
                    if not is_as_exact(case, sample, result, expected):
                        raise
                    record.note("as exact as eager execution, judged by double precision")
            if dynamic:
                try:
                    compilations.check(sample, expected)
                except Mismatch:
                    if case.entry.full_name not in COMPILED_AGAIN:
                        raise
                    record.note("compiled again for other sizes")


def _seeded(case: Case, function: Callable[..., Any], sample: Sample) -> Any:
    case.backend.namespace.manual_seed(0)
    return case.backend.describe(call(function, case.backend.build(sample.arguments)))


# --- errors ------------------------------------------------------------------------------------------


def check_errors(case: Case, record: Recorder) -> None:
    """Every call that torch's suite says must raise, raises that type (or the one torch does raise)."""
    function = case.function
    for sample in case.entry.error_samples():
        record.samples += 1
        theirs = _raised(case.oracle, case.entry.info.op, sample)
        if theirs is None:
            record.note("torch raises nothing")
            continue
        if _is_about_c_methods(theirs):
            record.note("torch refuses a non-tensor as self")
            continue
        with record.attempt(sample.index, "errors"):
            expected = present(case.backend.translate(sample.error_type))
            actual = present(case.backend.translate(type(theirs)))
            ours = _raised(case.backend, function, sample)
            if ours is None:
                raise Mismatch(f"nothing was raised, expected {expected.__name__}")
            if not isinstance(ours, (expected, actual)):
                raise Mismatch(
                    f"{type(ours).__name__} was raised, expected {expected.__name__}: "
                    f"{' '.join(str(ours).split())[:200]}"
                )


def _is_about_c_methods(error: Exception) -> bool:
    """A method of a C class checks the type of `self`; a Python method called through its class does not."""
    return isinstance(error, TypeError) and str(error).startswith("descriptor ")


def _raised(side: Backend, function: Callable[..., Any], sample: ErrorSample) -> Exception | None:
    """What the call raises. Where a warning is what must come, warnings are raised too."""
    try:
        arguments = side.build(sample.arguments)
        with warnings.catch_warnings():
            warnings.simplefilter("error" if issubclass(sample.error_type, Warning) else "ignore")
            result = call(function, arguments)
    except Exception as error:
        return error
    # A reflected operator may decline; the expression it stands for then raises TypeError.
    return TypeError("NotImplemented was returned") if result is NotImplemented else None


def seed_everything() -> None:
    """The same samples and random numbers in every run."""
    torch.manual_seed(0)
    np.random.seed(0)  # torch's sample functions draw from the global generator

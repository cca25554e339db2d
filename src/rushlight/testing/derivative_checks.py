"""The checks of derivatives: reverse mode, forward mode, and second order, against torch's for the same
cotangents; and reverse mode of compiled functions against that of eager ones.

Cotangents and tangents are drawn once per sample from a fixed seed as arrays, so that both sides get the same
ones. As torch says, an undefined (None) gradient means zero, and is equal to a tensor of zeros.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.runtime.redzones import guarding

from .backends import Backend
from .case import DOUBLE, Case, call, is_as_near, widened
from .compare import Comparison, Mismatch, compare
from .entries import Sample
from .outcome import Items, TensorOutcome
from .record import Recorder
from .snapshot import dtype_name

_DIFFERENTIABLE = {"float16", "bfloat16", "float32", "float64", "complex64", "complex128"}


def check_backward(case: Case, record: Recorder) -> None:
    """First-order gradients of every differentiable input."""
    _check(case, record, "bwd", _gradients)


def check_second_order(case: Case, record: Recorder) -> None:
    """Gradients of the gradients, with respect to the inputs and the cotangents."""
    _check(case, record, "gradgrad", _second_gradients)


def check_forward_mode(case: Case, record: Recorder) -> None:
    """Tangents of the outputs for tangents of all differentiable inputs at once."""
    _check(case, record, "fwad", _tangents)


def check_compiled_backward(case: Case, record: Recorder) -> None:
    """Gradients through the compiled function are those through the eager one, random numbers included."""
    compare_compiled_gradients(case, record, case.function, case.differentiable_samples)


def compare_compiled_gradients(
    case: Case, record: Recorder, function: Callable[..., Any], samples: Iterable[Sample]
) -> None:
    """Gradients through `function`, compiled and eager, on the samples."""
    compiled = case.backend.compile(function)
    for sample in samples:
        record.samples += 1
        plan = _Plan()
        try:
            expected = _seeded_gradients(case, function, sample, plan)
        except _NothingToDo:
            record.note("not differentiable")
            continue
        except Exception:
            record.note("eager fails")
            continue
        with record.attempt(sample.index, "compiled_bwd"):
            with guarding():  # first, so that the programs are compiled in this mode
                found = _seeded_gradients(case, compiled, sample, plan)
            again = _seeded_gradients(case, compiled, sample, plan)
            for actual in (found, again):
                _judge_compiled(case, record, sample, actual, expected, function)


def _seeded_gradients(case: Case, function: Callable[..., Any], sample: Sample, plan: _Plan) -> Any:
    case.backend.namespace.manual_seed(0)
    return _gradients(case, case.backend, function, sample, plan)


@dataclass(frozen=True, eq=False)
class _Run:
    """One evaluation on one side: the outputs that are differentiated, and the inputs by which."""

    side: Backend
    outputs: list[Any]
    inputs: list[Any]


_Mode = Callable[[Case, Backend, Callable[..., Any], Sample, "_Plan"], Any]


@dataclass
class _Plan:
    """What the oracle found to be differentiable; the side under test must follow it. None: not known yet."""

    outputs: list[int] | None = None
    second: list[int] | None = None


class _NothingToDo(Exception):
    """The sample has no differentiable output."""


def _check(case: Case, record: Recorder, name: str, mode: _Mode) -> None:
    function = case.function
    for sample in case.differentiable_samples:
        record.samples += 1
        plan = _Plan()
        try:
            expected = mode(case, case.oracle, case.entry.info.op, sample, plan)
        except _NothingToDo:
            record.note("not differentiable")
            continue
        except Exception:
            record.note("torch refused")
            continue
        with record.attempt(sample.index, name):
            actual = mode(case, case.backend, function, sample, plan)
            values = case.sanity(sample) is None
            try:
                _compare_gradients(actual, expected, Comparison(case.entry.tolerances, values=values))
            except Mismatch:

                def double(wide: Sample, plan: _Plan = plan) -> Any:
                    return mode(case, case.oracle, case.entry.info.op, wide, plan)

                if not _are_as_exact(case, sample, actual, expected, double):
                    raise
                record.note("differs from torch, but is as near to the result in double")


def _judge_compiled(
    case: Case, record: Recorder, sample: Sample, actual: Any, expected: Any, function: Callable[..., Any]
) -> None:
    """Raise Mismatch unless gradients of the compiled function are those of the eager one, or as near to
    those in double precision as the eager ones or torch's are."""
    values = case.sanity(sample)
    how = Comparison(case.entry.tolerances, values=values is None or values.values)
    try:
        _compare_gradients(actual, expected, how)
    except Mismatch:

        def double(wide: Sample) -> Any:
            return _seeded_gradients(case, function, wide, _Plan())

        def peers() -> Iterable[Any]:
            yield expected
            if function is case.function:
                yield _gradients(case, case.oracle, case.entry.info.op, sample, _Plan())

        if values is not None or not any(
            _are_as_exact(case, sample, actual, peer, double) for peer in peers()
        ):
            raise
        record.note("differs from eager, but is as near to the result in double")


def _are_as_exact(
    case: Case, sample: Sample, actual: Any, expected: Any, double: Callable[[Sample], Any]
) -> bool:
    """Whether derivatives in single precision are as near to those in double precision, which `double` gives,
    as the expected ones are: those of ill-conditioned functions have few digits in common, whoever computes
    them."""
    if case.dtype not in DOUBLE:
        return False
    _compare_gradients(actual, expected, Comparison({}, values=False))
    truth = double(dataclasses.replace(sample, arguments=widened(sample.arguments, DOUBLE)))
    triples = zip(actual.items, expected.items, truth.items, strict=True)
    return all(
        None not in triple and is_as_near(*[outcome.array for outcome in triple])
        for triple in triples
        if triple[0] is not None or triple[1] is not None
    )


def _evaluate(side: Backend, function: Callable[..., Any], sample: Sample, plan: _Plan) -> _Run:
    arguments = side.build(sample.arguments, requires_grad=True)
    inputs = [tensor for tensor in side.flat_tensors(arguments) if tensor.requires_grad]
    results = side.flat_tensors(side.translate(sample.process_output)(call(function, arguments)))
    if plan.outputs is None:
        plan.outputs = [i for i, tensor in enumerate(results) if tensor.requires_grad and _can_differ(tensor)]
    if not plan.outputs or not inputs:
        raise _NothingToDo
    return _Run(side, [results[i] for i in plan.outputs], inputs)


def _can_differ(tensor: Any) -> bool:
    return dtype_name(tensor.dtype) in _DIFFERENTIABLE


def _gradients(case: Case, side: Backend, function: Callable[..., Any], sample: Sample, plan: _Plan) -> Any:
    run = _evaluate(side, function, sample, plan)
    weights = _directions(side, run.outputs, sample.index)
    return side.describe(side.namespace.autograd.grad(run.outputs, run.inputs, weights, allow_unused=True))


def _second_gradients(
    case: Case, side: Backend, function: Callable[..., Any], sample: Sample, plan: _Plan
) -> Any:
    run = _evaluate(side, function, sample, plan)
    weights = [weight.requires_grad_() for weight in _directions(side, run.outputs, sample.index)]
    grad = side.namespace.autograd.grad
    first = grad(run.outputs, run.inputs, weights, create_graph=True, allow_unused=True)
    if plan.second is None:
        plan.second = [i for i, g in enumerate(first) if g is not None and g.requires_grad]
    if not plan.second:
        raise _NothingToDo
    chosen = [first[i] for i in plan.second]
    second_weights = _directions(side, chosen, sample.index + 1)
    return side.describe(grad(chosen, [*run.inputs, *weights], second_weights, allow_unused=True))


def _tangents(case: Case, side: Backend, function: Callable[..., Any], sample: Sample, plan: _Plan) -> Any:
    arguments = side.build(sample.arguments, requires_grad=True)
    inputs = [tensor for tensor in side.flat_tensors(arguments) if tensor.requires_grad]
    if not inputs:
        raise _NothingToDo
    forward_ad = side.namespace.autograd.forward_ad
    plain = [tensor.detach() for tensor in inputs]
    directions = _directions(side, plain, sample.index)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(p, d) for p, d in zip(plain, directions, strict=True)]
        replaced = _replace(side, arguments, inputs, duals)
        results = side.flat_tensors(side.translate(sample.process_output)(call(function, replaced)))
        tangents = [forward_ad.unpack_dual(tensor).tangent for tensor in results]
        if plan.outputs is None:
            plan.outputs = [i for i, tensor in enumerate(results) if _can_differ(tensor)]
        if not plan.outputs:
            raise _NothingToDo
        return side.describe(tuple(tangents[i] for i in plan.outputs))


def _replace(side: Backend, tree: Any, old: Sequence[Any], new: Sequence[Any]) -> Any:
    """`tree` with each of the `old` tensors replaced by the `new` one at its place."""
    by_identity = {id(before): after for before, after in zip(old, new, strict=True)}
    if side.is_tensor(tree):
        return by_identity.get(id(tree), tree)
    if isinstance(tree, dict):
        return {key: _replace(side, value, old, new) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(_replace(side, value, old, new) for value in tree)
    return tree


def _directions(side: Backend, tensors: Sequence[Any], seed: int) -> list[Any]:
    """A random tensor like each of `tensors`; the same numbers on every side."""
    random = np.random.default_rng(seed)
    return [_direction(side, random, tensor) for tensor in tensors]


def _direction(side: Backend, random: np.random.Generator, tensor: Any) -> Any:
    shape, dtype = tuple(tensor.shape), dtype_name(tensor.dtype)
    values = random.standard_normal(shape)
    if dtype.startswith("complex"):
        return side.from_array(np.asarray(values + 1j * random.standard_normal(shape), dtype), dtype)
    wide = np.asarray(values, "float32" if dtype == "bfloat16" else dtype)
    made = side.from_array(wide, str(wide.dtype))
    return made.to(side.namespace.bfloat16) if dtype == "bfloat16" else made


def _compare_gradients(actual: Any, expected: Any, how: Comparison) -> None:
    """Item by item, where None stands for zeros."""
    if not isinstance(actual, Items) or len(actual.items) != len(expected.items):
        raise Mismatch(f"expected {len(expected.items)} gradients")
    for i, (mine, theirs) in enumerate(zip(actual.items, expected.items, strict=True)):
        if mine is None or theirs is None:
            given = theirs if mine is None else mine
            if given is not None and how.values and not _is_zero(given):
                raise Mismatch(
                    f"gradient {i} is {'None' if mine is None else 'not zero'}, expected "
                    f"{'None' if theirs is None else 'other than zero'}"
                )
        else:
            compare(mine, theirs, how, f"gradient {i}")


def _is_zero(tensor: TensorOutcome) -> bool:
    return tensor.array is not None and not tensor.array.any()

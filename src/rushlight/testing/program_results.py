"""What random programs give (see programs.py), and how far two executions of one may be apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import rushlight as rl

from .program_classes import plain_values
from .program_operands import library
from .programs import SINGLE, Program

TRIALS = 3
DOUBLE = 1e-9  # rounding of doubles, however it grows through up to 40 operators


def tolerances(program: Program, eager: list[list[Any]]) -> list[list[float]]:
    """How far results of an execution may be from the eager ones: of the outputs, and of the inputs after it
    or, if it takes gradients, of these.

    The program runs in double precision, exactly and with random errors of single precision; what these
    change, and how far the eager results are from the exact ones, tells what another order of rounding may
    change.
    """
    trials = TRIALS if program.single else 0  # nothing rounds to single precision otherwise
    exact, *moved = (results_in_double(program, trial) for trial in range(trials + 1))
    found = []
    for part, reference in enumerate(exact):
        limits = []
        for i, values in enumerate(reference):
            if values is None or not values.size or values.dtype.kind != "f":
                limits.append(0.0)  # integers and bools are exact
                continue
            scale = largest(values)
            with np.errstate(invalid="ignore"):  # of infinities; these, and NaN, must be the same
                change = max(largest(trial[part][i] - values) for trial in (*moved, eager))
            limits.append(10 * change + (64 * SINGLE if program.single else 0) * scale + DOUBLE * (1 + scale))
        found.append(limits)
    return found


def largest(values: np.ndarray) -> float:
    """The largest finite absolute value."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def results_in_double(program: Program, trial: int) -> list[list[Any]]:
    """Outputs, and inputs or gradients; without errors for trial 0."""
    inputs = program.doubled()
    single = rl.get_default_dtype()
    rl.set_default_dtype(rl.float64)  # of quotients of integers, for example
    try:
        outputs = program.in_double(inputs, np.random.default_rng(trial) if trial else None)
    finally:
        rl.set_default_dtype(single)
    return results(program, outputs, inputs)


def results(program: Program, outputs: Sequence[Any], inputs: Sequence[Any]) -> list[list[Any]]:
    """The arrays of the outputs, and of the inputs or, if the program takes gradients, of these."""
    if program.gradients:
        differentiate(outputs)
    second = [t.grad for t in inputs] if program.gradients else inputs
    return [[None if t is None else values_of(t) for t in tensors] for tensors in (outputs, second)]


def differentiate(outputs: Sequence[Any]) -> None:
    losses = [(plain_values(out).double() * 0.5).sum() for out in outputs if out.requires_grad]
    if losses:
        library(losses[0]).stack(losses).sum().backward()


def values_of(t: Any) -> np.ndarray:
    """An array of what a tensor, of whatever class, or an array holds."""
    array: np.ndarray = t if isinstance(t, np.ndarray) else plain_values(t.detach()).numpy()
    return array


def assert_same(expected: Any, actual: Any, limit: float, program: Program) -> None:
    """Dtype, shape, class and values are the same, and strides where they can be seen."""
    assert type(expected).__name__ == type(actual).__name__, program
    assert str(expected.dtype).rpartition(".")[2] == str(actual.dtype).rpartition(".")[2], program
    assert tuple(expected.shape) == tuple(actual.shape), program
    if not isinstance(expected, np.ndarray) and expected.numel() and not expected.requires_grad:
        assert significant_strides(expected) == significant_strides(actual), program
    try:
        np.testing.assert_allclose(values_of(actual), values_of(expected), rtol=0, atol=limit)
    except AssertionError as error:
        error.add_note(str(program))  # the text of a program takes time
        raise


def significant_strides(tensor: Any) -> list[int]:
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]

"""Samples that differ in sizes alone are of one kind, and are compiled once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rushlight.testing.compare import Mismatch
from rushlight.testing.entries import Sample, entries
from rushlight.testing.kinds import Compilations, kind_of
from rushlight.testing.outcome import TensorOutcome
from rushlight.testing.snapshot import take
from rushlight.testing.tables import COMPILED_AGAIN


def kind(*arguments: Any, shape: tuple[int, ...] = (4,), **kwargs: Any) -> str:
    result = TensorOutcome("float32", shape, (1,) * len(shape), "cpu", "strided", None)
    return kind_of(take((arguments[0], arguments[1:], kwargs)), result)


def test_sizes_of_two_or_more_are_alike() -> None:
    x = torch.ones(3, 4)
    assert kind(x) == kind(torch.zeros(5, 9))
    assert kind(x.t()) == kind(torch.ones(7, 2).t())
    assert kind(x[:, ::2]) == kind(torch.ones(8, 10)[:, ::2])


def test_other_calls_are_not() -> None:
    x = torch.ones(3, 4)
    others = [
        kind(torch.ones(1, 4)),
        kind(torch.ones(0, 4)),
        kind(torch.ones(3)),
        kind(torch.ones(3, 4, dtype=torch.float64)),
        kind(x.t()),
        kind(torch.ones(3, 8)[:, ::2]),
        kind(x, 1),
        kind(x, dim=1),
        kind(x, dtype=torch.float64),
        kind(x, shape=(1,)),
    ]
    assert kind(x) not in others
    assert len(set(others)) == len(others)


class Compiled:
    def __init__(self) -> None:
        self.reasons: list[str] = []


def sample(*shape: int) -> Sample:
    return Sample(0, take((torch.ones(shape), (), {})), False, None)


def test_a_second_compilation_of_a_kind_is_a_mismatch() -> None:
    compiled, result = Compiled(), TensorOutcome("float32", (4,), (1,), "cpu", "strided", None)
    compilations = Compilations(compiled)
    compiled.reasons.append("first call")
    compilations.check(sample(3, 4), result)
    compilations.check(sample(5, 6), result)
    compiled.reasons.append("another rank")
    compilations.check(sample(5), result)
    compiled.reasons.append("the number")
    with pytest.raises(Mismatch, match="sizes alone: the number"):
        compilations.check(sample(7), result)


def test_few_entries_are_compiled_again() -> None:
    assert len(COMPILED_AGAIN) <= 0.03 * len(entries())
    assert all(COMPILED_AGAIN.values())

"""Derivatives in single precision: as exact as torch's is enough, less is not."""

from __future__ import annotations

import pytest

from rushlight.core.registry import REGISTRY
from rushlight.testing.conformance import run_entry
from rushlight.testing.record import FAIL, PASS

NOTE = "differs from torch, but is as near to the result in double"


@pytest.fixture
def sine(monkeypatch: pytest.MonkeyPatch):
    """Replaces the formula of sin by one that is off by a factor."""
    entry = REGISTRY["sin"].derivative

    def off_by(factor: float) -> None:
        monkeypatch.setattr(
            entry.formulas[0], "function", lambda grad, self: grad * self.cos().conj() * factor
        )
        entry.plans.clear()

    yield off_by
    monkeypatch.undo()
    entry.plans.clear()


@pytest.mark.parametrize("variant", ["bwd", "gradgrad"])
def test_a_formula_that_is_slightly_off_is_found(sine, variant: str) -> None:
    sine(1 + 2e-5)
    assert run_entry("sin", "", "float32", variant).status == FAIL


def test_the_right_formula_passes_by_itself(sine) -> None:
    sine(1.0)
    result = run_entry("sin", "", "float32", "bwd")
    assert result.status == PASS and NOTE not in result.notes


def test_an_ill_conditioned_derivative_passes_and_says_so() -> None:
    """Both libraries have few digits of it; in double precision they agree to the usual tolerance."""
    single = run_entry("linalg.eigh", "", "float32", "gradgrad")
    assert single.status == PASS and single.notes[NOTE] > 0
    double = run_entry("linalg.eigh", "", "float64", "gradgrad")
    assert double.status == PASS and NOTE not in double.notes

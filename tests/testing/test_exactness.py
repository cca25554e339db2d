"""Derivatives in single precision: as exact as torch's is enough, less is not."""

from __future__ import annotations

import pytest

import rushlight
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


def test_gradients_of_compiled_functions_are_judged_in_double_precision() -> None:
    result = run_entry("stft", "", "float32", "compiled_bwd")
    assert result.status == PASS
    assert result.notes["differs from eager, but is as near to the result in double"] > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_of_a_compiled_function_that_are_slightly_off_are_found(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    def compile(function, **options):
        return lambda *args, **kwargs: function(*args, **kwargs) * (1 + 2e-5)

    monkeypatch.setattr(rushlight, "compile", compile)
    assert run_entry("sin", "", dtype, "compiled_bwd").status == FAIL


def test_results_that_share_memory_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = rushlight.aminmax
    assert run_entry("aminmax", "", "float32", "fwd").status == PASS

    def aminmax(*args, **kwargs):
        low, high = original(*args, **kwargs)
        return type(original(rushlight.ones(1)))(low, low if low.equal(high) else high)

    monkeypatch.setattr(rushlight, "aminmax", aminmax)
    result = run_entry("aminmax", "", "float32", "fwd")
    assert result.status == FAIL and "results share memory" in result.line()

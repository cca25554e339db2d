"""The checks that need no oracle find what is wrong: forward mode, Jacobians, Hessians."""

from __future__ import annotations

import pytest

from rushlight.core.registry import REGISTRY
from rushlight.derivatives.declare import derivative
from rushlight.testing.backends import TorchBackend
from rushlight.testing.conformance import run_entry
from rushlight.testing.property_checks import OWN_REFERENCE
from rushlight.testing.record import FAIL, NOT_APPLICABLE, PASS


@pytest.fixture
def redeclare(monkeypatch: pytest.MonkeyPatch):
    def declare(name: str, **formulas: object) -> None:
        monkeypatch.setattr(REGISTRY[name], "derivative", None)
        derivative(name, **formulas)

    return declare


def test_forward_mode_without_torchs_says_what_it_was_checked_against() -> None:
    result = run_entry("_segment_reduce", "lengths", "float64", "fwad")
    assert result.status == PASS and result.notes[OWN_REFERENCE] == result.samples
    assert "not PyTorch" in OWN_REFERENCE
    assert OWN_REFERENCE not in run_entry("sum", "", "float64", "fwad").notes


def test_torch_has_nothing_to_compare_there() -> None:
    result = run_entry("nn.functional.pdist", "", "float64", "fwad", backend=TorchBackend())
    assert result.status == NOT_APPLICABLE


def pdist_formulas() -> dict:
    formula = REGISTRY["_pdist_forward"].derivative
    return {"self": formula.formulas[0].function, "result": formula.forward[0].function}


def test_a_wrong_tangent_is_found(redeclare) -> None:
    """Reverse mode is right, so the two modes disagree."""
    right = pdist_formulas()
    redeclare(
        "_pdist_forward",
        self=right["self"],
        result=lambda self_t, self_p, p, result: right["result"](self_t, self_p, p, result) * 2,
    )
    result = run_entry("nn.functional.pdist", "", "float64", "fwad")
    assert result.status == FAIL and "forward mode gives" in result.failures[0].message


def test_two_wrong_modes_are_found_by_finite_differences(redeclare) -> None:
    """Each is the transpose of the other, but neither is the derivative."""
    right = pdist_formulas()
    redeclare(
        "_pdist_forward",
        self=lambda grad, self, p, result: right["self"](grad, self, p, result) * 2,
        result=lambda self_t, self_p, p, result: right["result"](self_t, self_p, p, result) * 2,
    )
    result = run_entry("nn.functional.pdist", "", "float64", "fwad")
    assert {failure.check for failure in result.failures} == {"fwad finite differences"}
    assert "differ from central differences" in result.failures[0].message


def test_a_wrong_jacobian_and_a_wrong_hessian_are_found(redeclare) -> None:
    redeclare(
        "sinh", self=lambda grad, self: grad * self.cosh(), result=lambda self_t, self_p: self_t * self_p
    )
    assert "jacfwd gives" in run_entry("sinh", "", "float64", "jacobian").failures[0].message
    redeclare("sinh", self=lambda grad, self: grad * self.cosh().roll(1, -1) if self.ndim else grad)
    assert "the Hessian is" in run_entry("sinh", "", "float64", "hessian").failures[0].message

"""Every row of PyTorch's derivative table holds here, against finite differences, but for a strict list.

Run with -s to see the counts by family.
"""

from __future__ import annotations

import pytest

from rushlight.core.registry import REGISTRY
from rushlight.testing import inventory
from rushlight.testing.inventory import CONSTANT, NOT_REGISTERED, NOT_YET, OK, STAGES, Row
from rushlight.testing.inventory_samples import COMPLEX, DOMAINS, SAMPLES

SAMPLED = ("PyTorch's gradient of a sampler by its parameters is zero; finite differences with a fixed seed "
           "follow them")
IMPLICIT = "the gradient is that of the distribution (implicit), not of the draw that the sampler accepted"
ONLY_TESTS = "exists for PyTorch's own tests"
INTERNAL = "a helper inside PyTorch that nothing here calls; it has no derivative"

# Row -> (stages that fail, why). A row that holds, or fails otherwise, must leave the table.
EXPECTED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor"),
                    ("reverse forward", SAMPLED)),
    "_standard_gamma": ("reverse forward second mixed", IMPLICIT),
    **dict.fromkeys(("_is_all_true", "_is_any_true", "_new_zeros_with_same_feature_meta",
                     "_efficientzerotensor"), ("reverse", INTERNAL)),
    **dict.fromkeys(("_test_warn_in_autograd", "_test_autograd_multiple_dispatch.fullcoverage",
                     "_test_autograd_multiple_dispatch.ntonly", "_test_autograd_multiple_dispatch_view"),
                    ("reverse", ONLY_TESTS)),
}


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    rows = inventory.report()
    print("\n" + inventory.summary(rows))
    return rows


def test_every_row_holds(rows: list[Row]) -> None:
    wrong = []
    for row in rows:
        if row.not_yet:
            continue
        failing = " ".join(failure.partition(":")[0] for failure in row.failures)
        expected, reason = EXPECTED.get(row.op, ("", ""))
        if failing != expected:
            wrong.append(f"{row.op}: {'; '.join(row.failures) or 'holds'}"
                         + (f" (expected to fail in {expected}: {reason})" if expected else ""))
        elif not expected and not row.holds:
            wrong.append(f"{row.op}: not looked at")
    assert not wrong, "\n".join(wrong)


def test_the_table_of_failures_names_rows(rows: list[Row]) -> None:
    assert EXPECTED.keys() <= {row.op for row in rows if not row.not_yet}


def test_rows_with_a_formula_are_differentiated(rows: list[Row]) -> None:
    """Where PyTorch has a reverse formula, a gradient flows here: nothing passes for being constant."""
    asked = {line["op"] for line in inventory.table() if line["reverse_for"]}
    flat = [row.op for row in rows
            if row.op in asked and CONSTANT in [getattr(row, stage) for stage in STAGES]]
    assert not flat


def test_no_rule_for_unbuilt_families_is_stale(rows: list[Row]) -> None:
    used = {row.family for row in rows if row.not_yet}
    assert used == {family for family, _ in NOT_YET}, "remove the families that are built by now"
    assert all(row.reverse == NOT_REGISTERED for row in rows if row.not_yet)


def test_samples_belong_to_rows() -> None:
    known = {line["op"] for line in inventory.table()}
    assert not (SAMPLES.keys() | DOMAINS.keys() | COMPLEX) - known
    assert not SAMPLES.keys() & DOMAINS.keys(), "a domain is for generated samples"


@pytest.mark.parametrize("formula, failing", [
    (lambda grad, self: grad * self.cos().conj() * 1.01, {"reverse", "forward"}),
    (lambda grad, self: grad * self.cos().conj().detach(), {"second", "mixed"}),
    (lambda grad, self: grad * self.cos().conj(), set()),
])
def test_wrong_formulas_are_found(formula: object, failing: set[str]) -> None:
    entry = REGISTRY["sin"].derivative
    right = entry.formulas[0].function
    line = next(line for line in inventory.table() if line["op"] == "sin")
    try:
        entry.formulas[0].function = formula
        entry.plans.clear()
        row = inventory.check_row(line)
    finally:
        entry.formulas[0].function = right
        entry.plans.clear()
    found = {stage for stage in STAGES if getattr(row, stage) != OK}
    assert found == failing, row


def test_a_missing_formula_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    line = next(line for line in inventory.table() if line["op"] == "atan2")
    monkeypatch.setattr(REGISTRY["atan2"].derivative, "targets", (0,))
    assert inventory.check_row(line).reverse == "no formula for other"

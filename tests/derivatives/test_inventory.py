"""Every row of PyTorch's derivative table holds here, against finite differences.

Rows of the foundation families hold without exception; those of later families that do not yet are listed, one
by one, in not_yet.json, and must leave it when they do: `python -m rushlight.testing.inventory --update`, which
shows the counts by family too. The rows are dealt into groups, so that processes share the work.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import rushlight
from rushlight.core.dispatch import run_name
from rushlight.core.registry import REGISTRY
from rushlight.testing import inventory
from rushlight.testing.inventory import FOUNDATION, NOT_REGISTERED, STAGES, Row
from rushlight.testing.inventory_samples import COMPLEX, DOMAINS, SAMPLES
from rushlight.testing.witness import CONSTANT, OK

NOT_YET = inventory.load_not_yet(Path(__file__).with_name("not_yet.json"))


GROUPS = 16


@pytest.mark.parametrize("group", range(GROUPS))
def test_rows_hold(group: int) -> None:
    """As the list says, those of the foundation without exception. Where PyTorch has a reverse formula, a
    gradient flows here: nothing passes for being constant."""
    lines = inventory.table()[group::GROUPS]
    rows = [inventory.check_row(line) for line in lines]
    wrong = inventory.problems(rows, {row.op: NOT_YET[row.op] for row in rows if row.op in NOT_YET})
    assert not wrong, "\n".join(wrong)
    assert not [row.op for row in rows if row.family in FOUNDATION and not row.holds]
    asked = {line["op"] for line in lines if line["reverse_for"]}
    flat = [
        row.op
        for row in rows
        if row.op in asked and row.op not in NOT_YET and CONSTANT in [getattr(row, stage) for stage in STAGES]
    ]
    assert not flat


def test_every_family_of_the_foundation_has_rows_and_the_list_names_rows() -> None:
    operators = {line["op"]: inventory.operator_of(line["op"]) for line in inventory.table()}
    assert {found[0].family for found in operators.values() if found is not None} >= FOUNDATION
    assert not NOT_YET.keys() - operators.keys()


def test_the_list_is_strict() -> None:
    good, bad = (Row("x", "loss", (), (), text, text, text, text) for text in (OK, "AssertionError: no"))
    early = Row("x", "view", (), (), NOT_REGISTERED)
    assert inventory.problems([good], {}) == inventory.problems([bad], {"x": "loss: no"}) == []
    assert "holds but is listed" in inventory.problems([good], {"x": "loss: no"})[0]
    assert "AssertionError: no" in inventory.problems([bad], {})[0]
    assert "must hold" in inventory.problems([early], {"x": "view: no"})[0]
    assert "no such row" in inventory.problems([], {"x": "loss: no"})[0]


def test_rows_that_are_not_registered_belong_to_later_families() -> None:
    absent = [line["op"] for line in inventory.table() if inventory.operator_of(line["op"]) is None]
    assert not [name for name in absent if inventory.later_family(name) is None]


def test_samples_belong_to_rows() -> None:
    known = {line["op"] for line in inventory.table()}
    assert not (SAMPLES.keys() | DOMAINS.keys() | COMPLEX) - known
    assert not SAMPLES.keys() & DOMAINS.keys(), "a domain is for generated samples"


@pytest.mark.parametrize(
    "formula, failing",
    [
        (lambda grad, self: grad * self.cos().conj() * 1.01, {"reverse", "forward"}),
        (lambda grad, self: grad * self.cos().conj().detach(), {"second", "mixed"}),
        (lambda grad, self: grad * self.cos().conj(), set()),
    ],
)
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


# Operators of PyTorch's own tests.


def test_operators_of_pytorchs_tests_have_their_formulas() -> None:
    """The gradient says which formula was used."""
    for name, args in (
        ("_test_autograd_multiple_dispatch.fullcoverage", ()),
        ("_test_autograd_multiple_dispatch.ntonly", (True,)),
        ("_test_autograd_multiple_dispatch_view", ()),
    ):
        mine, theirs = rushlight.ones(2, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True)
        base, _, overload = name.partition(".")
        result = run_name(name, mine, *args)
        expected = getattr(getattr(torch.ops.aten, base), overload or "default")(theirs, *args)
        (result * 3).sum().backward()
        (expected * 3).sum().backward()
        assert result.tolist() == expected.tolist() and mine.grad.tolist() == theirs.grad.tolist()


def test_the_formula_that_warns() -> None:
    x = rushlight.ones(2, requires_grad=True)
    y = run_name("_test_warn_in_autograd", x)
    with pytest.warns(UserWarning, match="Warn from backward"):
        y.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_truth_of_bool_tensors() -> None:
    for values in ([True, True], [True, False], [False, False]):
        mine, theirs = rushlight.tensor(values), torch.tensor(values)
        assert rushlight._is_all_true(mine).item() == torch._is_all_true(theirs).item()
        assert mine._is_any_true().item() == theirs._is_any_true().item()
    with pytest.raises(RuntimeError, match="bool"):
        rushlight._is_all_true(rushlight.ones(2))


@pytest.mark.parametrize("dims", [0, 1, 2])
def test_zeros_like_the_features_of_another(dims: int) -> None:
    def made(m: Any, function: Any) -> Any:
        result = function(m.ones(3, 5), m.ones(6, 3)[1:5, :2].t(), self_num_batch_dims=dims)
        assert not result.any()
        return (
            tuple(result.shape),
            result.stride(),
            result.storage_offset(),
            result.untyped_storage().nbytes(),
        )

    name = "_new_zeros_with_same_feature_meta"
    assert made(rushlight, getattr(rushlight.ops.aten, name)) == made(torch, getattr(torch.ops.aten, name))
    assert not rushlight._efficientzerotensor((2, 3)).any()


@pytest.mark.parametrize("overload", ["float_Tensor", "Tensor_float", "Tensor_Tensor"])
def test_a_normal_draw_is_constant_in_its_parameters(overload: str) -> None:
    """The gradient and the tangent are zeros, not None, as PyTorch's."""
    for library in (rushlight, torch):
        mean, std = (library.ones(3, requires_grad=True) for _ in range(2))
        args = {"float_Tensor": (0.0, std), "Tensor_float": (mean, 1.0), "Tensor_Tensor": (mean, std)}[
            overload
        ]
        inputs = [arg for arg in args if isinstance(arg, library.Tensor)]
        grads = library.autograd.grad(library.normal(*args).sum(), inputs)
        assert [g.tolist() for g in grads] == [[0.0] * 3] * len(inputs)

"""Derivatives of losses: ends of the range, sequences, second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import rushlight
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.nn import functional

F = "lib.nn.functional"
Y = "lib.tensor([0.0, 1.0, 0.25, 1.0, 0.0], dtype=lib.float64)"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (f"{F}.binary_cross_entropy(x, {Y}, reduction='none')", [0.0, 1.0, 0.25, 1e-13, 1 - 1e-13]),
        (f"{F}.binary_cross_entropy({Y} * 0.5 + 0.2, x)", [0.0, 1.0, 0.25, 0.5, 0.75]),
        (f"{F}.binary_cross_entropy_with_logits(x, {Y})", [-800.0, 800.0, 0.0, -30.0, 30.0]),
        (
            f"{F}.binary_cross_entropy_with_logits(x, {Y}, pos_weight={Y} * 3)",
            [-800.0, 800.0, 0.0, -30.0, 30.0],
        ),
        (f"{F}.smooth_l1_loss(x, {Y} * 0)", [0.0, 1.0, -1.0, 0.5, -3.0]),
        (f"{F}.huber_loss(x, {Y} * 0, delta=0.5)", [0.0, 0.5, -0.5, 0.25, -3.0]),
        (f"{F}.l1_loss(x, {Y} * 0)", [0.0, 0.5, -0.5, 0.25, -3.0]),
        (f"{F}.kl_div(x, {Y}, reduction='sum')", [0.0, -0.5, -0.5, -3.0, -9.0]),
        (f"{F}.kl_div({Y}, x, reduction='sum')", [0.0, 0.5, 0.5, 3.0, 9.0]),
        (f"{F}.hinge_embedding_loss(x, {Y} * 2 - 1)", [1.0, 0.5, 2.0, 3.0, -1.0]),
        (f"{F}.gaussian_nll_loss({Y}, {Y} + 1, x)", [1e-9, 1e-6, 0.5, 2.0, 3.0]),
        (f"{F}.cross_entropy(x, lib.tensor(3), label_smoothing=0.3)", [0.5, 1.5, 900.0, -0.5, 2.0]),
    ],
)
def test_first_order(expression: str, value: Any, first_order: Callable[..., None]) -> None:
    first_order(expression, value, "reverse")


@pytest.mark.parametrize(
    "call",
    [
        lambda lib, x: lib.nn.functional.multilabel_margin_loss(x, lib.tensor([3, 0, -1, 1, 2])),
        lambda lib, x: lib.nn.functional.multi_margin_loss(x, lib.tensor([3]), p=2),
        lambda lib, x: lib.nn.functional.multi_margin_loss(x, lib.tensor([3]), weight=x.detach()),
    ],
)
def test_margins(call: Callable[[Any, Any], Any]) -> None:
    gradients = []
    for lib in (rushlight, torch):
        x = lib.tensor([0.5, 1.5, 0.5, -0.5, 2.0], dtype=lib.float64, requires_grad=True)
        call(lib, x).backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_allclose(*gradients, rtol=1e-12)


def ctc(form: str, zero_infinity: bool = False) -> Callable[[Any], Any]:
    targets, steps, sizes = [[1, 2], [2, 2], [1, 0], [0, 0]], [5, 4, 3, 2], [2, 2, 1, 0]
    labels: Any = rushlight.tensor(targets)
    lengths: Any = (steps, sizes)
    if form == "tensors":
        lengths = tuple(rushlight.tensor(part) for part in lengths)
    return lambda logits: functional.ctc_loss(
        logits.log_softmax(2), labels, *lengths, reduction="none", zero_infinity=zero_infinity
    )


@pytest.mark.parametrize("form", ["lists", "tensors"])
def test_ctc(form: str) -> None:
    """Of logits, the composition with log_softmax, all derivatives are the function's own."""
    values = np.random.default_rng(0).standard_normal((5, 4, 3))
    logits = rushlight.from_numpy(values).requires_grad_()
    assert gradcheck(ctc(form), (logits,), check_forward_ad=True)
    assert gradgradcheck(ctc(form), (logits,), check_fwd_over_rev=True)


def test_ctc_of_impossible_targets() -> None:
    """Two equal labels need a blank between them: two steps are too few, and give no gradient if so asked."""
    logits = rushlight.zeros(2, 1, 3, requires_grad=True)
    for zero_infinity in (True, False):
        loss = functional.ctc_loss(
            logits.log_softmax(2), rushlight.tensor([[1, 1]]), [2], [2], zero_infinity=zero_infinity
        )
        (gradient,) = rushlight.autograd.grad(loss, logits)
        assert loss.item() == (0 if zero_infinity else float("inf"))
        assert bool(gradient.isnan().all()) is not zero_infinity
        assert not zero_infinity or gradient.equal(rushlight.zeros(2, 1, 3))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_of_classes_twice(reduction: str) -> None:
    values = np.random.default_rng(0).standard_normal((4, 3, 2))
    x = rushlight.from_numpy(values).requires_grad_()
    target = rushlight.tensor([[0, 2], [1, 1], [2, -100], [0, 0]])
    weight = rushlight.tensor([0.5, 1.0, 2.0], dtype=rushlight.float64)

    def loss(x: Any) -> Any:
        return functional.cross_entropy(x, target, weight, label_smoothing=0.2, reduction=reduction)

    assert gradcheck(loss, (x,), check_forward_ad=True)
    assert gradgradcheck(loss, (x,), check_fwd_over_rev=True)


def test_cross_entropy_step_compiled() -> None:
    x = rushlight.randn(6, 5, requires_grad=True)
    target = rushlight.tensor([0, 4, -100, 2, 2, 1])
    compiled = rushlight.compile(lambda x: functional.cross_entropy(x, target), fullgraph=True)
    eager = rushlight.autograd.grad(functional.cross_entropy(x, target), x)[0]
    assert rushlight.autograd.grad(compiled(x), x)[0].allclose(eager)

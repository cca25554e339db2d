"""Losses against PyTorch: reductions, ignored and impossible targets, sequences, messages."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import rushlight
from rushlight.nn import functional

X = "T([[0.2, -1.0, 3.0], [1.5, 0.0, -0.5]])"
F = "lib.nn.functional"


@pytest.mark.parametrize(
    "expression",
    [
        # classes
        f"{F}.nll_loss({X}, T([2, 0]), T([0.5, 1.0, 2.0]), reduction='{{r}}')",
        f"{F}.nll_loss({X}, T([2, 1]), ignore_index=1, reduction='{{r}}')",
        f"{F}.nll_loss({X}, T([1, 1]), ignore_index=1, reduction='{{r}}')",
        f"{F}.nll_loss({X}, T([2, 0], dtype=uint8), reduction='{{r}}')",
        f"{F}.nll_loss({X}[0], T(2), reduction='{{r}}')",
        f"{F}.nll_loss({X}[0], T([2]), reduction='{{r}}')",
        f"{F}.nll_loss({X}[:0], T([], dtype=int64), reduction='{{r}}')",
        f"{F}.nll_loss({X}.reshape(1, 3, 2), T([[2, 0]]), reduction='{{r}}')",
        f"{F}.nll_loss({X}.reshape(1, 3, 1, 2), T([[[2, 0]]]), T([0.5, 1.0, 2.0]), reduction='{{r}}')",
        f"{F}.nll_loss({X}.reshape(1, 3, 1, 1, 2), T([[[[2, 0]]]]), ignore_index=2, reduction='{{r}}')",
        f"{F}.cross_entropy({X}, T([2, 0]), T([0.5, 1.0, 2.0]), label_smoothing=0.2, reduction='{{r}}')",
        f"{F}.cross_entropy({X}, T([2, 0]), ignore_index=0, label_smoothing=0.2, reduction='{{r}}')",
        f"{F}.cross_entropy({X}, {X}.softmax(1), T([0.5, 1.0, 2.0]), label_smoothing=0.1, reduction='{{r}}')",
        f"{F}.cross_entropy({X}[0], T(1), reduction='{{r}}')",
        f"{F}.multi_margin_loss({X}, T([2, 0]), p=2, margin=0.7, weight=T([0.5, 1.0, 2.0]), reduction='{{r}}')",
        f"{F}.multi_margin_loss({X}[0], T(1), reduction='{{r}}')",
        f"{F}.multilabel_margin_loss({X}, T([[1, -1, 0], [0, 2, -1]]), reduction='{{r}}')",
        f"{F}.multilabel_margin_loss({X}[0], T([-1, 1, 1]), reduction='{{r}}')",
        f"{F}.multilabel_soft_margin_loss({X}, {X}.gt(0).float(), T([0.5, 1.0, 2.0]), reduction='{{r}}')",
        # numbers
        f"{F}.mse_loss({X}, {X} * 0.3, reduction='{{r}}')",
        f"{F}.mse_loss({X}, {X} * 0.3, weight={X}.abs(), reduction='{{r}}')",
        f"{F}.l1_loss({X}, {X} * 0.3, weight={X}.abs(), reduction='{{r}}')",
        f"{F}.huber_loss({X}, {X} * 0.3, delta=0.5, weight={X}.abs(), reduction='{{r}}')",
        f"{F}.smooth_l1_loss({X}, {X} * 0.3, beta=0.0, reduction='{{r}}')",
        f"{F}.mse_loss({X}, T([1.0, 2.0, 3.0]), reduction='{{r}}')",
        f"{F}.mse_loss({X}[:0], {X}[:0], reduction='{{r}}')",
        f"{F}.binary_cross_entropy(T([0.0, 1.0, 0.3, nan]), T([1.0, 0.0, 0.5, 1.0]), reduction='{{r}}')",
        f"{F}.binary_cross_entropy(T([0.0, 1.0, 0.3]), T([0.0, 1.0, 0.5]), T([2.0]), reduction='{{r}}')",
        f"{F}.binary_cross_entropy_with_logits(T([200.0, -200.0, 0.0]), T([0.0, 1.0, 0.5]), reduction='{{r}}')",
        f"{F}.binary_cross_entropy_with_logits({X}, {X}.gt(0).float(), T([2.0, 1.0, 0.5]), pos_weight="
        "T([3.0, 0.0, 1.0]), reduction='{r}')",
        f"{F}.kl_div(T([-0.5, -1.0]), T([0.0, 0.7]), reduction='{{r}}')",
        f"{F}.kl_div(T([-0.5, -1.0]), T([-2.0, -0.7]), reduction='{{r}}', log_target=True)",
        f"{F}.poisson_nll_loss({X}, T([[0.0, 1.0, 4.0], [2.0, 7.0, 0.5]]), full=True, reduction='{{r}}')",
        f"{F}.poisson_nll_loss({X}.abs(), {X}.abs(), log_input=False, reduction='{{r}}')",
        f"{F}.gaussian_nll_loss({X}, {X} * 0.3, T([1.0, 0.0]), full=True, reduction='{{r}}')",
        f"{F}.gaussian_nll_loss({X}, {X} * 0.3, 0.5, reduction='{{r}}')",
        f"{F}.hinge_embedding_loss(T([0.2, -1.0, 3.0]), T([1.0, -1.0, 0.5]), reduction='{{r}}')",
        f"{F}.cosine_embedding_loss({X}, {X} * T([1.0, -1.0, 0.5]), T([1, -1]), 0.1, reduction='{{r}}')",
        f"{F}.margin_ranking_loss(T([0.2, -1.0]), T([0.5, 0.0]), T([1.0, -1.0]), 0.3, reduction='{{r}}')",
        f"{F}.triplet_margin_loss({X}, {X} + 1, {X} * 2, swap=True, p=1.5, reduction='{{r}}')",
        f"{F}.triplet_margin_with_distance_loss({X}, {X} + 1, {X} * 2, distance_function=lambda a, b: "
        "(a - b).abs().sum(-1), reduction='{r}')",
    ],
)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_values(expression: str, reduction: str, like_pytorch: Callable[[str], None]) -> None:
    like_pytorch(expression.replace("{r}", reduction))


@pytest.mark.parametrize(
    "expression",
    [
        f"{F}.nll_loss({X}, T([3, 0]))",
        f"{F}.nll_loss({X}, T([-1, 0]))",
        f"{F}.nll_loss({X}, T([2, 0, 1]))",
        f"{F}.nll_loss({X}, T([2, 0], dtype=int32))",
        f"{F}.nll_loss({X}, T([2, 0]), T([1.0, 2.0]))",
        f"{F}.nll_loss({X}, T([2, 0]), T([1.0, 2.0, 3.0], dtype=float64))",
        f"{F}.nll_loss({X}, T([2, 0]), reduction='total')",
        f"{F}.nll_loss({X}.reshape(1, 3, 1, 2), T([[[2, 0]], [[1, 1]]]))",
        f"{F}.cross_entropy({X}, T([2, 0]), T([1.0, 2.0, 3.0], requires_grad=True))",
        f"{F}.cross_entropy({X}, T([2, 0]), label_smoothing=1.5)",
        f"{F}.cross_entropy({X}, {X}.long())",
        f"{F}.cross_entropy({X}, {X}, ignore_index=1)",
        f"{F}.cross_entropy({X}.long(), T([2, 0]))",
        f"{F}.binary_cross_entropy(T([0.5, 1.5]), T([0.5, 0.5]))",
        f"{F}.binary_cross_entropy(T([0.5, 0.5]), T([0.5]))",
        f"{F}.binary_cross_entropy_with_logits(T([0.5, 0.5]), T([0.5]))",
        f"{F}.smooth_l1_loss({X}, {X}, beta=-1.0)",
        f"{F}.huber_loss({X}, {X}, delta=0.0)",
        f"{F}.mse_loss({X}, {X}, weight=T([1.0]))",
        f"{F}.gaussian_nll_loss({X}, {X}, T([1.0, -1.0]))",
        f"{F}.gaussian_nll_loss({X}, {X}, T([1.0, 1.0, 1.0, 1.0]))",
        f"{F}.multi_margin_loss({X}, T([2, 0]), p=3)",
        f"{F}.multi_margin_loss({X}, T([2, 5]))",
        f"{F}.multi_margin_loss({X}, T([2, 0]), weight=T([1.0]))",
        f"{F}.multilabel_margin_loss({X}, T([[1, -1], [0, 2]]))",
        f"{F}.cosine_embedding_loss({X}, {X}, T([[1, -1]]))",
        f"{F}.margin_ranking_loss({X}, {X}[0], T([1.0]))",
        f"{F}.triplet_margin_loss({X}, {X}, {X}, margin=-1.0)",
        f"{F}.triplet_margin_loss({X}, {X}[0], {X})",
        f"{F}.kl_div({X}, {X})",
        f"{F}.mse_loss({X}, {X}, size_average=False)",
        f"{F}.l1_loss({X}, {X}, reduce=False)",
    ],
)
def test_errors_and_warnings(expression: str, like_pytorch: Callable[[str], None]) -> None:
    like_pytorch(expression)


@pytest.mark.parametrize("target", [3, -1])
def test_impossible_targets_compiled(target: int) -> None:
    compiled = rushlight.compile(lambda x, t: functional.cross_entropy(x, t))
    good, bad = rushlight.tensor([0, 2]), rushlight.tensor([0, target])
    x = rushlight.randn(2, 3)
    assert compiled(x, good).allclose(functional.cross_entropy(x, good))
    with pytest.raises(IndexError):
        compiled(x, bad)


def test_impossible_probabilities_compiled() -> None:
    compiled = rushlight.compile(lambda x, t: functional.binary_cross_entropy(x, t))
    half = rushlight.full((3,), 0.5)
    assert compiled(half, half).allclose(functional.binary_cross_entropy(half, half))
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        compiled(rushlight.tensor([0.5, 1.5, 0.2]), half)


# Connectionist temporal classification.


def ctc_case(time: int, batch: int, classes: int, longest: int, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        "logits": random.standard_normal((time, batch, classes)),
        "targets": random.integers(1, classes, (batch, longest)),
        "input_lengths": random.integers(time // 2, time + 1, batch),
        "target_lengths": random.integers(0, longest + 1, batch),
    }


def ctc(lib: Any, case: dict[str, np.ndarray], form: str, reduction: str, zero_infinity: bool) -> Any:
    tensor = lib.from_numpy
    logits = tensor(case["logits"].copy()).requires_grad_()
    targets, steps, sizes = case["targets"], case["input_lengths"], case["target_lengths"]
    if form == "joined":
        targets = np.concatenate([row[:n] for row, n in zip(targets, sizes, strict=True)])
    lengths = [tensor(steps), tensor(sizes)] if form == "tensors" else [steps.tolist(), sizes.tolist()]
    loss = lib.nn.functional.ctc_loss(
        logits.log_softmax(2), tensor(targets), *lengths, reduction=reduction, zero_infinity=zero_infinity
    )
    (gradient,) = lib.autograd.grad(loss.sum(), logits)
    return loss.detach(), gradient


@pytest.mark.parametrize(
    ("form", "reduction", "zero_infinity"),
    [*itertools.product(["padded", "joined", "tensors"], ["none", "mean", "sum"], [False, True])],
)
def test_ctc(form: str, reduction: str, zero_infinity: bool) -> None:
    """Repeated labels, empty targets, and targets too long for their input are all among these."""
    for seed in range(3):
        case = ctc_case(9, 5, 4, 6, seed)
        ours = ctc(rushlight, case, form, reduction, zero_infinity)
        theirs = ctc(torch, case, form, reduction, zero_infinity)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "expression",
    [
        f"{F}.ctc_loss(lib.zeros(4, 3), T([1, 2]), T([4]), T([2]), reduction='none')",
        f"{F}.ctc_loss(lib.zeros(4, 3), T([1, 2]), T(4), T(2))",
        f"{F}.ctc_loss(lib.zeros(4, 1, 3), T([[1, 2]]), [4], [2], blank=1)",
        f"{F}.ctc_loss(lib.zeros(4, 1, 3), T([[1, 2]]), [4], [2], blank=3)",
        f"{F}.ctc_loss(lib.zeros(4, 1, 3), T([[1, 2]]), [5], [2])",
        f"{F}.ctc_loss(lib.zeros(4, 1, 3), T([[1, 2]]), [4], [3])",
        f"{F}.ctc_loss(lib.zeros(4, 1, 3), T([[1, 2]]), [4, 4], [2])",
        f"{F}.ctc_loss(lib.zeros(4, 1, 3), T([1, 2, 1]), [4], [2])",
        f"{F}.ctc_loss(lib.zeros(4, 1, 3).long(), T([[1, 2]]), [4], [2])",
    ],
)
def test_ctc_forms_and_errors(expression: str, like_pytorch: Callable[[str], None]) -> None:
    like_pytorch(expression)


def test_ctc_is_captured() -> None:
    case = {name: rushlight.from_numpy(value) for name, value in ctc_case(6, 3, 4, 2, 0).items()}
    arguments = (
        case["logits"].log_softmax(2),
        case["targets"],
        case["input_lengths"],
        case["target_lengths"],
    )
    compiled = rushlight.compile(lambda *args: functional.ctc_loss(*args), fullgraph=True)
    assert compiled(*arguments).allclose(functional.ctc_loss(*arguments))

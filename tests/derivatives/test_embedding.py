"""Derivatives of embeddings: padding, frequencies, empty bags, indices without a bag, and all orders."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight
from rushlight.core.dispatch import run_name

WEIGHT = [[1.0, 2.0], [3.0, 5.0], [-4.0, 7.0], [0.5, 6.0]]
INDICES = [0, 2, 2, 1, 3, 2]
SAMPLE_WEIGHTS = [0.5, -1.0, 2.0, 3.0, 0.0, 1.5]


def table(lib: Any = rushlight) -> Any:
    return lib.tensor(WEIGHT, dtype=lib.float64, requires_grad=True)


def gradients(lib: Any, function: Callable[..., Any], *inputs: Any) -> list[Any]:
    result = function(*inputs)
    weights = lib.arange(1, result.numel() + 1).to(result.dtype).reshape(tuple(result.shape))
    return [gradient.tolist() for gradient in lib.autograd.grad(result, inputs, weights)]


@pytest.mark.parametrize("padding", [-1, 0, 2])
@pytest.mark.parametrize("by_frequency", [False, True])
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_embedding(padding: int, by_frequency: bool, dtype: str) -> None:
    found = []
    for lib in (torch, rushlight):
        indices = lib.tensor([INDICES[:3], INDICES[3:]], dtype=getattr(lib, dtype))
        function = lib.embedding
        found.append(gradients(lib, lambda w: function(w, indices, padding, by_frequency), table(lib)))
    assert found[0] == found[1]


@pytest.mark.parametrize("padding", [-1, 2])
@pytest.mark.parametrize("by_frequency", [False, True])
def test_embedding_backward(padding: int, by_frequency: bool) -> None:
    """PyTorch's second derivative forgets the frequencies."""
    indices = rushlight.tensor([[0, 2, 2], [1, 3, 2]])
    grad = rushlight.randn(2, 3, 2, dtype=rushlight.float64).requires_grad_()

    def function(grad: Any) -> Any:
        return run_name("embedding_dense_backward", grad, indices, 4, padding, by_frequency)

    assert rushlight.autograd.gradcheck(function, grad, check_forward_ad=True)
    assert rushlight.autograd.gradgradcheck(function, grad)


def test_no_indices() -> None:
    indices = rushlight.zeros(0, dtype=rushlight.int64)
    assert gradients(rushlight, lambda w: rushlight.embedding(w, indices), table()) == [[[0.0, 0.0]] * 4]


# Bags. One is empty; with an end given, the last index is in none.

BAGS = [([0, 2, 2, 5], False), ([0, 2, 2, 5], True), ([0], False)]


@pytest.mark.parametrize(("offsets", "ends"), BAGS)
@pytest.mark.parametrize("padding", [None, 0, 2])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_embedding_bag(offsets: list[int], ends: bool, padding: int | None, mode: int) -> None:
    found = []
    for lib in (torch, rushlight):
        indices = lib.tensor(INDICES if not ends else INDICES[:5])
        start, bag = lib.tensor(offsets), lib.embedding_bag
        found.append(
            gradients(
                lib, lambda w: bag(w, indices, start, False, mode, False, None, ends, padding)[0], table(lib)
            )
        )
    torch.testing.assert_close(torch.tensor(found[1]), torch.tensor(found[0]))


@pytest.mark.parametrize("mode", [0, 1])
def test_bag_gradients_by_frequency(mode: int) -> None:
    """Each row's gradient is divided by how often it occurs; PyTorch takes the count of another row."""
    indices, offsets = rushlight.tensor(INDICES), rushlight.tensor([0, 2, 2, 5])
    plain, scaled = (
        gradients(
            rushlight,
            lambda w, by_frequency=by_frequency: rushlight.embedding_bag(
                w, indices, offsets, by_frequency, mode
            )[0],
            table(),
        )[0]
        for by_frequency in (False, True)
    )
    counts = [INDICES.count(row) for row in range(4)]
    expected = [[value / count for value in row] for row, count in zip(plain, counts, strict=True)]
    torch.testing.assert_close(torch.tensor(scaled), torch.tensor(expected))


@pytest.mark.parametrize(("offsets", "ends"), BAGS)
@pytest.mark.parametrize("padding", [None, 2])
def test_sample_weights(offsets: list[int], ends: bool, padding: int | None) -> None:
    found = []
    for lib in (torch, rushlight):
        count = 5 if ends else 6
        indices, start, bag = lib.tensor(INDICES[:count]), lib.tensor(offsets), lib.embedding_bag
        samples = lib.tensor(SAMPLE_WEIGHTS[:count], dtype=lib.float64, requires_grad=True)
        found.append(
            gradients(
                lib,
                lambda w, s: bag(w, indices, start, False, 0, False, s, ends, padding)[0],
                table(lib),
                samples,
            )
        )
    assert found[0] == found[1]


@pytest.mark.parametrize(("offsets", "ends"), BAGS)
@pytest.mark.parametrize("padding", [-1, 2])
@pytest.mark.parametrize(
    ("mode", "by_frequency"),
    [
        ("sum", False),
        ("sum", True),
        ("mean", False),
        ("mean", True),
        ("weighted", False),
        ("weighted", True),
        ("max", False),
    ],
)
def test_bags_to_second_order(
    offsets: list[int], ends: bool, padding: int, mode: str, by_frequency: bool
) -> None:
    """PyTorch has no second derivative and no forward mode."""
    indices, start = rushlight.tensor(INDICES), rushlight.tensor(offsets)
    samples = rushlight.tensor(SAMPLE_WEIGHTS, dtype=rushlight.float64, requires_grad=True)
    inputs = (table(), samples) if mode == "weighted" else (table(),)

    def bag(weight: Any, samples: Any = None) -> Any:
        return run_name(
            "_embedding_bag",
            weight,
            indices,
            start,
            by_frequency,
            {"mean": 1, "max": 2}.get(mode, 0),
            False,
            samples,
            ends,
            padding,
        )[0]

    if not by_frequency and padding == -1:  # else the gradient is not that of the function
        assert rushlight.autograd.gradcheck(bag, inputs, check_forward_ad=True)
    assert rushlight.autograd.gradgradcheck(bag, inputs)


# Rows scaled to a norm.


@pytest.mark.parametrize("norm", [1.0, 2.0, 2.5, float("inf")])
def test_renorm(norm: float) -> None:
    indices = rushlight.tensor([2, 0, 2, 3], dtype=rushlight.int32)

    def renormed(weight: Any) -> Any:
        return run_name("embedding_renorm", weight, indices, 4.0, norm)

    assert rushlight.autograd.gradcheck(renormed, table(), check_forward_ad=True)
    assert rushlight.autograd.gradgradcheck(renormed, table())


def test_bags_take_their_arguments_in_the_old_order(same: Any) -> None:
    def scenario(m: Any) -> Any:
        weight = m.arange(12.0).reshape(4, 3).requires_grad_()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            bags = m.nn.functional.embedding_bag(weight, m.tensor([1, 2, 3]), m.tensor([0, 2]))
        bags.sum().backward()
        return bags, weight.grad, ["Argument order" in str(w.message) for w in caught]

    same(scenario)

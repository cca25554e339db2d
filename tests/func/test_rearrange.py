"""rearrange beside PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.func import rearrange as expected

import rushlight
from rushlight.func import rearrange

PATTERNS: list[tuple[str, dict[str, Any]]] = [
    ("a b c -> c b a", {}),
    ("a b c -> (a b) c", {}),
    ("a b c -> a b c 1", {}),
    ("a b c -> a () b c", {}),
    ("... c -> c ...", {}),
    ("a ... -> (...) a", {}),
    ("a ... -> ... a", {}),
    ("... -> (...)", {}),
    ("a b (c d) -> a b c d", {"c": 2}),
    ("a (b c) d -> (d b) (a c)", {"b": 3}),
    ("(a b) c d -> a b c d", {"a": 1}),
    ("a_1 b c -> c b a_1", {}),
]
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("a b -> b a", {}),
    ("a b c -> a b", {}),
    ("a b c -> a b c d", {}),
    ("a a c -> a c", {}),
    ("a b c", {}),
    ("a b c -> a b c", {"z": 3}),
    ("a b (c d) -> a b c d", {}),
    ("a b (c d) -> a b c d", {"c": 3}),
    ("a b (c -> a b c", {}),
]


@pytest.mark.parametrize(("pattern", "sizes"), PATTERNS)
def test_values(pattern: str, sizes: dict[str, Any]) -> None:
    found = rearrange(rushlight.arange(24).reshape(2, 3, 4), pattern, **sizes)
    other = expected(torch.arange(24).reshape(2, 3, 4), pattern, **sizes)
    assert found.shape == other.shape and found.tolist() == other.tolist()


@pytest.mark.parametrize(("pattern", "sizes"), REFUSED)
def test_patterns_that_do_not_fit(pattern: str, sizes: dict[str, Any]) -> None:
    with pytest.raises(Exception):
        expected(torch.arange(24).reshape(2, 3, 4), pattern, **sizes)
    with pytest.raises(ValueError, match="rearrange"):
        rearrange(rushlight.arange(24).reshape(2, 3, 4), pattern, **sizes)


def test_lists_are_stacked_and_gradients_flow() -> None:
    x = rushlight.arange(6.0).reshape(2, 3).requires_grad_()
    y = rearrange([x, 2 * x], "n a b -> a (b n)")
    assert (
        y.tolist()
        == expected([torch.arange(6.0).reshape(2, 3) * k for k in (1, 2)], "n a b -> a (b n)").tolist()
    )
    y.sum().backward()
    assert x.grad.tolist() == [[3.0] * 3] * 2

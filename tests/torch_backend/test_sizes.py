"""Symbolic sizes: a new length is no new program."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from rushlight.torch_backend import program

from .compare import assert_same, check, compiled, twins


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that were compiled."""
    programs: list[Any] = []
    compile_part = program.NativePart._compiled

    def counted(self: Any, bindings: Any) -> Any:
        programs.append(bindings)
        return compile_part(self, bindings)

    monkeypatch.setattr(program.NativePart, "_compiled", counted)
    return programs


def test_ten_lengths_are_one_or_two_programs(made: list[Any]) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.layer_norm((x @ w).relu(), (8,)).mean(1) + x.shape[1]

    fast = compiled(function, dynamic=True)
    w = torch.randn(5, 8)
    for length in (3, 4, 7, 8, 12, 16, 17, 31, 40, 64):
        x = torch.randn(2, length, 5)
        torch.testing.assert_close(fast(x, w), function(x, w))
    assert 1 <= len(made) <= 2


def test_attention_of_many_lengths_with_gradients(made: list[Any]) -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)

    fast = compiled(function, dynamic=True)
    for length in (5, 6, 9, 16, 20):
        args = [torch.randn(2, 2, length, 8, requires_grad=True) for _ in range(3)]
        others = twins(args)
        expected, actual = function(*args), fast(*others)
        assert_same(actual, expected)
        for result in (expected, actual):
            result.square().sum().backward()
        for mine, theirs in zip(others, args, strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad)
    assert len(made) <= 4  # forward and backward


def test_numbers_computed_of_sizes() -> None:
    def function(x: torch.Tensor) -> Any:
        n = x.shape[0]
        return x * n**0.5 / (n + 1), x.new_zeros(n // 2, n % 3 + 1), x[: n // 2], n * 2, x.sum() / n

    fast = compiled(function, dynamic=True)
    for n in (4, 5, 8, 11):
        x = torch.randn(n)
        assert_same(fast(x), function(x))


def test_what_guards_refuse_is_compiled_again(made: list[Any]) -> None:
    """A size that the compiler has taken as a number does not serve others wrongly."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x[:2]]).cumsum(0).flip(0)

    fast = compiled(function, dynamic=True)
    for n in (3, 2, 9, 3, 64):
        x = torch.randn(n, 3)
        torch.testing.assert_close(fast(x), function(x))


def test_strides_that_change() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + x.sum(1, keepdim=True)

    fast = compiled(function, dynamic=True)
    for rows, columns in ((4, 6), (5, 9), (8, 7)):
        x = torch.randn(rows, 2 * columns)[:, :columns]
        assert_same(fast(x), function(x))
        assert_same(fast(x.t().contiguous().t()), function(x.t().contiguous().t()))


def test_sizes_that_are_data() -> None:
    """How many elements are not zero is known when PyTorch's operator has run; then a native part goes on."""

    def function(x: torch.Tensor) -> torch.Tensor:
        chosen = x[x > 0]
        return chosen * 2 + chosen.sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        fast = compiled(function)
        for x in (
            torch.tensor([1.0, -1, 2, 3]),
            torch.tensor([-1.0, -1, -1, 4]),
            -torch.ones(4),
            torch.ones(4),
        ):
            torch.testing.assert_close(fast(x), function(x))


def test_numbers_that_are_data() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        n = x.max().item()
        torch._check(n > 0)
        return x * n + 1

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        fast = compiled(function)
        for x in (torch.tensor([1.0, 2]), torch.tensor([5.0, 3])):
            torch.testing.assert_close(fast(x), function(x))


def test_automatic_dynamic_sizes() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.softmax(0)

    fast = compiled(function)
    for n in (3, 4, 5, 1, 0):
        x = torch.randn(n, 2)
        torch.testing.assert_close(fast(x), function(x))


def test_gradients_of_symbolic_sizes() -> None:
    check(
        lambda x, w: (x @ w).view(x.shape[0], 2, -1).transpose(1, 2).reshape(-1, 2).tanh(),
        torch.randn(5, 4, requires_grad=True),
        torch.randn(4, 6, requires_grad=True),
        settings={"dynamic": True},
    )

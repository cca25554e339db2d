"""Writes to arguments, views of them, and aliases among results."""

from __future__ import annotations

from typing import Any

import torch

from .compare import check, compiled


def test_writes_to_arguments() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        y[1:].mul_(2)
        return x + y

    check(function, torch.randn(4), torch.randn(4))


def test_a_write_to_part_of_an_argument_with_gaps() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.mul_(3)
        return x.sum()

    check(function, torch.randn(6, 4)[:, ::2])


def test_a_swap() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> None:
        old = x.clone()
        x.copy_(y)
        y.copy_(old)

    check(function, torch.randn(4), torch.randn(4))


def test_a_result_that_is_the_new_contents() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        new = x * 2
        x.copy_(new)
        return new

    check(function, torch.randn(4))


def test_the_old_contents_are_a_result() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        old = x.clone()
        x.zero_()
        return old.view(2, 2)

    check(function, torch.randn(4))


def test_resuming_with_another_dtype() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.copy_(y)
        return x.bfloat16().view(torch.int16) + 1

    check(function, torch.randn(4), torch.arange(4))


def test_results_that_are_arguments_or_views_of_them() -> None:
    def function(x: torch.Tensor) -> Any:
        return x, x.view(-1), x[1], x.t(), x * 1

    x = torch.randn(3, 4)
    same, flat, row, transposed, new = compiled(function)(x)
    assert same is x
    for view in (flat, row, transposed):
        assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert new.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    check(function, x)


def test_results_that_share_memory() -> None:
    def function(x: torch.Tensor) -> Any:
        y = x * 2
        return y, y.t(), y[0], y

    y, transposed, row, again = compiled(function)(torch.randn(3, 4))
    assert again is y
    y.zero_()
    assert not transposed.any()
    assert not row.any()
    check(function, torch.randn(3, 4))
    check(function, torch.randn(3, 4, requires_grad=True))


def test_arguments_that_share_memory() -> None:
    base = torch.randn(8)
    other = base.clone()

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    expected = function(base[:6], base[2:])
    torch.testing.assert_close(compiled(function)(other[:6], other[2:]), expected)
    torch.testing.assert_close(other, base)


def test_conjugates_stay_lazy() -> None:
    check(lambda x: ((x * 2).conj(), (x * 2).conj().imag), torch.randn(3, dtype=torch.complex64))

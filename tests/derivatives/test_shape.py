"""Derivatives of joining, reordering, masking and padding, where OpInfo's samples do not look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.core.dispatch import run_name

GRID = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]]

POINTS: list[tuple[str, Any]] = [
    ("lib.cat([x, x * 2, x[:1]], 0)", GRID),
    ("lib.cat([x, lib.ones(0, dtype=lib.float64), x], -1)", GRID),
    ("lib.cat([x])", []),
    ("lib.cat([x, lib.ones(3, 4, dtype=lib.complex128)])", GRID),
    ("lib.cat([x.to(lib.float32), x])", GRID),
    ("lib.stack([x, lib.ones_like(x), x ** 2], -1)", GRID),
    ("lib.stack([x, x], 0)", 3.0),
    ("lib.hstack([x, x])", 3.0),
    ("lib.block_diag(x, x[0], x[0, 0])", GRID),
    ("x.flip(())", GRID),
    ("x.flip(-1, 0)", GRID),
    ("x.roll(2)", GRID),
    ("x.roll((1, -2), (0, 1))", GRID),
    ("x.roll((1, 1), (0, 0))", GRID),
    ("x.roll(1, 0)", []),
    ("x.tril(-1)", GRID),
    ("x.triu(2)", GRID),
    ("x.repeat(2, 1, 3)", GRID),
    ("x.repeat(0, 1)", GRID),
    ("x.repeat_interleave(2)", GRID),
    ("x.repeat_interleave(lib.tensor([2, 0, 3]), 0)", GRID),
    ("lib.diag_embed(x, 1)", GRID),
    ("lib.diag(x)", [1.0, 2.0]),
    ("lib.nn.functional.pad(x, (1, -2, 0, 2), value=7.)", GRID),
    ("lib.nn.functional.pad(x, (-1, -1))", GRID),
    ("lib.nn.functional.pad(x, (2, 1), 'reflect')", GRID),
    ("lib.nn.functional.pad(x, (3, -2), 'replicate')", GRID),
    ("lib.nn.functional.pad(x, (2, 3), 'circular')", GRID),
    ("lib.nn.functional.pad(x, (1, 2, 2, 1), 'reflect')", [GRID]),
    ("lib.nn.functional.pad(x, (1, 2, 2, 1), 'replicate')", [GRID]),
    ("lib.nn.functional.pad(x, (1, 1, 2, 1, 1, 0), 'reflect')", [[GRID, GRID]]),
    ("lib.rot90(x, 3)", GRID),
    ("lib.combinations(x)", [1.0, 2.0, 3.0]),
    ("lib.cartesian_prod(x, x)", [1.0, 2.0, 3.0]),
]


@pytest.mark.parametrize(("expression", "value"), POINTS)
def test_special_points(first_order: Callable[..., None], expression: str, value: Any) -> None:
    first_order(expression, value)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kind", ["reflection", "replication"])
def test_backward_operators_of_padding(kind: str, dims: int) -> None:
    name = f"{kind}_pad{dims}d"
    padding = (2, 1, 0, 1, 1, 2)[: 2 * dims]
    x = rushlight.randn((2, *(3, 4, 3)[:dims]), dtype=rushlight.float64)
    grad = run_name(name, x, padding).requires_grad_()
    theirs = [torch.tensor(tensor.tolist(), dtype=torch.float64) for tensor in (grad, x)]
    expected = getattr(torch.ops.aten, f"{name}_backward")(*theirs, padding)

    def backward(grad: Any) -> Any:
        return run_name(f"{name}_backward", grad, x, padding)

    torch.testing.assert_close(torch.tensor(backward(grad).tolist(), dtype=torch.float64), expected)
    assert gradcheck(backward, grad, check_forward_ad=True, fast_mode=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: rushlight.cat([x**2, x], 1),
        lambda x: rushlight.stack([x**2, x], 1),
        lambda x: run_name("constant_pad_nd", x**2, (1, -1, 2, 0), 3.0),
        lambda x: (x**2).flip(0).roll(1, 1),
        lambda x: run_name("reflection_pad1d", x**2, (2, 1)),
        lambda x: (x**2).repeat(2, 2).tril(),
    ],
)
def test_derivatives_of_second_order(function: Callable[[Any], Any]) -> None:
    assert gradgradcheck(function, rushlight.tensor(GRID, dtype=rushlight.float64, requires_grad=True))


def test_what_is_padded_is_not_kept_for_the_backward_pass() -> None:
    """The backward operator of a padding takes the tensor, but only its shape matters."""
    saved: list[Any] = []
    x = rushlight.tensor(GRID, dtype=rushlight.float64, requires_grad=True)
    with rushlight.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = run_name("reflection_pad1d", x, (1, 1))
        z = run_name("constant_pad_nd", x, (1, 1), 0)
    assert not saved
    assert rushlight.autograd.grad(y.sum() + z.sum(), x)[0].tolist() == [[2.0, 3.0, 3.0, 2.0]] * 3

"""Gradients of programs whose sizes are data, compiled."""

from __future__ import annotations

import pytest

import rushlight as rl


@pytest.mark.parametrize(
    ("shape", "mask"), [((), ()), ((5,), ()), ((), (5,)), ((5, 1), (5,)), ((2, 3), (3,)), ((0,), ())]
)
def test_gradients_of_what_a_mask_selects_whatever_its_shape(
    shape: tuple[int, ...], mask: tuple[int, ...]
) -> None:
    compiled = rl.compile(rl.masked_select, fullgraph=True)
    chosen = rl.rand(mask) > 0.5
    for each in (chosen, ~chosen):
        found = []
        for function in (rl.masked_select, compiled):
            x = rl.linspace(-1, 1, rl.empty(shape).numel()).reshape(shape).requires_grad_()
            (function(x, each) * 2).sum().backward()
            found.append(x.grad)
        rl.testing.assert_close(*found)

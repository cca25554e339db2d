"""Modules of nested tensors give every row what they give the row alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl


def test_modules() -> None:
    """A block of a transformer gives every row what it gives the row alone."""
    rl.manual_seed(0)
    norm, project, out = rl.nn.LayerNorm(8), rl.nn.Linear(8, 24), rl.nn.Linear(8, 8)
    table = rl.nn.Embedding(10, 8)

    def block(tokens: Any) -> Any:
        x = table(tokens)
        q, k, v = (part.unflatten(-1, [2, 4]).transpose(1, 2) for part in project(norm(x)).chunk(3, -1))
        attended = rl.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + out(attended.transpose(1, 2).flatten(-2))

    rows = [rl.tensor([1, 2, 3]), rl.tensor([4]), rl.tensor([5, 6, 7, 8, 9])]
    nested = block(rl.nested.nested_tensor(rows, layout=rl.jagged))
    for found, tokens in zip(nested.unbind(), rows, strict=True):
        expected = block(tokens.unsqueeze(0)).squeeze(0)
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_layers(norm_first: bool) -> None:
    """Attention stays within rows: nothing is padded, no mask is needed."""
    rl.manual_seed(0)
    layer = rl.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=norm_first)
    encoder = rl.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    rows = [rl.randn(n, 8) for n in (3, 1, 4)]
    nested = rl.nested.as_nested_tensor(rows, layout=rl.jagged)
    for model in (layer, encoder):
        model.zero_grad()
        found = model(nested)
        found.sum().backward()
        ours = [p.grad.numpy().copy() for p in model.parameters()]
        model.zero_grad()
        expected = [model(row.unsqueeze(0)).squeeze(0) for row in rows]
        sum(row.sum() for row in expected).backward()
        for row, dense in zip(found.unbind(), expected, strict=True):
            np.testing.assert_allclose(row.detach().numpy(), dense.detach().numpy(), 1e-4, 1e-5)
        for grad, parameter in zip(ours, model.parameters(), strict=True):
            np.testing.assert_allclose(grad, parameter.grad.numpy(), 1e-3, 1e-4)


def test_multihead_attention() -> None:
    rl.manual_seed(0)
    for module in (
        rl.nn.MultiheadAttention(8, 2, batch_first=True),
        rl.nn.MultiheadAttention(8, 4, kdim=6, vdim=5, bias=False, batch_first=True),
    ):
        query, key, value = (
            [rl.randn(n, size) for n in lengths]
            for lengths, size in (((2, 3), 8), ((4, 1), module.kdim), ((4, 1), module.vdim))
        )
        nested = (rl.nested.as_nested_tensor(x, layout=rl.jagged) for x in (query, key, value))
        found, weights = module(*nested, need_weights=False)
        assert weights is None
        for row, *inputs in zip(found.unbind(), query, key, value, strict=True):
            expected = module(*(x.unsqueeze(0) for x in inputs))[0].squeeze(0)
            np.testing.assert_allclose(row.detach().numpy(), expected.detach().numpy(), 1e-4, 1e-5)
    with pytest.raises(AssertionError, match="need_weights=False"):
        module(*(rl.nested.as_nested_tensor(x, layout=rl.jagged) for x in (query, key, value)))

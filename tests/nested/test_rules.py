"""Every rule of nested tensors against PyTorch: values, structure and gradients."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch

import rushlight
from rushlight.nested import _matmul

from .conftest import (
    NESTED,
    SIZES,
    assert_same,
    evaluate,
    is_tensor,
    numbers,
    parts_of,
    row_scope,
    scope,
    weighted,
)

ELEMENTWISE = [
    "n + m",
    "n - 2",
    "3 * n",
    "n / m",
    "1 / (n * n + 1)",
    "n ** 2",
    "-n",
    "abs(n)",
    "n.exp()",
    "L.sin(n)",
    "(n * n + 1).log()",
    "F.relu(n)",
    "F.gelu(n)",
    "F.silu(n)",
    "F.softplus(n)",
    "F.leaky_relu(n, 0.1)",
    "F.elu(n)",
    "L.sigmoid(n)",
    "n.tanh()",
    "n.clamp(-1, 1)",
    "n.square()",
    "n.masked_fill(m > 0, 7.0)",
    "n > m",
    "n == n",
    "n <= 0.5",
    "(n > 0).logical_not()",
    "L.where(n > 0, n, m)",
    "L.maximum(n, m)",
    "n + v",
    "v - n",
    "n * w[0]",
    "n + d",
    "d * n",
    "h * t",
    "L.lerp(n, m, 0.3)",
    "L.logaddexp(n, m)",
    "n + L.tensor(2.0)",
    "n * L.tensor(2.0, dtype=L.float64)",
    "e + 1",
    "e * e",
    "h + k",
    "h * h.sum(-1, keepdim=True)",
    "i + 1",
    "i * 2.5",
    "h.transpose(1, 2) * 2",
    "h.transpose(1, 2) + k.transpose(1, 2)",
    "F.celu(n)",
    "F.selu(n)",
    "F.relu6(n)",
    "n.isnan()",
    "n.float_power(2)",
    "n.to(L.float64)",
    "n.to(L.int64)",
    "n.double()",
    "n.clone()",
    "n.detach()",
    "n.contiguous()",
    "h.transpose(1, 2).contiguous()",
    "F.dropout(n, 0.0)",
    "F.dropout(n, 0.5, False)",
]
LIKE = [
    "L.zeros_like(n)",
    "L.ones_like(n)",
    "L.full_like(n, 2.5)",
    "L.zeros_like(n, dtype=L.int64)",
    "n.clone().fill_(3.0)",
]
REDUCTIONS = [
    "n.sum(1)",
    "n.sum(-1)",
    "n.sum(1, keepdim=True)",
    "n.sum(dim=2, keepdim=True)",
    "n.mean(-1)",
    "n.mean(1)",
    "n.mean(1, keepdim=True)",
    "n.amax(1)",
    "n.amin(1)",
    "n.amax(-1)",
    "n.amin(-1, keepdim=True)",
    "n.max(-1)",
    "n.min(-1)",
    "n.prod(-1)",
    "n.prod(1)",
    "n.argmax(-1)",
    "n.argmin(-1)",
    "(n > 0).any(1)",
    "(n > 0).all(1)",
    "(n > 0).any(-1)",
    "(n > 0).all(-1)",
    "h.sum(2)",
    "h.sum((2, 3))",
    "h.mean((2, 3))",
    "h.sum(1)",
    "h.transpose(1, 2).sum(1)",
    "h.transpose(1, 2).sum(2)",
    "h.transpose(1, 2).sum(-1)",
    "h.transpose(1, 2).sum(1, keepdim=True)",
    "n.sum(-1, dtype=L.float64)",
    "i.sum(1)",
    "i.amax(1)",
]
SOFTMAX = [
    "F.softmax(n, -1)",
    "F.log_softmax(n, -1)",
    "F.softmax(n, 1)",
    "h.softmax(1)",
    "h.softmax(2)",
    "h.transpose(1, 2).softmax(-1)",
]
VIEWS = [
    "n.select(2, 1)",
    "h.select(2, 1)",
    "n.narrow(2, 1, 2)",
    "n.chunk(2, -1)",
    "n.split(3, -1)",
    "n.split([1, 3], -1)",
    "n.unsqueeze(-1)",
    "n.unsqueeze(2)",
    "n.unsqueeze(1)",
    "n.unsqueeze(-1).squeeze(-1)",
    "h.transpose(1, 2)",
    "h.transpose(2, 3)",
    "h.transpose(1, 3)",
    "h.permute(0, 2, 1, 3)",
    "h.permute(0, 3, 2, 1)",
    "n.view(n.size(0), n.size(1), 2, 2)",
    "n.view(B, -1, 2, 2)",
    "n.reshape(B, -1, 2, 2)",
    "h.view(h.size(0), h.size(1), -1)",
    "h.reshape(*h.shape[:2], 6)",
    "n.unflatten(-1, [2, 2])",
    "h.flatten(-2)",
    "h.flatten(2, 3)",
    "n.unsqueeze(-1).expand(n.size(0), n.size(1), 4, 3)",
    "n.expand_as(n)",
    "h.transpose(1, 2).flatten(3)",
    "n.unflatten(-1, [2, 2]).transpose(1, 2)",
    "L.cat([n, m], -1)",
    "L.cat([h, k, h], 2)",
    "L.stack([n, m], 2)",
    "L.stack([n, m], -1)",
]
PRODUCTS = [
    "F.linear(n, w)",
    "F.linear(n, w, w[:, 0])",
    "F.linear(h, w[:, :3])",
    "n @ w.t()",
    "n.matmul(w.t())",
    "h @ w[:3, :3]",
    "n @ L.ones(B, 4, 2, dtype=kind)",
    "n @ (v.reshape(1, 4, 1) * L.ones(B, 4, 2, dtype=kind))",
    "n.transpose(1, 2) @ m",
    "h @ k.transpose(2, 3)",
    "n.bmm(L.ones(B, 4, 2, dtype=kind))",
    "w @ n.transpose(1, 2)",
    "F.layer_norm(n, (4,))",
    "F.layer_norm(n, (4,), v, v)",
    "F.layer_norm(h, (2, 3))",
    "F.layer_norm(n, (n.size(1), 4))",
    "F.layer_norm(h, (h.size(1), 2, 3), eps=0.1)",
    "F.rms_norm(n, (4,))",
    "F.rms_norm(n, (4,), v)",
    "F.embedding(i, w)",
    "F.embedding(i, w, padding_idx=2)",
    "F.scaled_dot_product_attention(h.transpose(1, 2), k.transpose(1, 2), (h * k).transpose(1, 2))",
    "F.scaled_dot_product_attention(h.transpose(1, 2), k.transpose(1, 2), k.transpose(1, 2), scale=0.3)",
    "F.scaled_dot_product_attention(h, k, k)",
    "F.layer_norm(F.linear(n, w), (5,)).relu().sum(1)",
]
# Programs in which rows meet, or that are about the structure.
BATCH = [
    "n.sum()",
    "n.mean()",
    "n.max()",
    "n.min()",
    "(n > 0).any()",
    "(n > -9).all()",
    "n.amax(())",
    "n.sum((0, 1))",
    "n.sum((0, 1, 2))",
    "n.sum((0, 1), keepdim=True)",
    "n.mean((0, 1))",
    "i.sum()",
    "n.unbind()",
    "n[0]",
    "n[-1]",
    "n.select(0, 0)",
    "n.chunk(2, 0)",
    "n.values()",
    "n.offsets()",
    "n.lengths()",
    "h.values()",
    "n.size(0)",
    "n.size(2)",
    "n.dim()",
    "n.numel()",
    "len(n)",
    "n.is_contiguous()",
    "h.transpose(1, 2).is_contiguous()",
    "[r.sum() for r in n]",
    "n.is_nested",
    "str(n.layout).split('.')[1]",
    "L.empty_like(n).shape[2]",
    "L.rand_like(n).shape[2]",
    "L.randn_like(n).shape[0]",
    "n.new_zeros(())",
    "n.clone().zero_()",
    "n.clone().fill_(3.0)",
    "N.to_padded_tensor(e, 2.0)",
    "i.to_padded_tensor(-1)",
    "n.to_padded_tensor(0.0)",
    "n.to_padded_tensor(-7.5)",
    "h.to_padded_tensor(1.0)",
    "h.transpose(1, 2).to_padded_tensor(1.0)",
    "n.to_padded_tensor(0.0, output_size=(B, 6, 4))",
]
# Programs that PyTorch has no rule for.
BEYOND = [
    "n.addcmul(m, m, value=0.5)",
    "i // 2",
    "n[:, :, 1]",
    "n[:, :, 1:3]",
    "F.log_softmax(n, 1)",
    "h.transpose(1, 2).softmax(2)",
    "n.cumsum(1)",
    "n.cumsum(-1)",
    "n.cumprod(1)",
    "n.var(-1)",
    "n.std(-1)",
    "n.logsumexp(-1)",
    "n.sort(-1)",
    "n.topk(2, -1)",
    "F.glu(n, -1)",
    "n.argsort(-1)",
    "h.movedim(1, 2)",
    "h.swapaxes(1, 2)",
    "h.mT",
    "n.logsumexp(1)",
    "L.stack([h.transpose(1, 2), k.transpose(1, 2)], 1)",
    "F.cosine_similarity(n, m, -1)",
    "F.scaled_dot_product_attention(h.transpose(1, 2), k.transpose(1, 2), k.transpose(1, 2), is_causal=True)",
    "F.mse_loss(n, m, reduction='none')",
    "F.l1_loss(e, e * 2, reduction='none')",
    "F.leaky_relu(n, 0.1)",
    "F.rms_norm(h, (2, 3))",
    "n + p",
    "p * n",
]
ROWWISE = ELEMENTWISE + LIKE + REDUCTIONS + SOFTMAX + VIEWS + PRODUCTS
PROGRAMS = ROWWISE + BATCH

# Programs that PyTorch computes in bfloat16 with a rounding at every step; here there is one at the end.
ROUNDED = [
    "F.log_softmax(n, -1)",
    "F.scaled_dot_product_attention(h.transpose(1, 2), k.transpose(1, 2), (h * k).transpose(1, 2))",
    "F.scaled_dot_product_attention(h.transpose(1, 2), k.transpose(1, 2), k.transpose(1, 2), scale=0.3)",
]


@functools.cache
def constants(lib: Any, sizes: str, dtype: str) -> dict[str, Any]:
    return scope(lib, SIZES[sizes], dtype, grad=False)


CASES = [
    (expression, sizes, dtype)
    for sizes, dtype, programs in (
        ("several", "float32", PROGRAMS),
        ("several", "bfloat16", PROGRAMS),
        ("empty", "float64", PROGRAMS),
        ("one", "float64", BATCH + REDUCTIONS + SOFTMAX),
        ("equal", "float64", BATCH + PRODUCTS + SOFTMAX),
    )
    for expression in programs
]


@pytest.mark.parametrize(("expression", "sizes", "dtype"), CASES)
def test_like_pytorch(expression: str, sizes: str, dtype: str) -> None:
    rounded = dtype == "bfloat16" and expression in ROUNDED
    expected = evaluate(expression, constants(torch, sizes, "float64" if rounded else dtype))
    expected = expected.to(torch.bfloat16) if rounded else expected
    assert_same(evaluate(expression, constants(rushlight, sizes, dtype)), expected)


@pytest.mark.parametrize("sizes", ["several", "one"])
@pytest.mark.parametrize("expression", ROWWISE + BEYOND)
def test_rows_are_computed_one_by_one(expression: str, sizes: str) -> None:
    """Row i of the result, and the gradients, are those of the dense program on row i."""
    rows = SIZES[sizes]
    values = scope(rushlight, rows, "float64")
    results = parts_of(evaluate(expression, values))
    leaves = {name: torch.tensor(array, requires_grad=True) for name, array in numbers(rows).items()}
    ours, theirs = rushlight.zeros((), dtype=rushlight.float64), torch.zeros((), dtype=torch.float64)
    for index in range(len(rows)):
        expected = parts_of(evaluate(expression, row_scope(leaves, rows, index)))
        for part, dense in zip(results, expected, strict=True):
            row = part[index].unsqueeze(0)
            assert_same(row, dense, f"row {index}")
            if dense.requires_grad:
                ours, theirs = ours + weighted(row, rushlight), theirs + weighted(dense, torch)
    if not theirs.requires_grad:
        assert not any(is_tensor(part) and part.requires_grad for part in results)
        return
    ours.backward()
    theirs.backward()
    for name, leaf in leaves.items():
        found = values[name].grad
        found = found.values() if found is not None and name in NESTED else found
        if leaf.grad is None or found is None:
            assert leaf.grad is None or not leaf.grad.any(), name
            assert found is None or not found.any(), name
        else:
            assert_same(found, leaf.grad, f"gradient of {name}")


@pytest.mark.parametrize(
    ("nested", "dense"),
    [
        ("n.sum()", "x.sum()"),
        ("n.mean()", "x.mean()"),
        ("n.max()", "x.max()"),
        ("n.amin(())", "x.amin(())"),
        ("n.sum((0, 1))", "x.sum(0)"),
        ("n.mean((0, 1))", "x.mean(0)"),
        ("n.sum((0, 1, 2))", "x.sum()"),
        ("F.mse_loss(n, n * 2)", "F.mse_loss(x, x * 2)"),
        ("F.huber_loss(n, n.exp())", "F.huber_loss(x, x.exp())"),
        ("F.smooth_l1_loss(n, n * 3, reduction='sum')", "F.smooth_l1_loss(x, x * 3, reduction='sum')"),
        (
            "F.binary_cross_entropy(n.sigmoid(), n.cos() ** 2)",
            "F.binary_cross_entropy(x.sigmoid(), x.cos() ** 2)",
        ),
        ("n[0]", "x[:2]"),
        ("n[-1]", "x[6:]"),
        ("n.unbind()[1]", "x[2:6]"),
        ("n.values() * 2", "x * 2"),
        ("sum(row.exp().sum() for row in n)", "x.exp().sum()"),
        ("n.chunk(2, 0)[0].values()", "x[:6]"),
        ("n[1:].values()", "x[2:]"),
        ("n[::2].values()", "L.cat([x[:2], x[6:]])"),
        ("n[L.tensor([2, 0, 2])].values()", "L.cat([x[6:], x[:2], x[6:]])"),
        ("n.narrow(0, 1, 1).values()", "x[2:6]"),
        ("n[L.tensor([True, False, True])].values()", "L.cat([x[:2], x[6:]])"),
        (
            "n.to_padded_tensor(1.5)",
            "L.stack([F.pad(r, (0, 0, 0, 4 - len(r)), value=1.5) for r in (x[:2], x[2:6], x[6:])])",
        ),
    ],
)
def test_gradients_where_rows_meet(nested: str, dense: str) -> None:
    values = scope(rushlight, SIZES["several"], "float64")
    found = evaluate(nested, values)
    x = torch.tensor(numbers(SIZES["several"])["n"], requires_grad=True)
    expected = evaluate(dense, {"x": x, "L": torch, "F": torch.nn.functional})
    assert_same(found, expected)
    weighted(found, rushlight).backward()
    weighted(expected, torch).backward()
    assert_same(values["n"].grad.values(), x.grad, "gradient")


@pytest.mark.parametrize("cost", [0, 1 << 40])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rows", [(2, 4, 1), (9, 1, 1, 1, 1, 1), (3, 3), (2, 0, 3)])
def test_attention_of_other_lengths(
    rows: tuple[int, ...], causal: bool, cost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries and keys of different lengths, padded together or row by row, also with groups of heads."""
    monkeypatch.setattr(_matmul, "ROW_COST", cost)
    random = np.random.default_rng(1)

    def leaves(lengths: tuple[int, ...], heads: int) -> list[Any]:
        return [torch.tensor(random.standard_normal((n, heads, 8)), requires_grad=True) for n in lengths]

    dense = [leaves(rows[::-1], 4), leaves(rows, 2), leaves(rows, 2)]
    nested = [
        rushlight.nested.nested_tensor(
            [r.detach().numpy() for r in part], layout=rushlight.jagged, requires_grad=True
        )
        for part in dense
    ]
    query, key, value = (t.transpose(1, 2) for t in nested)
    found = rushlight.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=causal, enable_gqa=True
    )
    total = torch.zeros((), dtype=torch.float64)
    for row, q, k, v in zip(found.unbind(), *dense, strict=True):
        if not len(q):
            assert row.numel() == 0
            continue
        expected = torch.nn.functional.scaled_dot_product_attention(
            *(x.transpose(0, 1) for x in (q, k, v)), is_causal=causal, enable_gqa=True
        )
        if len(k):
            assert_same(row, expected)
            total = total + expected.square().sum()
        else:
            assert not row.any()
    (found * found).sum().backward()
    total.backward()
    for ours, theirs in zip(nested, dense, strict=True):
        for row, leaf in zip(ours.grad.unbind(), theirs, strict=True):
            expected = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
            assert_same(row, expected, "gradient")

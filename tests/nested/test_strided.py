"""Nested tensors of the strided layout, beside PyTorch's: values, sizes, strides and refusals."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import rushlight as rl

from .strided import made, outcome, same, told

VALUES = [
    "n + m",
    "n - m",
    "n * m",
    "n / m",
    "n + 2",
    "2 * n",
    "n / 2",
    "n - L.tensor(1.0)",
    "n * L.tensor(2.0)",
    "n.add(m, alpha=3)",
    "abs(n)",
    "n.sgn()",
    "(n > 0).logical_not()",
    "n.isnan()",
    "n.isinf()",
    "n.relu()",
    "F.silu(n)",
    "n.sin()",
    "n.cos()",
    "n.abs().sqrt()",
    "-n",
    "n.tanh()",
    "F.gelu(n)",
    "n > 0.1",
    "n >= 0.1",
    "n == 0.5",
    "n.isposinf()",
    "n.isneginf()",
    "n.transpose(1, 2) + m.transpose(1, 2)",
    "n.transpose(1, 2) * m.transpose(1, 2)",
    "n.transpose(1, 2) * 2",
    "n.transpose(1, 2) + m",
    "n + r",
    "n * m.transpose(1, 2)",
    "n + d",
    "d + n",
    "n == m",
    "n < 0",
    "n.exp()",
    "n.sigmoid()",
    "n ** 2",
    "n.transpose(1, 2).sin()",
    "L.where(n > 0, L.tensor(0.0, dtype=L.float64), m)",
    "L.where(n > 0, n, m)",
    "n.masked_fill(n > 0, 7.0)",
    "n.masked_fill(mask, 7.0)",
    "F.softsign(n)",
    "F.tanhshrink(n)",
    "n.to(L.float32)",
    "n.double()",
    "n.int()",
    "n.transpose(1, 2).to(L.float32)",
    "n.type_as(L.zeros(1))",
    "n.clone()",
    "n.transpose(1, 2).clone()",
    "n.transpose(1, 2).contiguous()",
    "n.contiguous()",
    "n.detach()",
    "L.zeros_like(n)",
    "L.ones_like(n)",
    "L.empty_like(n) * 0",
    "L.full_like(n, 2.0)",
    "L.rand_like(n)",
    "L.zeros_like(n, dtype=L.int64)",
    "n.clone().zero_()",
    "n.clone().fill_(2.0)",
    "n.clone().copy_(m)",
    "n.clone().fill_(L.tensor(2.0))",
    "n.clone().copy_(r)",
    "n.clone().copy_(d)",
    "n.clone().uniform_()",
    "n.clone().add_(m)",
    "n.clone().mul_(2)",
    "n.clone().mul_(m)",
    "n.clone().add_(1)",
    "n.clone().abs_()",
    "n.clone().relu_()",
    "n.clone().neg_()",
    "n.clone().tanh_()",
    "n.clone().sgn_()",
    "n.clone().exp_()",
    "n.transpose(1, 2).clone().abs_()",
    "n.clone().add_(m.transpose(1, 2))",
    "n.transpose(1, 2).clone().zero_()",
    # rows
    "n.unbind()",
    "n.unbind(1)",
    "n[0]",
    "n[-1]",
    "n[3]",
    "n[-4]",
    "n.select(1, 0)",
    "n.select(2, -1)",
    "n.select(1, 1)",
    "n[..., 0]",
    "list(n)",
    "n.narrow(0, 1, 2)",
    "n.narrow(0, -1, 1)",
    "n.narrow(1, 0, 1)",
    "n.narrow(0, 2, 2)",
    "n.narrow(0, 4, 0)",
    "n.narrow(0, 1, 0)",
    "e[0]",
    "n[0:1]",
    "n.narrow(0, 1, 2).relu()",
    "n.narrow(0, 1, 2).unbind()",
    "n.select(2, 1).unbind()",
    "n[mask]",
    "n.transpose(1, 2).narrow(0, 0, 1)",
    "e.unbind()",
    # views
    "n.transpose(1, 2)",
    "n.transpose(0, 1)",
    "n.mT",
    "n.transpose(-1, -2)",
    "n.t()",
    "n.unsqueeze(1)",
    "n.unsqueeze(-1)",
    "n.unsqueeze(0)",
    "n.unsqueeze(2)",
    "s.squeeze(1)",
    "s.squeeze()",
    "n.squeeze(1)",
    "n.squeeze(0)",
    "s.squeeze(-1)",
    "n.unsqueeze(1).squeeze(1)",
    "v.squeeze(1)",
    "L.nested.nested_tensor([L.ones(1), L.ones(1)]).squeeze(1)",
    "n.chunk(3, -1)",
    "n.chunk(2, -1)",
    "n.chunk(3, 0)",
    "r.chunk(1, -1)",
    "n.chunk(0, -1)",
    "n.transpose(1, 2).chunk(1, -1)",
    "n.split([1, 2], -1)",
    "n.split([1, 1], -1)",
    "n.split([1, 2], 1)",
    "n.split(1, -1)",
    "n.view(3, -1, 3)",
    "n.view(3, -1, 1, 3)",
    "n.view(3, -1, 3, 1)",
    "n.view(2, -1, 3)",
    "n.view(-1, -1, 3)",
    "n.view(3, -1, -1)",
    "h.view(2, 2, -1, 2, 2)",
    "n.view(3, -1)",
    "n.reshape(3, -1, 3, 1)",
    "n.transpose(1, 2).reshape(3, 3, -1, 1)",
    "n.view(3, -2, 3)",
    "h.transpose(1, 2).reshape(2, -1, 8)",
    "h.transpose(1, 2).view(2, -1, 8)",
    "n.reshape(3, -1, 4)",
    "g.transpose(1, 2).reshape(2, 3, -1, 2, 2)",
    "g.transpose(1, 2).view(2, 3, -1, 2, 2)",
    "n.reshape_as(m)",
    "n.reshape_as(d)",
    "n.view(())",
    "e.view(0)",
    "n.view(3, -1, 3, -1)",
    "h.view(2, -1, -1, 4, 1)",
    "n.permute(0, 2, 1)",
    "n.flatten(1)",
    "n.expand(3, -1, 3)",
    "n.values()",
    "n.transpose(1, 2).values()",
    "n.view_as(m)",
    # padding
    "n.to_padded_tensor(0.0)",
    "L.nested.to_padded_tensor(n, 1.5)",
    "r.to_padded_tensor(-1.0)",
    "n.to_padded_tensor(0.0, (4, 5, 6))",
    "n.to_padded_tensor(0.0, (3, 2, 3))",
    "n.to_padded_tensor(0.0, (4, 5))",
    "n.transpose(1, 2).to_padded_tensor(0.0)",
    "z.to_padded_tensor(2.0)",
    "e.to_padded_tensor(2.0)",
    "n.chunk(3, -1)[1].contiguous().to_padded_tensor(0.0)",
    "L.nested.nested_tensor([L.ones(0, 2)]).to_padded_tensor(0.0)",
    "L._nested_from_padded(d, L.tensor([[1, 2], [3, 2], [2, 1]]))",
    "L._nested_from_padded_and_nested_example(d, v)",
    "L._nested_from_padded(L.arange(24.0).reshape(2, 2, 3, 2), L.tensor([[2, 4], [3, 4]]), True)",
    "L._nested_tensor_from_mask(d, L.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1]]).bool())",
    "L._nested_tensor_from_mask(d, L.tensor([[1, 0, 1], [1, 0, 0], [1, 1, 1]]).bool())",
    "L._nested_tensor_from_mask_left_aligned(d, L.tensor([[1, 0, 1], [1, 0, 0], [1, 1, 1]]).bool())",
    "L._nested_tensor_from_mask_left_aligned(d, L.tensor([[1, 1, 1], [1, 0, 0], [0, 0, 0]]).bool())",
    "L._nested_from_padded_and_nested_example(n.to_padded_tensor(0.0), n)",
    "L._nested_compute_contiguous_strides_offsets(L.tensor([[2, 3], [4, 5]]))",
    # along dimensions
    "n.softmax(-1)",
    "n.softmax(1)",
    "n.softmax(0)",
    "n.transpose(1, 2).softmax(1)",
    "F.softmax(r, -1)",
    "F.log_softmax(n, -1)",
    "(n > 0).all(-1)",
    "(n > 0).all(1, keepdim=True)",
    "(n > 0).all(0)",
    "n.sum(-1, keepdim=True)",
    "r.sum(-1, keepdim=True)",
    "n.sum(-1)",
    "n.sum(1, keepdim=True)",
    "n.sum()",
    "n.sum((1, 2), keepdim=True)",
    "n.transpose(1, 2).sum(-1, keepdim=True)",
    "n.mean()",
    "n.amax(-1)",
    "n.sum(-1, keepdim=True, dtype=L.float32)",
    "F.layer_norm(n, (3,), one, zero)",
    "F.layer_norm(n, (3,))",
    "F.layer_norm(h, (1, 4), L.ones(1, 4), L.ones(1, 4))",
    "F.layer_norm(r, (3,), one, zero)",
    "F.layer_norm(g, (3, 4), L.ones(3, 4, dtype=L.float64), L.zeros(3, 4, dtype=L.float64))",
    "F.layer_norm(n, (2,), one, zero)",
    "F.dropout(n, 0.0)",
    "F.dropout(n, 0.5, False)",
    "F.dropout(n, 1.0)",
    "F.dropout(n.transpose(1, 2), 0.0)",
    # products
    "n @ m.transpose(1, 2)",
    "n.bmm(m.transpose(1, 2))",
    "n.bmm(d)",
    "L.bmm(d.transpose(1, 2), c)",
    "n @ d",
    "d @ n",
    "n @ m",
    "h @ k.transpose(2, 3)",
    "h.matmul(h.transpose(2, 3))",
    "n @ r",
    "v @ v",
    "n @ h",
    "g @ q",
    "g @ w",
    "n.bmm(m)",
    "n.bmm(r)",
    "h.bmm(h)",
    "n.bmm(w)",
    "F.linear(n, w, b)",
    "F.linear(n, w)",
    "F.linear(r, w)",
    "F.linear(n.transpose(1, 2), w)",
    "F.linear(h, w)",
    "F.embedding(ids, w)",
    "F.embedding(n, w)",
    "F.scaled_dot_product_attention(h, k, k)",
    "F.scaled_dot_product_attention(h, k, k, is_causal=False, scale=0.3)",
    # joining
    "L.cat([n, m])",
    "L.cat([n, r])",
    "L.cat([n, m], -1)",
    "L.cat([n, m.transpose(1, 2)])",
    "L.cat([n, d])",
    "L.cat([n, r], -1)",
    "L.cat([h, h], 2)",
    # what it is
    "n.size(0)",
    "n.size(1)",
    "n.size(2)",
    "n.size(-1)",
    "n.size()",
    "n.shape",
    "n.stride()",
    "n.dim()",
    "n.ndim",
    "n.numel()",
    "n.is_contiguous()",
    "n.transpose(1, 2).is_contiguous()",
    "n.is_nested",
    "n.dtype == L.float64",
    "n.layout == L.strided",
    "e.dim()",
    "e.numel()",
    "e.size(0)",
    "len(n)",
    "n.size(3)",
    "n.item()",
    "bool(n)",
    "n.requires_grad",
    "n.is_leaf",
    "n.storage_offset()",
    "L.is_same_size(n, m)",
    "L.is_same_size(n, r)",
    "n._nested_tensor_size()",
    "n.transpose(1, 2)._nested_tensor_strides()",
    "n._nested_tensor_storage_offsets()",
    "L.nested.as_nested_tensor(d)",
    "L.nested.as_nested_tensor(d.transpose(0, 1))",
    "L.nested.as_nested_tensor(one)",
    "L.nested.as_nested_tensor([w, b])",
    "L.nested.as_nested_tensor([w, w[:2]])",
    "L.nested.as_nested_tensor([])",
    "L.nested.as_nested_tensor(n, layout=L.jagged)",
    "L.nested.as_nested_tensor(n, layout=L.strided)",
    "L.nested.as_nested_tensor(n)",
    "L.nested.nested_tensor([1.0, 2.0])",
    "L.nested.nested_tensor([[1.0], [2.0, 3.0]])",
    "L.nested.nested_tensor(w)",
    "L.nested.nested_tensor([w, b])",
    "L.nested.narrow(d, 0, 1, 2)",
    "L.nested.narrow(d, 1, 0, 1)",
    "L.nested.narrow(d, 0, L.tensor(1), 2)",
    "L.nested.nested_tensor(3)",
    "L.nested.as_nested_tensor(3)",
]
RAISES_MORE = {  # PyTorch's own: reads outside of the buffer, or returns what it should refuse
    "F.layer_norm(h, (1, 4), L.ones(1, 4), L.ones(1, 4))",
    "F.embedding(n, w)",
}


@pytest.mark.parametrize("program", VALUES)
def test_as_in_pytorch(program: str) -> None:
    try:
        expected = told(outcome(torch, program)[1])
    except Exception as error:
        with pytest.raises((type(error), NotImplementedError) if program in RAISES_MORE else type(error)):
            outcome(rl, program)
        return
    same(told(outcome(rl, program)[1]), expected)


def test_views_share_the_buffer() -> None:
    for lib in (torch, rl):
        nested = made(lib, "n")
        nested.unbind()[1].fill_(5.0)
        nested.transpose(1, 2)[0].fill_(7.0)
        nested.chunk(3, -1)[1][2].fill_(9.0)
        nested.select(2, 2)[1][0] = 11.0
        assert nested.values().tolist()[:6] == [7.0] * 6
        assert nested[2].tolist()[0][1] == 9.0
        assert nested[1].tolist()[0] == [5.0, 5.0, 11.0]


def test_copies_and_pickles() -> None:
    nested = made(rl, "n", True).transpose(1, 2)
    same(told(copy.deepcopy(made(rl, "n"))), told(made(rl, "n")))
    leaf = made(rl, "r", True)
    again = pickle.loads(pickle.dumps(leaf))
    same(told(again), told(leaf))
    assert again.requires_grad
    assert copy.deepcopy(leaf).is_leaf
    assert nested.detach().requires_grad is False
    with pytest.raises(RuntimeError, match="beyond"):
        rl._nested_view_from_buffer(rl.ones(3), rl.tensor([[4]]), rl.tensor([[1]]), rl.tensor([0]))


def test_looks_like_pytorchs() -> None:
    for name, requires_grad in (("n", False), ("v", True)):
        ours = repr(made(rl, name, requires_grad))
        assert ours.replace("rushlight.", "torch.") == repr(made(torch, name, requires_grad))


def test_compiled() -> None:
    @rl.compile
    def function(nested: rl.Tensor, weight: rl.Tensor) -> rl.Tensor:
        return rl.nn.functional.linear(nested * 2, weight).softmax(-1)

    for name in ("n", "m", "z"):
        nested, weight = made(rl, name), rl.rand(4, 3, dtype=rl.float64)
        same(told(function(nested, weight)), told(rl.nn.functional.linear(nested * 2, weight).softmax(-1)))

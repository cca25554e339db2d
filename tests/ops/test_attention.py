"""Attention: blocks of rows give what the whole matrix gives, with masks, groups and gradients."""

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight.decompositions import attention
from rushlight.nn import functional as F

RNG = np.random.default_rng(0)


def operands(heads=4, shared=4, length=11, keys=13, size=5):
    shapes = ((2, heads, length, size), (2, shared, keys, size), (2, shared, keys, size + 1))
    return [RNG.standard_normal(shape) for shape in shapes]


MASKS = {
    "none": None,
    "bool": RNG.random((11, 13)) > 0.4,
    "float": RNG.standard_normal((2, 1, 11, 13)),
    "row": RNG.random((1, 13)) > 0.4,
    "nothing": np.zeros((11, 13), bool),
}


@pytest.mark.parametrize("block", [4, 256])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shared", [4, 2])
def test_attention_and_gradients_equal_torchs(monkeypatch, block, mask, shared):
    monkeypatch.setattr(attention, "BLOCK", block)
    arrays = operands(shared=shared)
    results = []
    for lib, function in ((rl, F), (torch, torch.nn.functional)):
        tensors = [lib.tensor(a, requires_grad=True) for a in arrays]
        given = None if MASKS[mask] is None else lib.tensor(MASKS[mask])
        out = function.scaled_dot_product_attention(*tensors, given, enable_gqa=shared != 4, scale=0.7)
        grads = lib.autograd.grad((out * out.sin()).sum(), tensors)
        results.append([out, *grads])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("keys", [11, 7, 16])
def test_causal(monkeypatch, keys):
    arrays = operands(keys=keys)
    expected = torch.nn.functional.scaled_dot_product_attention(*map(torch.tensor, arrays), is_causal=True)
    for block in (4, 256):
        monkeypatch.setattr(attention, "BLOCK", block)
        actual = F.scaled_dot_product_attention(*map(rl.tensor, arrays), is_causal=True)
        np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-9, atol=1e-11)


def test_second_derivatives_of_blocks(monkeypatch):
    monkeypatch.setattr(attention, "BLOCK", 2)
    tensors = [rl.tensor(a[:1, :1, :3, :2]).requires_grad_() for a in operands()]
    assert rl.autograd.gradgradcheck(lambda *t: F.scaled_dot_product_attention(*t, is_causal=True), tensors)
    assert rl.autograd.gradcheck(
        lambda *t: F.scaled_dot_product_attention(*t), tensors, check_forward_ad=True, check_batched_grad=True
    )


@pytest.mark.parametrize("block", [4, 256])
def test_tangent_of_a_mask(monkeypatch, block):
    monkeypatch.setattr(attention, "BLOCK", block)
    arrays, mask, tangent = operands(), *RNG.standard_normal((2, 11, 13))
    query, key, value = map(torch.tensor, arrays)

    def written_out(mask):
        return (query @ key.mT * 0.7 + mask).softmax(-1) @ value

    expected = torch.func.jvp(written_out, (torch.tensor(mask),), (torch.tensor(tangent),))[1]
    tensors = [rl.tensor(a) for a in arrays]
    actual = rl.func.jvp(
        lambda mask: F.scaled_dot_product_attention(*tensors, mask, scale=0.7),
        (rl.tensor(mask),),
        (rl.tensor(tangent),),
    )[1]
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-9, atol=1e-11)


def test_blocks_compile_and_save_no_weights(monkeypatch):
    monkeypatch.setattr(attention, "BLOCK", 16)
    arrays = [RNG.standard_normal((1, 2, 64, 8)).astype(np.float32) for _ in range(3)]
    eager = [rl.tensor(a, requires_grad=True) for a in arrays]
    compiled = [rl.tensor(a, requires_grad=True) for a in arrays]
    function = rl.compile(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), fullgraph=True
    )
    for run, tensors in ((F.scaled_dot_product_attention, eager), (function, compiled)):
        out = run(*tensors, is_causal=True) if run is F.scaled_dot_product_attention else run(*tensors)
        out.square().sum().backward()
    for a, b in zip(eager, compiled, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    "arguments",
    [([(2, 3), (2, 3), (2, 3)], {"attn_mask": True, "is_causal": True}), ([(3,), (2, 3), (2, 3)], {})],
)
def test_errors(arguments):
    shapes, options = arguments
    for lib, function in ((rl, F), (torch, torch.nn.functional)):
        tensors = [lib.ones(shape) for shape in shapes]
        given = dict(options)
        if "attn_mask" in given:
            given["attn_mask"] = lib.ones((2, 2)) > 0
        with pytest.raises(RuntimeError):
            function.scaled_dot_product_attention(*tensors, **given)

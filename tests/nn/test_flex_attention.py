"""flex_attention and its masks against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.attention.flex_attention as reference

import rushlight as rl
from rushlight.nn.attention import flex_attention as flex

from .conftest import ours, theirs

BIAS = np.random.default_rng(9).standard_normal((4, 10, 12)).astype(np.float32)
GROUPS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3])


def tensor(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def biased(m):
    table = m.from_numpy(BIAS)
    return lambda s, b, h, q, k: s + table[h, q, k]


def same_document(m):
    ids = m.from_numpy(GROUPS)
    return lambda b, h, q, k: ids[q] == ids[k]


SCORES = {
    "none": lambda m: None,
    "distance": lambda m: lambda s, b, h, q, k: s + 0.1 * (q - k),
    "alibi": lambda m: lambda s, b, h, q, k: s - (q - k).abs() * m.exp2(-(h + 1.0)),
    "cap": lambda m: lambda s, b, h, q, k: 3.0 * m.tanh(s / 3.0),
    "causal": lambda m: lambda s, b, h, q, k: m.where(q >= k, s, float("-inf")),
    "bias": biased,
}
MASKS = {
    "none": lambda m, f: None,
    "causal": lambda m, f: lambda b, h, q, k: q >= k,
    "window": lambda m, f: f.and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k <= 3),
    "either": lambda m, f: f.or_masks(lambda b, h, q, k: q + 5 < k, lambda b, h, q, k: k < 2),
    "blind": lambda m, f: lambda b, h, q, k: (k < q) & (h != 1),
    "documents": lambda m, f: same_document(m),
    "noop": lambda m, f: f.noop_mask,
}


def run(m, f, score, mask, tensors, **options):
    made = MASKS[mask](m, f)
    block = None if made is None else f.create_block_mask(made, 2, 4, 10, 12, device="cpu")
    return f.flex_attention(*tensors, score_mod=SCORES[score](m), block_mask=block, **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("score", "mask"), [*[(s, "none") for s in SCORES], *[("none", k) for k in MASKS], ("alibi", "causal")]
)
def test_values(score, mask):
    q, k, v = tensor(0, 2, 4, 10, 8), tensor(1, 2, 4, 12, 8), tensor(2, 2, 4, 12, 6)
    results = [
        run(m, f, score, mask, tensors, return_lse=True)
        for m, f, tensors in ((torch, reference, [q, k, v]), (rl, flex, [ours(t) for t in (q, k, v)]))
    ]
    for other, mine in zip(*results, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("score", "mask"), [("cap", "none"), ("none", "blind"), ("distance", "causal")])
def test_gradients(score, mask):
    """PyTorch has none on the CPU; finite differences tell."""

    def attend(q, k, v):
        made = MASKS[mask](rl, flex)
        block = None if made is None else flex.create_block_mask(made, 1, 2, 3, 3)
        return flex.flex_attention(q, k, v, score_mod=SCORES[score](rl), block_mask=block)

    leaves = [ours(tensor(i, 1, 2, 3, 2).double()).requires_grad_() for i in range(3)]
    assert rl.autograd.gradcheck(attend, leaves)


@pytest.mark.filterwarnings("ignore")
def test_grouped_queries_and_scale():
    q, k = tensor(0, 2, 4, 10, 8), tensor(1, 2, 2, 12, 8)
    want = reference.flex_attention(q, k, k, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(
        theirs(flex.flex_attention(*[ours(t) for t in (q, k, k)], scale=0.3, enable_gqa=True)),
        want,
        rtol=1e-4,
        atol=1e-5,
    )
    with pytest.raises(ValueError, match="enable_gqa"):
        flex.flex_attention(*[ours(t) for t in (q, k, k)])


def test_auxiliary_outputs():
    q = ours(tensor(0, 1, 2, 5, 4))
    out, aux = flex.flex_attention(q, q, q, return_aux=flex.AuxRequest(lse=True, max_scores=True))
    scores = q @ q.transpose(-2, -1) * 0.5
    np.testing.assert_allclose(aux.lse.numpy(), scores.logsumexp(-1).numpy(), rtol=1e-5)
    np.testing.assert_allclose(aux.max_scores.numpy(), scores.amax(-1).numpy(), rtol=1e-5)
    assert rl.allclose(out, rl.nn.functional.scaled_dot_product_attention(q, q, q), atol=1e-6)


@pytest.mark.parametrize("mask", [k for k in MASKS if k not in ("none", "documents")])
@pytest.mark.parametrize("size", [(4, 4), (3, 5), 128])
def test_block_masks(mask, size):
    made = [
        f.create_block_mask(MASKS[mask](m, f), 2, 4, 10, 12, device="cpu", BLOCK_SIZE=size)
        for m, f in ((rl, flex), (torch, reference))
    ]
    mine, other = made
    for name in ("shape", "BLOCK_SIZE", "seq_lengths"):
        assert getattr(mine, name) == getattr(other, name)
    assert len(mine.as_tuple()) == len(other.as_tuple())
    assert mine.sparsity() == pytest.approx(other.sparsity())
    assert mine.to_dense().tolist() == other.to_dense().tolist()
    for name in (
        "kv_num_blocks",
        "kv_indices",
        "full_kv_num_blocks",
        "full_kv_indices",
        "q_num_blocks",
        "q_indices",
        "full_q_num_blocks",
        "full_q_indices",
    ):
        a, b = getattr(mine, name), getattr(other, name)
        assert a.tolist() == b.tolist(), name
        assert str(a.dtype).split(".")[-1] == str(b.dtype).split(".")[-1]


def test_a_picture():
    mine, other = (
        f.create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 20, 30, device="cpu", BLOCK_SIZE=4)
        for f in (flex, reference)
    )
    assert mine.to_string() == other.to_string()


def test_masks_as_tensors():
    for m, f in ((torch, reference), (rl, flex)):
        mask = f.create_mask(lambda b, h, q, k: q >= k, 1, 2, 3, 4, device="cpu")
        assert mask.tolist() == [[[[q >= k for k in range(4)] for q in range(3)]] * 2]
        assert mask.dtype is m.bool


def test_compiled():
    q = ours(tensor(0, 2, 4, 10, 8))

    def attend(q):
        return flex.flex_attention(q, q, q, score_mod=SCORES["alibi"](rl))

    np.testing.assert_allclose(
        rl.compile(attend, fullgraph=True)(q).numpy(), attend(q).numpy(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mask", ["causal", "window", "documents"])
def test_the_operator_that_takes_functions(mask):
    """Its arguments are those of PyTorch's; buffers are further arguments of the functions."""
    slopes = np.linspace(0.1, 1.0, 4, dtype=np.float32)
    q, k, v = (tensor(seed, 2, 4, length, 8) for seed, length in enumerate((10, 12, 12)))
    found = []
    for m, f, operator in (
        (torch, reference, torch._higher_order_ops.flex_attention),
        (rl, flex, rl._higher_order_ops.flex_attention),
    ):
        block = f.create_block_mask(MASKS[mask](m, f), 2, 4, 10, 12, device="cpu").as_tuple()
        given = (q, k, v) if m is torch else tuple(rl.from_numpy(t.numpy()) for t in (q, k, v))
        buffers = (m.from_numpy(slopes),)
        found.append(operator(*given, lambda s, b, h, i, j, a: s * a[h], block, 0.3, {}, buffers))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-5, atol=1e-5)


def test_the_operator_in_a_compiled_program():
    block = flex.create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 16, 16).as_tuple()

    def attend(x):
        return rl._higher_order_ops.flex_attention(x, x, x, lambda s, *at: s, block, 0.5, {})

    x = rl.randn(1, 2, 16, 8)
    for a, b in zip(attend(x), rl.compile(attend, fullgraph=True)(x), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-5, atol=1e-5)

"""nn.grad, nn.attention, products of groups and scaled products, factory_kwargs: against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.attention.bias

import rushlight as rl
from rushlight import nn

from .conftest import ours, theirs


def tensor(seed, *shape, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "groups": 2}])
def test_gradients_of_convolutions(rank, options):
    groups = options.get("groups", 1)
    x, w = tensor(0, 2, 4, *[7] * rank), tensor(1, 6, 4 // groups, *[3] * rank)
    out = getattr(torch.nn.functional, f"conv{rank}d")(x, w, **options)
    grad = tensor(2, *out.shape)
    for what, args in (("input", (x.shape, w, grad)), ("weight", (x, w.shape, grad))):
        name = f"conv{rank}d_{what}"
        want = getattr(torch.nn.grad, name)(*args, **options)
        mine = [tuple(a) if isinstance(a, torch.Size) else ours(a) for a in args]
        got = getattr(nn.grad, name)(*mine, **options)
        torch.testing.assert_close(theirs(got), want)


def test_choosing_how_attention_is_computed():
    q = rl.randn(1, 2, 4, 8)
    want = nn.functional.scaled_dot_product_attention(q, q, q)
    with nn.attention.sdpa_kernel([nn.attention.SDPBackend.MATH]):
        assert nn.attention._cur_sdpa_kernel_backends() == [nn.attention.SDPBackend.MATH]
        assert rl.equal(nn.functional.scaled_dot_product_attention(q, q, q), want)
    assert len(nn.attention._cur_sdpa_kernel_backends()) > 1
    names = {name: int(value) for name, value in torch.nn.attention.SDPBackend.__members__.items()}
    assert {name: int(value) for name, value in nn.attention.SDPBackend.__members__.items()} == names
    with pytest.raises(AssertionError), nn.attention.sdpa_kernel("math"):
        pass


@pytest.mark.parametrize("size", [(3, 3), (2, 5), (5, 2)])
@pytest.mark.parametrize("kind", ["causal_upper_left", "causal_lower_right"])
def test_causal_masks(size, kind):
    mine, other = (getattr(m.nn.attention.bias, kind)(*size) for m in (rl, torch))
    # PyTorch's tensor holds no values; the mask is made when it is used
    want = other._materialize()
    assert mine.tolist() == want.tolist()
    assert (mine.seq_len_q, mine.seq_len_kv, mine.variant.name) == (*size, other.variant.name)
    q, k = tensor(0, 1, size[0], 4), tensor(1, 1, size[1], 4)
    got = nn.functional.scaled_dot_product_attention(ours(q), ours(k), ours(k), attn_mask=mine)
    torch.testing.assert_close(
        theirs(got), torch.nn.functional.scaled_dot_product_attention(q, k, k, want), equal_nan=True
    )


OFFSETS = torch.tensor([2, 2, 7], dtype=torch.int32)
GROUPED = {
    "2-3": (tensor(0, 7, 4, dtype=torch.float32), tensor(1, 3, 4, 8, dtype=torch.float32), OFFSETS),
    "3-2": (tensor(0, 3, 4, 8, dtype=torch.float32), tensor(1, 8, 7, dtype=torch.float32), OFFSETS),
    "2-2": (tensor(0, 4, 7, dtype=torch.float32), tensor(1, 7, 8, dtype=torch.float32), OFFSETS),
    "3-3": (tensor(0, 3, 4, 8, dtype=torch.float32), tensor(1, 3, 8, 4, dtype=torch.float32), None),
}


@pytest.mark.parametrize("kind", sorted(GROUPED))
def test_grouped_products(kind):
    a, b, ends = GROUPED[kind]
    pieces = [slice(start, end) for start, end in ((0, 2), (2, 2), (2, 7))]
    want = {
        "2-3": lambda: torch.cat([a[p] @ b[i] for i, p in enumerate(pieces)]),
        "3-2": lambda: torch.cat([a[i] @ b[:, p] for i, p in enumerate(pieces)], 1),
        "2-2": lambda: torch.stack([a[:, p] @ b[p] for p in pieces]),
        "3-3": lambda: a @ b,
    }[kind]()
    got = nn.functional.grouped_mm(ours(a), ours(b), offs=None if ends is None else ours(ends))
    torch.testing.assert_close(theirs(got), want)
    if kind in ("2-3", "3-3"):  # others need strides that PyTorch's kernels can read
        torch.testing.assert_close(torch.nn.functional.grouped_mm(a, b, offs=ends), want)


def test_grouped_products_are_differentiable():
    a, b, ends = (ours(t) for t in GROUPED["2-3"])
    a, b = a.double().requires_grad_(), b.double().requires_grad_()
    assert rl.autograd.gradcheck(lambda a, b: nn.functional.grouped_mm(a, b, offs=ends), (a, b))
    with pytest.raises(RuntimeError, match="offs"):
        nn.functional.grouped_mm(a, b)


@pytest.mark.parametrize("rows", [False, True])
def test_scaled_products(rows):
    a = tensor(0, 16, 32).to(torch.float8_e4m3fn)
    b = tensor(1, 16, 32).to(torch.float8_e4m3fn).t()
    shapes = ((16, 1), (1, 16)) if rows else ((), ())
    scales = [torch.rand(shape) + 0.5 for shape in shapes]
    kind = "RowWise" if rows else "TensorWise"
    want = (a.float() * scales[0]) @ (b.float() * scales[1])
    x, y = (rl.from_numpy(t.float().numpy()).to(rl.float8_e4m3fn) for t in (a, b))
    recipe = getattr(nn.functional.ScalingType, kind)
    got = nn.functional.scaled_mm(
        x, y, ours(scales[0]), recipe, ours(scales[1]), recipe, output_dtype=rl.float32
    )
    torch.testing.assert_close(theirs(got), want, rtol=1e-5, atol=1e-5)
    if not rows:  # rows are for GPUs
        theirs_kind = getattr(torch.nn.functional.ScalingType, kind)
        other = torch.nn.functional.scaled_mm(
            a, b, scales[0], theirs_kind, scales[1], theirs_kind, output_dtype=torch.float32
        )
        torch.testing.assert_close(theirs(got), other, rtol=1e-3, atol=1e-3)
    block = nn.functional.ScalingType.BlockWise1x32
    with pytest.raises(NotImplementedError, match="BlockWise1x32"):
        nn.functional.scaled_mm(x, y, ours(scales[0]), block, ours(scales[1]), block)


@pytest.mark.parametrize("kwargs", [None, {}, {"dtype": 1}, {"factory_kwargs": {"device": 2}, "dtype": 1}])
def test_factory_kwargs(kwargs):
    assert nn.factory_kwargs(kwargs) == torch.nn.factory_kwargs(kwargs)


@pytest.mark.parametrize("kwargs", [{"size": 1}, {"dtype": 1, "factory_kwargs": {"dtype": 2}}])
def test_wrong_factory_kwargs(kwargs):
    for m in (torch, rl):
        with pytest.raises(TypeError):
            m.nn.factory_kwargs(kwargs)


def test_common_types():
    names = {name for name in dir(torch.nn.common_types) if name.endswith("_t")}
    assert not names - set(dir(nn.common_types))


def test_workers_beyond_processors_warn():
    with pytest.warns(UserWarning, match="10000 worker processes"):
        loader = rl.utils.data.DataLoader([1, 2, 3], num_workers=10_000)
    with pytest.warns(UserWarning, match="10000 worker processes"):
        loader.check_worker_number_rationality()

"""Writes to quantized tensors, views of channels, refusals, and what meets them: graphs, vmap, autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rushlight as rl

from .conftest import DTYPES, agree, both, channels, sample

# Writes.


def put(t, index, value):
    t[index] = value
    return t


WRITES = {
    "fill_": lambda t, lib: t.fill_(1.33),
    "fill tensor": lambda t, lib: t.fill_(lib.tensor(0.77)),
    "fill view": lambda t, lib: (t[1].fill_(0.4), t)[1],
    "relu_": lambda t, lib: t.relu_(),
    "masked_fill_": lambda t, lib: t.masked_fill_(t > 0, 0.27),
    "copy float": lambda t, lib: t.copy_(lib.linspace(-1, 1, 120).reshape(2, 3, 4, 5)),
    "copy quantized": lambda t, lib: t.copy_(t.flip(0)),
    "copy other grid": lambda t, lib: t.copy_(lib.quantize_per_tensor(t.dequantize(), 0.25, 1, t.dtype)),
    "set number": lambda t, lib: put(t, 0, 2.03),
    "set tensor": lambda t, lib: put(t, 1, lib.full((3, 4, 5), 0.52)),
    "set quantized": lambda t, lib: put(t, 0, t[1].clone()),
    "set by index": lambda t, lib: put(t, lib.tensor([1, 0]), lib.full((2, 3, 4, 5), 0.52)),
    "set by mask": lambda t, lib: put(t, t > 0.2, 0.13),
    "resize_": lambda t, lib: t.resize_(2, 3),
    "data": lambda t, lib: (setattr(t, "data", t.flip(1)), t)[1],
    "transpose in place": lambda t, lib: t.t_() if t.ndim == 2 else t[0, 0].t_(),
    "squeeze in place": lambda t, lib: t[:1].squeeze_(),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WRITES)
def test_writes(name, dtype):
    mine, theirs = sample(dtype)
    view = mine[0] if name not in ("resize_", "data") else None
    version = mine._version
    a, b = WRITES[name](mine, rl), WRITES[name](theirs, torch)
    agree(a, b)
    if view is not None and a is mine:
        assert mine._version > version
        np.testing.assert_array_equal(view.int_repr().numpy(), mine[0].int_repr().numpy())


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t[:, 1:3].fill_(0.4),
        lambda t: t.copy_(rl.linspace(-1, 1, 5)),
        lambda t: put(t, (slice(None), 1), rl.full((4, 5), 0.52)),
    ],
)
def test_writes_that_pytorch_refuses(write):
    """Values that are broadcast, and memory with gaps."""
    mine, _ = sample("qint8")
    wanted = mine.dequantize()
    write(mine)
    write(wanted)
    assert rl.equal(mine, rl.quantize_per_tensor(wanted, mine.q_scale(), mine.q_zero_point(), rl.qint8))


@pytest.mark.parametrize("dtype", DTYPES)
def test_cat_rounds_to_the_first_grid(dtype):
    parts = [
        sample(dtype, scale=scale, zero_point=point, seed=seed)
        for seed, (scale, point) in enumerate(((0.05, 3), (0.1, 0), (1 / 3, 7)))
    ]
    agree(rl.cat([a for a, _ in parts], 1), torch.cat([b for _, b in parts], 1))


# Channels.

KEPT = {
    "select": lambda t: t[0],
    "select channel": lambda t: t[:, 1],
    "slice": lambda t: t[:, 1:],
    "slice other": lambda t: t[1:, :, ::2],
    "one channel": lambda t: t[:, 1:2],
    "unsqueeze": lambda t: t.unsqueeze(0),
    "unsqueeze after": lambda t: t.unsqueeze(2),
    "squeeze": lambda t: t[:1].squeeze(0),
    "detach": lambda t: t.detach(),
    "unflatten": lambda t: t.unflatten(2, (2, 2)),
    "unbind": lambda t: t.unbind(0),
    "split": lambda t: t.split(2, 1),
    "clone": lambda t: t.clone(),
    "chain": lambda t: t[1:][:, 1:].unsqueeze(1)[0, 0],
}
TURNED = {
    "permute": lambda t: t.permute(2, 1, 0),
    "transpose": lambda t: t.transpose(1, 2),
    "expand": lambda t: t[:1].expand(5, 3, 4),
    "diagonal": lambda t: t.diagonal(0, 0, 1),
    "flatten": lambda t: t.permute(1, 0, 2).contiguous().flatten(1),
    "step": lambda t: t[:, ::2],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KEPT)
def test_views_of_channels(name, dtype):
    mine, theirs = channels(dtype)
    a, b = KEPT[name](mine), KEPT[name](theirs)
    agree(a, b)
    agree(
        a[0].dequantize() if isinstance(a, tuple) else a.dequantize(),
        b[0].dequantize() if isinstance(b, tuple) else b.dequantize(),
    )


@pytest.mark.parametrize("name", TURNED)
def test_views_of_channels_that_are_turned(name):
    """PyTorch refuses most of these; they show what the same view of the values shows."""
    mine, _ = channels("qint8")
    agree(
        TURNED[name](mine).dequantize().contiguous(),
        torch.from_numpy(TURNED[name](mine.dequantize()).contiguous().numpy()),
    )


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.reshape(-1),
        lambda t: t.view(6, 4),
        lambda t: t.unfold(1, 2, 1),
        lambda t: t.as_strided((2,), (1,)),
    ],
)
def test_channels_along_more_than_one_dimension(view):
    with pytest.raises(RuntimeError, match=r"channels|strides"):
        view(channels("qint8")[0])


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.relu(),
        lambda t: t.flip(0),
        lambda t: t[:, [0]],
        lambda t: t.max(),
        lambda t: t.q_scale(),
        lambda t: t.q_zero_point(),
        lambda t: t.sigmoid(),
        lambda t: t.mean(1),
    ],
)
def test_what_needs_one_scale(change):
    mine, theirs = channels("qint8")
    for tensor in (mine, theirs):
        with pytest.raises(RuntimeError):
            change(tensor)


def test_writes_to_channels():
    mine, theirs = channels("quint8")
    source = both(np.random.default_rng(9).normal(size=(2, 3, 4)).astype(np.float32))
    agree(mine.copy_(source[0]), theirs.copy_(source[1]))
    agree(mine.fill_(0.3), theirs.fill_(0.3))
    agree(mine == mine.clone(), theirs == theirs.clone())
    assert rl.equal(mine, mine.clone()) and not rl.equal(mine, channels("quint8", axis=2)[0])


# Refusals, with the type that PyTorch raises.

X = both(np.ones((2, 3), np.float32))
REFUSED = {
    "double": lambda lib, x: lib.quantize_per_tensor(x.double(), 0.1, 0, lib.qint8),
    "half": lambda lib, x: lib.quantize_per_tensor(x.half(), 0.1, 0, lib.qint8),
    "integers": lambda lib, x: lib.quantize_per_tensor(x.int(), 0.1, 0, lib.qint8),
    "plain dtype": lambda lib, x: lib.quantize_per_tensor(x, 0.1, 0, lib.int8),
    "point above": lambda lib, x: lib.quantize_per_tensor(x, 0.1, 128, lib.qint8),
    "point below": lambda lib, x: lib.quantize_per_tensor(x, 0.1, -1, lib.quint8),
    "twice": lambda lib, x: lib.quantize_per_tensor(q(lib, x), 0.1, 0, lib.qint8),
    "two scales": lambda lib, x: lib.quantize_per_tensor(x, lib.ones(2), lib.zeros(2).long(), lib.qint8),
    "few scales": lambda lib, x: lib.quantize_per_tensor([x, x], lib.ones(1), lib.zeros(1).long(), lib.qint8),
    "channels": lambda lib, x: lib.quantize_per_channel(x, lib.tensor([0.1]), lib.tensor([0]), 0, lib.qint8),
    "axis": lambda lib, x: lib.quantize_per_channel(x, lib.ones(2), lib.zeros(2).long(), 2, lib.qint8),
    "negative": lambda lib, x: lib.quantize_per_channel(x, lib.ones(2), lib.zeros(2).long(), -2, lib.qint8),
    "ints": lambda lib, x: lib.quantize_per_channel(x, lib.ones(2).int(), lib.zeros(2).long(), 0, lib.qint8),
    "matrix": lambda lib, x: lib.quantize_per_channel(x, lib.ones(1, 2), lib.zeros(2).long(), 0, lib.qint8),
    "lengths": lambda lib, x: lib.quantize_per_channel(x, lib.ones(2), lib.zeros(3).long(), 0, lib.qint8),
    "points": lambda lib, x: lib.quantize_per_channel(x, lib.ones(2), lib.tensor([0, 300]), 0, lib.quint8),
    "doubles": lambda lib, x: lib.quantize_per_channel(
        x.double(), lib.ones(2), lib.zeros(2).long(), 0, lib.qint8
    ),
    "dynamic qint32": lambda lib, x: lib.quantize_per_tensor_dynamic(x, lib.qint32, False),
    "dynamic empty": lambda lib, x: lib.quantize_per_tensor_dynamic(x[:0], lib.qint8, False),
    "range beyond": lambda lib, x: lib.choose_qparams_optimized(x, 7, 10, 0.5, 4),
    "made of longs": lambda lib, x: lib._make_per_tensor_quantized_tensor(x.long(), 0.1, 0),
    "empty floats": lambda lib, x: lib._empty_affine_quantized((2,), dtype=lib.float32),
    "int_repr": lambda lib, x: x.int_repr(),
    "q_scale": lambda lib, x: x.q_scale(),
    "qscheme": lambda lib, x: x.qscheme(),
    "axis of one": lambda lib, x: q(lib, x).q_per_channel_axis(),
    "sum": lambda lib, x: q(lib, x).sum(),
    "neg": lambda lib, x: -q(lib, x),
    "abs": lambda lib, x: q(lib, x).abs(),
    "cumsum": lambda lib, x: q(lib, x).cumsum(0),
    "silu": lambda lib, x: lib.nn.functional.silu(q(lib, x)),
    "gather": lambda lib, x: q(lib, x).gather(0, x.long()),
    "where": lambda lib, x: lib.where(x > 0, q(lib, x), q(lib, x)),
    "roll": lambda lib, x: q(lib, x).roll(1),
    "isnan": lambda lib, x: q(lib, x).isnan(),
    "allclose": lambda lib, x: lib.allclose(q(lib, x), q(lib, x)),
    "float()": lambda lib, x: q(lib, x).float(),
    "numpy": lambda lib, x: q(lib, x).numpy(),
    "asarray": lambda lib, x: np.asarray(q(lib, x)),
    "requires grad": lambda lib, x: q(lib, x).requires_grad_(),
    "zeros_like": lambda lib, x: lib.zeros_like(q(lib, x)),
    "meta": lambda lib, x: q(lib, x).to("meta"),
    "cat mixed": lambda lib, x: lib.cat([q(lib, x), x]),
    "cat dtypes": lambda lib, x: lib.cat([q(lib, x), q(lib, x, "quint8")]),
    "copy to floats": lambda lib, x: x.clone().copy_(q(lib, x)),
    "copy of doubles": lambda lib, x: q(lib, x).copy_(x.double()),
    "copy of dtype": lambda lib, x: q(lib, x).copy_(q(lib, x, "quint8")),
    "promotion": lambda lib, x: lib.promote_types(lib.qint8, lib.float32),
    "finfo": lambda lib, x: lib.finfo(lib.qint8),
    "full": lambda lib, x: lib.full((2,), 1.0, dtype=lib.qint8),
    "tensor": lambda lib, x: lib.tensor([1.0], dtype=lib.qint8),
    "to": lambda lib, x: x.to(lib.quint8),
    "sum dtype": lambda lib, x: x.sum(dtype=lib.qint8),
    "pool of floats": lambda lib, x: lib.quantized_max_pool2d(x, 2),
}


def q(lib, x, dtype="qint8"):
    return lib.quantize_per_tensor(x, 0.1, 3, getattr(lib, dtype))


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    with pytest.raises(Exception) as expected:
        REFUSED[name](torch, X[1])
    with pytest.raises(expected.type):
        REFUSED[name](rl, X[0])


def test_a_refusal_names_the_operator():
    with pytest.raises(NotImplementedError, match=r"sum.* is not implemented for quantized tensors"):
        q(rl, X[0]).sum()
    with pytest.raises(NotImplementedError, match=r"add\.Tensor"):
        q(rl, X[0]) + X[0]
    with pytest.raises(RuntimeError, match="quantize_per_tensor"):
        rl.empty(3, dtype=rl.qint8)  # PyTorch makes one that can do nothing
    with pytest.raises(NotImplementedError, match=r"view\.dtype"):
        q(rl, X[0]).view(rl.int8)  # PyTorch crashes


# What meets them.


def test_autograd():
    for lib, x in zip((rl, torch), X, strict=True):
        x = x.clone().requires_grad_()
        made = q(lib, x)
        assert not made.requires_grad and not made.dequantize().requires_grad
        assert not lib.quantize_per_channel(x, lib.ones(3), lib.zeros(3).long(), 1, lib.qint8).requires_grad
    x = X[0].clone().requires_grad_()
    (x.dequantize() * 2).sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2


def test_graphs():
    def round_trip(x):
        return q(rl, x * 2).dequantize() + 1

    x = rl.linspace(-1, 1, 7)
    compiled = rl.compile(round_trip)
    agree(compiled(x), torch.from_numpy(round_trip(x).numpy()))
    agree(compiled(x + 1), torch.from_numpy(round_trip(x + 1).numpy()))
    with pytest.raises(Exception, match="quantized tensor, which has no place in a graph"):
        rl.compile(round_trip, fullgraph=True)(x)
    given = rl.compile(lambda t: t.relu().dequantize())
    agree(given(q(rl, x)), torch.from_numpy(q(rl, x).relu().dequantize().numpy()))
    plain = rl.compile(lambda t: t + 1)
    assert plain(rl.ones(3, dtype=rl.int8)).tolist() == [2, 2, 2]
    with pytest.raises(NotImplementedError):
        plain(q(rl, rl.ones(3)))


def test_vmap():
    with pytest.raises(RuntimeError, match="quantized"):
        rl.vmap(lambda t: t.clone())(q(rl, X[0]))

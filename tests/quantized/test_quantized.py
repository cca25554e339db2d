"""Quantized tensors against PyTorch's: making them, what they say of themselves, operators on them."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch

import rushlight as rl

from .conftest import DTYPES, agree, both, channels, name_of, sample

EDGES = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, 3e38, -3e38, np.inf, -np.inf, np.nan, 0.049, 12.85]


# Making, and back.


@pytest.mark.parametrize("dtype", DTYPES)
def test_quantize_per_tensor(dtype):
    low, high = DTYPES[dtype]
    random = np.random.default_rng(1)
    plain = random.normal(size=1000).astype(np.float32) * 50
    mine, theirs = both(np.concatenate([np.float32(EDGES), plain, np.round(plain) / 2]).reshape(6, -1))
    for scale, point in (
        (0.1, 0),
        (1 / 3, 7),
        (1.0, 3),
        (0.5, low),
        (0.5, high),
        (2.14854861e-3, 5),
        (1e-30, 0),
    ):
        point = min(point, 10**8 + 7)
        a = rl.quantize_per_tensor(mine, scale, point, getattr(rl, dtype))
        b = torch.quantize_per_tensor(theirs, scale, point, getattr(torch, dtype))
        agree(a, b)
        agree(a.dequantize(), b.dequantize())
        agree(rl.dequantize(a), torch.dequantize(b))


# Floating point zero points along other dimensions, or with qint32, make PyTorch crash.
@pytest.mark.parametrize(
    ("dtype", "axis", "steps", "points"),
    [
        *itertools.product(DTYPES, (0, 1, 2), ("float32", "float64"), ("int32", "int64")),
        *itertools.product(("qint8", "quint8"), (0,), ("float32", "float64"), ("float32",)),
    ],
)
def test_quantize_per_channel(dtype, axis, steps, points):
    random = np.random.default_rng(axis)
    values = random.normal(size=(5, 6, 7)).astype(np.float32) * 9
    values[:, :, 1::2] = np.round(values[:, :, 1::2]) / 4
    count = values.shape[axis]
    scale = random.uniform(0.01, 0.3, count)
    scale[::2] = 0.5
    x, scales, zeros = both(values), both(scale, steps), both(random.integers(0, 9, count), points)
    a, b = (
        lib.quantize_per_channel(x[i], scales[i], zeros[i], axis, getattr(lib, dtype))
        for i, lib in enumerate((rl, torch))
    )
    agree(a, b)
    agree(a.dequantize(), b.dequantize())
    agree(
        rl._make_per_channel_quantized_tensor(a.int_repr(), scales[0], zeros[0], axis),
        torch._make_per_channel_quantized_tensor(b.int_repr(), scales[1], zeros[1], axis),
    )


@pytest.mark.parametrize("dtype", ["qint8", "quint8"])
@pytest.mark.parametrize("reduce_range", [False, True])
def test_quantize_dynamically(dtype, reduce_range):
    random = np.random.default_rng(3)
    for values in (
        random.normal(size=50) * 3,
        random.uniform(1, 2, 20),
        -random.uniform(1, 2, 20),
        np.zeros(3),
        np.full(2, 1e-7),
        np.array([-1e-6, 3e-6]),
        np.array([1e30, -2.0]),
    ):
        mine, theirs = both(values.astype(np.float32))
        agree(
            rl._choose_qparams_per_tensor(mine, reduce_range),
            torch._choose_qparams_per_tensor(theirs, reduce_range),
        )
        agree(
            rl.quantize_per_tensor_dynamic(mine, getattr(rl, dtype), reduce_range),
            torch.quantize_per_tensor_dynamic(theirs, getattr(torch, dtype), reduce_range),
        )
    agree(
        rl.quantize_per_tensor_dynamic(mine, rl.float16, False),
        torch.quantize_per_tensor_dynamic(theirs, torch.float16, False),
    )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("bits", "bins", "ratio"), [(4, 200, 0.16), (8, 50, 0.5), (2, 100, 0.9)])
def test_a_range_with_little_loss(seed, bits, bins, ratio):
    random = np.random.default_rng(seed)
    values = (random.normal(size=random.integers(2, 60)) * random.uniform(0.1, 20)).astype(np.float32)
    if seed % 3 == 0:
        values[0] = 30
    mine, theirs = both(values)
    count = len(values) - seed % 2
    agree(
        rl.choose_qparams_optimized(mine, count, bins, ratio, bits),
        torch.choose_qparams_optimized(theirs, count, bins, ratio, bits),
    )


def test_other_ways_to_make_one():
    mine, theirs = both(np.linspace(-1, 1, 7, dtype=np.float32))
    steps, points = both(np.float32([0.1, 0.2])), both(np.array([1, 2]))
    agree(
        rl.quantize_per_tensor(mine, steps[0][0], points[0][1], rl.qint8),
        torch.quantize_per_tensor(theirs, steps[1][0], points[1][1], torch.qint8),
    )
    agree(
        rl.quantize_per_tensor([mine, mine * 2], steps[0], points[0], rl.qint8),
        torch.quantize_per_tensor([theirs, theirs * 2], steps[1], points[1], torch.qint8),
    )
    for kind in ("int8", "uint8", "int32"):
        ints = both(np.array([[1, 2], [3, 4]]), kind)
        agree(
            rl._make_per_tensor_quantized_tensor(ints[0].t(), 0.1, 3),
            torch._make_per_tensor_quantized_tensor(ints[1].t(), 0.1, 3),
        )
    made = rl._make_per_tensor_quantized_tensor(ints[0], 0.1, 3)
    ints[0].fill_(9)
    assert made.int_repr().tolist() == [[1, 2], [3, 4]]
    for lib in (rl, torch):
        empty = lib._empty_affine_quantized((2, 3), scale=0.5, zero_point=2, dtype=lib.quint8)
        assert (tuple(empty.shape), empty.q_scale(), empty.q_zero_point()) == ((2, 3), 0.5, 2)
        assert lib.empty_quantized((4,), empty).q_scale() == 0.5
        assert lib.empty_like(empty).q_zero_point() == 2
        by_channel = lib._empty_per_channel_affine_quantized(
            (2, 3), scales=lib.tensor([0.5, 0.25]), zero_points=lib.tensor([1, 2]), axis=0, dtype=lib.qint8
        )
        assert by_channel.q_per_channel_scales().tolist() == [0.5, 0.25]


def test_memory_formats():
    mine, theirs = both(np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32))
    for view in (
        lambda t, lib: t,
        lambda t, lib: t.permute(3, 0, 2, 1),
        lambda t, lib: t[:, :, ::2],
        lambda t, lib: t.to(memory_format=lib.channels_last),
        lambda t, lib: t[0, 0, 0, 0],
    ):
        a = rl.quantize_per_tensor(view(mine, rl), 0.1, 3, rl.qint8)
        b = torch.quantize_per_tensor(view(theirs, torch), 0.1, 3, torch.qint8)
        agree(a, b)
        agree(a.dequantize(), b.dequantize())
        agree(a.int_repr(), b.int_repr())


# What a quantized tensor says of itself.


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_text(dtype):
    tensors = [sample(dtype, shape) for shape in ((3,), (2, 3), (), (0,), (40,), (2, 2, 30))]
    tensors += [
        channels(dtype),
        channels(dtype, (4, 2), 0),
        channels(dtype, (2, 12), 1),
        channels("quint8", (3, 4), 0, floating=True),
    ]
    for mine, theirs in tensors:
        assert repr(mine).replace("rushlight.", "torch.") == repr(theirs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_attributes(dtype):
    mine, theirs = sample(dtype)
    assert mine.is_quantized and not rl.ones(2).is_quantized
    for look in (
        lambda t: t.element_size(),
        lambda t: t.nbytes,
        lambda t: t.is_floating_point(),
        lambda t: t.requires_grad,
        lambda t: t.is_contiguous(),
        lambda t: t[1].storage_offset(),
        lambda t: name_of(t.layout),
        lambda t: t.type().split(".")[1:],
        lambda t: len(t),
        lambda t: t[0, 0, 0, 0].item(),
        lambda t: bool(t[0, 0, 0, 0]),
        lambda t: t[0, 1].numel(),
        lambda t: t.qscheme() == t.clone().qscheme(),
        lambda t: t.dtype.is_floating_point,
    ):
        assert look(mine) == look(theirs)
    assert mine[0].data_ptr() != 0 and mine.dtype is getattr(rl, dtype)
    lib_info = [
        (
            lib.iinfo(getattr(lib, dtype)).min,
            lib.iinfo(getattr(lib, dtype)).max,
            lib.iinfo(getattr(lib, dtype)).bits,
        )
        for lib in (rl, torch)
    ]
    assert lib_info[0] == lib_info[1]
    for source, target in ((dtype, "float32"), ("float32", dtype), (dtype, "int8"), ("complex64", dtype)):
        assert rl.can_cast(getattr(rl, source), getattr(rl, target)) == torch.can_cast(
            getattr(torch, source), getattr(torch, target)
        )
    assert (
        pickle.loads(pickle.dumps(mine.dtype)) is mine.dtype
        and copy.copy(rl.per_tensor_affine) is rl.per_tensor_affine
    )


# Operators.

F = {rl: rl.nn.functional, torch: torch.nn.functional}
ALIASES = {
    "view": lambda t, lib: t.view(6, 20),
    "reshape": lambda t, lib: t.reshape(-1),
    "permute": lambda t, lib: t.permute(2, 0, 3, 1),
    "transpose": lambda t, lib: t.transpose(1, 2),
    "select": lambda t, lib: t[1],
    "slice": lambda t, lib: t[:, 1:, ::2],
    "unsqueeze": lambda t, lib: t.unsqueeze(1),
    "squeeze": lambda t, lib: t[:1].squeeze(),
    "squeeze dim": lambda t, lib: t[:1].squeeze(0),
    "expand": lambda t, lib: t[:1].expand(5, 3, 4, 5),
    "detach": lambda t, lib: t.detach(),
    "unbind": lambda t, lib: t.unbind(1),
    "split": lambda t, lib: t.split(2, 3),
    "chunk": lambda t, lib: t.chunk(2, 2),
    "narrow": lambda t, lib: t.narrow(3, 1, 3),
    "unfold": lambda t, lib: t.unfold(3, 2, 1),
    "as_strided": lambda t, lib: t.as_strided((2, 3), (1, 4), 5),
    "diagonal": lambda t, lib: t.diagonal(),
    "flatten": lambda t, lib: t.flatten(1),
    "unflatten": lambda t, lib: t.unflatten(2, (2, 2)),
    "movedim": lambda t, lib: t.movedim(0, 2),
    "view_as": lambda t, lib: t.view_as(t),
    "iterate": lambda t, lib: list(t),
}
COPIES = {
    "clone": lambda t, lib: t.permute(2, 0, 3, 1).clone(),
    "contiguous": lambda t, lib: t.permute(2, 0, 3, 1).contiguous(),
    "channels last": lambda t, lib: t.contiguous(memory_format=lib.channels_last),
    "index": lambda t, lib: t[lib.tensor([1, 0, 1])],
    "index pair": lambda t, lib: t[:, lib.tensor([2, 0]), lib.tensor([1, 3])],
    "mask": lambda t, lib: t[t > 0.3],
    "index_select": lambda t, lib: t.index_select(1, lib.tensor([2, 0])),
    "flip": lambda t, lib: t.flip(0, 2),
    "cat": lambda t, lib: lib.cat([t, t], 1),
    "stack": lambda t, lib: lib.stack([t, t], 1),
    "repeat": lambda t, lib: t.repeat(2, 1, 1, 1),
    "relu": lambda t, lib: t.relu(),
    "clamp": lambda t, lib: t.clamp(-1.03, 2.02),
    "clamp one": lambda t, lib: t.clamp(max=0.53),
    "hardtanh": lambda t, lib: F[lib].hardtanh(t),
    "relu6": lambda t, lib: F[lib].relu6(t),
    "threshold": lambda t, lib: F[lib].threshold(t, 0.3, 1.2),
    "sigmoid": lambda t, lib: t.sigmoid(),
    "tanh": lambda t, lib: t.tanh(),
    "hardsigmoid": lambda t, lib: F[lib].hardsigmoid(t),
    "leaky_relu": lambda t, lib: F[lib].leaky_relu(t, 0.2),
    "gelu": lambda t, lib: F[lib].gelu(t),
    "max": lambda t, lib: t.max(),
    "min": lambda t, lib: t.min(),
    "max dim": lambda t, lib: tuple(t.max(1)),
    "min dim": lambda t, lib: tuple(t.min(2, keepdim=True)),
    "sort": lambda t, lib: tuple(t.sort(dim=2, descending=True, stable=True)),
    "topk": lambda t, lib: t.topk(2, 3)[0],
    "mean": lambda t, lib: t.mean(1),
    "mean all": lambda t, lib: t.mean(),
    "mean keep": lambda t, lib: t.mean((2, 3), keepdim=True),
    "std": lambda t, lib: t.std(1),
    "eq": lambda t, lib: t == t.flip(0),
    "lt": lambda t, lib: t < 0.3,
    "ge float": lambda t, lib: t >= lib.zeros(2, 3, 4, 5),
    "ne": lambda t, lib: t != t.clone(),
    "full_like": lambda t, lib: lib.full_like(t, 1.27),
    "masked_fill": lambda t, lib: t.masked_fill(t > 0, 1.52),
    "max_pool2d": lambda t, lib: F[lib].max_pool2d(t, 2),
    "max_pool2d padded": lambda t, lib: F[lib].max_pool2d(t, 3, 2, 1),
    "max_pool1d": lambda t, lib: F[lib].max_pool1d(t[0], 2),
    "quantized_max_pool2d": lambda t, lib: lib.quantized_max_pool2d(t, (2, 2), (1, 1)),
    "avg_pool2d": lambda t, lib: F[lib].avg_pool2d(t, 2),
    "adaptive": lambda t, lib: F[lib].adaptive_avg_pool2d(t, (2, 2)),
    "nearest": lambda t, lib: F[lib].interpolate(t, scale_factor=2),
    "pad": lambda t, lib: F[lib].pad(t, (1, 2)),
    "pad value": lambda t, lib: F[lib].pad(t, (1, 0, 0, 1), value=0.77),
    "reflect": lambda t, lib: F[lib].pad(t, (1, 1, 2, 0), mode="reflect"),
    "channel_shuffle": lambda t, lib: F[lib].channel_shuffle(t.permute(0, 2, 1, 3).contiguous(), 2),
    "dequantize": lambda t, lib: t.dequantize(),
    "int_repr": lambda t, lib: t.int_repr(),
    "equal": lambda t, lib: lib.equal(t, t.clone()),
    "not equal": lambda t, lib: lib.equal(t, t.flip(0)),
    "to": lambda t, lib: t.to(t.dtype, copy=True),
    "tensor": lambda t, lib: t.detach().clone(),
    "deepcopy": lambda t, lib: copy.deepcopy(t),
    "pickle": lambda t, lib: pickle.loads(pickle.dumps(t)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ALIASES)
def test_views(name, dtype):
    mine, theirs = sample(dtype)
    a, b = ALIASES[name](mine, rl), ALIASES[name](theirs, torch)
    agree(a, b)
    for view, source in ((a, mine), (b, theirs)):
        first = view[0] if isinstance(view, tuple | list) else view
        assert first.untyped_storage().data_ptr() == source.untyped_storage().data_ptr()


# What PyTorch does not know for a dtype, and works here.
BEYOND = {("channel_shuffle", "qint8"), ("channel_shuffle", "qint32")}
# 32 bits show the last ones of float32.
ROUNDED = ("sigmoid", "tanh", "hardsigmoid")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", COPIES)
def test_operators(name, dtype):
    for seed, (scale, point) in enumerate(((0.05, 3), (0.1, 0), (1 / 3, 7), (0.011, 100))):
        mine, theirs = sample(dtype, scale=scale, zero_point=point, seed=seed)
        if (name, dtype) in BEYOND:
            with pytest.raises(RuntimeError):
                COPIES[name](theirs, torch)
            agree(COPIES[name](mine, rl).dequantize(), COPIES[name](theirs.dequantize(), torch))
            continue
        found, expected = COPIES[name](mine, rl), COPIES[name](theirs, torch)
        if dtype == "qint32" and name in ROUNDED:
            assert (found.q_scale(), found.q_zero_point()) == (expected.q_scale(), expected.q_zero_point())
            np.testing.assert_allclose(
                found.dequantize().numpy(), expected.dequantize().numpy(), rtol=1e-6, atol=1e-7
            )
        else:
            agree(found, expected)

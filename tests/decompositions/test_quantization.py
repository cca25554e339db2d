"""Fake quantization against PyTorch's: values, masks, gradients, observers, and what they compile to."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import rushlight as rl

SPECIAL = [0.0, 0.25, 0.75, 0.5, 1.5, -1.5, 1e9, -1e9, 1e30, np.nan, np.inf, -np.inf, 2.5, 0.05, -0.0]
DTYPES = ["float32", "float64", "float16", "bfloat16"]
NAMES = {
    "tensor": "fake_quantize_per_tensor_affine_cachemask",
    "channel": "fake_quantize_per_channel_affine_cachemask",
    "qparams": "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
}


def both(values, dtype="float32", grad=False):
    values = np.asarray(values)
    theirs = torch.from_numpy(values.copy()).to(getattr(torch, dtype))
    mine = rl.from_numpy(values.copy()).to(getattr(rl, dtype))
    return (theirs.requires_grad_(), mine.requires_grad_()) if grad else (theirs, mine)


def agree(mine, theirs):
    assert str(mine.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
    left, right = (t.detach().to(m.float64).numpy() for t, m in ((mine, rl), (theirs, torch)))
    np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("scale", "zero_point"), [(0.1, 0), (0.5, 3), (1.0, 0), (1e-3, -5), (0.3, 7)])
def test_per_tensor(dtype, scale, zero_point):
    theirs, mine = both([SPECIAL, SPECIAL[::-1]], dtype)
    for a, b in zip(
        getattr(rl.ops.aten, NAMES["tensor"])(mine, scale, zero_point, -8, 7),
        getattr(torch.ops.aten, NAMES["tensor"])(theirs, scale, zero_point, -8, 7),
        strict=True,
    ):
        agree(a, b)
    agree(
        rl.fake_quantize_per_tensor_affine(mine, scale, zero_point, -8, 7),
        torch.fake_quantize_per_tensor_affine(theirs, scale, zero_point, -8, 7),
    )
    steps, my_steps = both(np.array([scale], np.float32))
    zeros, my_zeros = both(np.array([zero_point], np.int32), "int32")
    agree(
        rl.fake_quantize_per_tensor_affine(mine, my_steps, my_zeros, -8, 7),
        torch.fake_quantize_per_tensor_affine(theirs, steps, zeros, -8, 7),
    )
    for on in (0, 1):
        enabled, my_enabled = both(np.array([on]), "int64")
        for a, b in zip(
            getattr(rl.ops.aten, NAMES["qparams"])(mine, my_steps, my_zeros, my_enabled, -8, 7),
            getattr(torch.ops.aten, NAMES["qparams"])(theirs, steps, zeros, enabled, -8, 7),
            strict=True,
        ):
            agree(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["int32", "float32", "float16"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_per_channel(dtype, kind, axis):
    random = np.random.default_rng(axis)
    values = random.standard_normal((3, 4, 5))
    values[0, 0, :2] = np.nan, -np.inf
    theirs, mine = both(values, dtype)
    size = values.shape[axis]
    scale, my_scale = both(random.uniform(0.05, 0.4, size).astype(np.float32))
    zero, my_zero = both(random.uniform(-3, 3, size), kind)
    for a, b in zip(
        getattr(rl.ops.aten, NAMES["channel"])(mine, my_scale, my_zero, axis, -8, 7),
        getattr(torch.ops.aten, NAMES["channel"])(theirs, scale, zero, axis, -8, 7),
        strict=True,
    ):
        agree(a, b)
    agree(
        rl.fake_quantize_per_channel_affine(mine, my_scale, my_zero, axis, -8, 7),
        torch.fake_quantize_per_channel_affine(theirs, scale, zero, axis, -8, 7),
    )


def test_infinity_is_the_end_of_the_grid():
    """PyTorch converts infinity to an integer there, and gives the lower end for both."""
    x = rl.tensor([[float("inf"), float("-inf")]])
    got = rl.fake_quantize_per_channel_affine(x, rl.ones(1), rl.zeros(1, dtype=rl.int32), 0, -8, 7)
    assert got.tolist() == [[7.0, -8.0]]


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_the_gradient_passes_where_the_value_is_in_range(axis):
    theirs, mine = both(np.linspace(-2, 2, 24).reshape(4, 6), "float64", grad=True)
    if axis is None:
        a = rl.fake_quantize_per_tensor_affine(mine, 0.2, 1, -8, 7)
        b = torch.fake_quantize_per_tensor_affine(theirs, 0.2, 1, -8, 7)
    else:
        scale, my_scale = both(np.linspace(0.1, 0.4, theirs.shape[axis], dtype=np.float32))
        zero, my_zero = both(np.arange(theirs.shape[axis]), "int32")
        a = rl.fake_quantize_per_channel_affine(mine, my_scale, my_zero, axis, -8, 7)
        b = torch.fake_quantize_per_channel_affine(theirs, scale, zero, axis, -8, 7)
    weights, my_weights = both(np.random.default_rng(0).standard_normal((4, 6)))
    (a * my_weights).sum().backward()
    (b * weights).sum().backward()
    agree(mine.grad, theirs.grad)
    assert 0 < np.count_nonzero(mine.grad.numpy()) < 24


@pytest.mark.parametrize("zero", [0.4, 0.5, 1.5, 2.5, -1.5, -0.5, 20.0, -20.0])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("factor", [1.0, 0.3])
def test_learnable(zero, axis, factor):
    random = np.random.default_rng(3)
    theirs, mine = both(random.standard_normal((4, 3)).astype(np.float32), grad=True)
    size = 1 if axis is None else theirs.shape[axis]
    scale, my_scale = both(random.uniform(0.05, 0.3, size).astype(np.float32), grad=True)
    zeros, my_zeros = both((zero + np.arange(size)).astype(np.float32), grad=True)
    name = f"_fake_quantize_learnable_per_{'tensor' if axis is None else 'channel'}_affine"
    rest = (-8, 7, factor) if axis is None else (axis, -8, 7, factor)
    a = getattr(rl, name)(mine, my_scale, my_zeros, *rest)
    b = getattr(torch, name)(theirs, scale, zeros, *rest)
    agree(a, b)
    weights, my_weights = both(random.standard_normal((4, 3)).astype(np.float32))
    (a * my_weights).sum().backward()
    (b * weights).sum().backward()
    # Halfway between two zero points PyTorch's per-tensor forward and backward take different ones.
    halfway = axis is None and zero % 2 == 0.5
    for left, right in ((mine, theirs), (my_scale, scale), (my_zeros, zeros))[: 1 if halfway else 3]:
        np.testing.assert_allclose(left.grad.numpy(), right.grad.numpy(), rtol=2e-5, atol=2e-6)


def observer(m, size):
    state = (
        m.full((size,), float("inf")),
        m.full((size,), float("-inf")),
        m.ones(size),
        m.zeros(size, dtype=m.int32),
    )
    return list(state)


OPTIONS = list(itertools.product([False, True], [False, True], [(0, 255), (-128, 127), (-7, 7)]))


@pytest.mark.parametrize(("per_row", "symmetric", "limits"), OPTIONS)
def test_observer(per_row, symmetric, limits):
    """Several batches, with the observer or the quantization off for some; also the state is compared."""
    random = np.random.default_rng(5)
    size = 3 if per_row else 1
    mine, theirs = observer(rl, size), observer(torch, size)
    batches = [(0, 1, 1, 0), (0, 2, 1, 1), (3, 1, 1, 1), (-4, 1, 0, 1), (0, 1e-6, 1, 1), (0, 0, 1, 1)]
    for shift, spread, on, quantize in batches:
        values = (random.standard_normal((3, 2, 4)) * spread + shift).astype(np.float32)
        x, y = both(values, grad=True)
        flags = [m.tensor([flag]) for m in (rl, torch) for flag in (on, quantize)]
        a = rl.fused_moving_avg_obs_fake_quant(y, *flags[:2], *mine, 0.1, *limits, 0, per_row, symmetric)
        b = torch.fused_moving_avg_obs_fake_quant(x, *flags[2:], *theirs, 0.1, *limits, 0, per_row, symmetric)
        for left, right in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(left.numpy(), right.numpy(), rtol=1e-6)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
        a.sum().backward()
        b.sum().backward()
        agree(y.grad, x.grad)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("limits", [(0, 255), (-128, 127), (0, 15)])
def test_grids(symmetric, limits):
    """Scale and zero point for extremes of every kind: one-sided, tiny, none at all."""
    for low, high in [
        (0, 0),
        (0, 1e-9),
        (-1e-9, 0),
        (-1e-6, 2e-6),
        (1, 3),
        (-3, -1),
        (-1, 5),
        (-5, 1),
        (0, 3),
        (-3, 0),
        (-1e30, 1e30),
        (1e-40, 1e-39),
        (-0.5, 0.5),
    ]:
        mine, theirs = observer(rl, 1), observer(torch, 1)
        for m, state in ((rl, mine), (torch, theirs)):
            m.fused_moving_avg_obs_fake_quant(
                m.tensor([low, high], dtype=m.float32),
                m.ones(1),
                m.ones(1),
                *state,
                0.1,
                *limits,
                0,
                False,
                symmetric,
            )
        for left, right in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(left.numpy(), right.numpy(), rtol=1e-6, err_msg=f"{low} .. {high}")


def test_an_empty_state_takes_the_size_of_the_channels():
    x, y = both(np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32))
    mine, theirs = [[m.empty(0), m.empty(0), m.empty(0), m.empty(0, dtype=m.int32)] for m in (rl, torch)]
    rest = (0.1, 0, 255, 0, True)
    a = rl._fused_moving_avg_obs_fq_helper(y, rl.tensor([1]), rl.tensor([1]), *mine, *rest)
    b = torch._fused_moving_avg_obs_fq_helper(x, torch.tensor([1]), torch.tensor([1]), *theirs, *rest)
    for left, right in zip((*a, *mine), (*b, *theirs), strict=True):
        np.testing.assert_allclose(left.numpy(), right.numpy(), rtol=1e-6)


ERRORS = [
    lambda m, x: m.fake_quantize_per_tensor_affine(x, 0.1, 9, -8, 7),
    lambda m, x: m.fake_quantize_per_tensor_affine(x, 0.1, 0, 8, 7),
    lambda m, x: m.fake_quantize_per_tensor_affine(x.int(), 0.1, 0, -8, 7),
    lambda m, x: m.fake_quantize_per_tensor_affine(x, 0.1, 3.0, -8, 7),
    lambda m, x: m.fake_quantize_per_tensor_affine(x, m.ones(2), m.zeros(1), -8, 7),
    lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(3), m.zeros(2).int(), 0, -8, 7),
    lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(2), m.zeros(2).int() + 8, 0, -8, 7),
    lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(2), m.zeros(2).int(), 2, -8, 7),
    lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(2), m.zeros(2).int(), -2, -8, 7),
    lambda m, x: m.fake_quantize_per_channel_affine(x.int(), m.ones(2), m.zeros(2).int(), 0, -8, 7),
    lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(2).double(), m.zeros(2).int(), 0, -8, 7),
    lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(2), m.zeros(2), 3, -8, 7),
    lambda m, x: m.fake_quantize_per_channel_affine(x, m.ones(2), m.zeros(2).long(), 0, -8, 7),
    lambda m, x: m.fused_moving_avg_obs_fake_quant(
        x, m.ones(1), m.ones(1), *observer(m, 2), 0.1, 0, 255, 1, True
    ),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    with pytest.raises(Exception) as theirs:
        ERRORS[number](torch, torch.zeros(2, 3))
    with pytest.raises(type(theirs.value)):
        ERRORS[number](rl, rl.zeros(2, 3))


def test_shapes_without_data():
    x = rl.empty(2, 3, device="meta", dtype=rl.bfloat16)
    y = rl.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7)
    assert (y.shape, y.dtype, y.device.type) == ((2, 3), rl.bfloat16, "meta")


def test_a_training_step_with_quantized_weights_compiles():
    """Observer, fake quantization of weights, backward and update in one graph: eager and compiled agree."""

    def make():
        rl.manual_seed(0)
        return rl.randn(3, 4, requires_grad=True), observer(rl, 1), rl.tensor([1]), rl.tensor([1])

    def step(w, state, on, quantize, x):
        seen = rl.fused_moving_avg_obs_fake_quant(x, on, quantize, *state, 0.1, 0, 255, 0)
        scale = (w.detach().abs().amax(1) / 7).clamp(min=1e-4)
        q = rl.fake_quantize_per_channel_affine(w, scale, rl.zeros(3, dtype=rl.int32), 0, -8, 7)
        loss = (seen @ q.t()).square().mean()
        (grad,) = rl.autograd.grad(loss, w)
        with rl.no_grad():
            w.sub_(grad, alpha=0.1)
        return loss

    compiled = rl.compile(step, fullgraph=True)
    (w, state, *flags), (v, other, *more) = make(), make()
    for i in range(3):
        rl.manual_seed(i + 1)
        x = rl.randn(5, 4)
        left, right = step(w, state, *flags, x), compiled(v, other, *more, x)
        np.testing.assert_allclose(left.item(), right.item(), rtol=1e-5)
    for a, b in zip((w, *state), (v, *other), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_compiled_code_is_native():
    def function(x):
        return rl.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7)

    report = rl.explain(function, rl.randn(64, 64))
    assert "extern" not in report.loops.lower()
    theirs, mine = both([SPECIAL])
    agree(rl.compile(function)(mine), torch.fake_quantize_per_tensor_affine(theirs, 0.1, 0, -8, 7))

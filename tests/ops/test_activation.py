"""Activations against PyTorch: special values, kinks, in-place forms, messages, randomness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import rushlight
from rushlight.core.dispatch import run_name
from rushlight.nn import functional

VALUES = [
    -np.inf,
    -100.0,
    -20.5,
    -3.0,
    -1.0,
    -0.5,
    -1e-30,
    -0.0,
    0.0,
    0.5,
    1.0,
    3.0,
    6.0,
    20.5,
    100.0,
    np.inf,
    np.nan,
]

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda f, x: f.relu(x),
    "relu6": lambda f, x: f.relu6(x),
    "elu": lambda f, x: f.elu(x, 1.3),
    "selu": lambda f, x: f.selu(x),
    "celu": lambda f, x: f.celu(x, 0.7),
    "leaky_relu": lambda f, x: f.leaky_relu(x, 0.2),
    "threshold": lambda f, x: f.threshold(x, 0.5, -7.0),
    "rrelu": lambda f, x: f.rrelu(x),
    "hardtanh": lambda f, x: f.hardtanh(x, -0.5, 3.0),
    "hardsigmoid": lambda f, x: f.hardsigmoid(x),
    "hardswish": lambda f, x: f.hardswish(x),
    "hardshrink": lambda f, x: f.hardshrink(x, 1.0),
    "softshrink": lambda f, x: f.softshrink(x, 1.0),
    "tanhshrink": lambda f, x: f.tanhshrink(x),
    "softsign": lambda f, x: f.softsign(x),
    "gelu": lambda f, x: f.gelu(x),
    "gelu_tanh": lambda f, x: f.gelu(x, approximate="tanh"),
    "silu": lambda f, x: f.silu(x),
    "mish": lambda f, x: f.mish(x),
    "softplus": lambda f, x: f.softplus(x),
    "softplus_sharp": lambda f, x: f.softplus(x, 3.0, 2.0),
    "logsigmoid": lambda f, x: f.logsigmoid(x),
    "tanh": lambda f, x: f.tanh(x),
    "sigmoid": lambda f, x: f.sigmoid(x),
}
TORCH = torch.nn.functional


def pair(values: Any, dtype: str = "float32", grad: bool = False) -> tuple[Any, Any]:
    theirs = torch.tensor(values, dtype=torch.float64).to(getattr(torch, dtype)).requires_grad_(grad)
    ours = rushlight.tensor(values, dtype=rushlight.float64).to(getattr(rushlight, dtype))
    return ours.detach().requires_grad_(grad), theirs


def check(ours: Any, theirs: Any) -> None:
    assert f"torch.{ours.dtype.name}" == str(theirs.dtype)
    plain = torch.tensor(ours.detach().to(rushlight.float64).tolist(), dtype=torch.float64)
    torch.testing.assert_close(plain.to(theirs.dtype).reshape(theirs.shape), theirs.detach(), equal_nan=True)


@pytest.fixture
def own_kernels() -> Iterator[None]:
    """PyTorch without oneDNN, which it prefers on some machines and whose gelu of infinity is NaN."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    yield
    torch._C._set_mkldnn_enabled(before)


@pytest.mark.usefixtures("own_kernels")
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", CALLS)
def test_special_values(name: str, dtype: str) -> None:
    ours, theirs = pair(VALUES, dtype)
    check(CALLS[name](functional, ours), CALLS[name](TORCH, theirs))


KINKS = [v for v in VALUES if np.isfinite(v)]


@pytest.mark.parametrize("name", CALLS)
def test_slopes_at_kinks(name: str) -> None:
    ours, theirs = pair(KINKS, "float64", grad=True)
    CALLS[name](functional, ours).sum().backward()
    CALLS[name](TORCH, theirs).sum().backward()
    check(ours.grad, theirs.grad)


@pytest.mark.parametrize("name", CALLS)
def test_shapes(name: str) -> None:
    values = np.linspace(-4, 4, 24).reshape(4, 6)
    ours, theirs = pair(values.tolist())
    for view in (lambda x: x.t(), lambda x: x[::2, 1::2], lambda x: x[:0], lambda x: x[1, 2]):
        check(CALLS[name](functional, view(ours)), CALLS[name](TORCH, view(theirs)))


INPLACE = {
    "relu": (),
    "relu6": (),
    "elu": (1.3,),
    "selu": (),
    "celu": (0.7,),
    "leaky_relu": (0.2,),
    "silu": (),
    "mish": (),
    "threshold": (0.5, -7.0),
    "hardtanh": (-0.5, 3.0),
    "hardsigmoid": (),
    "hardswish": (),
    "rrelu": (0.1, 0.3),
}


@pytest.mark.parametrize("name", INPLACE)
def test_in_place(name: str) -> None:
    """The tensor itself is returned, and a gradient flows through the overwritten value."""
    ours, theirs = pair(KINKS, "float64", grad=True)
    results = []
    for lib, x in ((functional, ours), (TORCH, theirs)):
        y = x * 1.5
        same = getattr(lib, name)(y, *INPLACE[name], inplace=True)
        assert same is y
        y.sum().backward()
        results.append(y)
    check(*results)
    check(ours.grad, theirs.grad)


@pytest.mark.parametrize("name", ["relu_", "elu_", "selu_", "celu_", "leaky_relu_", "rrelu_"])
def test_in_place_functions(name: str) -> None:
    ours, theirs = pair(KINKS)
    assert getattr(functional, name)(ours) is ours
    check(ours, getattr(TORCH, name)(theirs))


@pytest.mark.parametrize("name", ["gelu", "softplus", "softshrink", "hardshrink", "logsigmoid"])
def test_out(name: str) -> None:
    (ours, theirs), (out, their_out) = pair(KINKS), pair([0.0] * len(KINKS))
    assert getattr(functional, name)(ours, out=out) is out
    check(out, getattr(TORCH, name)(theirs, out=their_out))


@pytest.mark.parametrize(
    "expression",
    [
        "lib.nn.functional.hardtanh(T([1.0]), 2.0, 1.0)",
        "lib.nn.functional.softshrink(T([1.0]), -1.0)",
        "lib.nn.functional.gelu(T([1.0]), approximate='cubic')",
        "lib.nn.functional.gelu(T([1, 2]))",
        "lib.nn.functional.silu(T([True]))",
        "lib.nn.functional.prelu(T([[1.0, 2.0]]), T([[0.1, 0.2]]))",
        "lib.nn.functional.prelu(T([[1.0, 2.0]]), T([0.1, 0.2, 0.3]))",
        "lib.nn.functional.prelu(T(1.0), T([0.1, 0.2]))",
        "lib.nn.functional.prelu(T([1.0]), T([0.1], dtype=float64))",
        "lib.nn.functional.glu(T([1.0, 2.0, 3.0]))",
        "lib.nn.functional.glu(T(1.0))",
        "lib.nn.functional.celu(T([1.0]), 0)",
        "lib.nn.functional.rrelu(T([1.0]), 0.5, 0.1)",
        "lib.nn.functional.dropout(T([1.0]), 1.5)",
        "lib.nn.functional.dropout1d(T([1.0]))",
        "lib.nn.functional.dropout2d(lib.ones(2, 3), 0.0)",
        "lib.nn.functional.softmax(T([[1.0, 2.0]]), 2)",
        "lib.ops.aten.elu_backward(T([1.0]), -1.0, 1, 1, True, T([1.0]))",
    ],
)
def test_errors_and_warnings(expression: str, like_pytorch: Callable[[str], None]) -> None:
    like_pytorch(expression)


def test_hardtanh_of_bytes() -> None:
    x = rushlight.tensor([0, 3, 9], dtype=rushlight.uint8)
    assert functional.relu6(x).tolist() == [0, 3, 6]
    with pytest.raises(RuntimeError, match="unsigned type with negative limits"):
        functional.hardtanh(x)


def test_glu_and_prelu() -> None:
    ours, theirs = pair(np.linspace(-3, 3, 24).reshape(2, 4, 3).tolist(), "float64", grad=True)
    slopes, their_slopes = pair([0.1, 0.2, -0.3, 0.4], "float64", grad=True)
    for lib, x, w in ((functional, ours, slopes), (TORCH, theirs, their_slopes)):
        (lib.glu(x, 1).sum() + lib.prelu(x, w).sum() + lib.prelu(x, w[:1]).sum()).backward()
    check(ours.grad, theirs.grad)
    check(slopes.grad, their_slopes.grad)


# Randomness.


def test_rrelu_slopes() -> None:
    x = rushlight.linspace(-1, 1, 2001)
    noise = rushlight.empty_like(x)
    rushlight.manual_seed(3)
    y = run_name("rrelu_with_noise", x, noise, 0.2, 0.4, True, None)
    assert y.equal(x * noise)
    slopes = noise.numpy()
    assert (slopes[x.numpy() > 0] == 1).all()
    negative = slopes[x.numpy() <= 0]
    assert negative.min() >= 0.2
    assert negative.max() <= 0.4
    assert abs(negative.mean() - 0.3) < 0.01
    rushlight.manual_seed(3)
    assert functional.rrelu(x, 0.2, 0.4, training=True).equal(y)


def test_safe_softmax_of_a_number() -> None:
    assert rushlight._safe_softmax(rushlight.tensor(3.0), 0).item() == 1.0
    assert rushlight._safe_softmax(rushlight.tensor(-float("inf")), -1).item() == 0.0


def test_gumbel_softmax() -> None:
    logits = rushlight.tensor([[0.0, 1.0, 2.0]] * 4000, requires_grad=True)
    rushlight.manual_seed(0)
    hard = functional.gumbel_softmax(logits, tau=0.5, hard=True)
    assert hard.sum(1).allclose(rushlight.ones(4000))
    assert set(np.unique(hard.detach().numpy().round(6))) == {0.0, 1.0}
    frequencies = hard.detach().mean(0).numpy()
    np.testing.assert_allclose(frequencies, np.exp([0, 1, 2]) / np.exp([0, 1, 2]).sum(), atol=0.03)
    rushlight.manual_seed(0)
    soft = functional.gumbel_softmax(logits, tau=0.5)
    weights = rushlight.linspace(0, 1, 12000).reshape(4000, 3)
    expected = rushlight.autograd.grad((soft * weights).sum(), logits)[0]
    assert rushlight.autograd.grad((hard * weights).sum(), logits)[0].allclose(expected)


def test_softmax_warns_without_dim() -> None:
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        result = functional.softmax(rushlight.ones(2, 4))
    assert result.equal(rushlight.full((2, 4), 0.25))

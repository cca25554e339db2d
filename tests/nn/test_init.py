"""Initial values: bounds, moments and structure, and what PyTorch refuses."""

from __future__ import annotations

import math

import pytest
import torch

import rushlight as rl
from rushlight import nn
from rushlight.nn import init


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("linear", ()),
        ("sigmoid", ()),
        ("tanh", ()),
        ("relu", ()),
        ("leaky_relu", ()),
        ("leaky_relu", (0.3,)),
        ("selu", ()),
        ("conv_transpose2d", ()),
    ],
)
def test_gain(name, args):
    assert init.calculate_gain(name, *args) == torch.nn.init.calculate_gain(name, *args)


@pytest.mark.parametrize(
    ("name", "bound"),
    [("uniform_", 1.0), ("xavier_uniform_", math.sqrt(6 / 900)), ("kaiming_uniform_", math.sqrt(6 / 400))],
)
def test_uniform(name, bound):
    rl.manual_seed(0)
    values = getattr(init, name)(rl.empty(500, 400))
    low = 0.0 if name == "uniform_" else -bound
    assert values.min().item() >= low
    assert values.max().item() <= bound
    assert values.mean().item() == pytest.approx((low + bound) / 2, abs=bound / 50)
    assert values.std().item() == pytest.approx((bound - low) / math.sqrt(12), rel=0.02)


@pytest.mark.parametrize(
    ("name", "std"),
    [("normal_", 1.0), ("xavier_normal_", math.sqrt(2 / 900)), ("kaiming_normal_", math.sqrt(2 / 400))],
)
def test_normal(name, std):
    rl.manual_seed(0)
    values = getattr(init, name)(rl.empty(500, 400))
    assert values.mean().item() == pytest.approx(0, abs=std / 50)
    assert values.std().item() == pytest.approx(std, rel=0.02)


@pytest.mark.parametrize(
    ("mean", "std", "a", "b"), [(0, 1, -2, 2), (1, 0.5, 0.5, 3), (0, 1, 4, 6), (0, 1, -9, -4)]
)
@pytest.mark.filterwarnings("ignore:mean is more than")
def test_truncated_normal(mean, std, a, b):
    torch.manual_seed(0)
    rl.manual_seed(0)
    mine = init.trunc_normal_(rl.empty(50_000), mean, std, a, b)
    theirs = torch.nn.init.trunc_normal_(torch.empty(50_000), mean, std, a, b)
    assert mine.min().item() >= a
    assert mine.max().item() <= b
    assert mine.mean().item() == pytest.approx(theirs.mean().item(), abs=0.02)
    assert mine.std().item() == pytest.approx(theirs.std().item(), rel=0.05)


def test_constants():
    assert init.ones_(rl.empty(2)).tolist() == [1, 1]
    assert init.zeros_(rl.empty(2)).tolist() == [0, 0]
    assert init.constant_(rl.empty(2), 3).tolist() == [3, 3]
    assert init.eye_(rl.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize(("shape", "groups"), [((4, 2, 3), 2), ((3, 3, 3, 4), 1), ((2, 5, 1, 2, 3), 1)])
def test_dirac(shape, groups):
    mine, theirs = init.dirac_(rl.empty(shape), groups), torch.nn.init.dirac_(torch.empty(shape), groups)
    assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (4, 2, 3)])
def test_orthogonal(shape):
    values = init.orthogonal_(rl.empty(shape), gain=2.0).reshape(shape[0], -1)
    product = values @ values.T if values.shape[0] <= values.shape[1] else values.T @ values
    assert rl.allclose(product, 4 * rl.eye(product.shape[0]), atol=1e-5)


def test_sparse():
    values = init.sparse_(rl.empty(10, 4), 0.25)
    assert (values == 0).sum(0).tolist() == [3, 3, 3, 3]


def test_parameters_stay_leaves_and_are_not_recorded():
    param = nn.Parameter(rl.empty(3, 3))
    for fill in (init.normal_, init.eye_, init.orthogonal_, init.kaiming_uniform_, init.trunc_normal_):
        assert fill(param) is param
        assert param.grad_fn is None


def test_seed_decides():
    rl.manual_seed(3)
    first = nn.Linear(3, 3).weight
    rl.manual_seed(3)
    assert first.tolist() == nn.Linear(3, 3).weight.tolist()


def test_former_names_warn():
    with pytest.warns(FutureWarning, match="constant_"):
        init.constant(rl.empty(1), 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda lib: lib.nn.init.calculate_gain("x"),
        lambda lib: lib.nn.init.calculate_gain("leaky_relu", True),
        lambda lib: lib.nn.init.eye_(lib.empty(1)),
        lambda lib: lib.nn.init.dirac_(lib.empty(1)),
        lambda lib: lib.nn.init.xavier_uniform_(lib.empty(1)),
        lambda lib: lib.nn.init.orthogonal_(lib.empty(1)),
        lambda lib: lib.nn.init.kaiming_normal_(lib.empty(2, 2), mode="x"),
        lambda lib: lib.nn.init.sparse_(lib.empty(1), 1),
    ],
)
def test_errors(call):
    with pytest.raises(Exception) as theirs:
        call(torch)
    with pytest.raises(type(theirs.value)):
        call(rl)


@pytest.mark.parametrize(
    "make",
    [
        lambda lib: lib.nn.Linear(300, 200),
        lambda lib: lib.nn.Embedding(300, 200),
        lambda lib: lib.nn.GRUCell(100, 100),
        lambda lib: lib.nn.Conv1d(100, 100, 3),
        lambda lib: lib.nn.Bilinear(50, 30, 20),
        lambda lib: lib.nn.MultiheadAttention(96, 4),
        lambda lib: lib.nn.LSTM(50, 80, 2),
        lambda lib: lib.nn.PReLU(3),
        lambda lib: lib.nn.ConvTranspose2d(40, 60, 3),
        lambda lib: lib.nn.BatchNorm1d(3),
    ],
)
def test_modules_begin_with_the_same_distribution(make):
    torch.manual_seed(0)
    rl.manual_seed(0)
    for (name, a), (other, b) in zip(
        make(torch).named_parameters(), make(rl).named_parameters(), strict=True
    ):
        assert name == other
        if a.numel() < 1000:
            limit = a.abs().max().item()
            assert b.abs().max().item() <= limit * 1.5 + 1e-6
            assert (b.abs().max().item() == 0) == (limit == 0)
        else:
            assert b.std().item() == pytest.approx(a.std().item(), rel=0.1)
            assert b.max().item() == pytest.approx(a.max().item(), rel=0.3)

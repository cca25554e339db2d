"""`rushlight.compile` end to end.

Same results, aliasing, writes and gradients as the function it compiles.
"""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight.capture.errors import CaptureError

from .tensors import tensor


def assert_same(a, b, tolerance: float = 1e-5) -> None:
    assert a.shape == b.shape
    assert a.dtype is b.dtype
    assert a.stride() == b.stride()
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (4, 1, 9), (2, 0, 3), (33, 65)])
def test_pointwise_chain(shape: tuple[int, ...]) -> None:
    def f(x, y):
        return (x * y + 0.5).sigmoid() * x - y

    x, y = tensor(*shape), tensor(*shape, seed=1)
    assert_same(rl.compile(f, fullgraph=True)(x, y), f(x, y))


def test_broadcasting_and_strides() -> None:
    def f(x, y, z):
        return x.t() * y + z, (x + 1).t()

    x, y, z = tensor(5, 3), tensor(5), tensor(3, 1)
    for a, b in zip(rl.compile(f, fullgraph=True)(x, y, z), f(x, y, z), strict=True):
        assert_same(a, b)


@pytest.mark.parametrize("dim", [0, 1, 2, (0, 1), (1, 2), (0, 2), None])
def test_reductions(dim) -> None:
    def f(x):
        return x.sum(dim), (x * 2).mean(dim), x.amax(() if dim is None else dim)

    x = tensor(6, 17, 11)
    for a, b in zip(rl.compile(f, fullgraph=True)(x), f(x), strict=True):
        assert_same(a, b)


def test_softmax_runs_as_one_kernel() -> None:
    def f(x):
        return x.softmax(1)

    x = tensor(37, 129)
    compiled = rl.compile(f, fullgraph=True)
    assert_same(compiled(x), f(x))
    (entry,) = compiled.specializations[next(iter(compiled.specializations))]
    assert len(entry.artifact.schedule.steps) == 1


def test_views_of_inputs_stay_views() -> None:
    compiled = rl.compile(lambda x: (x.t(), x[1:], x), fullgraph=True)
    x = tensor(4, 3)
    transposed, rest, same = compiled(x)
    assert transposed.data_ptr() == x.data_ptr()
    assert transposed.stride() == (1, 3)
    assert rest.storage_offset() == 3
    assert same is x


def test_writes_reach_the_caller() -> None:
    def f(x, y):
        x[1].add_(y * 2)
        x.mul_(3)
        return x.sum()

    x, y = tensor(4, 3), tensor(3, seed=1)
    x2 = x.clone()
    a = rl.compile(f, fullgraph=True)(x, y)
    b = f(x2, y)
    assert_same(a, b)
    assert_same(x, x2)
    assert x._version == x2._version


def test_writes_to_new_tensors() -> None:
    def f(x):
        y = rl.zeros(4, 3)
        y[2] = x[0]
        y[:, 1].fill_(7)
        z = y.t()
        y.add_(1)
        return z, y

    x = tensor(4, 3)
    for a, b in zip(rl.compile(f, fullgraph=True)(x), f(x), strict=True):
        assert_same(a, b)


def test_gradients_through_a_compiled_function() -> None:
    def f(x, y):
        return (x * y).sigmoid().sum(0) * 2

    x, y = tensor(5, 7).requires_grad_(), tensor(7, seed=1).requires_grad_()
    rl.compile(f, fullgraph=True)(x, y).sum().backward()
    compiled = x.grad.clone(), y.grad.clone()
    x.grad = y.grad = None
    f(x, y).sum().backward()
    assert_same(compiled[0], x.grad)
    assert_same(compiled[1], y.grad)


def test_a_whole_training_step() -> None:
    def step(w, x):
        loss = (x * w).sigmoid().sum()
        loss.backward()
        with rl.no_grad():
            w.sub_(0.1 * w.grad)
        w.grad = None
        return loss

    def train(function):
        w = tensor(7).requires_grad_()
        losses = [function(w, tensor(5, 7, seed=1)).item() for _ in range(4)]
        return losses, w.detach().numpy()

    eager, compiled = train(step), train(rl.compile(step, fullgraph=True))
    np.testing.assert_allclose(eager[0], compiled[0], rtol=1e-5)
    np.testing.assert_allclose(eager[1], compiled[1], rtol=1e-5, atol=1e-6)


def test_gradients_left_on_leaves() -> None:
    w = tensor(3).requires_grad_()
    rl.compile(lambda x: (x * w).sum().backward(), fullgraph=True)(tensor(2, 3, seed=1))
    compiled = w.grad.clone()
    w.grad = None
    (tensor(2, 3, seed=1) * w).sum().backward()
    assert_same(compiled, w.grad)


def test_recompiles_for_new_shapes_and_values_and_says_why() -> None:
    compiled = rl.compile(lambda x, k: x * k, fullgraph=True)
    compiled(tensor(3), 2)
    compiled(tensor(3), 2)
    assert len(compiled.reasons) == 1
    assert_same(compiled(tensor(4), 2), tensor(4) * 2)
    assert_same(compiled(tensor(3), 5), tensor(3) * 5)
    assert len(compiled.reasons) == 2  # the number is live
    assert compiled.reasons[1] == "argument 0: shape was (3,), is (4,)"


def test_reading_a_value_raises_under_fullgraph_and_falls_back_otherwise() -> None:
    def f(x):
        return x * 2 if x.sum() > 0 else x - 1

    x = tensor(3).abs()
    with pytest.raises(CaptureError, match=r"test_compile\.py"):
        rl.compile(f, fullgraph=True)(x)
    compiled = rl.compile(f)
    assert_same(compiled(x), x * 2)
    assert_same(compiled(-x), -x - 1)


def test_a_failed_capture_changes_nothing() -> None:
    def f(x):
        x.add_(1)
        (x * 2).sum().backward()
        return bool(x.sum() > 0)

    x = tensor(3)
    before = x.clone()
    with pytest.raises(RuntimeError, match="does not require grad"):
        rl.compile(f, fullgraph=True)(x)
    assert_same(x, before)
    assert x._version == 0


def padded(x):
    return rl.constant_pad_nd(x, (1, 2, -1, 0), 7.0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.flip(0, 1),
        lambda x: x.roll(2, 1) + x.roll(-1),
        lambda x: x.tril(1) - x.triu(-1),
        lambda x: rl.cat([x, x * 2, x[:, :2]], 1),
        lambda x: rl.stack([x, x + 1]).sum(0),
        padded,
        lambda x: rl.zeros_like(x) + rl.full((5,), 3.0) * rl.arange(5),
        lambda x: x.to(rl.float64).sum() + rl.eye(6, 5, dtype=rl.float64),
        lambda x: x.repeat(2, 3),
        lambda x: x.clone().t().contiguous(),
    ],
    ids=["flip", "roll", "triangles", "cat", "stack", "pad", "creation", "cast", "repeat", "contiguous"],
)
def test_shape_operators_are_native(function) -> None:
    x = tensor(6, 5)
    compiled = rl.compile(function, fullgraph=True)
    assert_same(compiled(x), function(x))
    (entry,) = compiled.specializations[next(iter(compiled.specializations))]
    assert all(isinstance(segment, str) for segment in entry.artifact.module.segments), (
        "a library call was made"
    )


def indices(*values):
    return rl.tensor(values)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.gather(1, indices([0, 2, 4], [1, 1, -0])),
        lambda x: x.index_select(0, indices(5, 0, 3)) * 2,
        lambda x: x[indices(1, -2, 5)],
        lambda x: x[indices([0, 1], [2, 3]), indices(4, -1)],
        lambda x: rl.embedding(x, indices([0, 1, 2], [5, 4, 3])).sum(1),
        lambda x: (x.exp() + x.sum(1, keepdim=True))[:, indices(0, 4)],
    ],
    ids=["gather", "index_select", "index", "two indices", "embedding", "of a computed tensor"],
)
def test_indexing_is_native(function) -> None:
    x = tensor(6, 5)
    compiled = rl.compile(function, fullgraph=True)
    assert_same(compiled(x), function(x))
    (entry,) = compiled.specializations[next(iter(compiled.specializations))]
    assert all(isinstance(segment, str) for segment in entry.artifact.module.segments), (
        "a library call was made"
    )


@pytest.mark.parametrize("bad", [6, -7, 10**12, -(10**15)])
def test_an_index_out_of_range_raises_and_reads_nothing(bad: int) -> None:
    compiled = rl.compile(lambda x, i: x[i] + 1, fullgraph=True)
    with pytest.raises(IndexError, match="index"):
        compiled(tensor(6, 5), rl.tensor([0, bad, 2]))
    assert_same(compiled(tensor(6, 5), rl.tensor([0, 5, 2])), tensor(6, 5)[rl.tensor([0, 5, 2])] + 1)

"""Tensors that a compiled program writes to: in place where nobody needs the old contents, else as before."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight import explain, nn, optim
from rushlight.capture.errors import CaptureError
from rushlight.nn import functional as F
from rushlight.runtime.redzones import guarding


def _decay(w: rl.Tensor, g: rl.Tensor) -> None:
    w.mul_(0.5).sub_(g)


def _data(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _updates(function: object, *args: object) -> int:
    return sum("is written in place of" in note for note in explain(function, *args).fusion)


def test_the_memory_of_a_tensor_is_kept() -> None:
    step = rl.compile(_decay, fullgraph=True)
    w, g = rl.tensor(_data(40, 33)), rl.tensor(_data(40, 33, seed=1))
    expected = w.numpy_array() * np.float32(0.5) - g.numpy_array()
    before = w.numpy_array().__array_interface__["data"][0]
    assert _updates(step, w, g) == 1
    step(w, g)
    assert w.numpy_array().__array_interface__["data"][0] == before
    np.testing.assert_array_equal(w.numpy_array(), expected)
    assert w._version == 2


@pytest.mark.parametrize("length", [1, 7, 8, 63, 1000, 70_001])
def test_every_element_is_updated_once(length: int) -> None:
    """A last vector that overlaps the one before would update elements twice."""
    step = rl.compile(lambda w: w.add_(1), fullgraph=True)
    w = rl.zeros(length)
    for _ in range(3):
        step(w)
    np.testing.assert_array_equal(w.numpy_array(), np.full(length, 3, np.float32))


def test_views_see_the_update() -> None:
    step = rl.compile(_decay, fullgraph=True)
    w, g = rl.tensor(_data(6, 5)), rl.tensor(_data(6, 5, seed=1))
    first_row, shared = w[0], w.numpy_array()
    expected = shared * np.float32(0.5) - g.numpy_array()
    step(w, g)
    np.testing.assert_array_equal(first_row.numpy_array(), expected[0])
    np.testing.assert_array_equal(shared, expected)


def test_inputs_over_one_memory() -> None:
    """What is read through a tensor that only NumPy knows to share the memory is the old contents, although
    the update comes first in memory. Among arguments that is noticed."""
    memory = _data(300)
    w, other = rl.from_numpy(memory), rl.from_numpy(memory)

    def run(w: rl.Tensor, another: rl.Tensor | None = None) -> rl.Tensor:
        w.mul_(2)
        return (other if another is None else another).flip(0) * 3

    expected = memory[::-1] * 3
    doubled = memory * 2
    np.testing.assert_array_equal(rl.compile(run, fullgraph=True)(w).numpy_array(), expected)
    np.testing.assert_array_equal(memory, doubled)
    np.testing.assert_array_equal(rl.compile(run)(w, other).numpy_array(), doubled[::-1] * 6)
    with pytest.raises(CaptureError, match="NumPy"):
        rl.compile(run, fullgraph=True)(w, other)


def test_new_contents_are_read_where_they_are() -> None:
    """By loops that run later: rows in another order."""

    def run(w: rl.Tensor, g: rl.Tensor) -> rl.Tensor:
        w.add_(g.softmax(1))
        return w.flip(0) * 2

    w, g = rl.tensor(_data(300, 40)), rl.tensor(_data(300, 40, seed=1))
    expected = w.clone()
    last = run(expected, g)
    step = rl.compile(run, fullgraph=True)
    assert _updates(step, w, g) == 1
    with guarding():
        np.testing.assert_allclose(step(w, g).numpy_array(), last.numpy_array(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(w.numpy_array(), expected.numpy_array(), rtol=1e-6, atol=1e-6)


def test_old_contents_that_are_needed() -> None:
    def run(w: rl.Tensor) -> rl.Tensor:
        old = w.flip(0) + 1
        w.copy_(w.flip(0).cumsum(0))
        return old

    w = rl.tensor(_data(257))
    old = w.numpy_array().copy()
    result = rl.compile(run, fullgraph=True)(w)
    np.testing.assert_array_equal(result.numpy_array(), old[::-1] + 1)
    np.testing.assert_allclose(w.numpy_array(), old[::-1].cumsum(), rtol=1e-4, atol=1e-4)


def test_a_weight_that_is_read_by_a_product_and_updated_by_another() -> None:
    def run(w: rl.Tensor, x: rl.Tensor) -> rl.Tensor:
        y = x @ w
        w.sub_(x.t() @ y)
        return y @ w.t()

    w, x = rl.tensor(_data(96, 64)), rl.tensor(_data(80, 96, seed=1))
    eager_w = w.clone()
    expected = run(eager_w, x)
    result = rl.compile(run, fullgraph=True)(w, x)
    for found, wanted in ((w, eager_w), (result, expected)):
        scale = np.abs(wanted.numpy_array()).max()
        np.testing.assert_allclose(found.numpy_array() / scale, wanted.numpy_array() / scale, atol=1e-5)


def test_memory_that_must_not_be_written() -> None:
    memory = _data(50)
    memory.flags.writeable = False
    w = rl.zeros(50)
    w._array = memory
    with pytest.raises(RuntimeError, match="read-only"):
        rl.compile(lambda w: w.add_(1), fullgraph=True)(w)
    np.testing.assert_array_equal(memory, _data(50))


def test_a_refused_write_draws_no_random_numbers() -> None:
    memory = np.ones(1000, np.float32)
    x = rl.from_numpy(memory)

    @rl.compile(fullgraph=True)
    def noise(x: rl.Tensor) -> None:
        x.mul_(rl.rand(1000))

    noise(x)
    memory.flags.writeable = x._array.flags.writeable = False
    state, before = rl.get_rng_state(), memory.copy()
    with pytest.raises(RuntimeError, match="read-only"):
        noise(x)
    assert rl.equal(rl.get_rng_state(), state)
    assert (memory == before).all()


def test_an_error_leaves_everything_as_it_was() -> None:
    rl.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 8), nn.Linear(8, 5))
    optimizer = optim.AdamW(model.parameters(), lr=0.1)

    @rl.compile(fullgraph=True)
    def step(text: rl.Tensor, target: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(text), target)
        loss.backward()
        optimizer.step()
        return loss

    good = rl.tensor([0, 1, 2, 3]), rl.tensor([1, 2, 3, 4])
    step(*good)
    assert _updates(step, *good) >= 9
    kept = [p.numpy_array().copy() for p in model.parameters()]
    moments = [state["exp_avg"].numpy_array().copy() for state in optimizer.state.values()]
    for bad in ((rl.tensor([0, 1, 5, 3]), good[1]), (good[0], rl.tensor([1, 2, 9, 4]))):
        with pytest.raises(IndexError):
            step(*bad)
        for p, old in zip(model.parameters(), kept, strict=True):
            np.testing.assert_array_equal(p.numpy_array(), old)
        for state, old in zip(optimizer.state.values(), moments, strict=True):
            np.testing.assert_array_equal(state["exp_avg"].numpy_array(), old)


def test_between_guard_zones() -> None:
    with guarding():
        step = rl.compile(_decay, fullgraph=True)
        w, g = rl.tensor(_data(40, 33)), rl.tensor(_data(40, 33, seed=1))
        expected = w.numpy_array() * np.float32(0.5) - g.numpy_array()
        step(w, g)
    np.testing.assert_array_equal(w.numpy_array(), expected)


def test_a_write_that_casts_keeps_the_memory_order() -> None:
    """A view made before the write looked at the cast values in the order of another layout."""

    def program(x: rl.Tensor, number: rl.Tensor) -> rl.Tensor:
        y = x.transpose(0, 1) * 1.0
        view = y[:, 1:3:2]
        y.add_(number)
        return view

    x, number = rl.arange(12.0).reshape(3, 4), rl.tensor([100.0], dtype=rl.float64)
    compiled = rl.compile(program, fullgraph=True)(x, number)
    assert compiled.tolist() == program(x, number).tolist()
    assert compiled.stride() == (1, 8)

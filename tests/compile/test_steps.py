"""Training steps as one native call: gradients in the memory of those they replace; what is left alone."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core.dispatch import run_name
from rushlight.runtime.redzones import guarding

from .trained import INPUTS, OUTPUTS, Trained, addresses, assert_same, both, native


@native
def test_gradients_stay_in_their_memory() -> None:
    found, expected = both()
    before = addresses(found)
    arrays = [id(p.grad._array) for p in found.parameters()]
    state = [[t.data_ptr() for t in found.optimizer.state[p].values()] for p in found.parameters()]
    for _ in range(3):
        assert found() == pytest.approx(expected(), rel=1e-5)
        assert addresses(found) == before
    assert [id(p.grad._array) for p in found.parameters()] == arrays
    assert [[t.data_ptr() for t in found.optimizer.state[p].values()] for p in found.parameters()] == state
    assert found.specialization().native_call
    assert_same(found, expected)


KEPT: dict[str, Callable[[Any], Any]] = {
    "itself": lambda g: g,
    "a view": lambda g: g[1:],
    "a view of a view": lambda g: g.view(-1)[2:],
    "detached": lambda g: g.detach(),
    "data": lambda g: g.data,
    "NumPy": lambda g: g.numpy(),
    "a part in NumPy": lambda g: g.numpy()[1:],
    "NumPy reversed": lambda g: g.numpy()[::-1],
    "memoryview": lambda g: memoryview(g.numpy()),
    "storage": lambda g: g.untyped_storage(),
    "DLPack": lambda g: np.from_dlpack(g),
    "a parameter": lambda g: nn.Parameter(g),
    "history": lambda g: (g.clone().requires_grad_() * g).sum(),
}


def _contents(kept: Any) -> bytes:
    if isinstance(kept, rl.UntypedStorage):
        return bytes(kept.buffer)
    if isinstance(kept, rl.Tensor):
        kept = kept.detach().numpy()
    return np.asarray(kept).tobytes()


@pytest.mark.parametrize("what", KEPT)
def test_a_gradient_that_somebody_keeps(what: str) -> None:
    found, expected = both(2)
    for p in found.parameters():
        kept = KEPT[what](p.grad)
        before, address = _contents(kept), p.grad.data_ptr()
        assert found() == pytest.approx(expected(), rel=1e-5)
        assert _contents(kept) == before
        assert p.grad.data_ptr() != address
        if what == "history":
            kept.backward()
        del kept
    assert found() == pytest.approx(expected(), rel=1e-5)
    assert_same(found, expected)


def test_a_gradient_of_two_tensors() -> None:
    found, expected = both(2)
    weight = found.parameters()[0]
    other = rl.zeros(OUTPUTS, INPUTS, requires_grad=True)
    other.grad = weight.grad
    before = other.grad.numpy().copy()
    found(), expected()
    np.testing.assert_array_equal(other.grad.numpy(), before)
    assert other.grad is not weight.grad
    assert_same(found, expected)


def test_a_gradient_of_the_callers() -> None:
    """Memory that is not like the new gradient's, or not to be written, is left alone."""
    found, expected = both(2)
    weight, bias, *_ = found.parameters()
    mine = np.ones((INPUTS, OUTPUTS), np.float32)
    fixed = np.ones(OUTPUTS, np.float32)
    weight.grad, bias.grad = rl.from_numpy(mine).t(), rl.tensor(fixed)
    bias.grad._array.flags.writeable = False
    found(), expected()
    assert mine.min() == mine.max() == 1
    assert bias.grad._array.flags.writeable
    assert weight.grad.stride() == (INPUTS, 1)
    assert_same(found, expected)
    weight.grad = rl.tensor(np.ones((OUTPUTS, INPUTS), np.float32)).as_subclass(nn.Parameter)
    found(), expected()
    assert type(weight.grad) is rl.Tensor
    assert_same(found, expected)


def test_weak_references_see_the_old_gradient_go() -> None:
    found, _ = both(2)
    weight = found.parameters()[0]
    old = weakref.ref(weight.grad)
    seen: list[Any] = []
    ends = weakref.ref(weight.grad, lambda _: seen.append(weight.grad))
    found()
    assert old() is None
    assert ends() is None
    assert seen == [None]  # it was let go before the new one was computed


def test_gradients_that_are_added_to() -> None:
    found, expected = (Trained(compiled=c, zero_grad=False) for c in (True, False))
    for _ in range(2):
        found(), expected()
    kept = [[p.grad for p in t.parameters()] for t in (found, expected)]
    views = [t.parameters()[0].grad[1:] for t in (found, expected)]
    for _ in range(3):
        assert found() == pytest.approx(expected(), rel=1e-5)
    for a, b, p in zip(*kept, found.parameters(), strict=True):
        assert p.grad is a
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(views[0].numpy(), views[1].numpy(), rtol=1e-4, atol=1e-6)
    assert_same(found, expected)


def test_a_reported_error() -> None:
    """The gradients are gone, as after zero_grad(), and nothing else has changed."""
    w = rl.tensor(np.arange(2000, dtype=np.float32), requires_grad=True)
    count = rl.zeros(())

    @rl.compile(fullgraph=True)
    def step(x: Any) -> Any:
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        run_name("_assert_async", (x > 0).all())
        with rl.no_grad():
            w.sub_(w.grad)
            count.add_(1)
            return loss + count

    x = rl.full((2000,), 2.0)
    for _ in range(2):
        step(x)
    before, kept = w.detach().numpy().copy(), w.grad
    for bad in (rl.zeros(2000), -x):
        with pytest.raises(RuntimeError):
            step(bad)
        np.testing.assert_array_equal(w.detach().numpy(), before)
        assert w.grad is None
        assert float(count) == 2
    np.testing.assert_array_equal(kept.numpy(), np.full(2000, 2, np.float32))
    assert float(step(x)) == (before * 2).sum() + 3
    np.testing.assert_array_equal(w.grad.numpy(), np.full(2000, 2, np.float32))
    np.testing.assert_array_equal(w.detach().numpy(), before - 2)


def test_threads_with_gradients_of_their_own() -> None:
    """The leaves are arguments; calls that find the workspace taken go the long way."""

    def step(w: Any, x: Any) -> Any:
        w.grad = None
        y = (0.01 * w.cumsum(0).flip(0) @ x).tanh().sum()
        y.backward()
        with rl.no_grad():
            w.sub_(0.01 * w.grad)
        return y

    compiled = rl.compile(step, fullgraph=True)
    x = rl.tensor(np.random.default_rng(1).standard_normal((60, 60)))

    def leaf(seed: int) -> Any:
        return rl.tensor(np.random.default_rng(seed).standard_normal((60, 60)), requires_grad=True)

    compiled(leaf(0), x)
    problems: list[Any] = []

    def work(seed: int) -> None:
        try:
            a, b = leaf(seed), leaf(seed)
            for turn in range(12):
                kept = a.grad if turn % 3 == 2 else None
                before = None if kept is None else kept.numpy().copy()
                compiled(a, x)
                step(b, x)
                np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-9, atol=1e-9)
                np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-9)
                if before is not None:
                    np.testing.assert_array_equal(kept.numpy(), before)
        except Exception as problem:  # to be raised where the test sees it
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    assert len(compiled.reasons) == 1


def test_threads_over_the_same_parameters() -> None:
    """Whatever the order of their writes, gradients are whole: those of one of the calls."""
    weight = rl.zeros(50, 50, requires_grad=True)

    @rl.compile(fullgraph=True)
    def step(x: Any) -> Any:
        weight.grad = None
        (weight.cumsum(0) * x).sum().backward()

    step(rl.ones(50, 50))
    wanted = [(np.arange(50, 0, -1)[:, None] * np.ones((50, 50)) * k).astype(np.float32) for k in (1, 2)]
    seen: list[Any] = []

    def work(k: int) -> None:
        x = rl.full((50, 50), float(k))
        for _ in range(40):
            step(x)
            grad = weight.grad
            if grad is not None:
                seen.append((grad, grad.numpy().copy()))

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen
    for grad, then in seen:  # kept ones did not change
        np.testing.assert_array_equal(grad.numpy(), then)
        assert any(np.array_equal(then, one) for one in wanted)


def test_references_are_given_back() -> None:
    found, _ = both(3)
    parameters = found.parameters()
    state = [t for p in parameters for t in found.optimizer.state[p].values()]
    kept = [parameters[0].detach()]  # calls are refused

    def of_tensors() -> list[int]:
        objects: list[Any] = []
        for tensor in (*parameters, *state):
            objects += [tensor, tensor._array, tensor._versions]
            if tensor._storage is not None:
                objects += [tensor._storage, tensor._storage.buffer]
        return [sys.getrefcount(o) for o in objects]

    def of_all() -> list[int]:
        """Of what everything else in the process refers to, too."""
        objects: list[Any] = [None, True, 0, np.dtype(np.float32), rl.float32, rl.Tensor]
        return [sys.getrefcount(o) for o in objects]

    for _ in range(2):
        found()
        gc.collect()
        before, before_all = of_tensors(), of_all()
        for _ in range(200):
            found()
        gc.collect()
        assert of_tensors() == before
        # objects of others come and go meanwhile, a few dozen at times; a leak in every call is 200
        assert max(abs(a - b) for a, b in zip(of_all(), before_all, strict=True)) < 100
        kept.clear()


def test_a_parameter_that_is_shared_for_a_while() -> None:
    found, expected = both(2)
    weight = found.parameters()[0]
    view, array = weight.detach()[1:], weight.detach().numpy()
    count = found.optimizer.state[weight]["step"]
    number, alias = count.numpy(), count.detach()
    assert found() == pytest.approx(expected(), rel=1e-5)
    np.testing.assert_array_equal(view.numpy(), weight.detach().numpy()[1:])
    np.testing.assert_array_equal(array, weight.detach().numpy())
    assert float(number) == float(alias) == float(count) == 3
    del view, array, number, alias
    assert found() == pytest.approx(expected(), rel=1e-5)
    assert_same(found, expected)
    assert len(found.step.reasons) == 1


def _other_flag(found: Trained) -> None:
    found.parameters()[1].requires_grad_(False)


def _other_data(found: Trained) -> None:
    weight = found.parameters()[0]
    weight.data = (weight.detach().t().contiguous() * 2).t()


def _part_of_another(found: Trained) -> None:
    bias = found.parameters()[1]
    bias.data = rl.cat([bias.detach(), bias.detach()])[OUTPUTS:]


@pytest.mark.parametrize("change", [_other_flag, _other_data, _part_of_another])
def test_parameters_that_look_different(change: Callable[[Trained], None]) -> None:
    found, expected = both(2)
    for trained in (found, expected):
        change(trained)
    for _ in range(3):
        assert found() == pytest.approx(expected(), rel=1e-5)
    assert len(found.step.reasons) == 2
    for a, b in zip(found.parameters(), expected.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_other_data_of_the_same_look() -> None:
    found, expected = both(2)
    for trained in (found, expected):
        weight = trained.parameters()[0]
        weight.data = weight.detach() * 2
        trained.optimizer.load_state_dict(trained.optimizer.state_dict())
    for _ in range(3):
        assert found() == pytest.approx(expected(), rel=1e-5)
    for a, b in zip(found.parameters(), expected.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_memory_that_must_not_be_written() -> None:
    found, _ = both(2)
    weight = found.parameters()[0]
    before = weight.detach().numpy().copy()
    weight._array.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        found()
    np.testing.assert_array_equal(weight.detach().numpy(), before)
    weight._array.flags.writeable = True
    assert found() > 0


def test_between_guard_zones() -> None:
    found, expected = both(2)
    with guarding():
        assert found() == pytest.approx(expected(), rel=1e-5)
    assert found() == pytest.approx(expected(), rel=1e-5)
    assert_same(found, expected)


def test_no_arguments() -> None:
    w = rl.ones(3, requires_grad=True)

    @rl.compile(fullgraph=True)
    def step() -> None:
        w.grad = None
        (w * w).sum().backward()
        with rl.no_grad():
            w.sub_(w.grad / 4)

    for turn in range(1, 5):
        step()
        assert w.tolist() == [0.5**turn] * 3
        assert w.grad.tolist() == [2 * 0.5 ** (turn - 1)] * 3


def test_one_gradient_for_two_leaves() -> None:
    def run(a: Any, b: Any) -> Any:
        a.grad = b.grad = None
        (a + b).sum().backward()
        return a.grad

    compiled = rl.compile(run, fullgraph=True)
    a, b = (rl.zeros(2000, requires_grad=True) for _ in range(2))
    for _ in range(3):
        returned = compiled(a, b)
        assert returned is a.grad
        assert a.grad.tolist() == b.grad.tolist() == [1.0] * 2000
        a.grad.zero_()
        assert (b.grad is a.grad) == (b.grad.tolist() == [0.0] * 2000)


def test_a_program_and_its_tensors_can_be_collected() -> None:
    found, _ = both(3)
    found.parameters()[0].program = found.step  # a circle
    seen = weakref.ref(found.parameters()[0])
    del found
    gc.collect()
    assert seen() is None


def test_one_workspace_for_all_ways_to_call() -> None:
    found, _ = both(2)
    executable = found.specialization().artifact.executable
    weight = found.parameters()[0]
    kept = weight.detach()  # goes the long way
    memory = executable._native_memory
    found()
    assert executable._native_memory is memory
    assert executable._shared.of_size(0).size == 0
    del kept


def test_a_gradient_that_is_written_elsewhere_too() -> None:
    w = rl.ones(3000, requires_grad=True)
    buffers = [rl.zeros(3000) for _ in range(2)]

    @rl.compile(fullgraph=True)
    def step(x: Any) -> None:
        w.grad = None
        (w * x).sum().backward()
        for buffer in buffers:
            buffer.copy_(w.grad)

    for k in range(1, 5):
        step(rl.full((3000,), float(k)))
        w.grad.mul_(2)
        assert w.grad.tolist() == [2.0 * k] * 3000
        assert [buffer.tolist() for buffer in buffers] == [[float(k)] * 3000] * 2

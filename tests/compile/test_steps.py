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
from rushlight import nn, optim
from rushlight.compiler.specialization import CallPath
from rushlight.core.dispatch import run_name
from rushlight.nn import functional as F
from rushlight.runtime.invoke import available
from rushlight.runtime.redzones import guarding

native = pytest.mark.skipif(not available(), reason="no native calls on this interpreter")

INPUTS, OUTPUTS = 40, 64  # a weight of more than 4,096 bytes, a bias of less


class Trained:
    """A model with its step: forward, backward and AdamW, compiled or not."""

    def __init__(self, *, compiled: bool, zero_grad: bool = True) -> None:
        rl.manual_seed(3)
        self.model = nn.Sequential(nn.Linear(INPUTS, OUTPUTS), nn.Tanh(), nn.Linear(OUTPUTS, 3))
        self.optimizer = optimizer = optim.AdamW(self.model.parameters(), lr=1e-2)
        model = self.model

        def step(x: Any, target: Any) -> Any:
            if zero_grad:
                optimizer.zero_grad()
            loss = F.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            return loss

        self.step = rl.compile(step, fullgraph=True) if compiled else step
        self.x = rl.tensor(np.random.default_rng(0).standard_normal((8, INPUTS)).astype(np.float32))
        self.target = rl.tensor(np.arange(8) % 3)

    def __call__(self) -> float:
        return float(self.step(self.x, self.target))

    def parameters(self) -> list[Any]:
        return list(self.model.parameters())

    def specialization(self) -> Any:
        (entries,) = self.step.specializations.values()
        return entries[-1]


def addresses(trained: Trained) -> list[int]:
    return [p.grad.data_ptr() for p in trained.parameters()]


def assert_same(found: Trained, expected: Trained) -> None:
    for a, b in zip(found.parameters(), expected.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-6)
        kept, wanted = found.optimizer.state[a], expected.optimizer.state[b]
        for name, value in wanted.items():
            np.testing.assert_allclose(kept[name].numpy(), value.numpy(), rtol=1e-4, atol=1e-7)
            assert kept[name]._version == value._version
        assert a._version == b._version


def both(steps: int = 3) -> tuple[Trained, Trained]:
    found, expected = Trained(compiled=True), Trained(compiled=False)
    for _ in range(steps):
        assert found() == pytest.approx(expected(), rel=1e-5)
    return found, expected


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


# Calls that are native as a whole: what they must see.


def direct(found: Trained) -> bool:
    """Whether the next call is one native call from arguments to results."""
    fast = found.step._fast
    return (
        fast is not None
        and fast[1] is found.specialization()
        and fast[1].path is CallPath.NATIVE_WITH_NUMBERS
    )


def _other_rate(trained: Trained) -> None:
    trained.optimizer.param_groups[0]["lr"] = 0.02


def _other_betas(trained: Trained) -> None:
    trained.optimizer.param_groups[0]["betas"] = (0.5, 0.75)


def _same_rate_again(trained: Trained) -> None:
    trained.optimizer.param_groups[0]["lr"] = float("0.01")


def _loaded(trained: Trained) -> None:
    trained.optimizer.load_state_dict(trained.optimizer.state_dict())


def _forgotten(trained: Trained) -> None:
    trained.optimizer.state.clear()


def _forgotten_in_part(trained: Trained) -> None:
    state = trained.optimizer.state[trained.parameters()[1]]
    state["exp_avg"] = rl.zeros_like(state["exp_avg"])


def _more_parameters(trained: Trained) -> None:
    extra = nn.Parameter(rl.ones(2))
    extra.grad = rl.ones(2)
    trained.optimizer.add_param_group({"params": [extra], "lr": 0.5})


def _another_parameter(trained: Trained) -> None:
    trained.model[0].bias = nn.Parameter(rl.ones(OUTPUTS))


def _hooked(trained: Trained) -> None:
    trained.model[1].register_forward_hook(lambda module, args, result: 2 * result)


def _another_module(trained: Trained) -> None:
    trained.model[1] = nn.ReLU()


def _frozen(trained: Trained) -> None:
    trained.parameters()[2].requires_grad_(False)


def _other_shape(trained: Trained) -> None:
    trained.x, trained.target = trained.x[:4].clone(), trained.target[:4].clone()


def _a_view(trained: Trained) -> None:
    trained.x = rl.cat([trained.x, trained.x])[8:]


def _other_strides(trained: Trained) -> None:
    trained.x = (2 * trained.x).t().contiguous().t()


def _an_argument_with_a_gradient(trained: Trained) -> None:
    trained.x.requires_grad_()


def _memory_of_a_parameter(trained: Trained) -> None:
    trained.x = trained.parameters()[0].detach()[:8]


CHANGES = [
    _other_rate,
    _other_betas,
    _same_rate_again,
    _loaded,
    _forgotten,
    _forgotten_in_part,
    _more_parameters,
    _another_parameter,
    _hooked,
    _another_module,
    _frozen,
    _other_shape,
    _a_view,
    _other_strides,
    _an_argument_with_a_gradient,
    _memory_of_a_parameter,
]


@native
@pytest.mark.parametrize("change", CHANGES)
def test_a_direct_call_sees(change: Callable[[Trained], None]) -> None:
    found, expected = both(4)
    assert direct(found)
    for trained in (found, expected):
        change(trained)
    for _ in range(4):
        assert found() == pytest.approx(expected(), rel=1e-5)
    for a, b in zip(found.parameters(), expected.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-6)
        assert a._version == b._version
    if change in (_other_rate, _other_betas, _same_rate_again):
        assert direct(found)
        assert len(found.step.reasons) == 1


@native
def test_a_direct_call_sees_modes() -> None:
    found, expected = both(4)
    assert direct(found)
    for trained in (found, expected):
        with rl.no_grad(), pytest.raises(RuntimeError):
            trained()
        with rl.autocast("cpu", dtype=rl.bfloat16):
            trained()
    assert found() == pytest.approx(expected(), rel=2e-2)


@native
def test_a_direct_call_sees_variables() -> None:
    """Numbers, containers, attributes and variables of enclosing functions; whether a module trains."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(rl.ones(3))
            self.scale, self.factors = 2.0, [1.0, 3.0]

        def forward(self, x: Any) -> Any:
            scale = self.scale if self.training else -1.0
            return x * self.weight * scale * self.factors[1] * shift

    shift = 1.0
    model = Scaled()

    def step(x: Any) -> Any:
        model.weight.grad = None
        loss = model(x).sum()
        loss.backward()
        with rl.no_grad():
            model.weight.sub_(0.125 * model.weight.grad)
        return loss, "done", [loss * 2]

    compiled = rl.compile(step, fullgraph=True)
    x = rl.ones(3)

    def check() -> None:
        for _ in range(3):
            before = model.weight.detach().clone()
            wanted = step(x)
            after, grad = model.weight.detach().clone(), model.weight.grad
            with rl.no_grad():
                model.weight.copy_(before)
            loss, word, (double,) = compiled(x)
            assert (float(loss), word, float(double)) == (float(wanted[0]), "done", float(wanted[2][0]))
            assert model.weight.tolist() == after.tolist()
            assert model.weight.grad.tolist() == grad.tolist()
            del grad, wanted
        assert compiled._fast is not None and compiled._fast[1].path is CallPath.NATIVE_WITH_NUMBERS

    check()
    model.scale = 4.0
    check()
    model.factors[1] = 0.5
    check()
    model.factors.append(1.0)
    check()
    shift = -2.0
    check()
    model.eval()
    check()
    model.train()
    check()


@native
def test_versions_after_a_reported_error() -> None:
    w = rl.tensor([1.0, 2.0], requires_grad=True)

    @rl.compile(fullgraph=True)
    def step(x: Any) -> Any:
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        run_name("_assert_async", (x > 0).all())
        with rl.no_grad():
            w.sub_(w.grad)
        return loss

    x = rl.ones(2)
    for _ in range(3):
        step(x)
    before = w._version
    assert step._fast is not None
    with pytest.raises(RuntimeError):
        step(-x)
    assert w._version == before
    assert w.grad is None
    step(x)
    assert w._version == before + 1


@native
def test_direct_calls_give_references_back() -> None:
    found, _ = both(4)
    assert direct(found)
    kept = [value for state in found.optimizer.state.values() for value in state.values()]
    watched = [
        found.x,
        found.model,
        vars(found.model),
        found.optimizer.state,
        None,
        True,
        found.specialization(),
        *found.parameters(),
        *kept,
    ]

    def counts() -> list[int]:
        gc.collect()
        arrays = [sys.getrefcount(t._array) for t in (found.x, *found.parameters(), *kept)]
        return arrays + [sys.getrefcount(thing) for thing in watched]

    before = counts()
    for _ in range(100):
        found()
    assert direct(found)
    assert max(abs(a - b) for a, b in zip(counts(), before, strict=True)) < 50

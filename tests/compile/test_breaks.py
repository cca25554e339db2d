"""Programs that have no graph: same results and effects as eagerly, each effect once."""

from __future__ import annotations

import copy
import gc

import numpy as np
import pytest

import rushlight as rl
from rushlight.capture.errors import CaptureError
from rushlight.capture.tentative import TentativeCapture
from rushlight.testing.programs import draw_program

from .tensors import tensor


def branch(x):
    y = x * 2
    return y + 1 if y.sum() > 0 else y - 1


def item(x):
    y = x.exp()
    return y / y.max().item()


def shape_from_data(x):
    y = x * 3
    return y[y > 0].sum() + y.nonzero().shape[0]


def listed(x):
    return x + sum((x * 2).tolist()[0])


def array(x):
    return x + rl.from_numpy((x * 2).numpy())


def printed(x):
    return x * len(str(x + 1))


def views(x):
    y = x * 1
    v = y[0]
    y.mul_(2)
    if float(y.sum()) > -1e9:
        v.add_(1)
    y.t().sub_(3)
    return y, v


def seeded(x):
    a = rl.rand(3)
    rl.manual_seed(7)
    b = rl.rand(3)
    return a, b, x + b.sum().item(), rl.rand(2)


def random(x):
    a = rl.randn_like(x)
    b = a * a.sum().item()
    return b + rl.rand_like(x)


PROGRAMS = [branch, item, shape_from_data, listed, array, printed, views, seeded, random]
WHOLE = [item, shape_from_data, seeded, random]  # which have a graph where there must be one


@pytest.mark.parametrize(
    ("program", "fullgraph"), [*((p, False) for p in PROGRAMS), *((p, True) for p in WHOLE)]
)
def test_results(program, fullgraph: bool) -> None:
    compiled = rl.compile(program, fullgraph=fullgraph)
    for seed in range(3):
        x = tensor(3, 4, seed=seed) * (-1) ** seed
        rl.manual_seed(seed)
        expected = program(x.clone())
        after = rl.rand(1).item()
        rl.manual_seed(seed)
        found = compiled(x.clone())
        assert rl.rand(1).item() == after
        for a, b in zip(*[(r if isinstance(r, tuple) else (r,)) for r in (found, expected)], strict=True):
            assert type(a) is type(b)
            assert a.dtype is b.dtype
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
            assert a.stride() == b.stride()
        if isinstance(found, tuple) and program is views:
            assert found[0].data_ptr() == found[1].data_ptr()


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p not in WHOLE], ids=lambda p: p.__name__)
def test_fullgraph_names_the_line(program) -> None:
    with pytest.raises(CaptureError, match=r"test_breaks\.py:\d+"):
        rl.compile(program, fullgraph=True)(tensor(3, 4))


def copied(x):
    y = (x * 2).requires_grad_()
    kept = [copy.copy(y), y.detach(), y.view(-1), y.exp() * y.sin(), rl.nn.Parameter(y.detach())]
    return [*kept, rl.func.vmap(lambda row: row.sum())(y), y.sum().item()]


def drawn(number):
    generator = np.random.default_rng(number)
    return draw_program(lambda n: int(generator.integers(n)), shortest=3, longest=9, kind="arrays")


def test_a_capture_knows_its_tensors(monkeypatch) -> None:
    """Copies, those that autograd has saved and those that transforms wrap too: as many as among all objects."""
    known, met = TentativeCapture.abstract_tensors, []

    def checked(self):
        found = known(self)
        everywhere = [t for t in gc.get_objects() if issubclass(type(t), rl.Tensor) and t._trace is self]
        assert {id(t) for t in found} == {id(t) for t in everywhere}
        met.append(len(found))
        return found

    monkeypatch.setattr(TentativeCapture, "abstract_tensors", checked)
    for program in (*PROGRAMS, copied):
        rl.compile(program)(tensor(3, 4))
    for program in map(drawn, range(40)):
        rl.compile(program.run)(*program.arguments())
    assert len(met) > 30 and max(met) > 8


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_break_does_not_look_at_all_objects(program, monkeypatch) -> None:
    """It takes as long as the program, however large the heap is."""
    monkeypatch.setattr(gc, "get_objects", lambda *args: pytest.fail("the heap was walked"))
    rl.compile(program)(tensor(3, 4))


def test_effects_happen_once() -> None:
    seen: list[str] = []

    def f(x, w, k):
        seen.append("before")
        w.add_(x * k)
        if (w.sum() > 1e9).item():
            seen.append("never")
        seen.append("after")
        w.mul_(2)
        return w.sum() * k

    compiled = rl.compile(f)
    w, expected = tensor(4), tensor(4)
    for k in (0.5, 2.0):
        found = compiled(tensor(4, seed=1), w, k)
        expected.add_(tensor(4, seed=1) * k).mul_(2)
        np.testing.assert_allclose(w.numpy(), expected.numpy(), rtol=1e-6)
        assert found.item() == pytest.approx(expected.sum().item() * k, rel=1e-5)
        assert w._version == expected._version
    assert seen == ["before", "after"] * 2


def test_gradients_across_a_break() -> None:
    def f(x, w):
        hidden = (x @ w).sigmoid()
        scale = hidden.mean().item()
        return (hidden * scale * w.sum()).sum()

    def gradients(function):
        x, w = tensor(3, 4).requires_grad_(), tensor(4, 2, seed=1).requires_grad_()
        function(x, w).backward()
        return x.grad.numpy(), w.grad.numpy()

    compiled = rl.compile(f)
    for _ in range(2):
        for a, b in zip(gradients(compiled), gradients(f), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4)


def test_backward_before_a_break() -> None:
    w, v = tensor(4).requires_grad_(), tensor(4).requires_grad_()

    def f(w):
        loss = (w * w).sum()
        loss.backward()
        value = loss.item()
        with rl.no_grad():
            w.sub_(w.grad * 0.1)
        return value

    compiled = rl.compile(f)
    for _ in range(2):
        assert compiled(w) == pytest.approx(f(v), rel=1e-5)
        np.testing.assert_allclose(w.detach().numpy(), v.detach().numpy(), rtol=1e-5)
        np.testing.assert_allclose(w.grad.numpy(), v.grad.numpy(), rtol=1e-5)


def test_views_of_arguments_across_a_break() -> None:
    def f(x):
        row = x[1]
        row.mul_(2)
        if row.sum().item() == 1e9:
            return None
        row.add_(1)
        return row

    x, y = tensor(3, 4), tensor(3, 4)
    found, expected = rl.compile(f)(x), f(y)
    assert np.array_equal(x.numpy(), y.numpy())
    assert found._base is x
    assert found.data_ptr() == x[1].data_ptr()
    assert np.array_equal(found.numpy(), expected.numpy())


def test_an_exception_leaves_the_writes_before_it() -> None:
    def f(x):
        x.add_(1)
        return x @ rl.ones(7)

    x = rl.zeros(3)
    with pytest.raises(RuntimeError):
        rl.compile(f)(x)
    assert x.tolist() == [1, 1, 1]


def test_a_break_inside_inference_mode_and_no_grad() -> None:
    def f(x):
        with rl.no_grad():
            y = x * 2
            n = int(y.sum().item() > 0)
        with rl.inference_mode():
            z = y + n
            z.sum().item()
        return x * n + y

    x = tensor(3).abs().requires_grad_()
    found = rl.compile(f)(x)
    assert found.requires_grad
    np.testing.assert_allclose(found.detach().numpy(), f(x).detach().numpy())


def test_tensors_that_outlive_the_capture() -> None:
    kept: dict[str, rl.Tensor] = {}

    def f(x):
        kept["y"] = x * 2
        return kept["y"].sum().item()

    value = rl.compile(f)(rl.ones(3))
    assert value == 6
    assert (kept["y"] + 1).tolist() == [3, 3, 3]

    class Unknown:  # what it is given, no guard sees
        def take(self, value: rl.Tensor) -> None:
            setattr(self, "z", value)

    unknown = Unknown()

    def leak(x):
        unknown.take(x * 2)
        return x + 1

    rl.compile(leak)(rl.ones(3))
    with pytest.raises(RuntimeError, match="captured"):
        unknown.z + 1


def test_it_says_why() -> None:
    compiled = rl.compile(branch)
    compiled(tensor(3))
    (why,) = compiled.eager.values()
    assert "test_breaks.py" in why
    assert "reads a value" in why

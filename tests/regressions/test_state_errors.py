"""Errors that eager code raises for data are raised by compiled code, too, of the same type, with nothing
written (defect 6, adversarial A9 and A10).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.core.pytree import flatten
from rushlight.testing.case import call, present
from rushlight.testing.conformance import rushlight_backend
from rushlight.testing.entries import Entry, entries
from rushlight.testing.snapshot import TensorSpec

BAD = (-1, 5, 2**40)
GOOD = rl.tensor([1, 2, 0, 3])


def raised(function: Callable[..., Any], *args: Any) -> type[Exception] | None:
    try:
        function(*args)
    except Exception as error:
        return type(error)
    return None


def assert_same_error(function: Callable[..., Any], good: tuple[Any, ...], bad: tuple[Any, ...]) -> None:
    """`function` raises for `bad` what it raises eagerly, in first and later calls, and writes nothing."""
    expected = raised(function, *[t.clone() for t in bad])
    assert expected is not None
    for warm in (False, True):
        compiled = rl.compile(function)
        given = [t.clone() for t in bad]
        if warm:
            for _ in range(2):
                compiled(*[t.clone() for t in good])
        assert raised(compiled, *given) is expected
        for a, b in zip(given, bad, strict=True):
            assert rl.equal(a, b)
        if warm:
            compiled(*[t.clone() for t in good])


def with_bad(target: rl.Tensor, value: int) -> rl.Tensor:
    target = target.clone()
    target.view(-1)[2] = value
    return target


LOSSES: dict[str, Any] = {
    "nll_loss": lambda x, t: F.nll_loss(x, t),
    "cross_entropy": lambda x, t: F.cross_entropy(x, t),
    "cross_entropy none": lambda x, t: F.cross_entropy(x, t, reduction="none"),
    "cross_entropy smooth": lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
    "cross_entropy weight": lambda x, t: F.cross_entropy(x, t, weight=rl.arange(5.0)),
    "of which nothing is used": lambda x, t: (F.cross_entropy(x, t), x + 1)[1],
    "of which a part is used": lambda x, t: F.cross_entropy(x, t, reduction="none")[:1],
}


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("name", LOSSES)
def test_d6_a9_targets(name: str, value: int) -> None:
    x = rl.randn(4, 5)
    assert_same_error(LOSSES[name], (x, GOOD), (x, with_bad(GOOD, value)))


@pytest.mark.parametrize("value", BAD)
def test_d6_a9_targets_of_images(value: int) -> None:
    x, t = rl.randn(2, 5, 3, 3), rl.zeros(2, 3, 3, dtype=rl.int64)
    for loss in (F.nll_loss, F.cross_entropy):
        assert_same_error(loss, (x, t), (x, with_bad(t, value)))


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("shown", [True, False])
def test_d6_a9_a_training_step_writes_nothing(value: int, shown: bool) -> None:
    m = nn.Linear(5, 5)
    o = optim.SGD(m.parameters(), 0.1, momentum=0.9)

    @rl.compile
    def step(x: rl.Tensor, t: rl.Tensor) -> Any:
        o.zero_grad()
        loss = F.cross_entropy(m(x), t)
        loss.backward()
        o.step()
        return loss.detach() if shown else None

    x = rl.randn(4, 5)
    for _ in range(3):
        step(x, GOOD)
    before = [t.clone() for t in (*m.parameters(), *(s["momentum_buffer"] for s in o.state.values()))]
    with pytest.raises(IndexError):
        step(x, with_bad(GOOD, value))
    after = [*m.parameters(), *(s["momentum_buffer"] for s in o.state.values())]
    assert all(rl.equal(a, b) for a, b in zip(before, after, strict=True))
    step(x, GOOD)


def test_d6_a9_masked_scatter() -> None:
    mask, source = rl.tensor([True, False, True, True]), rl.randn(3)
    for function in (
        lambda x, m, s: x.masked_scatter(m, s),
        lambda x, m, s: x.masked_scatter_(m, s),
        lambda x, m, s: (x.masked_scatter(m, s), x * 2)[1],
        lambda x, m, s: x.masked_scatter(m, s)[:1],
    ):
        x = rl.randn(4)
        assert_same_error(function, (x, mask, source), (x, mask, source[:2]))


CHAINS: dict[str, Any] = {
    "index": lambda a, i, j: a[i][j],
    "index_select": lambda a, i, j: a.index_select(0, i).index_select(0, j),
    "embedding": lambda a, i, j: F.embedding(i, a)[j],
    "gather": lambda a, i, j: a.gather(0, i[:, None].expand(-1, 200))[j],
    "select": lambda a, i, j: a[i][0] + j[0],
    "slice": lambda a, i, j: (a[i] * 2 + 1)[:2] + j[0],
    "take": lambda a, i, j: a.view(-1)[:300].take(i)[j],
    "diagonal": lambda a, i, j: a[i].diagonal() + j[0],
    "unused": lambda a, i, j: (a[i], a * 2 + j[0])[1],
    "of indices": lambda a, i, j: a[rl.arange(300)[i][j]],
    "index_add": lambda a, i, j: a.index_add(0, i, rl.ones(50, 200))[:1] + j[0],
    "index_put": lambda a, i, j: a.index_put((i,), rl.zeros(()))[j],
    "scatter": lambda a, i, j: a.scatter(0, i[:, None], 1.0)[-1:] + j[0],
}


@pytest.mark.parametrize("value", [-301, 300, 2**40])
@pytest.mark.parametrize("name", CHAINS)
def test_d6_a9_chains(name: str, value: int) -> None:
    a, i, j = rl.randn(300, 200), rl.randint(300, (50,)), rl.zeros(20, dtype=rl.int64)
    assert_same_error(CHAINS[name], (a, i, j), (a, with_bad(i, value), j))


DIVISIONS: dict[str, Any] = {
    "//": lambda a, k: a // k,
    "%": lambda a, k: a % k,
    "trunc": lambda a, k: rl.div(a, k, rounding_mode="trunc"),
    "fmod": lambda a, k: rl.fmod(a, k),
    "in place": lambda a, k: a.floor_divide_(k),
    "after a write": lambda a, k: (a.add_(1), a % k)[1],
    "unused": lambda a, k: (a // k, a + 1)[1],
    "a part": lambda a, k: (a // k)[:1],
}


@pytest.mark.parametrize("name", DIVISIONS)
def test_a10_integer_division_by_zero(name: str) -> None:
    a, k = rl.tensor([4, 5, 6, 7]), rl.tensor([1, 2, 3, 4])
    function, bad = DIVISIONS[name], with_bad(k, 0)
    assert raised(function, a.clone(), bad) is RuntimeError
    compiled = rl.compile(function)
    for _ in range(2):
        given = a.clone()
        assert raised(compiled, given, bad) is RuntimeError
        assert rl.equal(given, a)
        compiled(a.clone(), k)


CHECKED: dict[str, Any] = {
    "quantile": (lambda x, q: rl.quantile(x, q), rl.tensor([0.5, 0.2]), rl.tensor([0.5, 1.2])),
    "cov": (lambda x, w: rl.cov(x, fweights=w), rl.tensor([1, 2, 1]), rl.tensor([1, -2, 1])),
    "cov of nothing": (lambda x, w: rl.cov(x, fweights=w), rl.tensor([1, 2, 1]), rl.tensor([0, 0, 0])),
}


@pytest.mark.parametrize("name", CHECKED)
def test_a9_values_that_are_not_allowed(name: str) -> None:
    function, good, bad = CHECKED[name]
    x = rl.randn(2, 3)
    assert_same_error(function, (x, good), (x, bad))


# Tables whose elements are all one: what is read is known without the index, which is checked all the same.
ONE_VALUE: dict[str, Any] = {
    "index_select": lambda x, i: x[:, None].expand(2, 3).index_select(1, i),
    "index_select of a number": lambda x, i: x.sum().index_select(0, i[:1]),
    "gather": lambda x, i: x[:, None].expand(2, 3).gather(1, i[:, None]),
    "gather of a number": lambda x, i: x.sum().gather(0, i[0]),
    "index": lambda x, i: x[:, None].expand(2, 3)[:, i],
    "index of a number": lambda x, i: x.sum()[None][i],
    "take": lambda x, i: x[:1].expand(3).take(i),
    "take of a number": lambda x, i: x.sum().take(i),
    "zeros": lambda x, i: rl.zeros(3)[i] + x,
    "full": lambda x, i: rl.full((3,), 2.0).index_select(0, i) + x,
    "embedding": lambda x, i: F.embedding(i, rl.ones(3, 4)) + x[:, None],
    "nll_loss": lambda x, i: F.nll_loss(rl.zeros(2, 3), i) + x,
    "cross_entropy": lambda x, i: F.cross_entropy(x[:, None].expand(2, 3), i),
    "searchsorted, elements that are not looked at": lambda x, i: rl.searchsorted(
        rl.arange(5.0), x - 9, sorter=rl.cat([rl.tensor([0, 1, 2]), i])
    ),
}


@pytest.mark.parametrize("name", ONE_VALUE)
@pytest.mark.parametrize("value", [-9, 9, 2**40])
def test_a9_tables_of_one_value(name: str, value: int) -> None:
    x = rl.tensor([1.0, 2.0])
    assert_same_error(ONE_VALUE[name], (x, rl.tensor([0, 0])), (x, rl.tensor([value, 0])))


# Sweeps over PyTorch's samples.

BACKEND = rushlight_backend()
TAKING = ("indexing", "embedding", "loss", "sorting", "shape", "reduction", "pooling", "nn")


def compiled_call(function: Any, arguments: Any, eager: bool) -> type[Exception] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return raised(
            (lambda *a: call(function, a)) if eager else rl.compile(lambda *a: call(function, a)), *arguments
        )


@pytest.mark.slow
@pytest.mark.parametrize("entry", [e for e in entries() if e.has_error_samples], ids=lambda e: e.full_name)
def test_a9_error_samples(entry: Entry) -> None:
    function = present(BACKEND.translate.named(entry.info.op, entry.name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(entry.error_samples())
    for sample in samples:
        if issubclass(sample.error_type, Warning):
            continue  # is raised by nobody
        try:
            made = [BACKEND.build(sample.arguments) for _ in range(2)]
        except RuntimeError:
            continue  # what the sample is about is an argument that nobody can make
        eager, compiled = (
            compiled_call(function, arguments, eager)
            for arguments, eager in zip(made, (True, False), strict=True)
        )
        assert eager is compiled, f"sample {sample.index}: {compiled}, eagerly {eager}"


def takes_indices(entry: Entry) -> bool:
    return entry.family in TAKING and "float32" in entry.dtypes and entry.excluded is None


@pytest.mark.slow
@pytest.mark.parametrize("entry", [e for e in entries() if takes_indices(e)], ids=lambda e: e.full_name)
def test_a9_indices_out_of_range(entry: Entry) -> None:
    """Each tensor of integers among the arguments gets an element that is too small or too large."""
    function = present(BACKEND.translate.named(entry.info.op, entry.name))
    tried = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = [s for s in entry.samples("float32", requires_grad=False) if _integers(s.arguments)]
    for sample in samples[:: max(1, len(samples) // 3)][:3]:
        for which in range(len(_integers(sample.arguments))):
            sizes = max(
                max(t.size, default=1) for t in flatten(sample.arguments)[0] if isinstance(t, TensorSpec)
            )
            for value in (-sizes - 1, sizes, 2**40):
                made = [_spoilt(BACKEND.build(sample.arguments), which, value) for _ in range(2)]
                eager, compiled = (
                    compiled_call(function, arguments, eager)
                    for arguments, eager in zip(made, (True, False), strict=True)
                )
                assert eager is compiled, f"sample {sample.index}, {value}: {compiled}, eagerly {eager}"
                for a, b in zip(*(flatten(arguments)[0] for arguments in made), strict=True):
                    if isinstance(a, rl.Tensor) and eager is not None:
                        np.testing.assert_array_equal(a.numpy(), b.numpy())
                tried += 1
    if samples:
        assert tried


def _integers(arguments: Any) -> list[Any]:
    return [
        t
        for t in flatten(arguments)[0]
        if isinstance(t, TensorSpec) and t.dtype in ("int64", "int32") and 0 not in t.size
    ]


def _spoilt(arguments: Any, which: int, value: int) -> Any:
    integers = [
        t
        for t in flatten(arguments)[0]
        if isinstance(t, rl.Tensor) and t.numel() and t.dtype in (rl.int64, rl.int32)
    ]
    target = integers[which]
    target[(-1,) * target.ndim] = value if target.dtype is rl.int64 else min(value, 2**30)
    return arguments


def test_d6_checks_of_derivatives_stay_in_the_backward_half() -> None:
    """An index of a derivative whose result is read in part made the forward half want a tangent."""

    def f(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        a = x.unfold(0, 2, 1)
        return a.tanh(), a.sort(0).values

    found = []
    for function in (f, rl.compile(f)):
        x = rl.arange(12.0).reshape(3, 4).cos().requires_grad_()
        first, second = function(x)
        (first * 2 + second).sum().backward()
        found.append(x.grad)
    np.testing.assert_allclose(found[1].numpy(), found[0].numpy(), rtol=1e-5)

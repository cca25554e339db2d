"""Arguments that are one tensor, or share memory, and then do not; numbers that only gradients use."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl


def fresh() -> tuple[Any, Any]:
    values = np.arange(12.0).reshape(3, 4)
    return rl.tensor(values), rl.tensor(10 + values)


PAIRS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "a, a": lambda a, b: (a, a),
    "b, a": lambda a, b: (b, a),
    "a, b": lambda a, b: (a, b),
    "a, view of a": lambda a, b: (a, a.view(3, 4)),
    "view of a, a": lambda a, b: (a.view(3, 4), a),
    "two views of a": lambda a, b: (a[:, :], a[:, :]),
    "a, detached a": lambda a, b: (a, a.detach()),
    "with gaps": lambda a, b: (a[:, ::2], b[:, ::2]),
    "with gaps of one": lambda a, b: (a[::2], a[::2]),
    "transposed": lambda a, b: (a.t()[1:3], b.t()[1:3]),
    "with an offset": lambda a, b: (a[1:], b[:2]),
}
PROGRAMS: dict[str, Callable[..., Any]] = {
    "pure": lambda x, y: x * 2 + y,
    "first only": lambda x, y: x + 1,
    "second only": lambda x, y: y * 3 - 1,
    "returns an argument": lambda x, y: (y, x - y),
    "returns a view": lambda x, y: (x[1:], y * 3),
    "writes the first": lambda x, y: x.add_(y) * 2,
    "writes the second": lambda x, y: (y.mul_(2), x + y)[1],
    "writes both": lambda x, y: (x.add_(1), y.mul_(x))[1],
    "looks at what it wrote": lambda x, y: (x.add_(y), x[1:] * 2, x.t()[1:] + 0, x[:, 1] * 3),
    "writes to views": lambda x, y: (x[1:].mul_(3), x[:, 1:].add_(1), x[0].fill_(7), x * 1, y + 0),
    "restrides": lambda x, y: (x.add_(1), x.as_strided((2, 2), (1, 1), x.storage_offset() + 1) * 2),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_sharing_arguments(program: str) -> None:
    """Every kind of call after every other, twice each, by one compiled function."""
    function = PROGRAMS[program]
    compiled = rl.compile(function, fullgraph=True)
    for first, second in itertools.product(PAIRS, repeat=2):
        for kind in (first, first, second, second):
            ours, theirs = fresh(), fresh()
            found = compiled(*PAIRS[kind](*ours))
            wanted = function(*PAIRS[kind](*theirs))
            for a, b in zip(flat(found), flat(wanted), strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=f"{first} then {second}: {kind}")
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=f"{first} then {second}: {kind}")


def flat(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("second", [(0, 0), (1, 0), (0, 2)])
@pytest.mark.parametrize("first", [(0, 0), (1, 0), (0, 1), (0, 2)])
def test_gradients_of_sharing_arguments(first: tuple[int, int], second: tuple[int, int]) -> None:
    def function(x: Any, y: Any) -> Any:
        return (x.sin() * y + x).sum()

    compiled = rl.compile(function, fullgraph=True)
    for kind in (first, second, first):
        ours, theirs = ([t.requires_grad_() for t in fresh()] for _ in range(2))
        for given in (ours, theirs):
            given.append(given[0].detach().requires_grad_())  # another leaf over the same memory
        compiled(*[ours[i] for i in kind]).backward()
        function(*[theirs[i] for i in kind]).backward()
        for a, b in zip(ours, theirs, strict=True):
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None:
                np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-12)


NUMBER_PROGRAMS: dict[str, Callable[..., Any]] = {
    "index_add": lambda x, i, s, a: x.index_add(0, i, s, alpha=a),
    "sub": lambda x, i, s, a: rl.sub(x[i], s, alpha=a),
    "addmm": lambda x, i, s, a: rl.addmm(s, x[i][:, :3], s[:3], beta=a, alpha=a + 1),
    "pow": lambda x, i, s, a: (s.abs() + 1) ** a,
    "lerp": lambda x, i, s, a: rl.lerp(s, x[i], a),
    "leaky_relu": lambda x, i, s, a: rl.nn.functional.leaky_relu(s, a),
    "threshold": lambda x, i, s, a: s.clamp(min=a / 10) * a,
    "renorm": lambda x, i, s, a: x.renorm(2, 0, a),
    "two numbers": lambda x, i, s, a: (x.index_add(0, i, s, alpha=a * 2), (s * a).sum()),
}


@pytest.mark.parametrize("program", NUMBER_PROGRAMS)
def test_numbers_that_gradients_use(program: str) -> None:
    """The formula of a gradient took a number that the forward program did not have as an input."""
    function = NUMBER_PROGRAMS[program]
    compiled = rl.compile(function, fullgraph=True)
    index = rl.tensor([0, 2, 2, 1])
    for number in (2.0, 2.0, 0.5, 3.0):
        grads = []
        for call in (function, compiled):
            x, s = ((t / 7).requires_grad_() for t in fresh())
            s = (rl.cat([s, s[:1] * 2]) * 0.3).detach().requires_grad_()
            sum((out * out).sum() for out in flat(call(x, index, s, number))).backward()
            grads.append([t.grad for t in (x, s)])
        for wanted, found in zip(*grads, strict=True):
            assert (wanted is None) == (found is None)
            if wanted is not None:
                np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12, atol=1e-12)


CONSTANT = rl.arange(3.0)

RETURNING: dict[str, Callable[..., Any]] = {
    "one": lambda x, y: x,
    "both": lambda x, y: (y, x),
    "one of two": lambda x, y: {"same": y, "new": x + 1},
    "one that is not used": lambda x, y: (y, x * 2),
    "constant": lambda x, y: (CONSTANT, y),
    "a tensor and a view of it": lambda x, y: (x, x[1:], y.detach()),
}


@pytest.mark.parametrize("program", RETURNING)
def test_arguments_that_are_returned(program: str) -> None:
    """`lambda x: x` returned the tensor that it was compiled with, whatever it was called with."""
    compiled = rl.compile(RETURNING[program], fullgraph=True)
    for i, requires_grad in itertools.product(range(3), (False, True, False)):
        x, y = rl.arange(3.0) + i, rl.arange(3.0) * (i + 1)
        x.requires_grad_(requires_grad)
        for a, b in ((x, y), (y, x), (x, x), (x, x.detach())):
            found, wanted = (
                list(r.values()) if isinstance(r, dict) else list(flat(r))
                for r in (compiled(a, b), RETURNING[program](a, b))
            )
            for ours, theirs in zip(found, wanted, strict=True):
                assert ours.equal(theirs)
                assert ours.requires_grad == theirs.requires_grad
                if any(theirs is t for t in (a, b, CONSTANT)):
                    assert ours is theirs


def test_gradients_of_one_tensor_and_of_two_over_one_memory() -> None:
    """`f(w, w)` and `f(w, v)`, where v is another leaf over the memory of w, are different calls."""

    def function(a: Any, b: Any) -> None:
        (a * 2 + b * 3).sum().backward()

    compiled = rl.compile(function)
    for _ in range(3):
        w = rl.ones(3, requires_grad=True)
        v = w.detach().requires_grad_()
        for pair, expected in (((w, w), ([5.0] * 3, None)), ((w, v), ([7.0] * 3, [3.0] * 3))):
            compiled(*pair)
            assert [t.grad if t.grad is None else t.grad.tolist() for t in (w, v)] == list(expected)


def test_gradients_of_other_arguments() -> None:
    """A gradient that was added to was that of the argument of the first call."""

    def function(x: Any, w: Any) -> None:
        (x * w).sum().backward()

    compiled = rl.compile(function, fullgraph=True)
    for i in range(4):
        w = rl.ones(3, requires_grad=True)
        w.grad = rl.full((3,), float(i))
        compiled(rl.arange(3.0), w)
        assert w.grad.tolist() == [i, i + 1, i + 2]
    assert len(compiled.reasons) == 1


def test_gradients_of_another_layout() -> None:
    """A gradient of other strides than the one that was there is another kind of call."""

    def function(x: Any, w: Any) -> None:
        (x * w).sum().backward()

    compiled = rl.compile(function, fullgraph=True)
    x, w = rl.arange(6.0).reshape(2, 3), rl.ones(2, 3, requires_grad=True)
    for grad in (
        rl.arange(6.0).reshape(2, 3),
        rl.arange(6.0).reshape(3, 2).t(),
        rl.arange(12.0).reshape(2, 6)[:, ::2],
        rl.arange(6.0).reshape(2, 3),
    ):
        w.grad = grad
        wanted = (grad + x).tolist()
        compiled(x, w)
        assert w.grad.tolist() == wanted
        assert w.grad is grad


def test_arguments_are_let_go() -> None:
    """An entry kept the tensors of the call that it was compiled for."""
    compiled = rl.compile(lambda x, y: (x * 2, y), fullgraph=True)
    x, y = rl.arange(3.0), rl.arange(3.0)
    gone = [weakref.ref(t) for t in (x, y)]
    compiled(x, y)
    del x, y
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


@pytest.mark.parametrize("kind", ["a, a", "with an offset", "with gaps", "transposed"])
def test_breaks_after_a_write(kind: str) -> None:
    """What was recorded up to a break is computed on the part of the memory that the graph knows."""

    def function(x: Any, y: Any) -> Any:
        x.add_(y)
        x[1:].mul_(2)
        seen = x[1:, 1:] * 3
        return seen * float(seen.sum()), x.t()[:1] + 1

    compiled = rl.compile(function)
    for _ in range(2):
        ours, theirs = fresh(), fresh()
        found, wanted = compiled(*PAIRS[kind](*ours)), function(*PAIRS[kind](*theirs))
        for a, b in zip((*found, *ours), (*wanted, *theirs), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert compiled.eager


def test_a_view_has_the_gradient_of_its_own_argument() -> None:
    """Of two leaves over one memory the gradient of a returned view went to the first."""

    def program(a: rl.Tensor, b: rl.Tensor) -> tuple[rl.Tensor, ...]:
        return a * 1, b.unfold(0, 2, 1), b.conj().t()

    for run in (program, rl.compile(program, fullgraph=True)):
        first = (rl.arange(6.0).reshape(2, 3) * (1 + 1j)).requires_grad_()
        second = first.detach().requires_grad_()
        _, windows, turned = run(first, second)
        (windows.sum() + turned.sum()).real.backward()
        assert first.grad is None
        assert second.grad.tolist() == [[2.0] * 3] * 2


def test_a_tensor_given_for_its_dtype_is_not_read() -> None:
    x, other = rl.ones(3), rl.zeros(2, dtype=rl.float64)
    run = rl.compile(lambda x, other: x.to(other, False, True) * 2, fullgraph=True)
    assert run(x, other).dtype is rl.float64
    assert run(x, other).tolist() == [2.0, 2.0, 2.0]

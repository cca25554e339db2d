"""Control flow: values as in PyTorch; derivatives, forward mode and vmap by definition; compiled as eager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch._higher_order_ops

import rushlight as rl
from rushlight.utils._pytree import tree_leaves

# Programs with control flow: `make(lib)` is one written with rushlight or with torch.


@dataclass(frozen=True)
class Program:
    """`make(lib)` gives a function of tensors with these shapes, float64."""

    name: str
    make: Callable[[Any], Callable[..., Any]]
    shapes: tuple[tuple[int, ...], ...]
    sign: int = 1  # of the first tensor's sum

    def arrays(self) -> list[np.ndarray]:
        rng = np.random.default_rng(sum(map(ord, self.name)))
        arrays = [rng.standard_normal(shape) * 0.5 for shape in self.shapes]
        arrays[0] = np.abs(arrays[0]) * self.sign + 0.1 * arrays[0]
        return arrays


def _cond(lib: Any) -> Callable[..., Any]:
    return lambda x, w, b: lib.cond(x.sum() > 0, lambda x: (x @ w).sin(), lambda x: x * b, (x,))


def _cond_tree(lib: Any) -> Callable[..., Any]:
    def f(x: Any, y: Any) -> Any:
        result = lib.cond(
            (x.sum() > 0).reshape(1),
            lambda d, y: {"a": d["x"].exp(), "b": [y * 2, d["x"] + y]},
            lambda d, y: {"a": d["x"] * y, "b": [y.sin(), y * 1.5]},
            ({"x": x}, y),
        )
        return result["a"], result["b"][0], result["b"][1]

    return f


def _rnn(lib: Any) -> Callable[..., Any]:
    def f(h: Any, xs: Any, w: Any, b: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = (h @ w + x + b).tanh()
            return h, h * x

        return lib._higher_order_ops.scan(step, h, xs)

    return f


def _scan_tree(lib: Any) -> Callable[..., Any]:
    def f(h: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            count, (h, k) = carry["n"], carry["h"]
            new = {"n": count + 1, "h": (k + x["a"].sin(), h * x["b"])}
            return new, [h - x["b"], (h * k).sum()]

        carry = {"n": lib.zeros((), dtype=lib.int64), "h": (h, h + 1)}
        last, ys = lib._higher_order_ops.scan(step, carry, {"a": xs, "b": xs * 2}, dim=1, reverse=True)
        return last["h"], ys

    return f


def _scan_in_scan(lib: Any) -> Callable[..., Any]:
    scan = lib._higher_order_ops.scan

    def f(h: Any, xs: Any) -> Any:
        def inner(h: Any, x: Any) -> Any:
            last, ys = scan(lambda a, b: ((a + b * x.sum()).sin(), a * b), h, xs)
            return last * 0.5, ys.sum(0)

        return scan(inner, h, xs)

    return f


def _cond_in_scan(lib: Any) -> Callable[..., Any]:
    def f(h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = lib.cond(x.sum() > 0, lambda h, x: h.sin() + x, lambda h, x: h * x.cos(), (h, x))
            return h, h * 2

        return lib._higher_order_ops.scan(step, h, xs)

    return f


def _map(lib: Any) -> Callable[..., Any]:
    def f(xs: Any, ys: Any, w: Any) -> Any:
        result = lib._higher_order_ops.map(
            lambda x, v: {"a": (x[0] @ v).exp(), "b": x[1] * x[0]}, (xs, ys), w
        )
        return result["a"], result["b"]

    return f


def _associative(reverse: bool, dim: int) -> Callable[[Any], Callable[..., Any]]:
    def make(lib: Any) -> Callable[..., Any]:
        def combine(x: Any, y: Any) -> Any:
            return x[0] * y[0], x[1] * y[0] + y[1]

        def f(a: Any, b: Any) -> Any:
            scan = lib._higher_order_ops.associative_scan
            return scan(combine, (a, b), dim, reverse=reverse, combine_mode="generic")

        return f

    return make


def _while(lib: Any) -> Callable[..., Any]:
    def f(x: Any, w: Any) -> Any:
        start = lib.zeros((), dtype=lib.int64)
        _, y = lib.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, (x @ w).sin() + x), (start, x))
        return y

    return f


def _while_data(lib: Any) -> Callable[..., Any]:
    return lambda x: lib.while_loop(lambda x: x.square().sum() < 40, lambda x: (x * 1.5 + x.sin(),), (x,))[0]


PROGRAMS = [
    Program("cond true", _cond, ((3, 4), (4, 4), (4,))),
    Program("cond false", _cond, ((3, 4), (4, 4), (4,)), sign=-1),
    Program("cond of a tree, true", _cond_tree, ((3,), (3,))),
    Program("cond of a tree, false", _cond_tree, ((3,), (3,)), sign=-1),
    Program("scan of a cell", _rnn, ((2, 3), (5, 2, 3), (3, 3), (3,))),
    Program("scan of a tree", _scan_tree, ((3,), (3, 4))),
    Program("scan in scan", _scan_in_scan, ((2,), (3, 2))),
    Program("cond in scan", _cond_in_scan, ((3,), (4, 3))),
    Program("map", _map, ((3, 2), (3, 2), (2, 2))),
    Program("associative_scan", _associative(False, 0), ((7, 2), (7, 2))),
    Program("associative_scan reversed", _associative(True, 1), ((2, 6), (2, 6))),
    Program("while_loop", _while, ((3, 2), (2, 2))),
    Program("while_loop until", _while_data, ((2, 2),)),
]

EVERY = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


def tensors(program: Program, requires_grad: bool = False) -> list[Any]:
    return [rl.tensor(a, requires_grad=requires_grad) for a in program.arrays()]


def close(found: Any, expected: Any, places: float = 1e-10) -> None:
    found, expected = tree_leaves(found), tree_leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=places, atol=places)


def total(function: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of weighted results, so that every output has another gradient."""

    def f(*args: Any) -> Any:
        leaves = [leaf for leaf in tree_leaves(function(*args)) if leaf.is_floating_point()]
        return sum((leaf.sin() * (i + 1)).sum() for i, leaf in enumerate(leaves))

    return f


@EVERY
def test_values_are_those_of_torch(program: Program) -> None:
    arrays = program.arrays()
    with torch.no_grad():
        expected = program.make(torch)(*map(torch.tensor, arrays))
    found = program.make(rl)(*map(rl.tensor, arrays))
    for a, b in zip(tree_leaves(found), torch.utils._pytree.tree_leaves(expected), strict=True):
        assert (tuple(a.shape), str(a.dtype).split(".")[1]) == (tuple(b.shape), str(b.dtype).split(".")[1])
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)


@EVERY
def test_derivatives_are_those_of_differences(program: Program) -> None:
    function = total(program.make(rl))
    args = tensors(program, requires_grad=True)
    assert rl.autograd.gradcheck(function, args, check_forward_ad=True)
    assert rl.autograd.gradgradcheck(function, args)


@EVERY
def test_a_batch_is_its_elements(program: Program) -> None:
    """With a predicate, and a number of steps, that differ along the batch."""
    function = program.make(rl)
    args = [rl.stack([t, -t, t * 2]) for t in tensors(program)]
    expected = [function(*[t[i] for t in args]) for i in range(3)]
    stacked = [rl.stack(column) for column in zip(*map(tree_leaves, expected), strict=True)]
    close(tree_leaves(rl.func.vmap(function)(*args)), stacked)
    first = rl.func.vmap(function, in_dims=(0, *(None for _ in args[1:])))(args[0], *[t[0] for t in args[1:]])
    expected = [function(args[0][i], *[t[0] for t in args[1:]]) for i in range(3)]
    close(tree_leaves(first), [rl.stack(c) for c in zip(*map(tree_leaves, expected), strict=True)])


# Compiled, whole.


@EVERY
def test_compiled_values(program: Program) -> None:
    function = program.make(rl)
    args = tensors(program)
    compiled = rl.compile(function, fullgraph=True)
    close(compiled(*args), function(*args))
    close(compiled(*[-t for t in args]), function(*[-t for t in args]))
    assert compiled.reasons == ["first call"]


@EVERY
def test_compiled_gradients(program: Program) -> None:
    """Of what a compiled function returns, and inside of one."""
    function = total(program.make(rl))
    args = tensors(program, requires_grad=True)
    expected = rl.autograd.grad(function(*args), args, allow_unused=True)
    expected = [rl.zeros_like(t) if g is None else g for g, t in zip(expected, args, strict=True)]
    compiled = rl.compile(function, fullgraph=True)
    found = rl.autograd.grad(compiled(*args), args, allow_unused=True)
    found = [rl.zeros_like(t) if g is None else g for g, t in zip(found, args, strict=True)]
    close(found, expected)
    inside = rl.compile(
        lambda *given: rl.autograd.grad(function(*given), given, materialize_grads=True), fullgraph=True
    )
    close(inside(*args), expected)


def _transformed(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def jvp(*args: Any) -> Any:
        return rl.func.jvp(function, args, tuple(t.cos() for t in args))

    def vmap(*args: Any) -> Any:
        return rl.func.vmap(function)(*[rl.stack([t, -t, t * 2]) for t in args])

    def batched_gradients(*args: Any) -> Any:
        every = tuple(range(len(args)))
        gradient = rl.func.grad(total(function), argnums=every)
        return rl.func.vmap(gradient)(*[rl.stack([t, -t]) for t in args])

    def gradient_of_batch(*args: Any) -> Any:
        every = tuple(range(len(args)))
        batch = [rl.stack([t, -t]) for t in args]
        return rl.func.grad(total(rl.func.vmap(function)), argnums=every)(*batch)

    return {"jvp": jvp, "vmap": vmap, "vmap of grad": batched_gradients, "grad of vmap": gradient_of_batch}[
        kind
    ]


@EVERY
@pytest.mark.parametrize("kind", ["jvp", "vmap", "vmap of grad"])
def test_compiled_transforms(program: Program, kind: str) -> None:
    function = _transformed(kind, program.make(rl))
    args = tensors(program)
    close(rl.compile(function, fullgraph=True)(*args), function(*args))


@pytest.mark.parametrize("name", ["cond true", "scan of a cell", "map", "while_loop"])
def test_compiled_gradient_of_a_batch(name: str) -> None:
    program = next(p for p in PROGRAMS if p.name == name)
    function = _transformed("grad of vmap", program.make(rl))
    args = tensors(program)
    close(rl.compile(function, fullgraph=True)(*args), function(*args))


def _second(function: Callable[..., Any]) -> Callable[..., Any]:
    def f(*args: Any) -> Any:
        first = rl.autograd.grad(function(*args), args, create_graph=True, materialize_grads=True)
        return rl.autograd.grad(total(lambda: first)(), args, materialize_grads=True)

    return f


@EVERY
def test_compiled_second_derivatives(program: Program) -> None:
    function = _second(total(program.make(rl)))
    args = tensors(program, requires_grad=True)
    close(rl.compile(function, fullgraph=True)(*args), function(*args), 1e-9)


SECOND = {
    "hessian": lambda f: rl.func.hessian(f),
    "reverse over reverse": lambda f: rl.func.jacrev(rl.func.grad(f)),
    "forward over reverse": lambda f: rl.func.jacfwd(rl.func.grad(f)),
    "grad of grad": lambda f: rl.func.grad(lambda x, *rest: rl.func.grad(f)(x, *rest).square().sum()),
    "third": lambda f: rl.func.grad(lambda x, *rest: rl.func.hessian(f)(x, *rest).square().sum()),
}


@pytest.mark.parametrize("name", ["cond true", "scan of a cell", "map", "while_loop", "while_loop until"])
@pytest.mark.parametrize("transform", SECOND)
def test_compiled_higher_derivatives(name: str, transform: str) -> None:
    program = next(p for p in PROGRAMS if p.name == name)
    function = SECOND[transform](total(program.make(rl)))
    args = tensors(program)
    close(rl.compile(function, fullgraph=True)(*args), function(*args))


@pytest.mark.parametrize("name", ["scan of a cell", "while_loop"])
def test_compiled_gradient_of_a_batch_of_gradients(name: str) -> None:
    """By what differs along the batch, and by what all elements share."""
    program = next(p for p in PROGRAMS if p.name == name)
    gradients = rl.func.grad(total(program.make(rl)), argnums=(0, 1))

    def function(xs: Any, shared: Any, *rest: Any) -> Any:
        dims = (0, *(None for _ in (shared, *rest)))
        return sum(part.square().sum() for part in rl.vmap(gradients, in_dims=dims)(xs, shared, *rest))

    first, *rest = tensors(program)
    args = (rl.stack([first, first * 0.5, -first]), *rest)
    wanted = rl.func.grad(function, argnums=(0, 1))
    close(rl.compile(wanted, fullgraph=True)(*args), wanted(*args))

"""Bodies of control flow in compiled programs: compiled once, guarded, nested, with errors and library calls."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight._higher_order_ops import associative_scan, cond, scan, while_loop
from rushlight._higher_order_ops import map as map_slices
from rushlight.capture.errors import CaptureError
from rushlight.loops.control_flow import ControlFlow
from rushlight.loops.kernels import Extern
from rushlight.runtime.redzones import guarding
from rushlight.utils._pytree import tree_leaves


def same(function: Any, *args: Any, places: float = 1e-5, fullgraph: bool = True) -> Any:
    """The compiled function, which gives in two calls what the function gives."""
    expected = tree_leaves(function(*args))
    compiled = rl.compile(function, fullgraph=fullgraph)
    for _ in range(2):
        found = tree_leaves(compiled(*args))
        assert [(t.shape, t.dtype) for t in found] == [(t.shape, t.dtype) for t in expected]
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(
                a.detach().to(rl.complex128).numpy(),
                b.detach().to(rl.complex128).numpy(),
                rtol=places,
                atol=places,
            )
    return compiled


def artifact_of(compiled: Any) -> Any:
    ((specialization,),) = compiled.specializations.values()
    return specialization.artifact


def rnn(weight: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = (h @ weight + x).tanh()
        return h, h * 2

    return lambda h, xs: scan(step, h, xs)


X = rl.from_numpy(np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32))
ZERO = rl.zeros((), dtype=rl.int64)


# The body is compiled once.


def _stages(steps: int, gradient: bool) -> Any:
    weight = rl.ones(4, 4, requires_grad=gradient)
    forward = rnn(weight)

    def function(h: Any, xs: Any) -> Any:
        last, ys = forward(h, xs)
        return rl.autograd.grad(ys.sum() + last.sum(), weight) if gradient else (last, ys)

    return rl.explain(function, rl.zeros(2, 4), rl.ones(steps, 2, 4))


@pytest.mark.parametrize("gradient", [False, True])
def test_code_does_not_grow_with_the_number_of_steps(gradient: bool) -> None:
    short, long = (_stages(steps, gradient) for steps in (20, 2000))
    assert len(short.after("build kernels").splitlines()) == len(long.after("build kernels").splitlines())
    lines = [len(stages.llvm.splitlines()) for stages in (short, long)]
    assert lines[0] == lines[1]
    assert len(short.captured.splitlines()) == len(long.captured.splitlines())


def test_control_flow_is_one_native_kernel() -> None:
    compiled = rl.compile(rnn(rl.ones(4, 4)), fullgraph=True)
    compiled(rl.zeros(2, 4), rl.ones(5, 2, 4))
    artifact = artifact_of(compiled)
    steps = artifact.schedule.steps
    assert [type(step) for step in steps if isinstance(step, Extern)] == [ControlFlow]
    assert artifact.executable.native


def test_equal_regions_are_one_program() -> None:
    layers = [nn.Linear(4, 4) for _ in range(3)]
    region = rl.compiler.nested_compile_region(lambda x, w, b: (x @ w + b).relu())

    def model(x: Any) -> Any:
        for layer in layers:
            x = region(x, layer.weight, layer.bias)
        return x

    with rl.no_grad():
        compiled = same(model, rl.ones(2, 4))
    steps = artifact_of(compiled).schedule.steps
    bodies = {step.bodies for step in steps if isinstance(step, ControlFlow)}
    assert len(bodies) == 1


def test_regions_of_modules_in_a_training_step() -> None:
    blocks = nn.ModuleList([nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(2)])
    regions = [rl.compiler.nested_compile_region(block) for block in blocks]

    def step(x: Any) -> Any:
        for region in regions:
            x = region(x)
        loss = x.square().mean()
        loss.backward()
        return loss.detach()

    def gradients() -> list[Any]:
        found = [p.grad.clone() for p in blocks.parameters()]
        blocks.zero_grad()
        return found

    expected, gradients_expected = step(X), gradients()
    assert rl.compile(step, fullgraph=True)(X).allclose(expected)
    for a, b in zip(gradients(), gradients_expected, strict=True):
        assert a.allclose(b, atol=1e-6)


def test_a_region_that_draws_is_part_of_the_program() -> None:
    region = rl.compiler.nested_compile_region(lambda x: nn.functional.dropout(x, 0.5))
    rl.manual_seed(3)
    expected = region(X)
    compiled = rl.compile(lambda x: region(x), fullgraph=True)
    rl.manual_seed(3)
    assert compiled(X).equal(expected)


# What a body may do.


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "float64", "complex64", "int32", "uint8", "bool"], ids=str
)
def test_dtypes(dtype: str) -> None:
    kind = getattr(rl, dtype)
    xs = (X.abs() * 3).to(kind)
    step = (lambda h, x: (h ^ x, h & x)) if dtype == "bool" else (lambda h, x: (h * 2 + x, h - x))
    same(lambda xs: scan(step, xs[0], xs), xs, places=1e-2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: scan(lambda h, r: ((h[1], h[0] + r), h[0]), (x[0], x[1]), x),
        lambda x: scan(lambda h, r: (h, r), x[0], x),
        lambda x: scan(lambda h, r: (h + r, r.view(3, 1).t()), x[0], x),
        lambda x: scan(lambda h, r: (h + r, rl.arange(3)), x[0], x[:1]),
        lambda x: scan(lambda h, r: (h, r), rl.zeros(0), x),
        lambda x: scan(lambda h, r: (h + r, (h, h)), x[0, 0], x[:, 0]),
        lambda x: scan(lambda h, r: (h + r, h * r), x.t()[0], x.t()),
        lambda x: map_slices(lambda r: (r, r.sum(), x), x),
        lambda x: while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, a * 2), (ZERO, x)),
        lambda x: while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a.t().contiguous()), (ZERO, x[:3])),
        lambda x: while_loop(lambda a, b: a.sum() < 9, lambda a, b: (b, a + 1), (x, x)),
        lambda x: cond(x.sum() > 0, lambda: rl.ones(2), lambda: rl.zeros(2)),
        lambda x: cond((x.sum() > 0).int(), lambda a: (a, x), lambda a: (a - 1, a), (x,)),
        lambda x: cond(x.shape[0] > 3, lambda a: a + 1, lambda a: a[0], (x,)),
        lambda x: associative_scan(lambda a, b: a * b, x, 0),
    ],
)
def test_forms(function: Any) -> None:
    same(function, X)
    same(function, -X)
    with guarding():
        same(function, X.clone())


def test_control_flow_in_control_flow() -> None:
    def steps(r: Any) -> Any:
        return lambda h: while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * r), (ZERO, h))[1]

    same(lambda x: scan(lambda h, r: (cond(r.sum() > 0, steps(r), lambda h: h - r, (h,)), h), x[0], x), X)


def test_a_body_with_a_library_call_runs_operator_by_operator() -> None:
    def step(h: Any, r: Any) -> Any:
        return rl.linalg.solve(rl.eye(3) * 3 + r.outer(r), h), h

    compiled = same(lambda x: scan(step, x[0], x), X)
    assert not artifact_of(compiled).executable.native
    same(lambda x: rl.func.grad(lambda x: scan(step, x[0], x)[0].sum())(x), X)


def test_an_error_in_a_body() -> None:
    picked = rl.compile(lambda x, numbers: map_slices(lambda n: x[n], numbers), fullgraph=True)
    assert picked(X, rl.tensor([0, 5, -6])).equal(X[[0, 5, 0]])
    with pytest.raises(IndexError, match="out of range"):
        picked(X, rl.tensor([0, 6, 3]))
    dead = rl.compile(
        lambda x, n: cond(n >= 0, lambda x, n: x[n] * 0, lambda x, n: x[0], (x, n)), fullgraph=True
    )
    with pytest.raises(IndexError, match="out of range"):
        dead(X, rl.tensor(9))
    assert dead(X, rl.tensor(-9)).equal(X[0])  # the branch that would raise is not taken
    loop = rl.compile(
        lambda x, n: while_loop(lambda n: n < 9, lambda n: (n + 1 + x[n].long() * 0,), (n,)), fullgraph=True
    )
    with pytest.raises(IndexError, match="out of range"):
        loop(X[:, 0], rl.tensor(0))


def test_autocast_reaches_the_body() -> None:
    def function(x: Any) -> Any:
        with rl.autocast("cpu", dtype=rl.bfloat16):
            return scan(lambda h, r: ((h @ x).float() + r, h @ x), rl.zeros(2, 3), rl.ones(4, 2, 3))

    same(function, X[:3], places=1e-2)


# Tensors and values from outside.


def test_tensors_from_outside_are_looked_up_in_every_call() -> None:
    holder = {"weight": rl.ones(3, 3), "scale": 2.0}

    @rl.compile(fullgraph=True)
    def function(x: Any, factor: float) -> Any:
        return scan(lambda h, r: (h @ holder["weight"] * factor + r * holder["scale"], h), x[0], x)[0]

    def expected(factor: float) -> Any:
        h = X[0]
        for r in X:
            h = h @ holder["weight"] * factor + r * holder["scale"]
        return h

    for weight, scale, factor in ((1.0, 2.0, 0.1), (0.5, 2.0, 0.1), (0.5, 3.0, 0.1), (0.5, 3.0, 0.2)):
        holder["weight"] = rl.full((3, 3), weight)
        holder["scale"] = scale
        assert function(X, factor).allclose(expected(factor), rtol=1e-4)


def test_a_training_step() -> None:
    def make() -> Any:
        rl.manual_seed(1)
        cell, head = nn.GRUCell(3, 8), nn.Linear(8, 1)
        optimizer = rl.optim.AdamW([*cell.parameters(), *head.parameters()], lr=1e-2)

        def combine(h: Any, x: Any) -> Any:
            h = cell(x, h)
            return h, h.clone()

        def step(xs: Any, target: Any) -> Any:
            optimizer.zero_grad()
            _, ys = scan(combine, rl.zeros(xs.shape[1], 8), xs)
            loss = (head(ys) - target).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    xs, target = rl.randn(9, 4, 3), rl.randn(9, 4, 1)
    eager, compiled = make(), rl.compile(make(), fullgraph=True)
    losses = [(eager(xs, target).item(), compiled(xs, target).item()) for _ in range(6)]
    np.testing.assert_allclose([a for a, _ in losses], [b for _, b in losses], rtol=1e-4)
    assert losses[-1][1] < losses[0][1]
    assert compiled.reasons[0] == "first call"
    assert len(compiled.reasons) <= 2


def test_what_no_gradient_reaches_has_none() -> None:
    """As eagerly: an optimizer leaves such a parameter alone."""
    used, other = rl.ones(3, requires_grad=True), rl.ones(3, requires_grad=True)
    region = rl.compiler.nested_compile_region(lambda x: (x * used, x * other))

    def gradients(x: Any) -> Any:
        _, ys = scan(lambda h, r: ((h * used).sin(), (r * used, r + other)), x[0], x)
        parts = (ys[0], region(x)[0], map_slices(lambda r: (r * used, r * other), x)[0])
        return [rl.autograd.grad(part.sum(), (used, other), allow_unused=True) for part in parts]

    assert [(a is None, b is None) for a, b in rl.compile(gradients, fullgraph=True)(X)] == [
        (False, True)
    ] * 3


class Straight(rl.autograd.Function):
    """Rounding with the gradient of the identity."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.round()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


@pytest.mark.parametrize("kind", ["custom backward", "no_grad", "detach"])
def test_gradients_are_those_of_the_tape(kind: str) -> None:
    """A body is differentiated as it is recorded, not as its operators would be."""

    def part(x: Any) -> Any:
        if kind == "custom backward":
            return Straight.apply(x)
        if kind == "detach":
            return x.detach() ** 2
        with rl.no_grad():
            return x**2

    def gradient(x: Any) -> Any:
        _, ys = scan(lambda h, r: (h.sin() + part(h) * r, part(r) + h), x[0], x)
        return rl.autograd.grad(ys.sum(), x)

    same(gradient, X.clone().requires_grad_())


# What has no graph.


def test_random_numbers_end_the_graph() -> None:
    function = rl.compile(lambda x: scan(lambda h, r: (h + rl.rand_like(r), h), x[0], x)[1])
    rl.manual_seed(0)
    found = function(X)
    rl.manual_seed(0)
    assert found.equal(function(X))
    with pytest.raises(CaptureError, match="draws random numbers"):
        rl.compile(lambda x: scan(lambda h, r: (h + rl.rand_like(r), h), x[0], x), fullgraph=True)(X)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: scan(lambda h, r: (h + float(r.sum()), h), x[0], x), "reads a value"),
        (lambda x: scan(lambda h, r: (h + r[r > 0].sum(), h), x[0], x), "depends on data"),
        (lambda x: while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (0, x)), "carries numbers"),
        (lambda x: cond(x.sum() > 0, lambda a: a, lambda a: a[:2], (x,)), "different shapes"),
    ],
)
def test_such_programs_run_eagerly(function: Any, message: str) -> None:
    found = rl.compile(function)
    for a, b in zip(tree_leaves(found(X)), tree_leaves(function(X)), strict=True):
        assert a == b if isinstance(a, int) else a.equal(b)
    with pytest.raises(CaptureError, match=message):
        rl.compile(function, fullgraph=True)(X)


def test_a_body_that_writes_ends_the_graph() -> None:
    def add(h: Any, r: Any) -> Any:
        total.add_(r)
        return h + r, h

    total = rl.zeros(3)
    rl.compile(lambda x: scan(add, x[0], x))(X)
    assert total.allclose(X.sum(0), atol=1e-5)
    with pytest.raises(CaptureError, match="writes to a tensor"):
        rl.compile(lambda x: scan(add, x[0], x), fullgraph=True)(X)


# The cache.


PROGRAM = """
import rushlight as rl
from rushlight._higher_order_ops import scan
weight = rl.ones(3, 3) * 0.1
compiled = rl.compile(lambda h, xs: scan(lambda h, x: ((h @ weight + x).tanh(), h), h, xs), fullgraph=True)
last, ys = compiled(rl.zeros(2, 3), rl.ones(7, 2, 3))
print(last.sum().item(), ys.sum().item())
((specialization,),) = compiled.specializations.values()
print("lower" in specialization.artifact.seconds)
"""


def test_another_process_finds_the_program_and_its_bodies(tmp_path: Any) -> None:
    environment = {**os.environ, "RUSHLIGHT_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for _ in range(2)
    ]
    assert runs[0][0] == runs[1][0]
    assert [run[1] for run in runs] == ["True", "False"]


def test_invoke_subgraph_is_a_region() -> None:
    """Called four times, compiled once; its gradient flows."""
    from rushlight._higher_order_ops import invoke_subgraph

    def layer(x: Any, w: Any) -> Any:
        return ((x @ w).tanh(),)

    def program(x: Any, w: Any) -> Any:
        for _ in range(4):
            (x,) = invoke_subgraph(layer, "layer", x, w)
        return x

    x, w = rl.randn(3, 5), rl.randn(5, 5)
    compiled = same(program, x, w)
    text = str(rl.explain(compiled, x, w).graph)
    assert text.count("rushlight::invoke_subgraph(") == 4
    weights = [w.clone().requires_grad_() for _ in range(2)]
    for function, weight in zip((program, compiled), weights, strict=True):
        function(x, weight).sum().backward()
    np.testing.assert_allclose(weights[1].grad.numpy(), weights[0].grad.numpy(), rtol=1e-5, atol=1e-5)


# Operands that are a part of what lies in memory.


PARTS: dict[str, Any] = {
    "the first elements": lambda x: x.reshape(-1)[:6].view(2, 3),
    "the first rows": lambda x: x[:4],
    "the last rows": lambda x: x[2:],
    "every second row": lambda x: x[::2],
    "columns": lambda x: x.t()[:2],
    "one row again and again": lambda x: x[:1].expand(4, 3),
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS.keys())
def test_views_as_operands(part: Any) -> None:
    def function(x: Any) -> Any:
        xs = part(x)
        last, steps = scan(lambda c, row: (c * 0.5 + row, c - row), xs[0] * 2, xs)
        far, _ = scan(lambda c, row: (c + row, row), xs[0], xs, reverse=True)
        (grown,) = while_loop(lambda c: c.abs().sum() < 50, lambda c: (c * 2 + 1,), (xs[0],))
        either = cond(xs.sum() > 0, lambda t: t * 2, lambda t: t - 1, (xs,))
        return last, steps, far, grown, either, map_slices(lambda row: row.exp(), xs)

    same(function, X)

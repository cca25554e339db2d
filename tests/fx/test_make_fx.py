"""make_fx: recorded calls, compared with those that torch records."""

from __future__ import annotations

import re

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx as torch_make_fx

import rushlight as rl
from rushlight.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, make_fx

BOTH = ((rl, make_fx), (torch, torch_make_fx))


def programs(t):
    """Programs by name, with their arguments."""
    x, matrix = t.arange(3.0) + 1, t.arange(6.0).reshape(2, 3)
    weight = t.nn.Parameter(t.ones(3))
    known = t.ones(3)

    def several(a, b, c):
        a.add_(b[0])
        return a * b[1] * c, [a]

    def with_unused(x):
        x.sin()
        return t.split(x, 2)[0]

    def annotated(x):
        return x + 1

    annotated.__annotations__["return"] = t.Tensor

    return {
        "an annotation": (annotated, x),
        "sum": (lambda x, y: (x + y).sum(), x, x.clone()),
        "any number of arguments": (lambda *a: {"o": a[0] + a[1]}, x, x.clone()),
        "containers": (several, x.clone(), [x, x + 1], 4),
        "attributes": (lambda x: x * weight + known + 1, x),
        "unused": (with_unused, x),
        "two results": (lambda x: t.max(x.view(3, 1), 0), x),
        "an index": (lambda x: x[x > 1], x),
        "data": (lambda x: t.tensor([1.0, 2.0, 3.0]) * x, x),
        "functionalized": (t.func.functionalize(lambda x: x.view(-1).add_(1)), matrix),
        "module": (t.nn.Linear(3, 2), matrix),
        "dictionary": (lambda x, d: x + d["a"], matrix, {"a": x}),
    }


@pytest.mark.parametrize("name", list(programs(rl)))
def test_code_is_that_of_torch(name: str) -> None:
    codes = []
    for library, make in BOTH:
        function, *args = programs(library)[name]
        codes.append(make(function)(*args).code)
    assert codes[0] == codes[1]


@pytest.mark.parametrize("name", list(programs(rl)))
def test_module_does_what_the_call_did(name: str) -> None:
    function, *args = programs(rl)[name]
    module = make_fx(function)(*args)
    leaves = rl.utils._pytree.tree_leaves
    for again in range(2):
        function, *args = programs(rl)[name]
        found = module(*args)
        if name == "module":
            continue  # its weights are random
        function, *args = programs(rl)[name]
        for a, b in zip(leaves(found), leaves(function(*args)), strict=True):
            assert a.tolist() == b.tolist(), again


def test_derivatives_and_transforms_are_recorded() -> None:
    def gradient(x):
        return rl.func.grad(lambda y: (y.sin() * y).sum())(x)

    x = rl.randn(3)
    module = make_fx(gradient)(x)
    assert {"sin", "cos"} <= set(re.findall(r"aten\.(\w+)\.", module.code))
    other = rl.randn(3)
    rl.testing.assert_close(module(other), gradient(other))
    batched = make_fx(rl.vmap(lambda row: row.sum()))(rl.ones(2, 3))
    assert batched(rl.ones(2, 3)).tolist() == [3.0, 3.0]

    def backward(y):
        return rl.autograd.grad((y * y).sum(), y)[0]

    recorded = make_fx(backward)(rl.ones(3, requires_grad=True))
    assert recorded(rl.full((3,), 2.0)).tolist() == [4.0, 4.0, 4.0]


def test_data_is_fresh_in_every_run() -> None:
    def accumulate(x):
        total = rl.tensor([1.0])
        total.add_(x)
        return total

    module = make_fx(accumulate)(rl.ones(1))
    assert [module(rl.ones(1)).item() for _ in range(3)] == [2.0, 2.0, 2.0]


def test_fake_tensors_are_not_computed_with() -> None:
    module = make_fx(lambda x: (x @ x).softmax(0), tracing_mode="fake")(rl.ones(3, 3))
    x = rl.randn(3, 3)
    rl.testing.assert_close(module(x), (x @ x).softmax(0))


def test_decompositions() -> None:
    table = {rl.ops.aten.silu.default: lambda x: x * x.sigmoid()}
    module = make_fx(rl.nn.functional.silu, decomposition_table=table)(rl.ones(3))
    assert "sigmoid" in module.code
    assert "silu" not in module.code


def test_values_cannot_be_read() -> None:
    with pytest.raises(RuntimeError, match="trying to get value out of a tracing tensor"):
        make_fx(lambda x: x.item() + 1)(rl.ones(()))


def test_what_is_not_offered_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="symbolic"):
        make_fx(lambda x: x, tracing_mode="symbolic")
    with pytest.raises(NotImplementedError, match="pre_dispatch"):
        make_fx(lambda x: x, pre_dispatch=True)
    with pytest.raises(AssertionError, match="Unexpected tracing type"):
        make_fx(lambda x: x, tracing_mode="unreal")


def test_the_mode_can_be_left() -> None:
    def program(x):
        assert get_proxy_mode() is not None
        with disable_proxy_modes_tracing():
            assert get_proxy_mode() is None
            x.sin()
        return x + 1

    assert "sin" not in make_fx(program)(rl.ones(2)).code


def test_recorded_modules_compile() -> None:
    function = make_fx(lambda x: (x * 2).softmax(-1))(rl.ones(2, 3))
    x = rl.randn(2, 3)
    rl.testing.assert_close(rl.compile(function, fullgraph=True)(x), function(x))

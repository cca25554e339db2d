"""Custom functions of nested tensors, against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import rushlight as rl

ROWS = [[1.0, 2.0, 3.0], [4.0], [5.0, -6.0]]


def nested(L: Any, requires_grad: bool = True, rows: Any = ROWS) -> Any:
    return L.nested.nested_tensor(
        [L.tensor(row, dtype=L.float64) for row in rows], layout=L.jagged, requires_grad=requires_grad
    )


def rows_of(tensor: Any) -> Any:
    return None if tensor is None else [row.tolist() for row in tensor.unbind()]


def functions(L: Any) -> dict[str, Any]:
    """The same custom functions of either library."""

    class Scaled(L.autograd.Function):  # a number, and a dense tensor, too
        @staticmethod
        def forward(ctx: Any, x: Any, factor: float, bias: Any) -> Any:
            ctx.save_for_backward(x, bias)
            ctx.factor = factor
            return x * x * factor + bias

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, bias = ctx.saved_tensors
            assert ctx.needs_input_grad == (True, False, True) and bias.shape == ()
            return grad * x * (2 * ctx.factor), None, grad.values().sum()

    class Exponential(L.autograd.Function):  # keeps its output
        @staticmethod
        def forward(x: Any) -> Any:
            return x.exp()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0]

    class Both(L.autograd.Function):  # two outputs, of which one is not nested
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 3, x.values().sum()

        @staticmethod
        def backward(ctx: Any, grad: Any, of_sum: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * 3 + L.ones_like(x) * of_sum

    class Nesting(L.autograd.Function):  # dense in, nested out
        @staticmethod
        def forward(ctx: Any, values: Any, like: Any) -> Any:
            return L.nested.nested_tensor_from_jagged(values * 2, like.offsets())

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad.values() * 2, None

    return {"Scaled": Scaled, "Exponential": Exponential, "Both": Both, "Nesting": Nesting}


def test_backward() -> None:
    found = []
    for L in (torch, rl):
        x, bias = nested(L), L.tensor(0.5, dtype=L.float64, requires_grad=True)
        y = functions(L)["Scaled"].apply(x, 3.0, bias)
        (y * y).values().sum().backward()
        found.append((rows_of(y), rows_of(x.grad), bias.grad.item(), y.requires_grad, y.is_leaf))
    assert found[0] == found[1]


def test_saved_outputs_and_second_order() -> None:
    found = []
    for L in (torch, rl):
        x = nested(L)
        y = functions(L)["Exponential"].apply(x)
        (first,) = L.autograd.grad(y.values().sum(), x, create_graph=True)
        (second,) = L.autograd.grad(first.values().sum(), x)
        found.append([rows_of(t) for t in (y, first, second)])
    for mine, theirs in zip(found[1], found[0], strict=True):
        for row, expected in zip(mine, theirs, strict=True):
            assert row == pytest.approx(expected, rel=1e-12)


def test_several_outputs() -> None:
    found = []
    for L in (torch, rl):
        x = nested(L)
        tripled, total = functions(L)["Both"].apply(x)
        (tripled.values().sum() + 2 * total).backward()
        found.append((rows_of(tripled), total.item(), rows_of(x.grad)))
    assert found[0] == found[1]


def test_nested_outputs_of_dense_tensors() -> None:
    x, like = rl.arange(6.0).requires_grad_(), nested(rl, False)
    made = functions(rl)["Nesting"].apply(x, like)
    assert rows_of(made) == [[0, 2, 4], [6], [8, 10]]
    (made * made).values().sum().backward()
    assert x.grad.tolist() == [8.0 * n for n in range(6)]


def test_names_and_no_grad() -> None:
    square = functions(rl)["Exponential"]
    assert square.apply(nested(rl)).grad_fn.name() == "ExponentialBackward"
    with rl.no_grad():
        assert not square.apply(nested(rl)).requires_grad
    assert not square.apply(nested(rl, False)).requires_grad


class InPlace(rl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


class WithTangent(rl.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x * x, x.detach()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_forward(*inputs)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        (x,) = ctx.saved_for_forward
        return tangent * x * 2, None


class Wrong(InPlace):
    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.values()


def test_inputs_that_are_written() -> None:
    leaf = nested(rl)
    x = leaf * 1
    y = InPlace.apply(x)
    assert rows_of(y) == rows_of(leaf * 2)
    y.values().sum().backward()
    assert rows_of(leaf.grad) == [[2] * 3, [2], [2] * 2]


def test_forward_mode() -> None:
    with rl.autograd.forward_ad.dual_level():
        dual = rl.autograd.forward_ad.make_dual(nested(rl, False), rl.ones_like(nested(rl, False)))
        value, same = WithTangent.apply(dual)
        tangent = rl.autograd.forward_ad.unpack_dual(value).tangent
        assert rows_of(tangent) == [[2, 4, 6], [8], [10, -12]]
        assert not same.requires_grad


def test_a_gradient_of_a_nested_tensor_is_nested() -> None:
    y = Wrong.apply(nested(rl) * 1)
    with pytest.raises(RuntimeError, match="backward of Wrong: expected a nested tensor"):
        y.values().sum().backward()


def test_compiled() -> None:
    square = functions(rl)["Exponential"]
    x = nested(rl)
    compiled = rl.compile(lambda t: square.apply(t * 2), fullgraph=True)
    y = compiled(x)
    for row, expected in zip(rows_of(y), rows_of((x * 2).exp()), strict=True):
        assert row == pytest.approx(expected, rel=1e-12)

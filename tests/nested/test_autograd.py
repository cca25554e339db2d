"""Nested tensors in autograd and under function transforms."""

from __future__ import annotations

import pytest

import rushlight as rl


def test_leaf() -> None:
    nested = rl.nested.nested_tensor([[1.0, 2.0], [3.0]], requires_grad=True, layout=rl.jagged)
    assert nested.is_leaf and nested.grad is None and nested.grad_fn is None
    (nested * nested).sum().backward()
    assert nested.grad.is_nested and nested.grad.shape == nested.shape
    assert nested.grad.tolist() == [[2.0, 4.0], [6.0]]
    nested.grad.zero_()
    assert nested.grad.tolist() == [[0.0, 0.0], [0.0]]
    nested.grad = None
    assert nested.grad is None
    assert not nested.detach().requires_grad
    with pytest.raises(TypeError, match="is a nested tensor"):
        nested.grad = rl.ones(3)


def test_rows_get_their_gradients() -> None:
    rows = [rl.ones(2, 3, requires_grad=True), rl.ones(1, 3, requires_grad=True)]
    nested = rl.nested.as_nested_tensor(rows, layout=rl.jagged)
    assert not nested.is_leaf and nested.requires_grad
    (nested * rl.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert [row.grad.tolist() for row in rows] == [[[1, 2, 3], [1, 2, 3]], [[1, 2, 3]]]


def test_backward_and_grad_take_nested_tensors() -> None:
    nested = rl.nested.nested_tensor([[1.0, 2.0], [3.0]], requires_grad=True, layout=rl.jagged)
    out = nested**3
    (grad,) = rl.autograd.grad(out.sum(), nested, create_graph=True)
    assert grad.is_nested and grad.tolist() == [[3.0, 12.0], [27.0]]
    (second,) = rl.autograd.grad(grad, [nested], grad_outputs=[rl.ones_like(grad)])
    assert second.tolist() == [[6.0, 12.0], [18.0]]
    out.backward(rl.full_like(out, 2.0))
    assert nested.grad.tolist() == [[6.0, 24.0], [54.0]]
    (unused,) = rl.autograd.grad((nested * 0).sum() * 0 + rl.ones((), requires_grad=True), nested)
    assert unused.tolist() == [[0.0, 0.0], [0.0]]
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        (nested * 2).backward()


def test_hooks() -> None:
    nested = rl.nested.nested_tensor([[1.0, 2.0], [3.0]], requires_grad=True, layout=rl.jagged)
    seen = []
    nested.register_hook(lambda grad: seen.append(grad.tolist()) or grad * 10)
    middle = nested * 2
    middle.retain_grad()
    middle.sum().backward()
    assert seen == [[[2.0, 2.0], [2.0]]]
    assert nested.grad.tolist() == [[20.0, 20.0], [20.0]] and middle.grad.tolist() == [[1.0, 1.0], [1.0]]


def test_writes() -> None:
    nested = rl.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=rl.jagged)
    values = nested.values()
    assert nested.add_(1).mul_(nested) is nested
    assert values.tolist() == [4.0, 9.0, 16.0]
    nested.copy_(rl.nested.nested_tensor([[5.0, 6.0], [7.0]], layout=rl.jagged))
    nested[1] = 0.5
    assert nested.tolist() == [[5.0, 6.0], [0.5]]
    with pytest.raises(RuntimeError):
        nested.copy_(rl.nested.nested_tensor([[5.0], [7.0, 6.0]], layout=rl.jagged))
    leaf = rl.nested.nested_tensor([[1.0], [2.0, 3.0]], requires_grad=True, layout=rl.jagged)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.add_(1)
    twice = leaf * 2
    twice.mul_(leaf)
    twice.sum().backward()
    assert leaf.grad.tolist() == [[4.0], [8.0, 12.0]]
    for out in (rl.empty(3), nested):
        with pytest.raises(NotImplementedError, match="out= does not take nested tensors"):
            rl.add(nested, 1, out=out)


def test_modes() -> None:
    nested = rl.nested.nested_tensor([[1.0, 2.0], [3.0]], requires_grad=True, layout=rl.jagged)
    with rl.no_grad():
        assert not (nested * 2).requires_grad
    with rl.inference_mode():
        assert rl.nn.functional.silu(nested).softmax(1).values().is_inference()


def test_function_transforms() -> None:
    nested = rl.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=rl.jagged)
    assert rl.func.grad(lambda x: (x**3).sum())(nested).tolist() == [[3.0, 12.0], [27.0]]
    value, back = rl.func.vjp(lambda x: x * x, nested)
    assert value.tolist() == [[1.0, 4.0], [9.0]]
    assert back(rl.ones_like(nested))[0].tolist() == [[2.0, 4.0], [6.0]]
    _, tangent = rl.func.jvp(lambda x: x * x, (nested,), (rl.full_like(nested, 2.0),))
    assert tangent.tolist() == [[4.0, 8.0], [12.0]]
    assert not nested.requires_grad
    with rl.autograd.forward_ad.dual_level():
        dual = rl.autograd.forward_ad.make_dual(nested, rl.ones_like(nested))
        assert rl.autograd.forward_ad.unpack_dual(dual.exp().log()).tangent.tolist() == [[1.0, 1.0], [1.0]]
    assert rl.vmap(lambda s: (nested * s).sum(1))(rl.arange(3.0)).tolist() == [[0, 0], [3, 3], [6, 6]]
    with pytest.raises(ValueError, match="cannot be mapped over"):
        rl.vmap(lambda x: x)(nested)
    with pytest.raises(ValueError, match="must only return Tensors"):
        rl.vmap(lambda s: nested * s)(rl.arange(3.0))

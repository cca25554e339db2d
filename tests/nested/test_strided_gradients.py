"""Gradients of nested tensors of the strided layout, beside PyTorch's and by finite differences."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import rushlight as rl

from .strided import SHAPES, made, outcome, same, scope, told

DIFFERENTIABLE = [
    "n * m",
    "n + m",
    "n - m",
    "n / m",
    "n * 3",
    "n.sin()",
    "n.relu()",
    "F.gelu(n)",
    "F.silu(n)",
    "abs(n)",
    "n.transpose(1, 2) * 2",
    "n.transpose(1, 2).contiguous()",
    "n.softmax(-1)",
    "r.softmax(1)",
    "n.sum(-1, keepdim=True)",
    "F.linear(n, w, b)",
    "n @ m.transpose(1, 2)",
    "n.bmm(m.transpose(1, 2))",
    "F.layer_norm(n, (3,), one, zero)",
    "n.to_padded_tensor(0.0)",
    "n[1]",
    "n.unbind()[2]",
    "n.unsqueeze(1)",
    "n.view(3, -1, 3, 1)",
    "n.masked_fill(mask, 7.0)",
    "n.clone()",
    "n.values()",
    "h @ k.transpose(2, 3)",
    "L.nested.as_nested_tensor([w, w[:2]])",
    "L.nested.as_nested_tensor(d)",
    "L._nested_from_padded(d, L.tensor([[1, 2], [3, 2], [2, 1]]))",
    "n.split([1, 2], -1)[1]",
    "L._nested_tensor_from_mask(d, L.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1]]).bool())",
]


def gradients(lib: Any, program: str) -> list[Any]:
    names, result = outcome(lib, program, True)
    if result.is_nested:
        loss = sum((row * row.detach().cos()).sum() for row in result.unbind())
    else:
        loss = (result * result.detach().cos()).sum()
    loss.backward()
    leaves = [names[name] for name in ("n", "m", "r", "h", "k", "g", "w", "b", "d", "q", "one", "zero")]
    grads = [leaf.grad for leaf in leaves]
    return [told(list(grad.unbind()) if grad is not None and grad.is_nested else grad) for grad in grads]


@pytest.mark.parametrize("program", DIFFERENTIABLE)
def test_gradients_as_in_pytorch(program: str) -> None:
    expected = gradients(torch, program)
    assert any(grad is not None for grad in expected)
    same(gradients(rl, program), expected)


# PyTorch has no backward of these, or one that fails.
MORE_DIFFERENTIABLE = [
    "n.tanh()",
    "n.chunk(3, -1)[1]",
    "g @ q",
    "n.select(2, 1)",
    "L.cat([n, m])",
    "n.squeeze(1)",
    "n.narrow(0, 1, 2)",
    "n.transpose(1, 2).clone()",
    "L.cat([n, m], -1)",
    "F.scaled_dot_product_attention(h, k, k)",
]


@pytest.mark.parametrize("program", DIFFERENTIABLE + MORE_DIFFERENTIABLE)
def test_gradients_of_the_buffer(program: str) -> None:
    names = scope(rl)
    if "float32" in program or "as_nested" in program or "_from_" in program:
        pytest.skip("not a function of a buffer in double precision")
    used = [
        name
        for name in SHAPES
        if name in program.replace("nn", "") and names[name].numel() and name not in ("e", "s", "c", "v", "z")
    ]

    def function(*buffers: rl.Tensor) -> Any:
        given = {name: names[name].like(buffer) for name, buffer in zip(used, buffers, strict=True)}
        result = eval(program, {**names, **given})
        return sum(row.sin().sum() for row in result.unbind())

    buffers = [names[name].values().detach().requires_grad_() for name in used]
    assert rl.autograd.gradcheck(function, buffers)


def test_gradient_is_nested_and_accumulates() -> None:
    nested = made(rl, "n", True)
    (nested * 2).values().sum().backward()
    (nested.transpose(1, 2) * 3).values().sum().backward()
    assert nested.grad.is_nested
    same(told(nested.grad), told(rl.ones_like(nested.detach()) * 5))
    (found,) = rl.autograd.grad((nested * nested).values().sum(), nested)
    same(told(found), told(nested.detach() * 2))
    cotangent = rl.ones_like(nested.detach())
    nested.grad = None
    (nested * 4).backward(cotangent)
    same(told(nested.grad), told(cotangent * 4))

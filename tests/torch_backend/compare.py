"""A function through torch.compile(backend="rushlight") against itself in eager mode."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

STRICT = {"fallback": False}


def compiled(function: Any, **settings: Any) -> Any:
    return torch.compile(function, backend="rushlight", options=STRICT, fullgraph=True, **settings)


def twins(value: Any) -> Any:
    """A copy of tensors, with their strides and flags, that shares no memory with them."""

    def twin(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        storage = leaf.detach().untyped_storage().clone()
        made = torch.empty(0, dtype=leaf.dtype).set_(
            storage, leaf.storage_offset(), leaf.shape, leaf.stride()
        )
        if leaf.is_conj():
            made = made.conj()
        return made.requires_grad_(leaf.requires_grad)

    return tree_map(twin, value)


def assert_same(actual: Any, expected: Any) -> None:
    """Values, dtypes, shapes and strides."""
    for a, b in zip(tree_leaves(actual), tree_leaves(expected), strict=True):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(a, b, equal_nan=True)
            assert a.stride() == b.stride(), (a.stride(), b.stride())
            assert a.requires_grad == b.requires_grad
            assert a.is_conj() == b.is_conj()
        else:
            assert type(a) is type(b) and a == b


def check(function: Callable[..., Any], *args: Any, settings: Any = None) -> Any:
    """Results, gradients and what becomes of the arguments are those of eager mode."""
    others = twins(args)
    expected = function(*args)
    torch._dynamo.reset()
    torch.manual_seed(0)
    actual = compiled(function, **(settings or {}))(*others)
    assert_same(actual, expected)
    backward(actual)
    backward(expected)
    for mine, theirs in zip(tree_leaves(others), tree_leaves(args), strict=True):
        if isinstance(theirs, torch.Tensor):
            torch.testing.assert_close(mine.detach(), theirs.detach(), equal_nan=True)
            torch.testing.assert_close(mine.grad, theirs.grad)
    return actual


def check_module(module: torch.nn.Module, *args: Any, steps: int = 2) -> None:
    """Results, gradients of parameters and buffers, call after call."""
    other = copy.deepcopy(module)
    fast = compiled(other)
    for step in range(steps):
        others = twins(args)
        torch.manual_seed(step)
        expected = module(*args)
        torch.manual_seed(step)
        actual = fast(*others)
        assert_same(actual, expected)
        backward(expected)
        backward(actual)
        for (name, mine), theirs in zip(other.named_parameters(), module.parameters(), strict=True):
            torch.testing.assert_close(
                mine.grad, theirs.grad, msg=lambda m, n=name: f"{n}: {m}", rtol=1e-4, atol=1e-5
            )
        for mine, theirs in zip(other.buffers(), module.buffers(), strict=True):
            torch.testing.assert_close(mine, theirs)


def backward(results: Any) -> None:
    """Give every result that requires a gradient one that is not the same everywhere."""
    leaves = [r for r in tree_leaves(results) if isinstance(r, torch.Tensor) and r.requires_grad]
    if leaves:
        weights = [torch.linspace(0.5, 1.5, r.numel(), dtype=r.real.dtype).reshape(r.shape) for r in leaves]
        sum((r * w).sum().abs() for r, w in zip(leaves, weights, strict=True)).backward()

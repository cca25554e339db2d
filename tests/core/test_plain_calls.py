"""In-place calls that need no look at autograd or aliases do what the others do, call after call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import rushlight as rl

CALLS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "add_ with alpha": lambda m, x, y, i: x.add_(y, alpha=0.5),
    "sub_ by names": lambda m, x, y, i: x.sub_(other=y, alpha=2),
    "addcmul_": lambda m, x, y, i: x.addcmul_(y, y, value=-1.5),
    "broadcast": lambda m, x, y, i: x.add_(y[:1], alpha=3),
    "a number": lambda m, x, y, i: x.add_(m.tensor(2.0), alpha=3),
    "lerp_": lambda m, x, y, i: x.lerp_(y, 0.25),
    "clamp_": lambda m, x, y, i: x.clamp_(min=-0.5, max=0.5),
    "scatter_add_": lambda m, x, y, i: x.scatter_add_(0, i, y),
    "index_add_": lambda m, x, y, i: x.index_add_(0, i, y[:3], alpha=2),
    "masked_fill_": lambda m, x, y, i: x.masked_fill_(y > 0, 7.0),
    "itself": lambda m, x, y, i: x.add_(x, alpha=0.5),
    "a view of itself": lambda m, x, y, i: x.add_(x[:], alpha=0.5),
    "a view": lambda m, x, y, i: x[1:].add_(y[1:], alpha=0.5),
    "columns": lambda m, x, y, i: x.view(2, 3)[:, 1:].mul_(y.view(2, 3)[:, 1:]),
    "a mask": lambda m, x, y, i: x.__setitem__(y > 0, 3.0),
    "a mask of rows": lambda m, x, y, i: x.view(2, 3).__setitem__(m.tensor([True, False]), 3.0),
    "a mask of columns": lambda m, x, y, i: x.view(2, 3).__setitem__((slice(None), y[:3] > 0), 3.0),
    "a mask and values": lambda m, x, y, i: x.__setitem__(y > 0, y[y > 0]),
    "a mask and one value": lambda m, x, y, i: x.__setitem__(y > 0, y[:1]),
    "an index": lambda m, x, y, i: x.__setitem__(i[:2], 3.0),
    "an index of 32 bits": lambda m, x, y, i: x.__setitem__(i[:2].int(), y[:2]),
    "an index, twice": lambda m, x, y, i: x.__setitem__(i, y[0]),
    # refused
    "a float tensor into ints": lambda m, x, y, i: i.add_(y[:3], alpha=2),
    "a float into ints": lambda m, x, y, i: i.add_(i, alpha=0.5),
    "a larger shape": lambda m, x, y, i: x[:3].clone().add_(y.view(2, 3), alpha=2),
    "an expanded target": lambda m, x, y, i: x[:1].expand(6).add_(y, alpha=2),
    "a part of itself": lambda m, x, y, i: x[1:].add_(x[:-1], alpha=2),
    "its own index": lambda m, x, y, i: i.scatter_add_(0, i, i + 1),
    "its own mask": lambda m, x, y, i: (y > 0).masked_fill_(y > 0, True),
    "written to itself": lambda m, x, y, i: x.__setitem__(i, x),
    "out of bounds": lambda m, x, y, i: x.__setitem__(i + 9, 3.0),
    "other dtype": lambda m, x, y, i: x.__setitem__(i, y.double()[:3]),
    "too many dimensions": lambda m, x, y, i: x.__setitem__((y > 0).view(2, 3), 3.0),
    "float index": lambda m, x, y, i: x.__setitem__(y, 3.0),
}


def _outcome(m: Any, call: Callable[[Any, Any, Any, Any], Any], grad: bool) -> Any:
    values = np.array([0.5, -1.0, 2.0, -0.25, 0.75, -3.0], np.float32)
    x, y = m.from_numpy(values.copy()), m.from_numpy(values[::-1].copy())
    i = m.tensor([1, 5, 1])
    leaf = x.requires_grad_(grad)
    if grad:
        x = leaf * 1.0
    alias, found = x.view(2, 3), []
    for _ in range(3):
        try:
            result = call(m, x, y, i)
            found.append(result is x)
        except (RuntimeError, IndexError, TypeError) as error:
            found.append(type(error).__name__)
        found += [x.tolist(), alias.tolist(), y.tolist(), i.tolist(), x._version]
    if grad:
        (x * x).sum().backward()
        found.append(leaf.grad.tolist())
    return found


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_calls_one_after_the_other(name: str, grad: bool) -> None:
    ours, theirs = (_outcome(m, CALLS[name], grad) for m in (rl, torch))
    assert ours == theirs


@pytest.mark.parametrize("m", [rl, torch])
def test_leaves_that_require_grad_are_not_written(m: Any) -> None:
    x, y = m.zeros(3), m.ones(3)
    x.add_(y, alpha=2)
    leaf = m.zeros(3, requires_grad=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="leaf"):
            leaf.add_(y, alpha=2)
        with pytest.raises(RuntimeError, match="leaf"):
            leaf[y > 0] = 2.0
        with pytest.raises(RuntimeError, match="leaf"):
            leaf[m.tensor([1])] = 2.0
    with m.no_grad():
        leaf.add_(y, alpha=2)
        leaf[m.tensor([1])] = 5.0
    assert leaf.tolist() == [2.0, 5.0, 2.0]
    assert leaf._version == 2


def test_named_calls_of_one_type_with_other_values() -> None:
    x = rl.zeros(3)
    for alpha in (1, 2, 2**62):
        x.zero_().add_(rl.ones(3), alpha=alpha)
        assert x.tolist() == [float(alpha)] * 3
    with pytest.raises(TypeError):
        x.add_(rl.ones(3), alpha="1")
    with pytest.raises(TypeError):
        x.add_(rl.ones(3), beta=1)


def test_lists_given_by_name_are_returned() -> None:
    tensors = [rl.zeros(2), rl.ones(2)]
    for _ in range(3):
        rl._foreach_add_(self=tensors, other=tensors, alpha=1)
    assert [t.tolist() for t in tensors] == [[0.0, 0.0], [8.0, 8.0]]


@pytest.mark.parametrize("m", [rl, torch])
def test_saved_values_that_were_written(m: Any) -> None:
    w = m.ones(3, requires_grad=True)
    x, index = m.ones(3), m.tensor([0])
    product = w * x
    x.add_(x, alpha=2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    product = w * x
    x[index] = 4.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()

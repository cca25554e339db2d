"""Writes that take the short way do what those do that take the long one."""

from __future__ import annotations

import math

import pytest
import torch

import rushlight as rl


@pytest.mark.parametrize("value", [0.0, -0.0, 1, True, 2.5, math.nan, math.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "bool"])
def test_numbers_that_are_assigned(value: float, dtype: str) -> None:
    if dtype in ("int64", "bool") and (isinstance(value, float) and not math.isfinite(value)):
        pytest.skip("undefined")
    for _ in range(2):
        ours, theirs = rl.ones(2, 3, dtype=getattr(rl, dtype)), torch.ones(2, 3, dtype=getattr(torch, dtype))
        for x in (ours, theirs):
            x[0, 1] = value
            x[:, 2] = value
        assert str(ours.tolist()) == str(theirs.tolist())


def test_zeros_with_different_signs() -> None:
    x = rl.ones(3)
    x[0], x[1], x[2] = 0.0, -0.0, 0.0
    assert [math.copysign(1.0, v) for v in x.tolist()] == [1.0, -1.0, 1.0]


def test_numbers_that_were_assigned_in_inference_mode() -> None:
    x = rl.ones(3)
    with rl.inference_mode():
        y = rl.ones(3)
        y[1] = 7.0
    weight = rl.ones(3, requires_grad=True)
    product = weight * 2
    product[1] = 7.0
    product.sum().backward()
    x[1] = 7.0
    assert weight.grad is not None
    assert weight.grad.tolist() == [2.0, 0.0, 2.0]
    assert x.tolist() == y.tolist() == [1.0, 7.0, 1.0]


def test_copies() -> None:
    for library in (rl, torch):
        x = library.zeros(2, 3)
        version = x._version
        assert x.copy_(library.arange(3.0)) is x
        assert x._version == version + 1
        assert x.tolist() == [[0.0, 1.0, 2.0]] * 2
        view = x[:, 1:]
        view.copy_(library.tensor([[5.0], [6.0]]))
        assert x.tolist() == [[0.0, 5.0, 5.0], [0.0, 6.0, 6.0]]
        assert x._version == version + 2
        x.t().copy_(library.arange(6.0).reshape(3, 2))
        assert x.tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
        x.copy_(library.tensor(7))
        assert x.unique().tolist() == [7.0]
        for wrong in (library.ones(1, 2, 3), library.ones(2), library.ones(3, 1)):
            with pytest.raises(RuntimeError):
                x.copy_(wrong)
        with pytest.raises(RuntimeError):
            library.zeros(1).expand(3).copy_(library.ones(3))
        x.copy_(x)
        assert x._version == version + 5


def test_copies_that_are_recorded() -> None:
    for library in (rl, torch):
        source = library.arange(3.0).requires_grad_()
        x = library.zeros(2, 3)
        x[1].copy_(source)
        (x * 2).sum().backward()
        assert source.grad.tolist() == [2.0, 2.0, 2.0]
        leaf = library.zeros(3, requires_grad=True)
        with pytest.raises(RuntimeError):
            leaf.copy_(library.ones(3))
        kept = (leaf * leaf).sum()
        with library.no_grad():
            leaf.copy_(library.ones(3))
        assert leaf.is_leaf
        assert leaf.tolist() == [1.0, 1.0, 1.0]
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            kept.backward()
        with library.inference_mode():
            made = library.zeros(3)
        with pytest.raises(RuntimeError):
            made.copy_(library.ones(3))
        made = library.func.jvp(lambda t: library.zeros(3).copy_(t), (library.ones(3),), (library.ones(3),))
        assert made[1].tolist() == [1.0, 1.0, 1.0]


def test_writes_to_leaves_that_are_not_recorded() -> None:
    """What optimizers do: arithmetic in place on parameters, without gradients."""
    for library in (rl, torch):
        weight = library.tensor([1.0, 2.0, 3.0], requires_grad=True)
        grad = library.tensor([1.0, 1.0, 2.0])
        kept = (weight * weight).sum()
        with pytest.raises(RuntimeError, match="leaf"):
            weight.mul_(2)
        with library.no_grad():
            weight.mul_(2).add_(grad).sub_(weight).add_(grad, alpha=-3.0)
        assert weight.tolist() == [-3.0, -3.0, -6.0]
        assert weight.is_leaf
        assert weight.requires_grad
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            kept.backward()
        other = weight * 1
        other.mul_(3)
        other.sum().backward()
        assert weight.grad.tolist() == [3.0, 3.0, 3.0]
        with library.inference_mode():
            made = library.zeros(3)
            made.add_(1)
        with pytest.raises(RuntimeError):
            made.add_(library.ones(3, requires_grad=True))
        given = (library.ones(3),)
        pair = library.func.jvp(lambda t: library.zeros(3).add_(t), given, given)
        assert pair[1].tolist() == [1.0, 1.0, 1.0]
        assert library.func.grad(lambda t: (t * 1).mul_(t).sum())(given[0]).tolist() == [2.0, 2.0, 2.0]

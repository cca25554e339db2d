"""Calls that give arguments by name, or lists of tensors, run natively, do what those in Python do, and keep nothing.

Native calls cannot be taken back: test_native_dispatch.py runs these tests in a process of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import rushlight
from rushlight._api.link import API
from rushlight.core.function_modes import TorchFunctionMode
from rushlight.core.tensor import Tensor
from rushlight.runtime import native_dispatch


@pytest.fixture(autouse=True, scope="module")
def native() -> None:
    if not native_dispatch.install({**API.methods, **API.functions[""]}):
        pytest.skip("Python or NumPy is laid out in another way")


NAMED: list[Callable[[Tensor], Any]] = [
    lambda x: x.sum(dim=1),
    lambda x: x.sum(dim=(0, 1)),
    lambda x: x.sum(1, keepdim=True),
    lambda x: x.sum(keepdims=True, axis=0),
    lambda x: x.mean(dim=0, dtype=rushlight.float64),
    lambda x: rushlight.add(x, x, alpha=3),
    lambda x: rushlight.add(input=x, other=x[0], alpha=2),
    lambda x: rushlight.add(other=x[0], input=x),
    lambda x: x.unsqueeze(dim=-1),
    lambda x: x.clamp(min=1.0),
    lambda x: x.clamp(max=2.0),
    lambda x: x.transpose(dim0=0, dim1=1),
]


@pytest.mark.parametrize("number", range(len(NAMED)))
def test_arguments_with_names(number: int) -> None:
    """A call that gives arguments by name is native, too, with values that differ from call to call."""
    function, results = NAMED[number], []
    for value in range(4):
        x = rushlight.arange(6.0).reshape(2, 3) + value
        leaf = x.clone().requires_grad_()
        found = function(leaf)
        found.sum().backward()
        with rushlight.no_grad():
            plain = function(x)
        with InPython():
            other = x.clone().requires_grad_()
            wanted = function(other)
            wanted.sum().backward()
        for result in (found, plain):
            assert result.dtype is wanted.dtype
            assert result.tolist() == wanted.tolist()
        assert leaf.grad.tolist() == other.grad.tolist()  # type: ignore[union-attr]
        results.append(type(found.grad_fn))
    assert len(set(results)) == 1


class InPython(TorchFunctionMode):
    """Calls inside are resolved in Python."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_arguments_with_names_are_not_kept() -> None:
    packet = API.methods["sum"]
    x = rushlight.ones(2, 3)
    for _ in range(3):
        x.sum(dim=0)
    tables = vars(packet)["_named"]
    assert any(key[1:] == ("dim", int) and table is not False for key, table in tables.items())
    y = rushlight.ones(3)
    for _ in range(3):
        rushlight.add(input=x, other=y)
    before = sys.getrefcount(y)
    for _ in range(100):
        rushlight.add(input=x, other=y)
    assert sys.getrefcount(y) == before == 2


def test_wrong_arguments_with_names() -> None:
    x = rushlight.ones(2, 3)
    for _ in range(3):
        x.sum(dim=0)
    with pytest.raises(IndexError):
        x.sum(dim=5)
    with pytest.raises(ValueError, match="Overflow"):
        x.sum(dim=2**70)
    with pytest.raises(TypeError):
        x.sum(0, dim=0)
    with pytest.raises(TypeError):
        x.sum(nothing=0)
    assert x.sum(dim=()).item() == 6


def test_lists_of_tensors_and_factories() -> None:
    x, y = rushlight.ones(2, 2), rushlight.zeros(2, 2)
    w = rushlight.ones(2, 2, requires_grad=True)
    for _ in range(3):  # the first is resolved by Python
        assert rushlight.cat([x, y], 1).tolist() == [[1, 1, 0, 0]] * 2
        joined = rushlight.cat([x, w, y], 0)
        joined.backward(rushlight.arange(12.0).reshape(6, 2))
        assert w.grad.tolist() == [[4, 5], [6, 7]] and joined.grad_fn.name() == "CatBackward0"
        w.grad = None
        for wrong in ([], [x, 1], [x, None]):
            with pytest.raises((RuntimeError, TypeError, ValueError)):
                rushlight.cat(wrong, 1)
        assert rushlight.zeros(x.shape).tolist() == y.tolist() and rushlight.ones(2, 2).tolist() == x.tolist()
        with rushlight.device("meta"):
            assert rushlight.zeros(x.shape).is_meta and rushlight.randn(3).is_meta
        values, places = w.topk(1, 1)
        assert values.grad_fn is not None and places.grad_fn is None

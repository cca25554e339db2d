"""Shapes, strides and dtypes without data, as PyTorch's FakeTensorMode gives them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode as TorchFakeTensorMode

import rushlight
from rushlight._subclasses.fake_tensor import FakeTensor, FakeTensorMode

PROGRAMS: dict[str, Any] = {
    "product": lambda lib: lib.randn(3, 4) @ lib.ones(4, 2),
    "view": lambda lib: lib.randn(3, 4).t()[1:],
    "write": lambda lib: lib.zeros(2, 3).add_(1).mul_(2),
    "reduction": lambda lib: lib.ones(2, 3, dtype=lib.int32).sum(0),
    "layer": lambda lib: lib.nn.functional.gelu(lib.nn.functional.linear(lib.ones(5, 3), lib.ones(4, 3))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_pytorch(name: str) -> None:
    with FakeTensorMode():
        ours = PROGRAMS[name](rushlight)
    with TorchFakeTensorMode():
        theirs = PROGRAMS[name](torch)
    assert isinstance(ours, FakeTensor) and str(ours.device) == str(theirs.device) == "cpu"
    assert (tuple(ours.shape), ours.stride()) == (tuple(theirs.shape), theirs.stride())
    assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.")


def test_there_are_no_values_and_real_tensors_stay() -> None:
    mode, real = FakeTensorMode(), rushlight.ones(2)
    with mode:
        with pytest.raises(RuntimeError, match="has none"):
            rushlight.ones(1).item()
        assert isinstance(real + 1, FakeTensor)
    assert real.tolist() == [1.0, 1.0]
    fake = mode.from_tensor(real.requires_grad_())
    assert fake.requires_grad and (fake * 2).sum().shape == ()

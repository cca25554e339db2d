"""resize_ in compiled programs: of tensors of the program, and of the caller's if no memory must grow."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.capture.errors import CaptureError


def test_a_smaller_shape_is_a_view_of_the_same_storage() -> None:
    def program(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        y = x * 2
        row = y[0]
        y.resize_(2, 2)
        y.add_(1)
        return y, row

    x = rl.arange(6.0).view(2, 3)
    for ours, eager in zip(rl.compile(program, fullgraph=True)(x), program(x), strict=True):
        assert ours.tolist() == eager.tolist()


def test_a_larger_shape_keeps_the_elements_and_the_aliases() -> None:
    def program(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        y = x * 2
        row = y[1:]
        y.resize_(3, 3)
        row.add_(1)
        return y, row

    y, row = rl.compile(program, fullgraph=True)(rl.arange(6.0).view(2, 3))
    assert y.tolist()[:2] == [[0.0, 2.0, 4.0], [7.0, 9.0, 11.0]]  # what is new is not defined
    assert y.shape == (3, 3)
    assert row.tolist() == [[7.0, 9.0, 11.0]]


def test_a_tensor_of_the_caller_gets_a_smaller_shape() -> None:
    def program(x: rl.Tensor) -> rl.Tensor:
        return x.resize_(1, 2) + 1

    compiled = rl.compile(program, fullgraph=True)
    for _ in range(2):
        x = rl.arange(6.0)
        assert compiled(x).tolist() == [[1.0, 2.0]]
        assert x.tolist() == [[0.0, 1.0]]


def test_a_tensor_of_the_caller_grows_eagerly() -> None:
    def program(x: rl.Tensor) -> rl.Tensor:
        return x.resize_(2, 4) + 1

    with pytest.raises(CaptureError, match="changes the shape of a tensor of the caller"):
        rl.compile(program, fullgraph=True)(rl.arange(6.0))
    x = rl.arange(6.0)
    assert rl.compile(program)(x).tolist()[0] == [1.0, 2.0, 3.0, 4.0]
    assert x.shape == (2, 4)

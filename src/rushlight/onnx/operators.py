"""Shapes as tensors, which stay computed in an exported model."""

from __future__ import annotations

from .._api.legacy import _shape_as_tensor
from ..core.tensor import Tensor

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]

shape_as_tensor = _shape_as_tensor


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """`x` in a shape that is a tensor.

    >>> rl.onnx.operators.reshape_from_tensor_shape(rl.arange(4), rl.tensor([2, 2]))
    tensor([[0, 1],
            [2, 3]])
    """
    return x.reshape(shape.tolist())

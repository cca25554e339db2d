"""Nodes that functions for `register_custom_op_symbolic` add, under the names of PyTorch's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["add", "cat", "select", "squeeze", "unsqueeze"]


def unsqueeze(g: Any, self: Any, dim: int) -> Any:
    """A new axis.

    >>> "unsqueeze" in rl.onnx.symbolic_opset11.__all__
    True
    """
    return g.op("Unsqueeze", self, np.array([dim]))


def squeeze(g: Any, self: Any, dim: int | None = None) -> Any:
    """Without an axis of one, or without all of them.

    >>> "squeeze" in rl.onnx.symbolic_opset11.__all__
    True
    """
    return g.op("Squeeze", self) if dim is None else g.op("Squeeze", self, np.array([dim]))


def select(g: Any, self: Any, dim: int, index: Any) -> Any:
    """What has these numbers along an axis, which stays if `index` has one.

    >>> "select" in rl.onnx.symbolic_opset11.__all__
    True
    """
    return g.op("Gather", self, index, axis_i=dim)


def cat(g: Any, tensors: Sequence[Any], dim: int) -> Any:
    """Tensors behind each other.

    >>> "cat" in rl.onnx.symbolic_opset11.__all__
    True
    """
    return g.op("Concat", *tensors, axis_i=dim)


def add(g: Any, self: Any, other: Any, alpha: float | None = None) -> Any:
    """`self + alpha * other`.

    >>> "add" in rl.onnx.symbolic_opset11.__all__
    True
    """
    if alpha not in (None, 1):
        other = g.op("Mul", other, g.op("CastLike", float(alpha), other))
    return g.op("Add", self, other)

"""Softmax and its relatives on NumPy arrays. A 0-d array is a row of one element."""

from __future__ import annotations

import numpy as np

from ..core.registry import kernel
from .reduction_sums import total


def row_sum(x: np.ndarray, dim: int) -> np.ndarray:
    return total(x, (dim % x.ndim,), x.dtype, keepdims=True)


@kernel("_softmax")
def softmax(self: np.ndarray, dim: int) -> np.ndarray:
    if self.size == 0:
        return self.copy()
    rows = np.atleast_1d(self)
    result = np.subtract(rows, np.max(rows, axis=dim, keepdims=True))
    np.exp(result, out=result)
    result /= row_sum(result, dim)
    return result.reshape(self.shape)


@kernel("_log_softmax")
def log_softmax(self: np.ndarray, dim: int) -> np.ndarray:
    if self.size == 0:
        return self.copy()
    rows = np.atleast_1d(self)
    result = np.subtract(rows, np.max(rows, axis=dim, keepdims=True))
    result -= np.log(row_sum(np.exp(result), dim))
    return result.reshape(self.shape)


@kernel("_softmax_backward_data")
def softmax_backward(grad_output: np.ndarray, output: np.ndarray, dim: int) -> np.ndarray:
    weighted = np.atleast_1d(grad_output * output)
    return (weighted - np.atleast_1d(output) * row_sum(weighted, dim)).reshape(output.shape)


@kernel("_log_softmax_backward_data")
def log_softmax_backward(grad_output: np.ndarray, output: np.ndarray, dim: int) -> np.ndarray:
    grad = np.atleast_1d(grad_output)
    return (grad - np.exp(np.atleast_1d(output)) * row_sum(grad, dim)).reshape(output.shape)

"""Tensors as the contiguous arrays that collectives read and write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..core.construct import from_numpy
from ..core.tensor import DISPATCH, LAZY, META, QUANTIZED, SPARSE, TRACED, Tensor

Finish = Callable[[], None]


def check_tensor(tensor: Any, name: str) -> None:
    """That `tensor` is one whose memory can be sent."""
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(tensor)} instead."
        )
    if tensor._keys & SPARSE:
        raise ValueError(f"the tensor {name} is {tensor.layout}; collectives take dense ones")
    if tensor._keys & META:
        raise ValueError(f"the tensor {name} is on the meta device and has no data to send")
    if tensor._keys & QUANTIZED:
        raise ValueError(f"the tensor {name} is quantized; send its int_repr()")
    if tensor._keys & (TRACED | DISPATCH):
        raise RuntimeError(
            f"the tensor {name} belongs to a transform, or to a class that runs operators itself; use the "
            "collectives of rushlight.distributed._functional_collectives"
        )


def check_tensors(tensors: Any, name: str) -> None:
    if not isinstance(tensors, list | tuple) or not all(isinstance(t, Tensor) for t in tensors):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(tensors)} with elements of type {[type(t) for t in tensors]}."
            if isinstance(tensors, list | tuple)
            else f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(tensors)} instead."
        )
    for tensor in tensors:
        check_tensor(tensor, name)


def read(tensor: Tensor) -> np.ndarray:
    """The values, in order, in one dimension; a copy where they do not lie so."""
    return np.ascontiguousarray(tensor.numpy_array()).reshape(-1)


def write(tensor: Tensor) -> tuple[np.ndarray, Finish]:
    """Memory for the values, in order, and what puts them into the tensor once they are there."""
    array = tensor._array
    assert array is not None
    if array.flags.c_contiguous and array.flags.writeable and not tensor._keys & LAZY:
        return array.reshape(-1), lambda: _count_write(tensor)
    staged = np.ascontiguousarray(tensor.numpy_array())
    if np.may_share_memory(staged, array):
        staged = staged.copy()
    plain = tensor.detach()

    def finish() -> None:
        plain.copy_(from_numpy(staged))

    return staged.reshape(-1), finish


def _count_write(tensor: Tensor) -> None:
    if not tensor._inference:
        tensor.version_counter.value += 1


def write_all(tensors: Iterable[Tensor]) -> tuple[list[np.ndarray], Finish]:
    staged = [write(tensor) for tensor in tensors]

    def finish() -> None:
        for _, end in staged:
            end()

    return [array for array, _ in staged], finish

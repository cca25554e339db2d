"""Lists of tensors by device and dtype, as optimizers of others use them."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..core.tokens import device as Device

_Group = tuple[list[list[Any]], list[int]]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The devices, besides the processor, on which PyTorch has kernels for lists."""
    return ["cuda", "xpu", "mtia"]


def _get_fused_kernels_supported_devices() -> list[str]:
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia"]


def _device_has_foreach_support(device: Any) -> bool:
    return Device(device).type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: list[Any], device: Any) -> bool:
    return _device_has_foreach_support(device) and all(t is None or type(t) is Tensor for t in tensors)


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], _Group]:
    """By device and dtype of the first list's tensors, the parts of all lists, and their places if asked for."""
    groups: dict[tuple[Any, Any], _Group] = {}
    for i, row in enumerate(zip(*tensorlistlist, strict=True)):
        key = (row[0].device, row[0].dtype)
        lists, places = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        for part, value in zip(lists, row, strict=True):
            part.append(value)
        if with_indices:
            places.append(i)
    return groups

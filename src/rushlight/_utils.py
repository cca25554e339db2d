"""Functions that programs take from PyTorch's `_utils`: those that files name, and tensors in one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._api.link import API
from ._serialization.pickled import BUILDERS, Name
from ._serialization.trusted import NAMES
from .core.dtypes import DType
from .core.tensor import Tensor

_PREFIX = "torch._utils."
_rebuild_tensor = NAMES[f"{_PREFIX}_rebuild_tensor"]
_rebuild_tensor_v2 = NAMES[f"{_PREFIX}_rebuild_tensor_v2"]
_rebuild_tensor_v3 = NAMES[f"{_PREFIX}_rebuild_tensor_v3"]
_rebuild_parameter = NAMES[f"{_PREFIX}_rebuild_parameter"]
_rebuild_parameter_with_state = NAMES[f"{_PREFIX}_rebuild_parameter_with_state"]
_rebuild_sparse_tensor = NAMES[f"{_PREFIX}_rebuild_sparse_tensor"]
_rebuild_meta_tensor_no_storage = NAMES[f"{_PREFIX}_rebuild_meta_tensor_no_storage"]

for _full in reversed(list(NAMES)):
    if _full.startswith(_PREFIX):
        BUILDERS[NAMES[_full]] = Name(*_full.rsplit(".", 1))


def _element_size(dtype: DType) -> int:
    """Bytes of one element."""
    if not isinstance(dtype, DType):
        raise RuntimeError(f"expected a dtype, but got {type(dtype).__name__}")
    return dtype.itemsize


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of all tensors in one row."""
    return API.functions[""]["cat"]([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of a row, of the shapes of `tensors`."""
    parts: list[Any] = []
    start = 0
    for tensor in tensors:
        count = tensor.numel()
        parts.append(flat.narrow(0, start, count).view(tensor.shape))
        start += count
    return tuple(parts)

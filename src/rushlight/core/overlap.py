"""Whether tensors that are written share memory with themselves or with others."""

from __future__ import annotations

from .errors import check
from .shapes import is_dense
from .tensor import Tensor


def check_no_internal_overlap(target: Tensor) -> None:
    """Refuse to write to a tensor in which several elements share one memory location, such as an expanded
    one.
    """
    if has_internal_overlap(target):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to "
            "a single "
            "memory location. Please clone() the tensor before performing the operation."
        )


def has_internal_overlap(target: Tensor) -> bool:
    """Whether `target` is expanded. Other overlaps inside a tensor (unfold) are not found, as in PyTorch."""
    array = target._array
    if array.flags.c_contiguous if array is not None else target._parts is not None or target.is_nested:
        return False
    return (
        any(stride == 0 and size > 1 for size, stride in zip(target.shape, target.strides(), strict=True))
        and target.numel() > 0
    )


def check_no_partial_overlap(target: Tensor, other: Tensor) -> None:
    """Refuse an operation whose input and written-to tensor overlap without being the same elements."""
    if other is target or target._array is None or other._array is None or target._storage is None:
        return
    if target.storage_object is not other.storage_object or not target.numel() or not other.numel():
        return
    if _same_elements(target, other):
        return
    if not (is_dense(target.shape, target.strides()) and is_dense(other.shape, other.strides())):
        # too hard to tell cheaply; the result is computed before it is written, so it is right all the same
        return
    first, last = _span(target)
    other_first, other_last = _span(other)
    if first == other_first and last == other_last:
        check(target.strides() == other.strides(), _PARTIAL)
    check(last <= other_first or other_last <= first, _PARTIAL)


def check_no_overlap(target: Tensor, other: Tensor) -> None:
    """Refuse an operation whose input and written-to tensor share memory, the same elements or not."""
    check(other is not target and not _same_elements(target, other), _PARTIAL)
    check_no_partial_overlap(target, other)


def _same_elements(target: Tensor, other: Tensor) -> bool:
    return (
        target._storage is not None
        and target._storage is other._storage
        and target._offset == other._offset
        and target.shape == other.shape
        and target.strides() == other.strides()
    )


_PARTIAL = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
    "single memory "
    "location. Please clone() the tensor before performing the operation."
)


def _span(tensor: Tensor) -> tuple[int, int]:
    start = tensor._offset * tensor.dtype.itemsize
    return start, start + tensor.nbytes

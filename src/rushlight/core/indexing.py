"""`tensor[...]` and `tensor[...] = value`.

An index is split into its basic part (ints, slices, None, Ellipsis), which is a chain of views, and its advanced part
(tensors, lists, masks), which becomes one `index` or `index_put` call on that view. The rules are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import dtypes
from .dispatch import run_name
from .errors import check
from .mutation import assign, check_target
from .tensor import Tensor, wrap

_INDEX_DTYPES = ("int64", "int32", "int16", "int8", "uint8", "bool")


def get_item(self: Tensor, index: Any) -> Any:
    """`self[index]`: a view where the index is basic, a copy otherwise."""
    viewed, advanced = apply_basic(self, index)
    if not advanced:
        return run_name("alias", viewed) if viewed is self else viewed
    return run_name("index.Tensor", viewed, advanced)


def set_item(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value`, with broadcasting and casting of `value`."""
    viewed, advanced = apply_basic(self, index)
    value = as_value(value, self)
    if not advanced:
        _copy_into(viewed, value)
    else:
        put = run_name("index_put", viewed, advanced, value, False)
        check_target(viewed, "index_put_")
        assign(viewed, put)


def _copy_into(target: Tensor, value: Tensor) -> None:
    while value.ndim > target.ndim and value.shape[0] == 1:
        value = run_name("squeeze.dim", value, 0)
    target.copy_(value)


def as_value(value: Any, like: Tensor) -> Tensor:
    """The right side of an assignment as a tensor of the target's dtype (and, for scalars, device)."""
    if isinstance(value, Tensor):
        return value if value.dtype is like.dtype else run_name("_to_copy", value, like.dtype, None, None, None, False,
                                                                None)
    with np.errstate(all="ignore"):
        try:
            return wrap(np.asarray(value).astype(like.dtype.numpy))
        except (TypeError, ValueError):
            raise TypeError(f"can't assign a {type(value).__name__} to a tensor of {like.dtype.name}") from None


def apply_basic(self: Tensor, index: Any) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    """The view that the basic parts of `index` select, and the advanced indices into that view."""
    items = _expand_ellipsis(self, _as_tuple(index))
    result = self
    dim = 0
    advanced: list[Tensor | None] = []
    for position, item in enumerate(items):
        if item is None:
            result = run_name("unsqueeze", result, dim)
            dim += 1
        elif isinstance(item, slice):
            result = _slice(result, dim, item)
            dim += 1
        elif _is_int(item):
            result = _select(result, dim, _as_int(item), position)
        else:
            tensor, added = _advanced(item, self)
            if added:
                result = run_name("unsqueeze", result, dim)
            advanced.extend([None] * (dim - len(advanced)))
            advanced.append(tensor)
            dim += _consumed(tensor)
    return result, tuple(advanced)


def _as_tuple(index: Any) -> tuple[Any, ...]:
    """Lists that hold slices, None, Ellipsis, tensors or sequences count as tuples, other sequences as one index."""
    if isinstance(index, tuple):
        return index
    return (index,)


def _expand_ellipsis(self: Tensor, items: tuple[Any, ...]) -> list[Any]:
    used = sum(_dims_used(item) for item in items)
    places = [i for i, item in enumerate(items) if item is Ellipsis]
    check(len(places) <= 1, "an index can only have a single ellipsis ('...')", IndexError)
    check(used <= self.ndim, f"too many indices for tensor of dimension {self.ndim}", IndexError)
    if not places:
        return list(items)
    at = places[0]
    return [*items[:at], *[slice(None)] * (self.ndim - used), *items[at + 1:]]


def _dims_used(item: Any) -> int:
    if item is None or item is Ellipsis or isinstance(item, bool | np.bool_):
        return 0
    if isinstance(item, Tensor):
        return item.ndim if item.dtype.name in ("bool", "uint8") else 1
    if isinstance(item, np.ndarray):
        return item.ndim if item.dtype == np.bool_ else 1
    if isinstance(item, list | tuple):
        array = _sequence_array(item)
        return array.ndim if array.dtype == np.bool_ else 1
    return 1


def _consumed(tensor: Tensor) -> int:
    """How many dimensions of the view an advanced index takes; 0-d masks take the dimension added for them."""
    return max(tensor.ndim, 1) if tensor.dtype.name in ("bool", "uint8") else 1


def _is_int(item: Any) -> bool:
    if isinstance(item, bool | np.bool_):
        return False
    if isinstance(item, int | np.integer):
        return True
    if isinstance(item, Tensor):
        return item.ndim == 0 and item.dtype.category == dtypes.Category.INTEGRAL and item.dtype.name != "uint8" \
            and not item.is_meta and not item._keys & 2
    return not isinstance(item, list | tuple | np.ndarray) and hasattr(item, "__index__")


def _as_int(item: Any) -> int:
    return int(item.item()) if isinstance(item, Tensor) else int(item)


def _slice(tensor: Tensor, dim: int, item: slice) -> Tensor:
    start, stop, step = (None if v is None else _bound(v) for v in (item.start, item.stop, item.step))
    step = 1 if step is None else step
    check(step > 0, "step must be greater than zero", ValueError)
    if start is None and stop is None and step == 1:
        return tensor
    return run_name("slice.Tensor", tensor, dim, start, stop, step)


def _bound(value: Any) -> int:
    if isinstance(value, Tensor):
        return int(value.item())
    if hasattr(value, "__index__"):
        return int(value.__index__())
    raise TypeError("slice indices must be integers or None or have an __index__ method")


def _select(tensor: Tensor, dim: int, index: int, position: int) -> Tensor:
    check(tensor.ndim > 0, "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a number",
          IndexError)
    size = tensor.shape[dim]
    check(-size <= index < size, f"index {index} is out of bounds for dimension {position} with size {size}",
          IndexError)
    return run_name("select.int", tensor, dim, index)


def _sequence_array(item: Sequence[Any]) -> np.ndarray:
    plain = [element.numpy_array() if isinstance(element, Tensor) else element for element in item]
    array = np.asarray(plain)
    return array.astype(np.int64) if array.size == 0 and array.dtype != np.bool_ else array


def _advanced(item: Any, like: Tensor) -> tuple[Tensor, bool]:
    """An advanced index as a tensor, and whether it is a single bool, which needs a dimension of its own."""
    if isinstance(item, bool | np.bool_):
        return wrap(np.asarray([bool(item)])), True
    if isinstance(item, list | tuple):
        item = _sequence_array(item)
    if isinstance(item, np.ndarray):
        item = wrap(item.copy())
    check(isinstance(item, Tensor), "only integers, slices (`:`), ellipsis (`...`), None and long or byte tensors are "
          f"valid indices (got {type(item).__name__})", TypeError if isinstance(item, str) else IndexError)
    check(item.dtype.name in _INDEX_DTYPES, "tensors used as indices must be long, int, byte or bool tensors, not "
          f"{item.dtype.name}", IndexError)
    if item.ndim == 0 and item.dtype.name in ("bool", "uint8"):
        return run_name("unsqueeze", item, 0), True
    return item, False

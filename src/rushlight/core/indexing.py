"""`tensor[...]` and `tensor[...] = value`.

An index is split into its basic part (ints, slices, None, Ellipsis), which is a chain of views, and its
advanced part (tensors, lists, masks), which becomes one `index` or `index_put` call on that view. The rules
are PyTorch's: a list of numbers is one index, a list that holds sequences or slices counts as a tuple (with a
warning), a 0-d integer tensor is an int, a bool adds a dimension of size 1 or 0.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import construct
from .data_sizes import is_data
from .dispatch import AMBIENT, run_name
from .dtypes import DTYPES, Category, DType
from .errors import check, fail
from .modes import MODES
from .mutation import assign, check_target, write_plainly
from .overlap import check_no_overlap
from .plain_writes import is_plain_write
from .registry import REGISTRY
from .symbols import is_size
from .tensor import AUTOGRAD, TRACED, Tensor

_MASKS = ("bool", "uint8")
_SHORT = 32  # lists at least this long are never taken for a tuple


def get_item(self: Tensor, index: Any) -> Any:
    """`self[index]`: a view where the index is basic, a copy otherwise."""
    array = self._array
    if (
        array is not None
        and self._spec is None
        and (found := _numbers_only(self, array.shape, index)) is not None
    ):
        return found
    viewed, advanced = apply_basic(self, index)
    if advanced:
        return run_name("index.Tensor", viewed, advanced)
    return run_name("alias", self) if viewed is self else viewed


def set_item(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value`; a basic index takes values of any dtype, an advanced one those of its own."""
    if index is False:
        return
    source = as_value(value, self)
    viewed, advanced = apply_basic(self, None if index is True else index)
    source = _without_leading_ones(source)
    if advanced:
        _put(viewed, advanced, source)
    else:
        if source._storage is viewed._storage and source.ndim < viewed.ndim:
            source = run_name("expand", source, tuple(viewed.shape), False)  # it may be a part of the target
        viewed.copy_(source)


def as_value(value: Any, like: Tensor) -> Tensor:
    """The right side of an assignment as a tensor; a number takes the dtype and device of the target."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.integer):
        value = int(value)
    if not isinstance(value, bool | int | float | complex):
        raise TypeError(
            f"can't assign a {type(value).__name__} to a tensor of {like.dtype.name}; give a "
            "number or a tensor"
        )
    if type(value) is int:
        _check_int64(value)
    dtype = DTYPES["float32"] if like.dtype.is_quantized else like.dtype
    if AMBIENT.keys or MODES.inference or like._keys > AUTOGRAD:
        return run_name("full", (), value, dtype, None, like.device, None)
    return _number(repr(value), value, dtype)


@functools.lru_cache(maxsize=256)
def _number(text: str, value: bool | int | float | complex, dtype: DType) -> Tensor:
    """A number that is only read; `text` tells zeros with different signs apart, and True from 1."""
    made: Tensor = run_name("full", (), value, dtype, None, None, None)
    return made


def _without_leading_ones(value: Tensor) -> Tensor:
    shape = value.shape
    lead = next((dim for dim, size in enumerate(shape) if size != 1), len(shape))
    return run_name("view", value, tuple(shape[lead:])) if lead else value


def _put(target: Tensor, indices: tuple[Tensor | None, ...], value: Tensor) -> None:
    mask = _lone_mask(target, indices) if value.numel() == 1 else None
    if mask is not None:
        number = run_name("view", value, ()) if value.ndim else value
        if is_plain_write(REGISTRY["masked_fill.Tensor"], (target, mask, number)):
            write_plainly(REGISTRY["masked_fill.Tensor"], (target, mask, number))
            return
        check_no_overlap(target, mask)
        target.masked_fill_(mask, number)
        return
    args = target, indices, value, False
    if is_plain_write(REGISTRY["index_put"], args):
        write_plainly(REGISTRY["index_put"], args)
        return
    for other in (*indices, value):
        if other is not None:
            check_no_overlap(target, other)
    check_target(target, "index_put_", REGISTRY["index_put"].api)
    assign(target, run_name("index_put", *args))


def _lone_mask(target: Tensor, indices: tuple[Tensor | None, ...]) -> Tensor | None:
    """A mask that is the only index, in a shape that broadcasts to `target`."""
    *whole, mask = indices
    first = len(whole)
    if (
        mask is None
        or mask.dtype.name not in _MASKS
        or any(index is not None for index in whole)
        or mask.shape != target.shape[first : first + mask.ndim]
    ):
        return None
    if first + mask.ndim == target.ndim:
        return mask
    return mask.reshape((*mask.shape, *(1,) * (target.ndim - first - mask.ndim)))


# The parts of an index.


def _numbers_only(tensor: Tensor, shape: tuple[int, ...], index: Any) -> Tensor | None:
    """The view for an index of ints inside of the bounds, slices, None and one Ellipsis; None for any other."""
    items = index if type(index) is tuple else (index,)
    used, left_out = len(items), 0
    for item in items:
        if item is None:
            used -= 1
        elif item is Ellipsis:
            used, left_out = used - 1, left_out + 1
        elif type(item) is not int and type(item) is not slice:
            return None
    if used > len(shape) or left_out > 1:
        return None
    result, dim, at = tensor, 0, 0  # of the view, and of the tensor
    for item in items:
        if type(item) is int:
            size = shape[at]
            if not -size <= item < size:
                return None
            result = run_name("select.int", result, dim, item)
            at += 1
        elif item is None:
            result = run_name("unsqueeze", result, dim)
            dim += 1
        elif item is Ellipsis:
            dim, at = dim + len(shape) - used, at + len(shape) - used
        else:
            result = _slice(result, dim, item)
            dim, at = dim + 1, at + 1
    return run_name("alias", tensor) if result is tensor else result


def apply_basic(self: Tensor, index: Any) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    """The view that the basic parts of `index` select, and the advanced indices into that view."""
    if type(index) is int:
        return _select(self, 0, index), ()
    if isinstance(index, Tensor) and _is_whole(self, index):
        return self, (index,)
    items = _as_tuple(index)
    used = sum(_dims_used(item) for item in items)
    check(used <= self.ndim, f"too many indices for tensor of dimension {self.ndim}", IndexError)
    result, dim = self, 0
    advanced: list[Tensor | None] = []
    covered = 0  # how many dimensions of the view `advanced` speaks of
    for item in map(_plain, items):
        if item is None:
            result = run_name("unsqueeze", result, dim)
            dim += 1
        elif item is Ellipsis:
            dim += self.ndim - used
        elif type(item) is slice:
            result = _slice(result, dim, item)
            dim += 1
        elif type(item) is int or is_data(item):
            result = _select(result, dim, item)
        else:
            if isinstance(item, bool) or (item.ndim == 0 and item.dtype.name in _MASKS):
                result = run_name("unsqueeze", result, dim)
                item = _added_dim_index(item, self)
            advanced.extend([None] * (dim - covered))
            advanced.extend(_beside(self, item))
            dim += item.ndim if item.dtype.name in _MASKS else 1
            covered = dim
    return result, tuple(advanced)


def _is_whole(self: Tensor, index: Tensor) -> bool:
    """Whether an index, both with data, is an advanced one of `self` as it is."""
    array, indexed = index._array, self._array
    if array is None or indexed is None or not array.ndim:
        return False
    name = index.dtype.name
    used = array.ndim if name == "bool" else 1
    return name in ("int64", "int32", "bool") and used <= indexed.ndim


def _as_tuple(index: Any) -> tuple[Any, ...]:
    """`index` as a tuple of one item per dimension or so."""
    if isinstance(index, tuple):
        return index
    if (
        isinstance(index, list)
        and len(index) < _SHORT
        and any(
            item is None or item is Ellipsis or isinstance(item, slice | Tensor) or _is_sequence(item)
            for item in index
        )
    ):
        warnings.warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated; use "
            "x[tuple(seq)] instead of x[seq].",
            UserWarning,
            stacklevel=4,
        )
        return tuple(index)
    return (index,)


def _is_sequence(item: Any) -> bool:
    return hasattr(item, "__getitem__") and hasattr(item, "__len__") and not isinstance(item, dict | set)


def _plain(item: Any) -> Any:
    """`item` as None, Ellipsis, an int, a slice, a bool or a tensor."""
    if item is None or item is Ellipsis or type(item) in (int, bool, slice) or is_data(item):
        return item
    if not isinstance(item, Tensor):
        if isinstance(item, np.bool_):
            _invalid(item)
        if isinstance(item, int | np.integer):
            return int(item)
        if isinstance(item, np.ndarray):
            item = _index_tensor(construct.over_array(item))
        elif _is_sequence(item):
            item = _index_tensor(_from_sequence(item))
        elif hasattr(item, "__index__"):
            return operator.index(item)
        else:
            _invalid(item)
    if item.ndim == 0 and item.dtype.category <= Category.INTEGRAL and not item._keys & TRACED:
        return bool(item.item()) if item.dtype.name in _MASKS else int(item.item())
    check(
        item.dtype.name in ("int64", "int32", "bool", "uint8"),
        f"tensors used as indices must be long, int, byte or bool tensors, not {item.dtype.name}",
        IndexError,
    )
    if item.dtype.name == "uint8":
        warnings.warn(
            "indexing with dtype uint8 is deprecated, please use dtype bool instead.",
            UserWarning,
            stacklevel=5,
        )
    return item


def _invalid(item: Any) -> None:
    fail(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte tensors are valid indices "
        f"(got {type(item).__name__})",
        IndexError,
    )


def _from_sequence(item: Sequence[Any]) -> Tensor:
    values = list(item) if not isinstance(item, str | bytes) else item
    if isinstance(values, list) and not values:
        return construct.tensor([], dtype=DTYPES["int64"])
    try:
        return construct.tensor(values)
    except TypeError as error:
        wrong_kind = isinstance(values, str | bytes) or any(
            isinstance(value, str | bytes | list | tuple | Tensor) for value in values
        )
        check(wrong_kind, str(error))
        raise
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def _index_tensor(given: Tensor) -> Tensor:
    """A sequence or array as an index: a mask stays one, everything else is cast to int64."""
    return given if given.dtype.name in _MASKS else given.to(DTYPES["int64"])


def _dims_used(item: Any) -> int:
    """How many dimensions `item` takes; masks that are not tensors count as one, as in PyTorch."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.ndim if isinstance(item, Tensor) and item.dtype.name in _MASKS else 1


def _added_dim_index(item: Any, self: Tensor) -> Tensor:
    """The index into the dimension that a bool, or a 0-d tensor that cannot be read, adds."""
    if not isinstance(item, bool):
        return run_name("unsqueeze", item, 0)
    if AMBIENT.keys or MODES.inference or self._keys > AUTOGRAD:
        return construct.tensor([0] if item else [], dtype=DTYPES["int64"], device=self.device)
    return _of_first(item)


@functools.cache
def _of_first(there: bool) -> Tensor:
    """The index of the first element, or of none, which is only read."""
    return construct.tensor([0] if there else [], dtype=DTYPES["int64"], device="cpu")


def _beside(self: Tensor, index: Tensor) -> tuple[Tensor, ...]:
    """`index` on the device of `self`; a mask with data indexing a tensor without becomes its positions."""
    if not self.is_meta or index.is_meta:
        return (index,)
    positions = run_name("nonzero_numpy", index) if index.dtype.name in _MASKS else (index,)
    return tuple([position.to("meta") for position in positions])


# Basic indices.


def _slice(tensor: Tensor, dim: int, item: slice) -> Tensor:
    start, stop, step = item.start, item.stop, item.step
    if step is None and type(start) is int and type(stop) is int:
        return run_name("slice.Tensor", tensor, dim, start, stop, 1)
    start, stop, step = _bound(start), _bound(stop), 1 if step is None else _bound(step)
    check(step > 0, "step must be greater than zero", ValueError)
    if start is None and stop is None and step == 1:
        return tensor
    return run_name("slice.Tensor", tensor, dim, start, stop, step)


def _bound(value: Any) -> Any:
    if value is None or type(value) is int or (is_size(value) and value.symbols.capturing):
        return value
    if isinstance(value, Tensor) and value.ndim == 0 and value.dtype.category <= Category.INTEGRAL:
        value = value.item()
        return _bound(value) if is_size(value) else operator.index(value)
    if not hasattr(value, "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return operator.index(value)


def _select(tensor: Tensor, dim: int, index: int) -> Tensor:
    check(
        tensor.ndim > 0,
        "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a number",
        IndexError,
    )
    if type(index) is int:
        _check_int64(index)
    check(dim < tensor.ndim, f"too many indices for tensor of dimension {tensor.ndim}", IndexError)
    if tensor._array is not None or not tensor.is_nested:  # whose rows differ in size
        size = tensor.shape[dim]
        message = f"index {index} is out of bounds for dimension {dim} with size {size}"
        check(-size <= index, message, IndexError)
        check(index < size, message, IndexError)
    return run_name("select.int", tensor, dim, index)


def _check_int64(value: int) -> None:
    check(-(2**63) <= value < 2**63, f"{value} does not fit into a 64-bit integer", ValueError)

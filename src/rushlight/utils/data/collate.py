"""Batches from examples: tensors are stacked, numbers become tensors, containers keep their structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from ..._api.link import API
from ...core.construct import as_tensor, tensor
from ...core.dtypes import float64
from ...core.tensor import Tensor

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]

CollateMap = dict[type | tuple[type, ...], Callable[..., Any]]


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers as tensors, inside any containers; everything else as it is.

    >>> rl.utils.data.default_convert({"x": np.ones(2)})
    {'x': tensor([1., 1.], dtype=rushlight.float64)}
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, np.ndarray | np.generic):
        return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, Mapping):
        return _rebuilt(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _rebuilt(data, [default_convert(value) for value in data])
    return data


def _rebuilt(like: Any, values: Any) -> Any:
    """`values` in a container like `like`, if it can be made; a plain one otherwise."""
    if isinstance(like, MutableMapping):
        made = dict(like) if type(like) is dict else like.__class__(like)  # type: ignore[call-arg]
        made.update(values)
        return made
    if type(like) in (dict, list):
        return values
    try:
        return type(like)(values)
    except TypeError:  # a container that is not made from one iterable
        return values


def collate(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """One batch from a list of examples of the same structure, by the type of its leaves."""
    first = batch[0]
    table = default_collate_fn_map if collate_fn_map is None else collate_fn_map
    for kind, function in table.items():
        if type(first) is kind or isinstance(first, kind):
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        by_name = {key: collate([d[key] for d in batch], collate_fn_map=collate_fn_map) for key in first}
        return _rebuilt(first, by_name)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(
            *(collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True))
        )
    if isinstance(first, Sequence) and not isinstance(first, str | bytes):
        if any(len(example) != len(first) for example in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)]
        return (
            columns
            if isinstance(first, tuple) or not isinstance(first, MutableSequence)
            else _rebuilt(first, columns)
        )
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{type(first)}"
    )


def collate_tensors(batch: Sequence[Tensor], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    return API.functions[""]["stack"](list(batch), 0)


def collate_arrays(batch: Sequence[np.ndarray], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    if batch[0].dtype.kind in "SUO":
        raise TypeError(f"default_collate: arrays of {batch[0].dtype} cannot become tensors")
    if _are_alike(batch):
        return as_tensor(np.stack(batch))
    return collate_tensors([as_tensor(array) for array in batch])


def _are_alike(batch: Sequence[Any]) -> bool:
    """Whether NumPy stacks arrays as tensors of them would be stacked."""
    shape, dtype = batch[0].shape, batch[0].dtype
    return dtype.isnative and all(
        type(array) is np.ndarray
        and array.dtype == dtype
        and array.shape == shape
        and array.flags.c_contiguous
        for array in batch
    )


def collate_scalars(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    return as_tensor(np.stack(batch))


def collate_floats(batch: Sequence[float], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    return tensor(list(batch), dtype=float64)


def collate_ints(batch: Sequence[int], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    return tensor(list(batch))


def collate_strings(batch: Sequence[str], *, collate_fn_map: CollateMap | None = None) -> Sequence[str]:
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensors,
    np.ndarray: collate_arrays,
    (np.bool_, np.number): collate_scalars,
    float: collate_floats,
    int: collate_ints,
    str: collate_strings,
    bytes: collate_strings,
}


def default_collate(batch: Sequence[Any]) -> Any:
    """What DataLoader does by default to make a batch.

    >>> rl.utils.data.default_collate([(1, 2.0), (3, 4.0)])
    [tensor([1, 3]), tensor([2., 4.], dtype=rushlight.float64)]
    """
    return collate(batch)

"""Operators that read and write where tensors of indices say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._model import BOOL, INT64, Model, Value
from ._rules import rule
from ._shapes import axis_of

_WRITES = {"add": "add", "sum": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


@rule("embedding")
def embedding(model: Model, weight: Value, indices: Value) -> Any:
    return model.op("Gather", weight, indices)


@rule("index_select")
def index_select(model: Model, self: Value, dim: int, index: Value) -> Any:
    places = model.op("Reshape", index, np.array([-1]))
    return model.op("Gather", self, places, axis=axis_of(dim, self.ndim))


@rule("gather")
def gather(model: Model, self: Value, dim: int, index: Value) -> Any:
    return model.op("GatherElements", self, index, axis=axis_of(dim, self.ndim))


@rule(
    "scatter.src",
    "scatter.value",
    "scatter_add",
    "scatter.reduce",
    "scatter.value_reduce",
    "scatter_reduce.two",
)
def scatter(model: Model, self: Value, dim: int, index: Value, named: dict[str, Any], name: str) -> Any:
    written = named["src"] if "src" in named else named["value"]
    if not isinstance(written, Value):
        number = model.cast(written, self.dtype)
        written = model.op("Expand", number, model.op("Shape", index))
    else:  # of which the first part is used
        starts = np.zeros(index.ndim, np.int64)
        written = model.op("Slice", written, starts, model.op("Shape", index), np.arange(index.ndim))
    how = "add" if name == "scatter_add" else named.get("reduce")
    if how == "mean" or named.get("include_self") is False:
        raise NotImplementedError("of its reductions ONNX has sums, products and extremes that include self")
    reduction = None if how is None else _WRITES[how]
    return model.op(
        "ScatterElements", self, index, written, axis=axis_of(dim, self.ndim), reduction=reduction
    )


@rule("index.Tensor")
def index(model: Model, self: Value, indices: Sequence[Value | None]) -> Any:
    known = [(d, found) for d, found in enumerate(indices) if found is not None]
    if any(found.dtype is BOOL for _, found in known):
        return _masked(model, self, known)
    if len(known) == 1:
        ((d, only),) = known
        return model.op("Gather", self, only, axis=d)
    dims = [d for d, _ in known]
    together = dims == list(range(dims[0], dims[0] + len(dims)))
    order = [*dims, *(d for d in range(self.ndim) if d not in dims)]
    front = self if order == sorted(order) else model.op("Transpose", self, perm=order)
    found = model.op("GatherND", front, _places(model, [found for _, found in known]))
    if not together or not dims[0]:
        return found
    # the dimensions of the indices go where the first of them was
    rank = max(value.ndim for _, value in known)
    before, rest = dims[0], self.ndim - len(dims) - dims[0]
    perm = [*range(rank, rank + before), *range(rank), *range(rank + before, rank + before + rest)]
    return model.op("Transpose", found, perm=perm)


def _masked(model: Model, x: Value, known: Sequence[tuple[int, Value]]) -> Any:
    if len(known) > 1 or known[0][0]:
        raise NotImplementedError("a mask together with other indices")
    places = model.op("Transpose", model.op("NonZero", known[0][1]), perm=[1, 0])
    return model.op("GatherND", x, places)


def _places(model: Model, indices: Sequence[Value]) -> Any:
    """Indices of one place each, in the last dimension."""
    wide = [model.cast(value, INT64) for value in indices]
    shape = model.op("Shape", wide[0])
    for value in wide[1:]:
        shape = model.op("Shape", model.op("Expand", value, shape))
    rows = [model.op("Unsqueeze", model.op("Expand", value, shape), np.array([-1])) for value in wide]
    return model.op("Concat", *rows, axis=-1)


@rule("index_put")
def index_put(
    model: Model, self: Value, indices: Sequence[Value | None], values: Value, accumulate: bool
) -> Any:
    known = [found for found in indices if found is not None]
    if any(found is None for found in indices[: len(known)]):
        raise NotImplementedError("indices of other dimensions than the first ones")
    if any(found.dtype is BOOL for found in known):
        if len(known) > 1 or values.ndim:
            raise NotImplementedError("a mask with several values, or together with other indices")
        mask = known[0]
        for d in range(mask.ndim, self.ndim):
            mask = Value(model.op("Unsqueeze", mask, np.array([d])), BOOL, (*mask.shape, 1))
        return model.op("Where", mask, model.cast(values, self.dtype), self)
    places = _places(model, known)
    rank = max(found.ndim for found in known)
    outer = model.op("Slice", model.op("Shape", places), np.array([0]), np.array([rank]))
    inner = model.op("Shape", self, start=len(known))
    shape = model.op("Concat", outer, inner, axis=0)
    written = model.op("Expand", model.cast(values, self.dtype), shape)
    return model.op("ScatterND", self, places, written, reduction="add" if accumulate else None)


@rule("index_add", "index_copy")
def index_write(
    model: Model, self: Value, dim: int, index: Value, source: Value, named: dict[str, Any]
) -> Any:
    axis = axis_of(dim, self.ndim)
    shape = [1] * self.ndim
    shape[axis] = -1
    places = model.op("Expand", model.op("Reshape", index, np.array(shape)), model.op("Shape", source))
    written: Any = source
    if named.get("alpha", 1) != 1:
        written = model.op("Mul", source, model.constant(named["alpha"], self.dtype))
    reduction = "add" if "alpha" in named else None
    return model.op("ScatterElements", self, places, written, axis=axis, reduction=reduction)


@rule("one_hot")
def one_hot(model: Model, self: Value, num_classes: int) -> Any:
    return model.op("OneHot", self, np.array(num_classes), np.array([0, 1]), axis=-1)


@rule("nonzero")
def nonzero(model: Model, self: Value) -> Any:
    return model.op("Transpose", model.op("NonZero", self), perm=[1, 0])

"""Views, what puts tensors together, and what makes new ones."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._model import INT64, Model, Number, Value, onnx_type
from ._rules import rule

_LAST = sys.maxsize


def axis_of(dim: int, rank: int) -> int:
    return dim + rank if dim < 0 else dim


@rule("clone", "alias", "detach", "lift_fresh_copy", "contiguous", "lift_fresh")
def same(model: Model, self: Value) -> Any:
    return model.op("Identity", self)


@rule("_to_copy")
def to_copy(model: Model, self: Value, result: Value) -> Any:
    return model.cast(self, result.dtype)


@rule("copy")
def copy(model: Model, src: Value, result: Value, self: Value) -> Any:
    return model.op("Expand", model.cast(src, result.dtype), model.op("Shape", self))


@rule("view", "_unsafe_view", "reshape", "_reshape_copy", "view_copy")
def view(model: Model, self: Value, result: Value, args: Sequence[Any]) -> Any:
    return model.op("Reshape", self, model.shape(args[1]), allowzero=1 if 0 in args[1] else None)


@rule("flatten.using_ints")
def flatten(model: Model, self: Value, start_dim: int, end_dim: int) -> Any:
    first, last = axis_of(start_dim, self.ndim), axis_of(end_dim, self.ndim)
    shape = model.op("Shape", self)
    before, after = (model.op("Slice", shape, [a], [b]) for a, b in ((0, first), (last + 1, _LAST)))
    return model.op("Reshape", self, model.op("Concat", before, np.array([-1]), after, axis=0))


@rule("permute")
def permute(model: Model, self: Value, dims: Sequence[int]) -> Any:
    return model.op("Transpose", self, perm=[axis_of(d, self.ndim) for d in dims])


@rule("transpose.int", "swapaxes", "swapdims")
def transpose(model: Model, self: Value, args: Sequence[Any]) -> Any:
    return _swapped(model, self, args[1], args[2])


@rule("t", "mT", "adjoint", "numpy_T")
def turned(model: Model, self: Value) -> Any:
    return _swapped(model, self, -2, -1) if self.ndim > 1 else model.op("Identity", self)


def _swapped(model: Model, x: Value, a: int, b: int) -> Any:
    if not x.ndim:
        return model.op("Identity", x)
    order = list(range(x.ndim))
    a, b = axis_of(a, x.ndim), axis_of(b, x.ndim)
    order[a], order[b] = order[b], order[a]
    return model.op("Transpose", x, perm=order)


@rule("expand", "broadcast_to")
def expand(model: Model, self: Value, args: Sequence[Any]) -> Any:
    sizes = [1 if isinstance(size, int) and size == -1 else size for size in args[1]]
    return model.op("Expand", self, model.shape(sizes))


@rule("squeeze.dim", "squeeze.dims", "squeeze")
def squeeze(model: Model, self: Value, args: Sequence[Any]) -> Any:
    dims = range(self.ndim) if len(args) == 1 else [args[1]] if isinstance(args[1], int) else args[1]
    axes = [axis_of(d, self.ndim) for d in dims]
    ones = [a for a in axes if self.ndim and self.shape[a] == 1]
    return model.op("Squeeze", self, np.array(ones)) if ones else model.op("Identity", self)


@rule("unsqueeze")
def unsqueeze(model: Model, self: Value, dim: int) -> Any:
    return model.op("Unsqueeze", self, np.array([dim]))


@rule("slice.Tensor")
def slice_(model: Model, self: Value, dim: int, start: Any, end: Any, step: Any) -> Any:
    first, last = (
        model.row(given if given is not None else other) for given, other in ((start, 0), (end, _LAST))
    )
    return model.op("Slice", self, first, last, np.array([dim]), np.array([step]))


@rule("narrow")
def narrow(model: Model, self: Value, dim: int, start: Any, length: Any) -> Any:
    first = model.row(start)
    return model.op("Slice", self, first, model.op("Add", first, model.row(length)), np.array([dim]))


@rule("select.int")
def select(model: Model, self: Value, dim: int, index: Any) -> Any:
    place = model.cast(index, INT64) if isinstance(index, Number) else np.array(index)
    return model.op("Gather", self, place, axis=axis_of(dim, self.ndim))


@rule("split.Tensor", "split_with_sizes", "chunk", "tensor_split.sections", "unsafe_split.Tensor")
def split(model: Model, self: Value, dim: int, result: Sequence[Value], args: Sequence[Any]) -> Any:
    axis = axis_of(dim, self.ndim)
    if any(isinstance(size, Number) for size in (args[1] if isinstance(args[1], list) else [args[1]])):
        raise NotImplementedError("the sizes of the parts change")
    sizes = np.array([part.shape[axis] for part in result])
    found = model.op("Split", self, sizes, outputs=len(result), axis=axis)
    return [found] if isinstance(found, str) else found


@rule("unbind.int")
def unbind(model: Model, self: Value, dim: int, result: Sequence[Value]) -> Any:
    axis = axis_of(dim, self.ndim)
    return [model.op("Gather", self, np.array(i), axis=axis) for i in range(len(result))]


@rule("cat")
def cat(model: Model, tensors: Sequence[Value], dim: int, result: Value) -> Any:
    parts = [model.cast(t, result.dtype) for t in tensors if t.ndim == len(result.shape)]
    return model.op("Concat", *parts, axis=axis_of(dim, len(result.shape)))


@rule("stack")
def stack(model: Model, tensors: Sequence[Value], dim: int, result: Value) -> Any:
    axis = axis_of(dim, len(result.shape))
    rows = [model.op("Unsqueeze", model.cast(t, result.dtype), np.array([axis])) for t in tensors]
    return model.op("Concat", *rows, axis=axis)


@rule("flip")
def flip(model: Model, self: Value, dims: Sequence[int]) -> Any:
    count = len(dims)
    if not count:
        return model.op("Identity", self)
    ends, steps = np.full(count, -_LAST), np.full(count, -1)
    return model.op("Slice", self, np.full(count, -1), ends, np.array(dims), steps)


@rule("roll")
def roll(model: Model, self: Value, shifts: Sequence[int], dims: Sequence[int]) -> Any:
    if not dims:
        shape = model.op("Shape", self)
        flat = model.op("Reshape", self, np.array([-1]))
        return model.op("Reshape", _rolled(model, flat, shifts[0], 0), shape)
    found: Any = self
    for shift, dim in zip(shifts, dims, strict=True):
        found = _rolled(model, found, shift, axis_of(dim, self.ndim))
    return found


def _rolled(model: Model, x: Any, shift: int, axis: int) -> Any:
    """The last `shift` before the others, for a shift that is not larger than the size."""
    if isinstance(shift, Number):
        raise NotImplementedError("the shift changes")
    if not shift:
        return model.op("Identity", x)
    place, axes = np.array([-shift]), np.array([axis])
    last = model.op("Slice", x, place, np.array([_LAST]), axes)
    first = model.op("Slice", x, np.array([0]), place, axes)
    return model.op("Concat", last, first, axis=axis)


@rule("repeat")
def repeat(model: Model, self: Value, repeats: Sequence[Any]) -> Any:
    missing = len(repeats) - self.ndim
    wide = model.op("Unsqueeze", self, np.arange(missing)) if missing else self
    return model.op("Tile", wide, model.shape(repeats))


@rule("constant_pad_nd")
def constant_pad_nd(model: Model, self: Value, pad: Sequence[Any], value: Any) -> Any:
    fill = model.cast(value, self.dtype)
    return model.op("Pad", self, model.shape(_pads(pad, self.ndim)), fill)


def _pads(pad: Sequence[Any], rank: int) -> list[Any]:
    """From the last dimension to the first, before and after each; as ONNX has them."""
    before, after = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        before[-1 - i], after[-1 - i] = pad[2 * i], pad[2 * i + 1]
    return [*before, *after]


@rule(*(f"{kind}_pad{rank}d" for kind in ("reflection", "replication") for rank in (1, 2, 3)))
def mirrored(model: Model, self: Value, padding: Sequence[Any], name: str) -> Any:
    mode = "reflect" if name.startswith("reflection") else "edge"
    return model.op("Pad", self, model.shape(_pads(padding, self.ndim)), mode=mode)


@rule("tril", "triu")
def triangle(model: Model, self: Value, diagonal: Any, name: str) -> Any:
    place = model.cast(diagonal, INT64) if isinstance(diagonal, Number) else np.array(diagonal)
    return model.op("Trilu", self, place, upper=int(name == "triu"))


# New tensors.


def filled(model: Model, sizes: Any, value: Any, dtype: Any) -> Any:
    return model.op("Expand", model.cast(value, dtype), sizes)


@rule("full", "new_full")
def full(model: Model, size: Sequence[Any], fill_value: Any, result: Value) -> Any:
    return filled(model, model.shape(size), fill_value, result.dtype)


@rule("zeros", "new_zeros", "empty.memory_format", "new_empty", "empty_strided", "new_empty_strided")
def zeros(model: Model, size: Sequence[Any], result: Value) -> Any:
    return filled(model, model.shape(size), 0, result.dtype)


@rule("ones", "new_ones")
def ones(model: Model, size: Sequence[Any], result: Value) -> Any:
    return filled(model, model.shape(size), 1, result.dtype)


@rule("zeros_like", "empty_like")
def zeros_like(model: Model, self: Value, result: Value) -> Any:
    return filled(model, model.op("Shape", self), 0, result.dtype)


@rule("ones_like")
def ones_like(model: Model, self: Value, result: Value) -> Any:
    return filled(model, model.op("Shape", self), 1, result.dtype)


@rule("full_like")
def full_like(model: Model, self: Value, fill_value: Any, result: Value) -> Any:
    return filled(model, model.op("Shape", self), fill_value, result.dtype)


@rule("scalar_tensor")
def scalar_tensor(model: Model, s: Any, result: Value) -> Any:
    return model.op("Identity", model.cast(s, result.dtype))


@rule("arange", "arange.start", "arange.start_step")
def arange(model: Model, end: Any, result: Value, named: dict[str, Any]) -> Any:
    first, step = named.get("start", 0), named.get("step", 1)
    if result.dtype.is_floating_point or result.dtype is INT64:
        return model.op("Range", *(model.cast(number, result.dtype) for number in (first, end, step)))
    whole = model.op("Range", *(model.cast(number, INT64) for number in (first, end, step)))
    return model.op("Cast", whole, to=onnx_type(result.dtype))


@rule("eye", "eye.m")
def eye(model: Model, n: Any, result: Value, named: dict[str, Any]) -> Any:
    shape = model.shape([n, named.get("m", n)])
    square = model.op("ConstantOfShape", shape)
    return model.op("EyeLike", square, dtype=onnx_type(result.dtype))


@rule("item", "_local_scalar_dense")
def item(model: Model, self: Value) -> Any:
    flat = model.op("Reshape", self, np.array([1]))
    return flat if self.dtype is INT64 else model.op("Cast", flat, to=onnx_type(INT64))

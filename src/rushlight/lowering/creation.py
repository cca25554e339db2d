"""New tensors, copies and casts as functions of the index."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import DType, int64
from ..core.registry import REGISTRY
from ..core.shapes import Spec
from ..loops.expr import Expr, NotRecordable
from .declare import lowering
from .lowered import Indices, Lowered, Lowerer


def constant_tensor(low: Lowerer, out: Spec, value: Any) -> Lowered:
    return low.full(out.known_shape(), value, out.dtype)


def _declare_constant(value: int, *names: str) -> None:
    for name in names:
        if name in REGISTRY:
            lowering(name)(lambda low, out: constant_tensor(low, out, value))


_declare_constant(0, "zeros", "zeros_like", "new_zeros", "zero")
_declare_constant(1, "ones", "ones_like", "new_ones")
# Uninitialised memory may hold anything, so it may hold zeros.
_declare_constant(0, "empty.memory_format", "empty_like", "new_empty", "empty_strided", "new_empty_strided",
                  "empty_permuted")

lowering("full", "full_like", "new_full")(lambda fill_value, low, out: constant_tensor(low, out, fill_value))
lowering("scalar_tensor")(lambda s, low, out: constant_tensor(low, out, s))
lowering("fill.Scalar")(lambda value, low, out: constant_tensor(low, out, value))
lowering("fill.Tensor")(lambda value, out: converted(value, out.dtype).expand(out.known_shape()))


def converted(x: Lowered, dtype: DType) -> Lowered:
    """A cast, where one can be made in native code."""
    if x.dtype is not dtype and (x.dtype.is_complex or dtype.is_complex):
        raise NotRecordable("a complex cast")
    return x.cast(dtype)


lowering("clone")(lambda self: self.reindex(self.shape, lambda index: index))
lowering("copy")(lambda src, out: converted(src, out.dtype).expand(out.known_shape()))


@lowering("_to_copy")
def to_copy(self: Lowered, device: Any, out: Spec) -> Lowered:
    if device is not None and device.type != "cpu":
        raise NotRecordable("a tensor on another device")
    return converted(self, out.dtype)


@lowering("arange.start_step")
def arange(start: Any, step: Any, low: Lowerer, out: Spec) -> Lowered:
    """start + i * step, for integers; floats round as NumPy does and stay with it."""
    if out.dtype.is_floating_point or out.dtype.is_complex:
        raise NotRecordable("arange of floats")
    first, by = int(start), int(step)
    return low.generated(out.known_shape(), out.dtype,
                         lambda index: low.recorder.index(index[0] * by + first, out.dtype))


lowering("arange.start")(lambda start, low, out: arange(start, 1, low, out))
lowering("arange")(lambda low, out: arange(0, 1, low, out))


@lowering("eye.m")
def eye(low: Lowerer, out: Spec) -> Lowered:
    def element(index: Indices) -> Expr:
        ops = low.recorder
        same = ops.eq(ops.index(index[0], int64), ops.index(index[1], int64))
        return ops.where(same, ops.number(1, out.dtype), ops.number(0, out.dtype))

    return low.generated(out.known_shape(), out.dtype, element)


lowering("eye")(lambda low, out: eye(low, out))

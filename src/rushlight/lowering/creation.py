"""New tensors, copies and casts as functions of the index."""

from __future__ import annotations

from typing import Any

from ..core.determinism import DETERMINISM, undefined
from ..core.dtypes import float64, int64
from ..core.registry import REGISTRY
from ..core.shapes import Spec
from ..core.symbols import SymInt
from ..loops.expr import Expr, NotRecordable
from .declare import extern, lowering
from .lowered import Indices, Lowered, Lowerer


def constant_tensor(low: Lowerer, out: Spec, value: Any) -> Lowered:
    return low.full(out.known_shape(), value, out.dtype)


def _declare_constant(value: int, *names: str) -> None:
    for name in names:
        if name in REGISTRY:
            lowering(name)(lambda low, out: constant_tensor(low, out, value))


_declare_constant(0, "zeros", "zeros_like", "new_zeros", "zero")
_declare_constant(1, "ones", "ones_like", "new_ones")


@lowering(
    "empty.memory_format", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"
)
def empty(low: Lowerer, out: Spec) -> Lowered:
    """Uninitialised memory may hold anything, so it may hold zeros; deterministic mode says what it holds."""
    return constant_tensor(low, out, undefined(out.dtype) if DETERMINISM.fills else 0)


lowering("full", "full_like", "new_full")(lambda fill_value, low, out: constant_tensor(low, out, fill_value))
lowering("scalar_tensor")(lambda s, low, out: constant_tensor(low, out, s))
lowering("fill.Scalar")(lambda value, low, out: constant_tensor(low, out, value))
lowering("fill.Tensor")(lambda value, out: value.cast(out.dtype).expand(out.known_shape()))


lowering("clone")(lambda self: self.reindex(self.shape, lambda index: index))
lowering("copy")(lambda src, out: src.cast(out.dtype).expand(out.known_shape()))


@lowering("_to_copy")
def to_copy(self: Lowered, device: Any, out: Spec) -> Lowered:
    if device is not None and device.type != "cpu":
        raise NotRecordable("a tensor on another device")
    return self.cast(out.dtype)


def whole(value: Any) -> Any:
    """A number as an int; a size that changes is one."""
    return value if type(value) is SymInt else int(value)


@lowering("arange.start_step", "range.step")
def arange(start: Any, step: Any, low: Lowerer, out: Spec) -> Lowered:
    """start + i * step; floats in double, each operation rounded, as the eager kernel does it."""
    ops = low.recorder
    if out.dtype.is_floating_point:
        first, by = (
            ops.number(value if type(value) is SymInt else float(value), float64) for value in (start, step)
        )
        return low.generated(
            out.known_shape(),
            out.dtype,
            lambda index: ops.cast(
                ops.add(ops.mul(ops.cast(ops.index(index[0], int64), float64), by), first), out.dtype
            ),
        )
    return low.generated(
        out.known_shape(),
        out.dtype,
        lambda index: ops.index(index[0] * whole(step) + whole(start), out.dtype),
    )


lowering("arange.start", "range")(lambda start, low, out: arange(start, 1, low, out))
lowering("arange")(lambda low, out: arange(0, 1, low, out))


def evenly_spaced(low: Lowerer, start: Any, end: Any, steps: int, out: Spec) -> Lowered:
    """kernels.creation.evenly_spaced; the ends are numbers or tensors of one element."""
    ops, compute = low.recorder, out.dtype.opmath
    whole = not (compute.is_floating_point or compute.is_complex)
    compute = float64 if whole else compute

    def number(value: Any) -> Expr:
        if not isinstance(value, Lowered):
            return ops.number(int(value) if whole else value, compute)
        element = value.load([0] * value.ndim)
        return ops.cast(ops.cast(element, int64) if whole else element, compute)

    def element(index: Indices) -> Expr:
        first, last, i = number(start), number(end), index[0]
        if steps < 2:
            return first
        step = ops.div(ops.sub(last, first), ops.number(float(steps - 1), compute))
        ahead, back = (
            ops.cast(ops.cast(ops.index(n, int64), compute.to_real()), compute) for n in (i, steps - 1 - i)
        )
        inside = ops.lt(ops.index(i, int64), ops.number(steps // 2, int64))
        return ops.where(inside, ops.add(first, ops.mul(step, ahead)), ops.sub(last, ops.mul(step, back)))

    return low.generated(out.known_shape(), compute, element)


@lowering("linspace", "linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor")
def linspace(start: Any, end: Any, steps: int, low: Lowerer, out: Spec) -> Lowered:
    return evenly_spaced(low, start, end, steps, out).cast(out.dtype)


@lowering("logspace", "logspace.Tensor_Tensor", "logspace.Tensor_Scalar", "logspace.Scalar_Tensor")
def logspace(start: Any, end: Any, steps: int, base: float, low: Lowerer, out: Spec) -> Lowered:
    exponents = evenly_spaced(low, start, end, steps, out)
    powers = exponents.map(lambda ops, x: ops.pow(ops.constant(base, like=x), x), exponents.dtype)
    return powers.cast(out.dtype)


@lowering("eye.m")
def eye(low: Lowerer, out: Spec) -> Lowered:
    def element(index: Indices) -> Expr:
        ops = low.recorder
        same = ops.eq(ops.index(index[0], int64), ops.index(index[1], int64))
        return ops.where(same, ops.number(1, out.dtype), ops.number(0, out.dtype))

    return low.generated(out.known_shape(), out.dtype, element)


lowering("eye")(lambda low, out: eye(low, out))

extern(
    "a small table that depends on nothing",
    *[op.name for op in REGISTRY if op.schema.name.endswith("_window")],
)

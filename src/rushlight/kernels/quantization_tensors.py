"""What operators do with quantized tensors.

Operators whose results are some of the elements (`MOVES`) run on the integers; what compares them, or is a
function of the values, runs on the floats they stand for, and the latter is rounded to a grid again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.declare_layouts import attach_quantized, quantized_kernel
from ..core.dispatch import call, run_name
from ..core.dtypes import DType, iinfo
from ..core.errors import check
from ..core.quantized import INTEGERS, PerTensor, integers_of, make_quantized
from ..core.registry import REGISTRY, OpDef
from ..core.tensor import Tensor, wrap
from ..core.tokens import contiguous_format, preserve_format
from ..core.tokens import memory_format as MemoryFormat
from .quantization import FLOAT, dequantized, inside, laid_out, one_scale, quantized, suggested, to_integers

# Moving integers.


def on_integers(op: OpDef, dtype: DType | None = None) -> Callable[[tuple[Any, ...]], Any]:
    """The kernel of an operator whose results are elements of its first argument.

    It sees the integers in `dtype`, if it does not take them as they are.
    """

    def run(args: tuple[Any, ...]) -> Any:
        source = args[0]
        grid, kind = one_scale(source, op.name), INTEGERS[source.dtype]
        seen = dtype or kind
        results = call(op, (integers_of(source).to(seen), *args[1:]))
        if isinstance(results, tuple):
            return tuple([make_quantized(r.to(kind), grid) if r.dtype is seen else r for r in results])
        return make_quantized(results.to(kind), grid)

    return run


MOVES = (
    "flip",
    "index.Tensor",
    "index_select",
    "max",
    "min",
    "max.dim",
    "min.dim",
    "sort.stable",
    "topk",
    "reflection_pad1d",
    "reflection_pad2d",
)
for _name in MOVES:
    attach_quantized(REGISTRY[_name], on_integers(REGISTRY[_name]))


@quantized_kernel("clone")
def clone(self: Tensor, memory_format: MemoryFormat | None) -> Tensor:
    """Contiguous unless told otherwise, as in PyTorch; other tensors keep their strides."""
    order = suggested(self) if memory_format is preserve_format else memory_format or contiguous_format
    return make_quantized(run_name("clone", integers_of(self), order), self._quantizer)


@quantized_kernel("empty_like")
def empty_like(self: Tensor, dtype: DType | None, memory_format: MemoryFormat | None) -> Tensor:
    check(
        dtype in (None, self.dtype),
        f"empty_like: the result of a quantized tensor has its dtype, not {dtype}",
    )
    plain = integers_of(self)
    return make_quantized(
        run_name("empty_like", plain, None, None, None, None, memory_format), self._quantizer
    )


@quantized_kernel("_to_copy")
def to_copy(self: Tensor, dtype: DType | None, device: Any, memory_format: MemoryFormat | None) -> Tensor:
    check(dtype in (None, self.dtype), f"to: a quantized tensor cannot become {dtype}; call dequantize()")
    check(
        device is None or device.type == "cpu",
        "to: there are no quantized tensors on the meta device",
        NotImplementedError,
    )
    return clone(self, memory_format or preserve_format)


@quantized_kernel("cat")
def cat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    for tensor in tensors:
        inside(tensor, "cat")
    check(len({tensor.dtype for tensor in tensors}) == 1, "cat: all tensors must have the same dtype")
    grids = [one_scale(tensor, "cat") for tensor in tensors]
    first, dtype = grids[0], tensors[0].dtype
    parts = [
        integers_of(t if grid == first else quantized(dequantized(t), first, dtype))
        for t, grid in zip(tensors, grids, strict=True)
    ]
    return make_quantized(run_name("cat", tuple(parts), dim), first)


@quantized_kernel("copy")
def copy(self: Tensor, src: Tensor) -> Tensor:
    check(
        self._quantizer is not None,
        "copy_: a quantized tensor cannot be copied to one that is not; call dequantize() on it first",
    )
    shape = tuple(self.shape)
    if src._quantizer is None:
        check(
            src.dtype is FLOAT,
            f"copy_: what is copied to a quantized tensor must be float32, not {src.dtype.name}",
        )
        return quantized(src.detach().expand(shape), self._quantizer, self.dtype)
    check(
        src._quantizer.scheme is self._quantizer.scheme,
        "copy_: both tensors must have the same scheme, "
        f"but they have {self._quantizer.scheme.name} and {src._quantizer.scheme.name}",
    )
    check(
        src.dtype is self.dtype,
        f"copy_: both tensors must have the same dtype, but they are {self.dtype.name} and {src.dtype.name}",
    )
    return make_quantized(integers_of(src).expand(shape).clone(), src._quantizer)


# Filling.


def filled(tensor: Tensor, value: Any) -> Tensor:
    number = float(value.item() if isinstance(value, Tensor) else value)
    return quantized(wrap(np.full(tuple(tensor.shape), number, np.float32)), tensor._quantizer, tensor.dtype)


quantized_kernel("fill.Scalar", "fill.Tensor")(lambda self, value: filled(self, value))
quantized_kernel("full_like")(lambda self, fill_value: filled(self, fill_value))


def on_grid(value: float, tensor: Tensor, grid: PerTensor) -> int:
    """The integer that stands for `value`."""
    return int(to_integers(np.asarray(value, np.float32), grid, tensor.dtype))


@quantized_kernel("constant_pad_nd")
def constant_pad(self: Tensor, pad: Sequence[int], value: Any) -> Tensor:
    grid = one_scale(self, "constant_pad_nd")
    padded = run_name("constant_pad_nd", integers_of(self), pad, on_grid(value, self, grid))
    return make_quantized(padded, grid)


@quantized_kernel("index_put")
def index_put(self: Tensor, indices: Any, values: Tensor, accumulate: bool) -> Tensor:
    grid = one_scale(self, "index_put")
    check(not accumulate, "index_put: the values of quantized tensors cannot be added up")
    if values._quantizer is None:
        check(
            values.dtype is FLOAT,
            f"index_put: what is put into a quantized tensor must be float32, not {values.dtype.name}",
        )
        values = quantized(values, grid, self.dtype)
    given = integers_of(quantized(dequantized(values), grid, self.dtype))
    return make_quantized(run_name("index_put", integers_of(self), indices, given, False), grid)


# Bounds.


@quantized_kernel("relu")
def relu(self: Tensor) -> Tensor:
    grid = one_scale(self, "relu")
    return make_quantized(run_name("clamp", integers_of(self), grid.zero_point, None), grid)


@quantized_kernel("clamp")
def clamp(self: Tensor, min: Any, max: Any) -> Tensor:
    grid = one_scale(self, "clamp")
    low, high = (None if bound is None else on_grid(bound, self, grid) for bound in (min, max))
    return make_quantized(run_name("clamp", integers_of(self), low, high), grid)


quantized_kernel("hardtanh")(lambda self, min_val, max_val: clamp(self, min_val, max_val))


# Functions of the values.


def on_values(op: OpDef) -> Callable[[tuple[Any, ...]], Any]:
    """The kernel of an operator that runs on the values, whatever comes out."""
    return lambda args: call(
        op, tuple([dequantized(a) if isinstance(a, Tensor) and a._quantizer is not None else a for a in args])
    )


def rounded_again(op: OpDef, grids: dict[DType, PerTensor] | None = None) -> Callable[[tuple[Any, ...]], Any]:
    """The kernel of an operator whose values are rounded to the grid of its argument, or to a fixed one."""

    def run(args: tuple[Any, ...]) -> Any:
        source = args[0]
        grid = one_scale(source, op.name)
        values = on_values(op)(args)
        return quantized(values, grid if grids is None else grids[source.dtype], source.dtype)

    return run


def averaged(op: OpDef) -> Callable[[tuple[Any, ...]], Any]:
    """The kernel of an operator that averages: in units of the scale, which has no part in it."""

    def run(args: tuple[Any, ...]) -> Any:
        source = args[0]
        grid, kind = one_scale(source, op.name), source.dtype
        units = make_quantized(integers_of(source), PerTensor(1.0, grid.zero_point))
        steps = to_integers(call(op, (dequantized(units), *args[1:])).numpy_array(), units._quantizer, kind)
        return make_quantized(wrap(laid_out(steps, source)), grid)

    return run


@quantized_kernel("gelu")
def gelu(self: Tensor, approximate: str) -> Tensor:
    """Its grid has a scale in single precision, as PyTorch's has."""
    grid = one_scale(self, "gelu")
    values = run_name("gelu", dequantized(self), approximate)
    return quantized(values, PerTensor(float(np.float32(grid.scale)), grid.zero_point), self.dtype)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    for _overload in ("Tensor", "Scalar"):
        _op = REGISTRY[f"{_name}.{_overload}"]
        attach_quantized(_op, on_values(_op))

# Values in 0 .. 1, and in -1 .. 1, with a step that uses all integers of 8 bits (PyTorch's grid of 32 bits
# holds 0 .. 0.5 alone).
_UNIT = {
    dtype: PerTensor(2.0 ** -(8 * dtype.itemsize), iinfo(dtype).min if dtype.itemsize == 1 else 0)
    for dtype in INTEGERS
}
_SIGNED = {
    dtype: PerTensor(2.0 ** (1 - 8 * dtype.itemsize), (iinfo(dtype).min + iinfo(dtype).max + 1) // 2)
    for dtype in INTEGERS
}
for _name, _grids in (("sigmoid", _UNIT), ("hardsigmoid", _UNIT), ("tanh", _SIGNED)):
    attach_quantized(REGISTRY[_name], rounded_again(REGISTRY[_name], _grids))
for _name in ("leaky_relu", "threshold", "mean.dim", "mean", "std.correction"):
    attach_quantized(REGISTRY[_name], rounded_again(REGISTRY[_name]))

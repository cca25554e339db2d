"""Tensors from nothing, tensors like others, clones and casts: schemas and shape rules."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from ..core import dtypes
from ..core.data_sizes import is_data
from ..core.dtypes import DTYPES, Category, DType
from ..core.errors import check, fail
from ..core.registry import FUNCTION, INPLACE, INPLACE_METHOD, INTERNAL, METHOD, OUT, Api, define
from ..core.shapes import (
    Shape,
    Spec,
    broadcast_shapes,
    channels_last_strides,
    is_contiguous,
    preserved_strides,
    strides_in_order,
)
from ..core.symbols import SymInt
from ..core.tensor import Tensor
from ..core.tokens import channels_last, channels_last_3d, contiguous_format, preserve_format, strided
from ..core.tokens import memory_format as MemoryFormat

OPTIONS = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
_NOT_COUNTABLE = frozenset(
    DTYPES[name]
    for name in (
        "bool",
        "uint16",
        "uint32",
        "uint64",
        "complex32",
        "complex64",
        "complex128",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    )
)


# Layout.


def check_size(size: Sequence[int], name: str) -> Shape:
    for extent in size:
        check(extent >= 0, f"{name}: Trying to create tensor with negative dimension {extent}: {list(size)}")
    return tuple(size)


def format_strides(shape: Shape, memory_format: MemoryFormat | None, name: str) -> Shape | None:
    """Strides of a new tensor of `shape` in `memory_format`; None when contiguous."""
    if memory_format in (None, contiguous_format):
        return None
    if memory_format in (channels_last, channels_last_3d):
        rank = 4 if memory_format is channels_last else 5
        check(
            len(shape) == rank,
            f"{name}: required rank {rank} tensor to use {memory_format.name} format, "
            f"but the shape is {list(shape)}",
        )
        return channels_last_strides(shape)
    raise RuntimeError(f"{name}: unsupported memory format {memory_format}; there is none to preserve")


def like_strides(self: Tensor, memory_format: MemoryFormat | None, name: str) -> Shape | None:
    """Strides of a tensor made like `self`: its own memory order, unless `memory_format` says otherwise."""
    if memory_format not in (None, preserve_format):
        return format_strides(tuple(self.shape), memory_format, name)
    shape, source = tuple(self.shape), self.strides()
    return None if is_contiguous(shape, source) and 0 not in shape else preserved_strides(shape, source)


def check_layout(layout: Any, name: str) -> None:
    check(
        layout in (None, strided),
        f"{name}: layout {layout} is not supported here; make a strided tensor and convert it",
        NotImplementedError,
    )


def check_representable(value: Any, dtype: DType, name: str) -> None:
    """RuntimeError where the number `value` is out of range; unsigned types take small negative integers."""
    if isinstance(value, bool) or dtype.category is Category.BOOL:
        return
    if isinstance(value, complex):
        check(value.imag == 0 or dtype.is_complex, _overflow(value, dtype, name))
        if dtype.is_complex:
            for part in (value.real, value.imag):
                check_representable(part, dtype.to_real(), name)
            return
        value = value.real
    if dtype.is_complex:
        dtype = dtype.to_real()
    if dtype.category is Category.INTEGRAL:
        info = dtypes.iinfo(dtype)
        low = info.min if dtype.is_signed else 0 if isinstance(value, float) else -info.max
        check(low <= value, _overflow(value, dtype, name))
        check(value <= info.max, _overflow(value, dtype, name))
    elif (
        dtype.is_floating_point
        and not is_data(value)
        and not abs(value) <= dtypes.finfo(dtype).max  # of a live number, a guard on the outcome alone
        and math.isfinite(value)
    ):
        fail(_overflow(value, dtype, name))


def _overflow(value: Any, dtype: DType, name: str) -> str:
    return f"{name}: value cannot be converted to type {dtype.name} without overflow: {value}, a Scalar"


def new(size: Sequence[int], dtype: DType | None, layout: Any, name: str, memory_format: Any = None) -> Spec:
    """A new tensor of `size`, of the default dtype unless told otherwise."""
    check_layout(layout, name)
    shape = check_size(size, name)
    return Spec(shape, dtype or dtypes.get_default_dtype(), format_strides(shape, memory_format, name))


def new_like(self: Tensor, dtype: DType | None, layout: Any, memory_format: Any, name: str) -> Spec:
    check_layout(layout, name)
    return Spec(tuple(self.shape), dtype or self.dtype, like_strides(self, memory_format, name))


# Factories.

_FACTORY = FUNCTION | OUT | Api.REFITS | Api.EXPANDED
define(
    f"empty.memory_format(SymInt[] size, *, {OPTIONS}, MemoryFormat? memory_format=None) -> Tensor",
    shape=lambda size, dtype, layout, memory_format: new(size, dtype, layout, "empty", memory_format),
    api=_FACTORY,
)
define(
    f"zeros(SymInt[] size, *, {OPTIONS}) -> Tensor",
    shape=lambda size, dtype, layout: new(size, dtype, layout, "zeros"),
    api=_FACTORY,
    fill=0,
)
define(
    f"ones(SymInt[] size, *, {OPTIONS}) -> Tensor",
    shape=lambda size, dtype, layout: new(size, dtype, layout, "ones"),
    api=_FACTORY,
    fill=1,
)


def full(size: Sequence[int], fill_value: Any, dtype: DType | None, layout: Any) -> Spec:
    spec = new(size, dtype or dtypes.scalar_dtype(fill_value), layout, "full")
    check_representable(fill_value, spec.dtype, "full")
    return spec


define(
    f"full(SymInt[] size, Scalar fill_value, *, {OPTIONS}) -> Tensor",
    shape=full,
    api=_FACTORY,
    fill="fill_value",
)


def empty_strided(size: Sequence[int], stride: Sequence[int], dtype: DType | None, layout: Any) -> Spec:
    check_layout(layout, "empty_strided")
    shape = check_size(size, "empty_strided")
    check(
        len(size) == len(stride),
        f"empty_strided: dimensionality of sizes ({len(size)}) must match "
        f"dimensionality of strides ({len(stride)})",
    )
    check(
        all(step >= 0 for step in stride), f"empty_strided: strides must not be negative, got {list(stride)}"
    )
    return Spec(shape, dtype or dtypes.get_default_dtype(), tuple(stride))


define(
    f"empty_strided(SymInt[] size, SymInt[] stride, *, {OPTIONS}) -> Tensor",
    shape=empty_strided,
    api=FUNCTION,
)
define(
    f"new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, {OPTIONS}) -> Tensor",
    api=METHOD,
    shape=lambda self, size, stride, dtype, layout: empty_strided(size, stride, dtype or self.dtype, layout),
)


def empty_permuted(
    size: Sequence[int], physical_layout: Sequence[int], dtype: DType | None, layout: Any
) -> Spec:
    check_layout(layout, "empty_permuted")
    shape = check_size(size, "empty_permuted")
    check(
        len(size) == len(physical_layout),
        f"empty_permuted: size has {len(size)} dimensions and "
        f"physical_layout {len(physical_layout)}; they must have as many",
    )
    check(
        all(0 <= dim < len(size) for dim in physical_layout),
        "empty_permuted: Dimension out of range "
        f"(expected to be between 0 and {len(size) - 1}, but got {list(physical_layout)}); negative dims "
        "are not supported",
    )
    check(
        len(set(physical_layout)) == len(size),
        f"empty_permuted: Duplicate dim not allowed in {list(physical_layout)}",
    )
    return Spec(shape, dtype or dtypes.get_default_dtype(), strides_in_order(shape, physical_layout))


define(
    f"empty_permuted(SymInt[] size, int[] physical_layout, *, {OPTIONS}) -> Tensor",
    shape=empty_permuted,
    api=FUNCTION,
)


def _define_derived(name: str, fill: int | None) -> None:
    """`name`_like and new_`name` of a factory without parameters."""
    define(
        f"{name}_like(Tensor self, *, {OPTIONS}, MemoryFormat? memory_format=None) -> Tensor",
        shape=lambda self, dtype, layout, memory_format: new_like(
            self, dtype, layout, memory_format, f"{name}_like"
        ),
        api=FUNCTION,
        fill=fill,
    )
    define(
        f"new_{name}(Tensor self, SymInt[] size, *, {OPTIONS}) -> Tensor",
        shape=lambda self, size, dtype, layout: new(size, dtype or self.dtype, layout, f"new_{name}"),
        api=METHOD,
        fill=fill,
    )


_define_derived("empty", None)
_define_derived("zeros", 0)
_define_derived("ones", 1)


def full_like(self: Tensor, fill_value: Any, dtype: DType | None, layout: Any, memory_format: Any) -> Spec:
    check_representable(fill_value, dtype or self.dtype, "full_like")
    return new_like(self, dtype, layout, memory_format, "full_like")


def new_full(self: Tensor, size: Sequence[int], fill_value: Any, dtype: DType | None, layout: Any) -> Spec:
    check_representable(fill_value, dtype or self.dtype, "new_full")
    return new(size, dtype or self.dtype, layout, "new_full")


define(
    f"full_like(Tensor self, Scalar fill_value, *, {OPTIONS}, MemoryFormat? memory_format=None) -> Tensor",
    shape=full_like,
    api=FUNCTION,
    fill="fill_value",
)
define(
    f"new_full(Tensor self, SymInt[] size, Scalar fill_value, *, {OPTIONS}) -> Tensor",
    shape=new_full,
    api=METHOD,
    fill="fill_value",
)


def scalar_tensor(s: Any, dtype: DType | None, layout: Any) -> Spec:
    spec = new((), dtype, layout, "scalar_tensor")
    check_representable(s, spec.dtype, "scalar_tensor")
    return spec


define(f"scalar_tensor(Scalar s, *, {OPTIONS}) -> Tensor", shape=scalar_tensor, api=FUNCTION, fill="s")


def eye(n: int, m: int, dtype: DType | None, layout: Any) -> Spec:
    check(n >= 0, f"eye: n must be greater or equal to 0, got {n}")
    check(m >= 0, f"eye: m must be greater or equal to 0, got {m}")
    return new((n, m), dtype, layout, "eye")


define(
    f"eye(SymInt n, *, {OPTIONS}) -> Tensor",
    shape=lambda n, dtype, layout: eye(n, n, dtype, layout),
    api=_FACTORY,
)
define(f"eye.m(SymInt n, SymInt m, *, {OPTIONS}) -> Tensor", shape=eye, api=_FACTORY)


# Sequences of numbers.

_COUNTED = FUNCTION | OUT | Api.FLAT
_SPACED = FUNCTION | OUT | Api.FLAT | Api.REFITS


def _check_countable(dtype: DType, name: str) -> None:
    check(
        dtype not in _NOT_COUNTABLE,
        f"\"{name}\" not implemented for '{dtype.torch_name}'",
        NotImplementedError,
    )


def _check_range(start: Any, end: Any, step: Any, name: str) -> None:
    for value in (start, end, step):
        check(
            not isinstance(value, complex) or value.imag == 0,
            f"{name}: value cannot be converted to type double without overflow: {value}",
        )
    check(step != 0, f"{name}: step must be nonzero")
    finite = all(isinstance(value, int) or math.isfinite(value) for value in (start, end))
    check(finite, f"{name}: unsupported range: {start} -> {end}")
    check(
        (end >= start) if step > 0 else (end <= start),
        f"{name}: upper bound and lower bound inconsistent "
        f"with step sign: from {start} to {end} with step {step}",
    )


def arange(start: Any, end: Any, step: Any, dtype: DType | None, layout: Any) -> Spec:
    """start, start + step, ... before end; only integers give int64."""
    if dtype is None:
        whole = all(isinstance(value, int) for value in (start, end, step))
        dtype = DTYPES["int64"] if whole else dtypes.get_default_dtype()
    _check_countable(dtype, "arange")
    _check_range(start, end, step, "arange")
    if dtype is DTYPES["int64"]:
        start, end, step = (value if type(value) is SymInt else int(value) for value in (start, end, step))
        check(step != 0, "arange: step must be nonzero as an integer", ValueError)
        count = -((start - end) // step)
    elif all(isinstance(value, int) for value in (start, end, step)):
        count = -((start - end) // step)
    else:
        count = math.ceil((float(end) - float(start)) / float(step))
    return new((count,), dtype, layout, "arange")


define(
    f"arange(Scalar end, *, {OPTIONS}) -> Tensor",
    shape=lambda end, dtype, layout: arange(0, end, 1, dtype, layout),
    api=_COUNTED,
)
define(
    f"arange.start(Scalar start, Scalar end, *, {OPTIONS}) -> Tensor",
    shape=lambda start, end, dtype, layout: arange(start, end, 1, dtype, layout),
    api=_COUNTED,
)
define(
    f"arange.start_step(Scalar start, Scalar end, Scalar step=1, *, {OPTIONS}) -> Tensor",
    shape=arange,
    api=_COUNTED,
)


def inclusive_range(start: Any, end: Any, step: Any, dtype: DType | None, layout: Any) -> Spec:
    warnings.warn(
        "range is deprecated: unlike Python's, its end is part of it; use arange", UserWarning, stacklevel=3
    )
    dtype = dtype or dtypes.get_default_dtype()
    _check_countable(dtype, "range")
    _check_range(start, end, step, "range")
    return new((int((float(end) - float(start)) / float(step)) + 1,), dtype, layout, "range")


define(
    f"range(Scalar start, Scalar end, *, {OPTIONS}) -> Tensor",
    shape=lambda start, end, dtype, layout: inclusive_range(start, end, 1, dtype, layout),
    api=_SPACED,
)
define(
    f"range.step(Scalar start, Scalar end, Scalar step=1, *, {OPTIONS}) -> Tensor",
    shape=inclusive_range,
    api=_SPACED,
)


def spaced(start: Any, end: Any, steps: int, dtype: DType | None, layout: Any, name: str) -> Spec:
    """`steps` values from `start` to `end`, numbers or 0-d tensors; complex if one of them is."""
    complex_ends = False
    for value, what in ((start, "start"), (end, "end")):
        if isinstance(value, Tensor):
            check(
                value.ndim == 0,
                f"{name} only supports 0-dimensional start and end tensors, but got "
                f"{what} with {value.ndim} dimension(s).",
            )
            complex_ends |= value.dtype.is_complex
        else:
            complex_ends |= isinstance(value, complex)
    check(steps >= 0, f"{name}: number of steps must be non-negative, got {steps}")
    default = dtypes.get_default_dtype()
    if complex_ends:
        default = default.to_complex()
        check(
            dtype is None or dtype.is_complex,
            f"torch.{name}(): inferred dtype {default.name} can't be safely cast to passed dtype {dtype}",
        )
    dtype = dtype or default
    check(
        dtype.is_complex or dtype not in _NOT_COUNTABLE,
        f"\"{name}\" not implemented for '{dtype.torch_name}'",
        NotImplementedError,
    )
    return new((steps,), dtype, layout, name)


# The overloads for tensors come first: a 0-d tensor would fit a Scalar as well.
_ENDS = (
    (".Tensor_Tensor", "Tensor", "Tensor"),
    (".Tensor_Scalar", "Tensor", "Scalar"),
    (".Scalar_Tensor", "Scalar", "Tensor"),
    ("", "Scalar", "Scalar"),
)
for _overload, _start, _end in _ENDS:
    define(
        f"linspace{_overload}({_start} start, {_end} end, int steps, *, {OPTIONS}) -> Tensor",
        api=_SPACED,
        shape=lambda start, end, steps, dtype, layout: spaced(start, end, steps, dtype, layout, "linspace"),
    )
    define(
        f"logspace{_overload}({_start} start, {_end} end, int steps, float base=10., *, {OPTIONS}) -> Tensor",
        api=_SPACED,
        shape=lambda start, end, steps, dtype, layout: spaced(start, end, steps, dtype, layout, "logspace"),
    )


# Copies.

define(
    "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    moves=True,
    api=FUNCTION | METHOD,
    shape=lambda self, memory_format: new_like(self, None, None, memory_format, "clone"),
)
define(
    f"_to_copy(Tensor self, *, {OPTIONS}, bool non_blocking=False, MemoryFormat? memory_format=None) -> "
    "Tensor",
    shape=lambda self, dtype, layout, memory_format: new_like(self, dtype, layout, memory_format, "to"),
    moves=True,
    api=INTERNAL,
)


def copy(self: Tensor, src: Tensor) -> Spec:
    shape = broadcast_shapes(self.shape, src.shape, name="copy_")
    check(
        shape == self.shape,
        f"copy_: output with shape {list(self.shape)} doesn't match the broadcast shape {list(shape)}",
    )
    return new_like(self, None, None, None, "copy_")


define(
    "copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", shape=copy, moves=True, api=INTERNAL
)


def fill_scalar(self: Tensor, value: Any) -> Spec:
    check_representable(value, self.dtype, "fill")
    return new_like(self, None, None, None, "fill")


def fill_tensor(self: Tensor, value: Tensor) -> Spec:
    check(
        value.ndim == 0,
        f"fill only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.",
    )
    return new_like(self, None, None, None, "fill")


_FILL = FUNCTION | INPLACE | INPLACE_METHOD | Api.EXPANDED
define(
    "fill.Scalar(Tensor self, Scalar value) -> Tensor", shape=fill_scalar, moves=True, api=_FILL, fill="value"
)
define("fill.Tensor(Tensor self, Tensor value) -> Tensor", shape=fill_tensor, moves=True, api=_FILL)
define(
    "zero(Tensor self) -> Tensor",
    shape=lambda self: new_like(self, None, None, None, "zero"),
    moves=True,
    api=INPLACE_METHOD | Api.EXPANDED,
)

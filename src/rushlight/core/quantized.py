"""Quantized tensors: integers that stand for points of a grid.

Such a tensor has the key QUANTIZED, one of the dtypes qint8, quint8 and qint32, the array of its integers,
and `_quantizer`, the record that says what they stand for:

    PerTensor   (q - zero_point) * scale
    PerChannel  the same with a scale and a zero point for each index of the dimension `axis`

Records are never changed; a write may give the tensor another one. Since the integers are an ordinary array,
views of quantized tensors are made as any others, and share memory with them. `numpy_array` refuses, so that
no kernel takes the integers for numbers: what looks at them asks for `integers`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import dtypes
from .dtypes import DType
from .errors import check
from .registry import OpDef
from .shapes import Spec
from .storage import VersionCounter
from .tensor import QUANTIZED, Tensor, alias, meta_tensor, wrap
from .tokens import per_channel_affine, per_channel_affine_float_qparams, per_tensor_affine, qscheme

# The dtype of the integers.
INTEGERS: dict[DType, DType] = {
    dtypes.qint8: dtypes.int8,
    dtypes.quint8: dtypes.uint8,
    dtypes.qint32: dtypes.int32,
}
QUANTIZED_BY_INTEGERS = {integer: dtype for dtype, integer in INTEGERS.items()}


class PerTensor(NamedTuple):
    """One scale for all elements."""

    scale: float
    zero_point: int

    @property
    def scheme(self) -> qscheme:
        return per_tensor_affine

    def same_as(self, other: Any) -> bool:
        return isinstance(other, PerTensor) and tuple(self) == tuple(other)


class PerChannel(NamedTuple):
    """A scale for each index of a dimension.

    float64 with integer zero points; float32 with float32 zero points (float_qparams).
    """

    scales: Tensor
    zero_points: Tensor
    axis: int

    @property
    def scheme(self) -> qscheme:
        floating = self.zero_points.dtype.is_floating_point
        return per_channel_affine_float_qparams if floating else per_channel_affine

    def same_as(self, other: Any) -> bool:
        return (
            isinstance(other, PerChannel)
            and (self.scheme, self.axis) == (other.scheme, other.axis)
            and np.array_equal(self.scales.numpy_array(), other.scales.numpy_array())
            and np.array_equal(self.zero_points.numpy_array(), other.zero_points.numpy_array())
        )


Grid = PerTensor | PerChannel


def make_quantized(integers: Tensor, grid: Grid) -> Tensor:
    """The quantized tensor over the memory of `integers`, which nobody else uses."""
    spec, dtype = integers.spec(), QUANTIZED_BY_INTEGERS[integers.dtype]
    tensor = alias(integers, Spec(spec.shape, dtype, spec.strides, spec.offset))
    tensor._keys, tensor._quantizer, tensor._versions = QUANTIZED, grid, VersionCounter()
    return tensor


def integers_of(tensor: Tensor) -> Tensor:
    """A plain tensor over the memory of a quantized one."""
    spec = tensor.spec()
    plain = alias(tensor, Spec(spec.shape, INTEGERS[tensor.dtype], spec.strides, spec.offset))
    plain._keys, plain._quantizer = 0, None
    return plain


def write_quantized(target: Tensor, result: Tensor) -> None:
    """Copy the integers of `result` into the memory of `target`, which takes over what they stand for."""
    check(
        result._quantizer is not None,
        f"{target.dtype.name} cannot be written with {result.dtype.name}; quantize the value first",
    )
    check(
        target._quantizer is not None,
        "a quantized tensor cannot be written to one that is not; call dequantize() on it first",
    )
    check(target.dtype is result.dtype, f"{target.dtype.name} cannot be written with {result.dtype.name}")
    np.copyto(target._array, result._array)  # type: ignore[arg-type]
    target._quantizer = result._quantizer


_TURNED = "{}: the result would not have its channels along one dimension"


def grids_of_views(op: OpDef, args: tuple[Any, ...]) -> list[Grid]:
    """What the integers in each view that `op` takes of args[0] stand for.

    The view of a tensor that has stride 1 along the channels, and 0 elsewhere, tells where they are.
    """
    source = args[0]
    grid, shape = source._quantizer, tuple(source.shape)
    found = op.rule(args)  # type: ignore[misc]
    specs = (found,) if isinstance(found, Spec) else found
    check(
        all(s.dtype is source.dtype and not s.neg and not s.conj for s in specs),
        f"{op.name}: a view of a "
        "quantized tensor shows the same values; dequantize() and int_repr() give others",
        NotImplementedError,
    )
    if isinstance(grid, PerTensor):
        return [grid] * len(specs)
    check(
        "stride" not in op.schema.argument_names,
        f"{op.name}: strides of one's own choice are possible only where a tensor has one scale",
    )
    strides = tuple(int(d == grid.axis) for d in range(len(shape)))
    try:
        found = op.rule((meta_tensor(Spec(shape, dtypes.int64, strides)), *args[1:]))  # type: ignore[misc]
    except RuntimeError as error:
        raise RuntimeError(_TURNED.format(op.name)) from error
    return [_grid_of_view(op, grid, spec) for spec in ((found,) if isinstance(found, Spec) else found)]


def _grid_of_view(op: OpDef, grid: PerChannel, spec: Spec) -> Grid:
    extents = list(zip(spec.known_shape(), spec.known_strides(), strict=True))
    along = [d for d, (size, stride) in enumerate(extents) if stride and size > 1]
    if not along and grid.scales.numel() == 1:  # there was one channel, and its dimension may be there still
        along = [d for d, (_, stride) in enumerate(extents) if stride][-1:]
    check(len(along) < 2, _TURNED.format(op.name))
    scales, zero_points = grid.scales.numpy_array(), grid.zero_points.numpy_array()
    if along:
        size, stride = extents[along[0]]
        chosen = spec.offset + stride * np.arange(size)
        return PerChannel(wrap(scales[chosen]), wrap(zero_points[chosen]), along[0])
    check(
        not grid.zero_points.dtype.is_floating_point,
        f"{op.name}: a channel with a floating point zero point has no scheme of its own",
    )
    return PerTensor(float(scales[spec.offset]), int(zero_points[spec.offset]))

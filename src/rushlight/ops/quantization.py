"""Operators that make quantized tensors or look inside of them: their schemas.

How they run is on the kernels floor. Those that are made of simpler operators are decompositions.
"""

from __future__ import annotations

from ..core.declare_layouts import quantized_operator
from ..core.registry import FUNCTION, METHOD
from .creation import OPTIONS

for _schema in (
    "quantize_per_tensor(Tensor self, float scale, int zero_point, ScalarType dtype) -> Tensor",
    "quantize_per_tensor.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, ScalarType dtype) -> "
    "Tensor",
    "quantize_per_tensor.tensors(Tensor[] tensors, Tensor scales, Tensor zero_points, ScalarType dtype) -> "
    "Tensor[]",
    "quantize_per_channel(Tensor self, Tensor scales, Tensor zero_points, int axis, ScalarType dtype) -> "
    "Tensor",
    # from the integers
    "_make_per_tensor_quantized_tensor(Tensor self, float scale, int zero_point) -> Tensor",
    "_make_per_channel_quantized_tensor(Tensor self, Tensor scale, Tensor zero_point, int axis) -> Tensor",
    # without values
    f"_empty_affine_quantized(SymInt[] size, *, {OPTIONS}, float scale=1., int zero_point=0, "
    "MemoryFormat? memory_format=contiguous_format) -> Tensor",
    "_empty_per_channel_affine_quantized(SymInt[] size, *, Tensor scales, Tensor zero_points, int axis, "
    f"{OPTIONS}, MemoryFormat? memory_format=contiguous_format) -> Tensor",
    f"empty_quantized(int[] size, Tensor qtensor, *, {OPTIONS}, MemoryFormat? memory_format=None) -> Tensor",
    # a range for the first `numel` elements that loses least
    "choose_qparams_optimized(Tensor input, int numel, int n_bins, float ratio, int bit_width) -> (Tensor, "
    "Tensor)",
):
    quantized_operator(_schema, api=FUNCTION)

for _schema in (
    "int_repr(Tensor self) -> Tensor",
    "q_scale(Tensor self) -> float",
    "q_zero_point(Tensor self) -> int",
    "q_per_channel_scales(Tensor self) -> Tensor",
    "q_per_channel_zero_points(Tensor self) -> Tensor",
    "q_per_channel_axis(Tensor self) -> int",
):
    quantized_operator(_schema)
quantized_operator("qscheme(Tensor self) -> QScheme", api=METHOD)

"""Batching rules of like-factories, clones and fills."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, get_default_dtype
from ..core.errors import check
from ..core.shapes import Shape, extent
from ..core.tensor import Tensor
from ..core.tokens import channels_last, channels_last_3d
from .declare import Call, Sized, Whole, batching, pad_ndim

batching(["zero", "fill.Scalar"], Whole())


class Formatted(Whole):
    """A copy or a tensor like another, perhaps in channels-last order: then the batch is folded into the
    first dimension."""

    def apply(self, request: Call) -> Any:
        at = request.op.schema.argument_names.index("memory_format")
        if request.args[at] not in (channels_last, channels_last_3d):
            return request.run()
        tensor = request.args[0]
        check(
            tensor.ndim - 1 == (4 if request.args[at] is channels_last else 5),
            f"required rank 4 tensor to use channels_last format, but the shape is {list(tensor.shape[1:])}",
        )
        request.args[0] = tensor.reshape(-1, *tensor.shape[2:])
        return request.run().unflatten(0, tensor.shape[:2])


batching(["clone", "_to_copy", "empty_like", "zeros_like", "ones_like", "full_like"], Formatted())
batching(["new_empty", "new_zeros", "new_ones", "new_full"], Sized())


@batching("new_empty_strided")
def new_empty_strided(
    self: Tensor, size: Shape, stride: Shape, dtype: Any, device: Any, batch: int
) -> Tensor:
    span = max(extent(size, stride), 1)
    return self.new_empty_strided((batch, *size), (span, *stride), dtype=dtype, device=device)


@batching("copy", all_batched=True)
def copy(self: Tensor, src: Tensor, non_blocking: bool, self_ndim: int, src_ndim: int) -> Tensor:
    return run_name("copy", self, pad_ndim(src, src_ndim, self_ndim), non_blocking)


@batching("fill.Tensor", all_batched=True)
def fill(self: Tensor, value: Tensor, self_ndim: int) -> Tensor:
    return run_name("copy", self, pad_ndim(value, 0, self_ndim), False)


def lines(start: Any, end: Any, steps: int, dtype: Any) -> Tensor:
    """Evenly spaced numbers between batched ends, counted from the nearer end, in double precision. The ends
    of a range of integers are integers."""
    start, end = column(start), column(end)
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        start, end = start.trunc(), end.trunc()
    count = run_name("arange", steps, DTYPES["float64"], None, None, None)
    step = (end - start) / max(steps - 1, 1)
    near = count < steps // 2 if steps > 1 else count == 0
    return run_name("where.self", near, start + step * count, end - step * (steps - 1 - count))


def column(value: Any) -> Tensor:
    """One end of the range, as a column if it is batched."""
    wide = DTYPES[
        "complex128" if isinstance(value, complex) or getattr(value, "is_complex", bool)() else "float64"
    ]
    if not isinstance(value, Tensor):
        return run_name("scalar_tensor", value, wide, None, None, None)
    return value.to(wide).unsqueeze(1) if value.ndim else value.to(wide)


def in_dtype(values: Tensor, dtype: Any) -> Tensor:
    default = get_default_dtype()
    return values.to(dtype or (default.to_complex() if values.dtype.is_complex else default))


@batching(["linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor"])
def linspace(start: Any, end: Any, steps: int, dtype: Any) -> Tensor:
    return in_dtype(lines(start, end, steps, dtype), dtype)


@batching(["logspace.Tensor_Tensor", "logspace.Tensor_Scalar", "logspace.Scalar_Tensor"])
def logspace(start: Any, end: Any, steps: int, base: float, dtype: Any) -> Tensor:
    return in_dtype(run_name("pow.Scalar", base, lines(start, end, steps, dtype)), dtype)

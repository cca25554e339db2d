"""Index, mask and nonzero operators in terms of simpler ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, INPLACE_METHOD, INTERNAL, METHOD, OUT, Api, composite
from ..core.shapes import broadcast_shapes, wrap_dim
from ..core.tensor import Tensor
from ..ops.creation import check_representable
from ..ops.indexing import check_mask, index_shape

_INTEGERS = frozenset((DTYPES["int64"], DTYPES["int32"]))


@composite("nonzero_numpy(Tensor self) -> Tensor[]", api=INTERNAL)
def nonzero_numpy(self: Tensor) -> tuple[Tensor, ...]:
    if self.ndim == 0:
        self = self.unsqueeze(0)
    return tuple(run_name("nonzero", self).unbind(1))


@composite("argwhere(Tensor self) -> Tensor")
def argwhere(self: Tensor) -> Tensor:
    return run_name("nonzero", self)  # type: ignore[no-any-return]


# Masks.

_MASKED = FUNCTION | METHOD | INPLACE_METHOD | Api.EXPANDED_WARNS


@composite("masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", api=_MASKED)
def masked_fill_scalar(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    check_mask(mask, "masked_fill")
    check_representable(value, self.dtype, "masked_fill")
    fill = run_name("scalar_tensor", value, self.dtype, None, self.device, None)
    return run_name("where.self", mask, fill, self)  # type: ignore[no-any-return]


@composite("masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", api=_MASKED)
def masked_fill_tensor(self: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    check_mask(mask, "masked_fill")
    check(value.ndim == 0, "masked_fill only supports a 0-dimensional value tensor, but got tensor with "
          f"{value.ndim} dimension(s).")
    check(self.dtype.is_complex or not value.dtype.is_complex, f"masked_fill: value of {value.dtype.name} "
          f"cannot be converted to type {self.dtype.name} without overflow")
    return run_name("where.self", mask, value.to(device=self.device, dtype=self.dtype), self)  # type: ignore[no-any-return]


def _clamped(self: Tensor, mask: Tensor, indices: Sequence[Tensor | None], wrap: bool) -> tuple[Tensor | None, ...]:
    """Indices with those out of range moved to the nearest in range; what they select there is masked."""
    check(mask.dtype is DTYPES["bool"], f"tensors used as masks must be bool tensors, not {mask.dtype.name}")
    check(all(index is None or index.dtype in _INTEGERS for index in indices), "tensors used as indices must "
          "be long or int tensors")
    return tuple(None if index is None else index.clamp(-self.shape[dim] if wrap else 0, self.shape[dim] - 1)
                 for dim, index in enumerate(indices))


@composite("_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor", api=FUNCTION)
def _unsafe_masked_index(self: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: Any) -> Tensor:
    if self.numel() == 0:
        return self.new_full(index_shape(self.shape, indices, "_unsafe_masked_index")[0], fill)
    clamped = _clamped(self, mask, indices, wrap=False)
    return run_name("_unsafe_index.Tensor", self, clamped).masked_fill(~mask, fill)  # type: ignore[no-any-return]


@composite("_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor",
           api=FUNCTION)
def _unsafe_masked_index_put_accumulate(self: Tensor, mask: Tensor, indices: Sequence[Tensor | None],
                                        values: Tensor) -> Tensor:
    if self.numel() == 0:
        return self.clone()
    clamped = _clamped(self, mask, indices, wrap=True)
    return run_name("_unsafe_index_put", self, clamped, values.masked_fill(~mask, 0), True)  # type: ignore[no-any-return]


# Along one dimension.

@composite("take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", api=FUNCTION | METHOD | OUT)
def take_along_dim(self: Tensor, indices: Tensor, dim: int | None) -> Tensor:
    check(indices.dtype is DTYPES["int64"], f"take_along_dim(): dtype of indices should be Long but got "
          f"{indices.dtype.torch_name}")
    if dim is None:
        return run_name("gather", self.reshape(-1), 0, indices.reshape(-1), False)  # type: ignore[no-any-return]
    check(self.ndim > 0, "take_along_dim(): Dimension specified as 0 but tensor has no dimensions", IndexError)
    dim = wrap_dim(dim, self.ndim, name="take_along_dim")
    check(self.ndim == indices.ndim, "take_along_dim(): input and indices should have the same number of "
          f"dimensions, but got {self.ndim} dimensions for input, and {indices.ndim} dimensions for indices")
    ours, theirs = list(self.shape), list(indices.shape)
    theirs[dim] = ours[dim]
    common = broadcast_shapes(ours, theirs, name="take_along_dim")
    wanted = (*common[:dim], indices.shape[dim], *common[dim + 1:])
    if self.shape[dim]:
        indices = indices.remainder(self.shape[dim])  # any index is taken modulo the size
    return run_name("gather", self.expand(common), dim, indices.expand(wanted), False)  # type: ignore[no-any-return]

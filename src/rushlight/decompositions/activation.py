"""Softmax in its public forms, in terms of simpler operators."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, DType
from ..core.errors import check
from ..core.registry import FUNCTION, METHOD, OUT, Api, composite
from ..core.tensor import Tensor


@composite("softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
           api=FUNCTION | METHOD | OUT | Api.EXACT)
def softmax(self: Tensor, dim: int, dtype: DType | None) -> Tensor:
    return run_name("_softmax", self if dtype is None else self.to(dtype), dim, False)


@composite("log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
           api=FUNCTION | METHOD | OUT | Api.EXACT)
def log_softmax(self: Tensor, dim: int, dtype: DType | None) -> Tensor:
    return run_name("_log_softmax", self if dtype is None else self.to(dtype), dim, False)


@composite("special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", api=FUNCTION,
           namespace="special",
           public_name="softmax")
def special_softmax(self: Tensor, dim: int, dtype: DType | None) -> Tensor:
    return self.softmax(dim, dtype)


@composite("special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", api=FUNCTION,
           namespace="special", public_name="log_softmax")
def special_log_softmax(self: Tensor, dim: int, dtype: DType | None) -> Tensor:
    return self.log_softmax(dim, dtype)


@composite("_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", api=FUNCTION)
def safe_softmax(self: Tensor, dim: int, dtype: DType | None) -> Tensor:
    """Softmax that gives zeros, not NaN, for a row of which every element is masked by -inf."""
    masked = self.eq(float("-inf")).all(dim, keepdim=True)
    return self.softmax(dim, dtype).masked_fill(masked, 0.0)


@composite("_masked_softmax(Tensor self, Tensor mask, int? dim=None, int? mask_type=None) -> Tensor",
           api=FUNCTION)
def masked_softmax(self: Tensor, mask: Tensor, dim: int | None, mask_type: int | None) -> Tensor:
    """Softmax of the elements where `mask` is False, zero for the others.

    The mask of an input (B, H, L, L) may be (L, L), the same for all rows of the batch, if mask_type is 0, or
    (B, L), the same for all heads and queries, if it is 1.
    """
    check(mask.dtype is DTYPES["bool"], "_masked_softmax: mask should be a boolean tensor, but is "
          f"{mask.dtype.torch_name}")
    full = self.masked_fill(_full_mask(self, mask, mask_type), float("-inf"))
    return run_name("_softmax", full, -1 if dim is None else dim, False)


def _full_mask(self: Tensor, mask: Tensor, mask_type: int | None) -> Tensor:
    shape, given = tuple(self.shape), tuple(mask.shape)
    if given == shape:
        return mask
    check(mask_type in (0, 1, 2), "_masked_softmax: a mask that has not the input's shape needs a mask_type, "
          f"0 for (L, L) or 1 for (B, L): it is {given}, the input is {shape}, mask_type is {mask_type}")
    wanted = shape
    if self.ndim == 4 and mask_type != 2:
        wanted = shape[2:] if mask_type == 0 else (shape[0], shape[2])
    check(given == wanted, f"_masked_softmax: for mask_type {mask_type} and an input of shape {shape} the "
          f"mask should be {wanted}, but is {given}")
    return mask if mask_type == 0 else mask.reshape((shape[0], 1, 1, shape[2]))

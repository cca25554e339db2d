"""Softmax in its public forms, in terms of simpler operators."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.dtypes import DType
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

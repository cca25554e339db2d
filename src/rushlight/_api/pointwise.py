"""Tensor methods of pointwise operators whose tensor is not the operator's first argument."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.mutation import call_inplace
from ..core.registry import REGISTRY
from ..core.tensor import Tensor, tensor_method
from .link import API

__all__: list[str] = []

_where = API.functions[""]["where"]


@tensor_method
def where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """This tensor where `condition` holds, `other` elsewhere."""
    return _where(condition, self, other)


@tensor_method
def polygamma(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma."""
    return run_name("polygamma", n, self)


@tensor_method
def polygamma_(self: Tensor, n: int) -> Tensor:
    """In-place polygamma."""
    return call_inplace(REGISTRY["polygamma"], (n, self))

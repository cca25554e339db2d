"""Sorting in terms of the stable sort, membership in terms of comparisons."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.registry import EXACT_OUT, FUNCTION, METHOD, OUT, Api, composite, decomposition
from ..core.tensor import Tensor


@composite(
    "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    api=FUNCTION | METHOD | OUT | Api.EXACT,
)
def sort(self: Tensor, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    return run_name("sort.stable", self, False, dim, descending)


@composite("argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor")
def argsort(self: Tensor, dim: int, descending: bool) -> Tensor:
    return run_name("sort.stable", self, False, dim, descending)[1]


@composite(
    "argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
    api=FUNCTION | METHOD | EXACT_OUT,
)
def argsort_stable(self: Tensor, stable: bool, dim: int, descending: bool) -> Tensor:
    return run_name("sort.stable", self, stable, dim, descending)[1]


@composite("msort(Tensor self) -> Tensor", api=FUNCTION | METHOD | EXACT_OUT)
def msort(self: Tensor) -> Tensor:
    return run_name("sort.stable", self, False, 0, False)[0]


# Membership.


def among(elements: Any, tests: Tensor, invert: bool) -> Tensor:
    found = run_name("any.dim", elements == tests, -1, False)
    return found.logical_not() if invert else found


decomposition("isin.Tensor_Tensor")(
    lambda elements, test_elements, invert: among(
        elements.unsqueeze(-1), test_elements.reshape((-1,)), invert
    )
)
decomposition("isin.Scalar_Tensor")(
    lambda element, test_elements, invert: among(element, test_elements.reshape((-1,)), invert)
)
decomposition("isin.Tensor_Scalar")(
    lambda elements, test_element, invert: elements != test_element if invert else elements == test_element
)

"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..._api.link import API
from ..._api.types import typename
from ...core.errors import check
from ...core.tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]

functions: Any = API.functions[""]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, one after the other, as one vector.

    >>> nn.utils.parameters_to_vector([rl.ones(2), rl.zeros(1)])
    tensor([1., 1., 0.])
    """
    given = list(parameters)
    check(
        len({param.device for param in given}) <= 1,
        "Found two parameters on different devices, this is currently not supported.",
        TypeError,
    )
    return functions["cat"]([param.reshape(-1) for param in given])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let the parameters be views of consecutive parts of `vec`.

    >>> x = rl.zeros(2)
    >>> nn.utils.vector_to_parameters(rl.ones(2), [x])
    >>> x
    tensor([1., 1.])
    """
    check(isinstance(vec, Tensor), f"expected Tensor, but got: {typename(vec)}", TypeError)
    start = 0
    for param in parameters:
        count = param.numel()
        param.data = vec[start : start + count].view_as(param).data
        start += count

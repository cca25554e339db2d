"""Flatten and Unflatten."""

from __future__ import annotations

from typing import Any

from ...core.errors import check
from ...core.tensor import Tensor
from .module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Joins dimensions, by default all but the first.

    >>> nn.Flatten()(rl.ones(2, 3, 4)).shape
    rushlight.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one dimension into several.

    >>> nn.Unflatten(1, (3, 4))(rl.ones(2, 12)).shape
    rushlight.Size([2, 3, 4])
    """

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        check(
            isinstance(unflattened_size, tuple | list),
            f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}",
            TypeError,
        )
        for i, size in enumerate(unflattened_size):
            check(
                isinstance(size, int),
                "unflattened_size must be tuple of ints, but found element of type "
                f"{type(size).__name__} at pos {i}",
                TypeError,
            )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"

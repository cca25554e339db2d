"""Indices that are tensors of one element stay tensors, as attention masks written for one position need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.construct import tensor
from ..core.dispatch import call
from ..core.registry import REGISTRY
from ..core.tensor import Tensor
from ..overrides import TorchFunctionMode

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(TorchFunctionMode):
    """Inside of it `table[i, j]` gathers elements although `i` and `j` have no dimensions: no number is read of
    them, which functions under `vmap` could not do."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is Tensor.__getitem__:
            table, given = args
            places = given if isinstance(given, tuple) else (given,)
            tensors = [place for place in places if isinstance(place, Tensor)]
            if tensors and all(isinstance(place, (int, Tensor)) for place in places):
                indices = [p if isinstance(p, Tensor) else tensor(p) for p in places]
                return call(REGISTRY["index.Tensor"], (table, tuple(indices)))
        return func(*args, **(kwargs or {}))

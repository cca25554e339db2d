"""Methods of a tensor that are no operators: writes by Python functions, along the diagonal, and its
layout."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.construct import from_numpy
from ..core.errors import check
from ..core.overrides import as_class, plainly
from ..core.tensor import Tensor, tensor_method
from ..core.tokens import memory_format


@tensor_method
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write a number along the main diagonal; with `wrap` it goes on below the square part of a tall
    matrix."""
    check(self.ndim >= 2, "dimensions must larger than 1")
    if self.ndim > 2:
        check(len(set(self.shape)) == 1, "all dimensions of input must be of equal length")
    rows, columns = self.shape[0], self.shape[1]
    step = sum(self.stride())
    self.as_strided((min(self.shape),), (step,), self.storage_offset()).fill_(fill_value)
    if wrap and self.ndim == 2 and rows > columns + 1:
        for first in range(columns + 1, rows, columns + 1):
            count = min(columns, rows - first)
            self.narrow(0, first, count).diagonal().fill_(fill_value)
    return self


def _written(self: Tensor, function: Callable[..., Any], others: tuple[Tensor, ...], name: str) -> Tensor:
    """Each element replaced by what `function` makes of it and the elements of the others."""
    check(callable(function), f"{name}: a {type(function).__name__} is not callable", TypeError)
    check(
        not any(t.requires_grad for t in (self, *others)),
        f"{name}: can't be called on a tensor that requires grad. Use it on a detached one",
    )
    arrays = [t.detach().expand(self.shape).numpy_array() for t in others]
    mine = self.detach().numpy_array()
    places = np.ndindex(*mine.shape)
    made = [function(*[a[place].item() for a in (mine, *arrays)]) for place in places]
    for value in made:
        check(
            isinstance(value, bool | int | float | complex | np.generic | Tensor),
            f"{name}: the function gave a {type(value).__name__}, not a number",
            TypeError,
        )
    self.copy_(from_numpy(np.array(made, mine.dtype).reshape(mine.shape)))
    return self


@tensor_method
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace every element x by callable(x): a loop in Python, slow and out of any graph."""
    return _written(self, callable, (), "apply_")


@tensor_method
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace every element x by callable(x, y), with the element y of `tensor`."""
    return _written(self, callable, (tensor,), "map_")


@tensor_method
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    return _written(self, callable, (x, y), "map2_")


@tensor_method
def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the one with the largest stride to the one with the smallest.

    With `ambiguity_check` an error where other orders would do as well, because of a dimension of size 1 or
    of equal strides; given as a list of memory formats, only unless exactly one of them fits.
    """
    check(
        isinstance(ambiguity_check, bool)
        or (
            isinstance(ambiguity_check, list)
            and all(isinstance(each, memory_format) for each in ambiguity_check)
        ),
        "dim_order: ambiguity_check must be a bool or a list of memory formats",
        TypeError,
    )
    strides = self.stride()
    ambiguous = 1 in self.shape or any(one == other for one, other in itertools.pairwise(strides))
    if ambiguity_check is not False and ambiguous:
        formats = ambiguity_check if isinstance(ambiguity_check, list) else []
        check(
            sum(self.is_contiguous(memory_format=f) for f in formats) == 1,
            "dim_order: the order of dimensions is not the only one possible",
        )
    return tuple(sorted(range(self.ndim), key=lambda d: (-self.stride()[d], d)))


@tensor_method
def as_subclass(self: Tensor, cls: type) -> Tensor:
    """The same data and history as an object of a class derived from Tensor."""
    check(
        isinstance(cls, type) and issubclass(cls, Tensor),
        "as_subclass: cls must be a subclass of Tensor",
        TypeError,
    )
    with plainly():
        made = self.view(self.shape)
    return as_class(made, cls)


@tensor_method
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """The tensor on a CUDA device, of which there is none."""
    return self.to("cuda")


@tensor_method
def xpu(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """The tensor on an XPU device, of which there is none."""
    return self.to("xpu")


@tensor_method
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: all memory is the processor's own, where pages need not be pinned."""
    return self

"""Public functions of the creation, indexing and sorting families whose Python signature is not the operator's."""

from __future__ import annotations

from typing import Any

from .core.dispatch import run_name
from .core.mutation import call_out
from .core.registry import REGISTRY
from .core.tensor import Tensor, tensor_method

__all__ = ["nonzero", "unique", "unique_consecutive", "zero_"]


@tensor_method
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """The positions of the nonzero elements: one row each, or with `as_tuple` one index tensor per dimension."""
    if as_tuple:
        return run_name("nonzero_numpy", input)
    if out is not None:
        return call_out(REGISTRY["nonzero"], (input,), out)
    return run_name("nonzero", input)


def zero_(input: Tensor) -> Tensor:
    """Fill `input` with zeros, in place."""
    return input.zero_()  # type: ignore[no-any-return]


@tensor_method
def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
           dim: int | None = None) -> Any:
    """The different values (slices along `dim`), always in ascending order; inverse and counts only if asked for."""
    if dim is None:
        outputs = run_name("_unique2", input, sorted, return_inverse, return_counts)
    else:
        outputs = run_name("unique_dim", input, dim, sorted, return_inverse, return_counts)
    return _asked(outputs, return_inverse, return_counts)


@tensor_method
def unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False,
                       dim: int | None = None) -> Any:
    """The first of every run of equal values (slices along `dim`); inverse and counts only if asked for."""
    outputs = run_name("unique_consecutive", input, return_inverse, return_counts, dim)
    return _asked(outputs, return_inverse, return_counts)


def _asked(outputs: tuple[Tensor, Tensor, Tensor], return_inverse: bool, return_counts: bool) -> Any:
    output, inverse, counts = outputs
    chosen = (output, *([inverse] if return_inverse else []), *([counts] if return_counts else []))
    return chosen if len(chosen) > 1 else output

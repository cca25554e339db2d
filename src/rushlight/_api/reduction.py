"""Reductions whose Python signature is not that of any one ATen overload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import call
from ..core.dtypes import DType
from ..core.errors import check
from ..core.out_calls import call_out
from ..core.registry import REGISTRY
from ..core.tensor import Tensor, tensor_method
from .link import API

__all__ = ["_segment_reduce", "norm"]

_segment_reduce = API.functions[""]["segment_reduce"]  # the name it had before it became public

Dims = int | Sequence[int] | None


def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: DType | None = None,
) -> Tensor:
    """The vector norm of order `p` over `dim` (all if None); 'fro' is order 2, 'nuc' the matrix norm.

    >>> rl.norm(rl.tensor([3.0, 4.0]))
    tensor(5.)
    """
    dims = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    check(
        not isinstance(p, str) or p in ("fro", "nuc"),
        f"norm: only valid string values are 'fro' and 'nuc', found: {p} (of type: str)",
    )
    if p == "nuc":
        x = input if dtype is None else input.to(dtype)
        return _run("nuclear_norm.dim", (x, tuple(range(input.ndim)) if dims is None else dims, keepdim), out)
    check(
        p != "fro" or dims is None or len(dims) <= 2,
        f"norm: 'fro' is over at most two dimensions, got dim={dims}",
    )
    order = 2.0 if p is None or p == "fro" else p
    return _run("linalg_vector_norm", (input, order, dims, keepdim, dtype), out)


def _run(name: str, arguments: tuple[Any, ...], out: Tensor | None) -> Any:
    op = REGISTRY[name]
    return call(op, arguments) if out is None else call_out(op, arguments, out)


def _norm_method(
    self: Tensor,
    p: float | str | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Tensor:
    """See rushlight.norm."""
    return norm(self, p, dim, keepdim, dtype=dtype)


_norm_method.__name__ = "norm"
tensor_method(_norm_method)

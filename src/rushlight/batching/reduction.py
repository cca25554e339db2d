"""Batching rules of reductions and histograms."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .declare import Along, batching, flat, shift

EVERYTHING = Along("dim", empty_is_all=True)

batching(
    [
        "sum.dim_IntList",
        "nansum",
        "mean.dim",
        "var.correction",
        "std.correction",
        "var_mean.correction",
        "std_mean.correction",
        "any.dims",
        "all.dims",
        "amax",
        "amin",
        "linalg_vector_norm",
        "logsumexp",
        "hash_tensor",
        "count_nonzero.dim_IntList",
    ],
    EVERYTHING,
)
batching(
    ["prod.dim_int", "any.dim", "all.dim", "max.dim", "min.dim", "median.dim", "nanmedian.dim", "mode"],
    Along("dim"),
)
batching("sum", lambda self, dtype: run_name("sum.dim_IntList", flat(self), (1,), False, dtype))
batching("mean", lambda self, dtype: run_name("mean.dim", flat(self), (1,), False, dtype))
batching("prod", lambda self, dtype: run_name("prod.dim_int", flat(self), 1, False, dtype))
batching("any", lambda self: run_name("any.dim", flat(self), 1, False))
batching("all", lambda self: run_name("all.dim", flat(self), 1, False))
batching("max", lambda self: run_name("amax", flat(self), (1,), False))
batching("min", lambda self: run_name("amin", flat(self), (1,), False))
batching("median", lambda self: run_name("median.dim", flat(self), 1, False)[0])
batching("nanmedian", lambda self: run_name("nanmedian.dim", flat(self), 1, False)[0])
batching(
    "trace", lambda self: run_name("sum.dim_IntList", run_name("diagonal", self, 0, 1, 2), (1,), False, None)
)


@batching("count_nonzero")
def count_nonzero(self: Tensor, dim: int | None, self_ndim: int) -> Tensor:
    if dim is None or self_ndim == 0:
        return run_name("count_nonzero.dim_IntList", flat(self), (1,))
    return run_name("count_nonzero.dim_IntList", self, (shift(dim, self_ndim),))


def argument(name: str) -> None:
    @batching(name)
    def rule(self: Tensor, dim: int | None, keepdim: bool, self_ndim: int) -> Tensor:
        if dim is None or self_ndim == 0:
            found = run_name(name, flat(self), 1, False)
            return found.reshape(found.shape[0], *[1] * self_ndim) if keepdim else found
        return run_name(name, self, shift(dim, self_ndim), keepdim)


argument("argmax")
argument("argmin")


@batching("aminmax")
def aminmax(self: Tensor, dim: int | None, keepdim: bool, self_ndim: int) -> Any:
    if dim is None or self_ndim == 0:
        found = run_name("aminmax", flat(self), 1, False)
        return tuple(f.reshape(f.shape[0], *[1] * self_ndim) if keepdim else f for f in found)
    return run_name("aminmax", self, shift(dim, self_ndim), keepdim)


# Segments lie along the last dimension of their bounds; those before it are a batch already.

batching(["segment_reduce", "_segment_reduce_backward"], Along("axis", of="data", all_batched=True))

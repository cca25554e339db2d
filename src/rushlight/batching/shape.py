"""Batching rules of joining, flipping, rolling and padding."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.shapes import Shape
from ..core.tensor import Tensor
from .declare import Along, Call, Generic, Whole, batching, flat, shift

batching("flip", Along("dims"))


@batching("cat", all_batched=True)
def cat(tensors: tuple[Tensor, ...], dim: int, tensors_ndim: tuple[int, ...]) -> Tensor:
    """Empty 1-d tensors are left out, whatever the shape of the others."""
    kept = [(t, n) for t, n in zip(tensors, tensors_ndim, strict=True) if not (n == 1 and t.shape[1] == 0)]
    if not kept:
        return tensors[0]
    return run_name("cat", tuple(t for t, _ in kept), shift(dim, kept[0][1]))


@batching("roll")
def roll(self: Tensor, shifts: Shape, dims: Shape, self_ndim: int) -> Tensor:
    if len(dims) == 0:
        return run_name("roll", flat(self), shifts, (1,)).reshape(self.shape)
    return run_name("roll", self, shifts, shift(dims, self_ndim))


batching(["tril", "triu"], Whole())
batching("constant_pad_nd", Whole())


class Padded(Generic):
    """Padding of the last `spatial` dimensions: the operator itself has a batch and a channel dimension
    before those."""

    def __init__(self, spatial: int) -> None:
        self.spatial = spatial

    def apply(self, request: Call) -> Any:
        request.batch_all()
        ndim = max(n for n in request.ndim if n is not None)
        lead: tuple[int, ...] = ()
        for i in request.op.tensor_positions:
            tensor = request.args[i]
            lead = tuple(tensor.shape[: 1 + ndim - self.spatial])
            request.args[i] = tensor.reshape(-1, 1, *tensor.shape[1 + ndim - self.spatial :])
        result = request.run()
        return result.reshape(*lead, *result.shape[2:])


for _n in (1, 2, 3):
    for _kind in ("reflection", "replication"):
        batching([f"{_kind}_pad{_n}d", f"{_kind}_pad{_n}d_backward"], Padded(_n))

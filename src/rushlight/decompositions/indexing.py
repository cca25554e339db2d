"""Index, mask and nonzero operators in terms of simpler ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, INPLACE_METHOD, INTERNAL, METHOD, OUT, Api, composite
from ..core.shapes import Spec, broadcast_shapes, numel, wrap_dim
from ..core.tensor import Tensor
from ..ops.creation import check_representable
from ..ops.indexing import check_mask, index_shape

_INTEGERS = frozenset((DTYPES["int64"], DTYPES["int32"]))


@composite(
    "nonzero_numpy(Tensor self) -> Tensor[]",
    api=INTERNAL,
    shape=lambda self: (Spec(None, DTYPES["int64"]),) * max(self.ndim, 1),
)
def nonzero_numpy(self: Tensor) -> tuple[Tensor, ...]:
    if self.ndim == 0:
        self = self.unsqueeze(0)
    return tuple(run_name("nonzero", self).unbind(1))


@composite("argwhere(Tensor self) -> Tensor")
def argwhere(self: Tensor) -> Tensor:
    return run_name("nonzero", self)


# Masks.

_MASKED = FUNCTION | METHOD | INPLACE_METHOD | Api.EXPANDED_WARNS


@composite("masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", api=_MASKED)
def masked_fill_scalar(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    check_mask(mask, "masked_fill")
    check_representable(value, self.dtype, "masked_fill")
    fill = run_name("scalar_tensor", value, self.dtype, None, self.device, None)
    return run_name("where.self", mask, fill, self).contiguous()


@composite("masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", api=_MASKED)
def masked_fill_tensor(self: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    check_mask(mask, "masked_fill")
    check(
        value.ndim == 0,
        "masked_fill only supports a 0-dimensional value tensor, but got tensor with "
        f"{value.ndim} dimension(s).",
    )
    check(
        self.dtype.is_complex or not value.dtype.is_complex,
        f"masked_fill: value of {value.dtype.name} "
        f"cannot be converted to type {self.dtype.name} without overflow",
    )
    fill = value.to(device=self.device, dtype=self.dtype)
    return run_name("where.self", mask, fill, self).contiguous()


def _clamped(
    self: Tensor, mask: Tensor, indices: Sequence[Tensor | None], wrap: bool
) -> tuple[Tensor | None, ...]:
    """Indices with those out of range moved to the nearest in range; what they select there is masked."""
    check(mask.dtype is DTYPES["bool"], f"tensors used as masks must be bool tensors, not {mask.dtype.name}")
    check(
        all(index is None or index.dtype in _INTEGERS for index in indices),
        "tensors used as indices must be long or int tensors",
    )
    return tuple(
        None if index is None else index.clamp(-self.shape[dim] if wrap else 0, self.shape[dim] - 1)
        for dim, index in enumerate(indices)
    )


@composite(
    "_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor", api=FUNCTION
)
def _unsafe_masked_index(self: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: Any) -> Tensor:
    if self.numel() == 0:
        return self.new_full(index_shape(self.shape, indices, "_unsafe_masked_index")[0], fill)
    clamped = _clamped(self, mask, indices, wrap=False)
    selected = run_name("_unsafe_index.Tensor", self, clamped)
    return selected.masked_fill(mask.logical_not(), fill)


@composite(
    "_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) "
    "-> Tensor",
    api=FUNCTION,
)
def _unsafe_masked_index_put_accumulate(
    self: Tensor, mask: Tensor, indices: Sequence[Tensor | None], values: Tensor
) -> Tensor:
    if self.numel() == 0:
        return self.clone()
    clamped = _clamped(self, mask, indices, wrap=True)
    visible = values.masked_fill(mask.logical_not(), 0)
    return run_name("_unsafe_index_put", self, clamped, visible, True)


# Along one dimension.


@composite(
    "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", api=FUNCTION | METHOD | OUT
)
def take_along_dim(self: Tensor, indices: Tensor, dim: int | None) -> Tensor:
    check(
        indices.dtype is DTYPES["int64"],
        f"take_along_dim(): dtype of indices should be Long but got {indices.dtype.torch_name}",
    )
    if dim is None:
        flat, places = self.reshape(-1), indices.reshape(-1)
        return run_name("gather", flat, 0, places, False)
    check(
        self.ndim > 0, "take_along_dim(): Dimension specified as 0 but tensor has no dimensions", IndexError
    )
    dim = wrap_dim(dim, self.ndim, name="take_along_dim")
    check(
        self.ndim == indices.ndim,
        "take_along_dim(): input and indices should have the same number of "
        f"dimensions, but got {self.ndim} dimensions for input, and {indices.ndim} dimensions for indices",
    )
    ours, theirs = list(self.shape), list(indices.shape)
    theirs[dim] = ours[dim]
    common = broadcast_shapes(ours, theirs, name="take_along_dim")
    wanted = (*common[:dim], indices.shape[dim], *common[dim + 1 :])
    if self.shape[dim]:
        indices = indices.remainder(self.shape[dim])  # any index is taken modulo the size
    self, indices = self.expand(common), indices.expand(wanted)
    return run_name("gather", self, dim, indices, False)


# Gradients that have a name of their own.


@composite(
    "gather_backward(Tensor grad, Tensor self, int dim, Tensor index, bool sparse_grad) -> Tensor",
    api=INTERNAL,
)
def gather_backward(grad: Tensor, self: Tensor, dim: int, index: Tensor, sparse_grad: bool) -> Tensor:
    if sparse_grad:
        return run_name("_gather_sparse_backward", self, dim, index, grad)
    return grad.new_zeros(self.shape).scatter_add(dim, index, grad)


@composite(
    "index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor", api=INTERNAL
)
def index_select_backward(grad: Tensor, self_sizes: Sequence[int], dim: int, index: Tensor) -> Tensor:
    return grad.new_zeros(self_sizes).index_add(dim, index, grad)


@composite(
    "value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, bool "
    "keepdim) -> Tensor",
    api=INTERNAL,
)
def value_selecting_reduction_backward(
    grad: Tensor, dim: int, indices: Tensor, sizes: Sequence[int], keepdim: bool
) -> Tensor:
    """The gradient of a reduction that chose the elements at `indices` (max, median, kthvalue, topk)."""
    if not keepdim and len(sizes):
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return grad.new_zeros(sizes).scatter(dim, indices, grad)


@composite("masked_select_backward(Tensor grad, Tensor input, Tensor mask) -> Tensor", api=INTERNAL)
def masked_select_backward(grad: Tensor, input: Tensor, mask: Tensor) -> Tensor:
    """In the shape that input and mask broadcast to."""
    shape = broadcast_shapes(input.shape, mask.shape)
    return grad.new_zeros(shape).masked_scatter(mask, grad)


@composite("masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor", api=INTERNAL)
def masked_scatter_backward(grad_output: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    """The elements under the mask, in order, then zeros: one element per element of the source.

    Shapes stay independent of the mask's values: what is not under it goes to one place past the end.
    """
    count = numel(sizes)
    flat = mask.expand(grad_output.shape).reshape(-1)
    last = flat.new_full((), count, dtype=DTYPES["int64"])
    places = run_name("where.self", flat, flat.cumsum(0) - 1, last)
    gathered = grad_output.new_zeros((count + 1,)).scatter(0, places, grad_output.reshape(-1))
    return gathered.narrow(0, 0, count).reshape(sizes)

"""Indexing, scattering and padding in terms of index, index_put and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.registry import decomposition
from ..core.shapes import wrap_dim
from ..core.tensor import Tensor
from .creation_basic import counted

NONE, MEAN, SUM = 0, 1, 2  # how a loss is reduced


def at(dim: int, index: Tensor) -> tuple[Tensor | None, ...]:
    """Indices that take `index` along `dim` and everything along the dimensions before it."""
    return (*[None] * dim, index)


def picked(self: Tensor, dim: int, index: Tensor) -> Tensor:
    found: Tensor = run_name("index.Tensor", self, at(wrap_dim(dim, self.ndim), index))
    return found


def put(self: Tensor, dim: int, index: Tensor, values: Tensor, accumulate: bool = False) -> Tensor:
    """`self` with `values` at `index` along `dim`; a tensor without dimensions counts as a row of one."""
    row = self.reshape((1,)) if self.ndim == 0 else self
    dim, index = wrap_dim(dim, row.ndim), index.reshape((-1,))
    if values.ndim == 0 and row.ndim == 1:
        values = values.expand((index.shape[0],))
    result: Tensor = run_name("index_put", row, at(dim, index), values, accumulate)
    return result.reshape(self.shape)


decomposition("_unsafe_index.Tensor")(lambda self, indices: run_name("index.Tensor", self, indices))
decomposition("_unsafe_index_put")(
    lambda self, indices, values, accumulate: run_name("index_put", self, indices, values, accumulate)
)
decomposition("take")(lambda self, index: run_name("index.Tensor", self.reshape((-1,)), (index,)))
decomposition("index_add")(
    lambda self, dim, index, source, alpha: put(
        self, dim, index, source if alpha == 1 else source * alpha, True
    )
)
decomposition("index_copy")(lambda self, dim, index, source: put(self, dim, index, source))
decomposition("index_fill.int_Tensor")(
    lambda self, dim, index, value: put(self, dim, index, value.to(self.dtype))
)
decomposition("index_fill.int_Scalar")(
    lambda self, dim, index, value: put(self, dim, index, self.new_full((), value))
)


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


# Embedding.

decomposition("embedding")(lambda weight, indices: run_name("index.Tensor", weight, (indices,)))


@decomposition("embedding_dense_backward")
def embedding_dense_backward(
    grad_output: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    rows = indices.reshape((-1,))
    grad = grad_output.to(grad_output.dtype.opmath).reshape((rows.shape[0], grad_output.shape[-1]))
    if scale_grad_by_freq:
        counts = put(grad.new_zeros((num_weights,)), 0, rows, grad.new_ones(rows.shape), True)
        grad = grad / picked(counts, 0, rows).unsqueeze(1)
    grad = grad.masked_fill((rows == padding_idx).unsqueeze(1), 0)
    total = put(grad.new_zeros((num_weights, grad.shape[1])), 0, rows, grad, True)
    return total.to(grad_output.dtype)


# The likelihood of classes: dimension 1, or the only one.


def class_weights(
    x: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """The target with some class in place of the ignored ones, and the weight of every place."""
    ignored = target == ignore_index
    classes = target.masked_fill(ignored, 0)
    found = x.new_ones(target.shape) if weight is None else picked(weight, 0, classes)
    return classes, found.masked_fill(ignored, 0)


@decomposition("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    dim = 1 if self.ndim > 1 else 0
    x = self.to(self.dtype.opmath)
    weight = None if weight is None else weight.to(x.dtype)
    if self.ndim == 1:
        target = target.reshape(())
    classes, weights = class_weights(x, target, weight, ignore_index)
    losses = -x.gather(dim, classes.unsqueeze(dim)).squeeze(dim) * weights
    total = weights.sum()
    if reduction == NONE:
        return losses.to(self.dtype), self.new_zeros(())
    result = losses.sum() / total if reduction == MEAN else losses.sum()
    return result.to(self.dtype), total.to(self.dtype)


@decomposition("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor:
    dim = 1 if self.ndim > 1 else 0
    if self.ndim == 1:
        target = target.reshape(())
    classes, weights = class_weights(self, target, weight, ignore_index)
    grad = grad_output / total_weight if reduction == MEAN else grad_output
    values = (-grad * weights).unsqueeze(dim).to(self.dtype)
    zeros = self.new_zeros(self.shape)
    scattered: Tensor = run_name("scatter.src", zeros, dim, classes.unsqueeze(dim), values)
    return scattered


# Padding: every place of the result reads one place of the input, along each of the last dimensions.


def reflected(places: Tensor, size: int) -> Tensor:
    return (size - 1) - ((size - 1) - places.abs()).abs()


def repeated(places: Tensor, size: int) -> Tensor:
    return places.clamp(0, size - 1)


def sources(
    self: Tensor, padding: Sequence[int], place: Callable[[Tensor, int], Tensor]
) -> list[tuple[int, Tensor]]:
    """For each padded dimension, which place of the input each place of the result is."""
    found = []
    for i in range(len(padding) // 2):
        dim, (before, after) = self.ndim - 1 - i, padding[2 * i : 2 * i + 2]
        size = self.shape[dim]
        found.append((dim, place(counted(before + size + after, self.device) - before, size)))
    return found


def padded(self: Tensor, padding: Sequence[int], place: Callable[[Tensor, int], Tensor]) -> Tensor:
    result = self
    for dim, index in sources(self, padding, place):
        result = picked(result, dim, index)
    return result


def padded_backward(
    grad_output: Tensor, self: Tensor, padding: Sequence[int], place: Callable[[Tensor, int], Tensor]
) -> Tensor:
    grad = grad_output.to(grad_output.dtype.opmath)
    for dim, index in sources(self, padding, place):
        shape = (*grad.shape[:dim], self.shape[dim], *grad.shape[dim + 1 :])
        grad = put(grad.new_zeros(shape), dim, index, grad, True)
    return grad.to(grad_output.dtype)


for _n in (1, 2, 3):
    decomposition(f"reflection_pad{_n}d")(lambda self, padding: padded(self, padding, reflected))
    decomposition(f"replication_pad{_n}d")(lambda self, padding: padded(self, padding, repeated))
    decomposition(f"reflection_pad{_n}d_backward")(
        lambda grad_output, self, padding: padded_backward(grad_output, self, padding, reflected)
    )
    decomposition(f"replication_pad{_n}d_backward")(
        lambda grad_output, self, padding: padded_backward(grad_output, self, padding, repeated)
    )


# Moving and writing along a dimension.


@decomposition("roll")
def roll(self: Tensor, shifts: Sequence[int], dims: Sequence[int]) -> Tensor:
    if self.numel() == 0:
        return self.clone()
    if not dims:
        return roll(self.reshape((-1,)), shifts, (0,)).reshape(self.shape)
    result = self.clone()
    for shift, dim in zip(shifts, dims, strict=True):
        size = self.shape[dim]
        result = picked(result, dim, (counted(size, self.device) - shift).remainder(size))
    return result


def along(mask: Tensor, dim: int, ndim: int) -> Tensor:
    """A row as a tensor of `ndim` dimensions that varies along `dim`."""
    return mask.reshape((-1, *[1] * (ndim - 1 - dim)))


@decomposition("select_scatter")
def select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    dim = wrap_dim(dim, self.ndim)
    size = self.shape[dim]
    chosen = along(counted(size, self.device) == index % size, dim, self.ndim)
    return src.to(self.dtype).unsqueeze(dim).where(chosen, self)


@decomposition("slice_scatter")
def slice_scatter(
    self: Tensor, src: Tensor, dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    dim = wrap_dim(dim, self.ndim)
    size = self.shape[dim]
    first, last, _ = slice(start, end, step).indices(size)
    places = counted(size, self.device) - first
    if last <= first:
        return self.clone()
    chosen = (places >= 0) & (places < last - first) & (places.remainder(step) == 0)
    length = (last - first + step - 1) // step
    source = picked(src.to(self.dtype), dim, places.floor_divide(step).clamp(0, length - 1))
    return source.where(along(chosen, dim, self.ndim), self)

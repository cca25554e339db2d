"""Adjoints of views, in terms of simpler operators.

A gradient is put where the view took its elements; there are zeros elsewhere.
"""

from __future__ import annotations

from ..core.data_sizes import from_end
from ..core.dispatch import run_name
from ..core.registry import INTERNAL, composite
from ..core.shapes import Shape, slice_bounds, wrap_dim
from ..core.tensor import Tensor


def padded(x: Tensor, dim: int, before: int, after: int) -> Tensor:
    """`x` with zeros around it along the wrapped `dim`."""
    pad = (0, 0) * (x.ndim - 1 - dim) + (before, after)
    return run_name("constant_pad_nd", x, pad, 0)


@composite(
    "select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor", api=INTERNAL
)
def select_backward(grad_output: Tensor, input_sizes: Shape, dim: int, index: int) -> Tensor:
    dim = wrap_dim(dim, len(input_sizes), name="select_backward")
    size = input_sizes[dim]
    first = from_end(index, size)
    return padded(grad_output.unsqueeze(dim), dim, first, size - 1 - first)


@composite(
    "slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, "
    "SymInt step) -> Tensor",
    api=INTERNAL,
)
def slice_backward(
    grad_output: Tensor, input_sizes: Shape, dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    dim = wrap_dim(dim, len(input_sizes), name="slice_backward")
    if step > 1:
        return grad_output.new_zeros(input_sizes).slice_scatter(grad_output, dim, start, end, step)
    first, _ = slice_bounds(start, end, input_sizes[dim])
    return padded(grad_output, dim, first, input_sizes[dim] - first - grad_output.shape[dim])


@composite(
    "diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor",
    api=INTERNAL,
)
def diagonal_backward(grad_output: Tensor, input_sizes: Shape, offset: int, dim1: int, dim2: int) -> Tensor:
    return grad_output.new_zeros(input_sizes).diagonal_scatter(grad_output, offset, dim1, dim2)


@composite(
    "unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor",
    api=INTERNAL,
)
def unfold_backward(grad_in: Tensor, input_sizes: Shape, dim: int, size: int, step: int) -> Tensor:
    """Windows may overlap: what they hold of one element adds up."""
    if not input_sizes:
        return grad_in.sum()
    dim = wrap_dim(dim, len(input_sizes), name="unfold_backward")
    windows = grad_in.shape[dim]
    first, within = (run_name("arange", count, None, None, grad_in.device, None) for count in (windows, size))
    taken = ((first * step).unsqueeze(1) + within).reshape((windows * size,))
    rows = grad_in.movedim(-1, dim + 1).reshape((*input_sizes[:dim], windows * size, *input_sizes[dim + 1 :]))
    return grad_in.new_zeros(input_sizes).index_add(dim, taken, rows)

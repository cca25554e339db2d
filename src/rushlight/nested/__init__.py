"""torch.nested: batches of tensors that differ in the size of one dimension, without padding.

Nested tensors have the jagged layout: rows are packed one after the other (core/nested.py). The older strided
layout of PyTorch, in which several dimensions may differ, is not implemented.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.construct import as_tensor, scalar_tensor
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, DType
from ..core.errors import check
from ..core.nested import (
    NestedTensor,
    Ragged,
    nest,
    ragged_of_offsets,
    ragged_of_sizes,
    read_integers,
)
from ..core.tensor import Tensor, wrap
from ..core.tokens import jagged, layout
from ..decompositions.nested import jagged_from_list
from . import _matmul, _pointwise, _reduction, _view  # noqa: F401  they declare the rules

__all__ = ["as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
           "to_padded_tensor"]


def _check_layout(wanted: Any, name: str) -> None:
    check(wanted is None or isinstance(wanted, layout), f"{name}(): layout must be rushlight.layout, not "
          f"{type(wanted).__name__}", TypeError)
    check(wanted is None or wanted.name in ("jagged", "strided"), f"Specified layout is unsupported for "
          f"nested tensors: {wanted}")
    check(wanted in (None, jagged), f"{name}(): the strided layout of nested tensors is not implemented; use "
          "layout=rushlight.jagged, in which one dimension is ragged", NotImplementedError)


def nested_tensor(tensor_list: Any, *, dtype: DType | None = None, layout: Any = None, device: Any = None,
                  requires_grad: bool = False, pin_memory: bool = False) -> Tensor:
    """A nested tensor of copies of the tensors, arrays or sequences in `tensor_list`; a leaf of autograd."""
    _check_layout(layout, "nested_tensor")
    check(isinstance(tensor_list, list | tuple), "nested_tensor(): expected a list of tensors, not "
          f"{type(tensor_list).__name__}", TypeError)
    rows = [row.detach() if isinstance(row, Tensor) else as_tensor(row, dtype=dtype, device=device)
            for row in tensor_list]
    made = jagged_from_list(rows, dtype, device)
    return nest(made._values.detach(), made._ragged, made._ragged_idx).requires_grad_(requires_grad)


def as_nested_tensor(ts: Any, dtype: DType | None = None, device: Any = None, layout: Any = None) -> Tensor:
    """A nested tensor of a list of tensors, or of the rows of a tensor; gradients flow to them."""
    several = isinstance(ts, list | tuple) and all(isinstance(t, Tensor) for t in ts)
    check(several or isinstance(ts, Tensor), "as_nested_tensor(): Expected first argument to be a tensor or "
          f"a list / tuple of tensors, not {type(ts).__name__}", TypeError)
    if isinstance(ts, NestedTensor):
        check(layout in (None, jagged), "as_nested_tensor(): Converting between nested tensor layouts is not "
              "supported")
        return ts.to(dtype=dtype, device=device)
    check(several or ts.ndim >= 2, "as_nested_tensor(): Expected tensor argument to have dim() > 1")
    _check_layout(layout, "as_nested_tensor")
    if several:
        return jagged_from_list(list(ts), dtype, device)
    values = ts.contiguous().flatten(0, 1).to(dtype=dtype, device=device)
    return nest(values, ragged_of_sizes([ts.shape[1]] * ts.shape[0]))


def nested_tensor_from_jagged(values: Tensor, offsets: Tensor | None = None, lengths: Tensor | None = None,
                              jagged_dim: int | None = None, min_seqlen: int | None = None,
                              max_seqlen: int | None = None) -> Tensor:
    """A view of `values` as rows: row i begins at offsets[i] and ends where the next begins, or after
    lengths[i]."""
    check(offsets is not None or lengths is not None, "nested_tensor_from_jagged(): At least one of offsets "
          "or lengths is required.")
    dim = 1 if jagged_dim is None else jagged_dim
    check(dim >= 1, f"Expected jagged_dim >=1, but got {jagged_dim}.", ValueError)
    check(dim <= values.ndim, f"nested_tensor_from_jagged(): jagged_dim {dim} is out of range for values of "
          f"{values.ndim} dimensions", IndexError)
    extent = values.shape[dim - 1]
    if offsets is None:
        assert lengths is not None
        ends = run_name("constant_pad_nd", lengths.cumsum(0), (1, 0), 0)
        return nest(values, ragged_of_offsets(ends, None, extent), dim)
    return nest(values, ragged_of_offsets(offsets, lengths, extent), dim)


def narrow(tensor: Tensor, dim: int, start: int | Tensor, length: int | Tensor,
           layout: Any = jagged) -> Tensor:
    """A view of a part of each row of `tensor`: `length` elements of dimension 1, from `start` on."""
    check(isinstance(start, int | Tensor), "start must be an integer or a tensor")
    check(isinstance(length, int | Tensor), "length must be an integer or a tensor")
    _check_layout(layout, "narrow")
    check(dim == 1, "jagged layout only supports dim=1")
    check(tensor.ndim >= 2, "tensor must at least be 2D for the nested narrow op to work", AssertionError)
    batch, size = tensor.shape[:2]
    starts, lengths = (_per_row(value, batch) for value in (start, length))
    first = read_integers(starts, "start")
    sizes = read_integers(lengths, "length")
    check(bool(((first >= 0) & (sizes >= 0) & (first + sizes <= size)).all()), "narrow(): start and length "
          f"go beyond the size {size} of dimension 1: start is {first.tolist()}, length {sizes.tolist()}")
    values = tensor.view((-1, *tensor.shape[2:]))
    begins = first + size * np.arange(batch)
    if bool((begins[1:] == (begins + sizes)[:-1]).all()):  # the rows follow each other
        begin = int(begins[0]) if batch else 0
        return nest(values[begin:begin + int(sizes.sum())], ragged_of_sizes(sizes))
    offsets = np.concatenate([begins, begins[-1:] + sizes[-1:]])
    return nest(values, Ragged(wrap(offsets), lengths, begins, sizes))


def _per_row(value: int | Tensor, batch: int) -> Tensor:
    tensor = value if isinstance(value, Tensor) else scalar_tensor(value, DTYPES["int64"]).reshape(1)
    check(tensor.ndim <= 1 and tensor.numel() in (1, batch), "When constructing a jagged nested tensor using "
          "narrow(), your start and length must be Tensors that broadcast to input.shape[0]")
    return tensor.expand((batch,))


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """The elements of `tensor` that `mask` selects, as one row for each row of `tensor`."""
    for name, given in (("tensor", tensor), ("mask", mask)):
        check(given.layout.name == "strided", f"rushlight.nested.masked_select requires a strided {name}, "
              f"given {given.layout}")
    values = tensor.masked_select(mask)
    counts = mask.expand(tuple(tensor.shape)).sum(tensor.ndim - 1).reshape(-1)
    return nest(values, ragged_of_sizes(read_integers(counts, "mask")))


def to_padded_tensor(input: Tensor, padding: float, output_size: Any = None) -> Tensor:
    """The rows of a nested tensor filled up with `padding` to the length of the longest."""
    sizes = None if output_size is None else tuple(output_size)
    found: Tensor = run_name("to_padded_tensor", input, padding, sizes)
    return found

"""Reductions of sparse tensors. The elements that a mask selects count, those not stored as zeros."""

from __future__ import annotations

import numpy as np

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, DType
from ..core.errors import check
from ..core.shapes import Shape
from ..core.sparse import Coo, make_sparse
from ..core.tensor import Tensor
from ..core.tokens import sparse_coo, sparse_csr
from ..kernels.sparse import flat, index_tensor, is_sparse, settled
from ..kernels.sparse_conversion import convert
from ..kernels.sparse_pointwise import coo

REDUCED = ("sum", "prod", "amax", "amin", "mean")


def reduced(
    name: str, input: Tensor, dims: Shape, keepdim: bool, dtype: DType, mask: Tensor | None
) -> Tensor:
    """One of REDUCED over `dims`, in the layout of `input`; results of no selected element are not there."""
    check(
        input.layout in (sparse_coo, sparse_csr),
        f"masked.{name} expects a strided, sparse_coo or sparse_csr tensor, got {input.layout}",
        ValueError,
    )
    check(
        mask is not None or name == "sum",
        f"masked.{name}: whether elements that are not stored count is for a mask to say; pass mask=",
        ValueError,
    )
    check(
        keepdim or input.layout is sparse_coo,
        f"masked.{name} of a sparse_csr tensor needs keepdim=True: the result is a matrix, too",
    )
    if mask is None:
        total = input.sum(dims, keepdim, dtype=dtype)
        return total if is_sparse(total) else total.to_sparse(layout=input.layout)
    found = _grouped(name, input, _places(mask, tuple(input.shape)), dims, keepdim, dtype)
    return found if input.layout is sparse_coo else convert(found, input.layout, None, None)


def _places(mask: Tensor, shape: Shape) -> Tensor:
    """A tensor with an element wherever the mask is true."""
    chosen = mask.detach().to(DTYPES["bool"])
    if is_sparse(chosen):
        check(
            tuple(mask.shape) == shape,
            f"masked: a sparse mask must have the shape of the input, {list(shape)}, not {list(mask.shape)}",
        )
    else:
        chosen = chosen.broadcast_to(shape)
    parts: Coo = settled(convert(chosen, sparse_coo, None, None))._parts
    if parts.dense_dim:
        return _places(run_name("_to_dense", chosen, None, None), shape)
    true = parts.values.numpy_array()
    indices = index_tensor(parts.indices.numpy_array()[:, true])
    return make_sparse(Coo(indices, parts.values[parts.values], True), shape)


def _grouped(name: str, input: Tensor, places: Tensor, dims: Shape, keepdim: bool, dtype: DType) -> Tensor:
    """The reduction of the values of `input` at `places`."""
    values = run_name("_sparse_take", input, places).to(dtype)
    indices = places._parts.indices.numpy_array().copy()
    indices[list(dims)] = 0
    sizes = [1 if d in dims else n for d, n in enumerate(input.shape)]
    numbers, group = np.unique(flat(indices, sizes), return_inverse=True)
    kept = np.stack(np.unravel_index(numbers, sizes)) if sizes else np.zeros((0, len(numbers)))
    left = [d for d in range(len(sizes)) if keepdim or d not in dims]
    which = index_tensor(group.reshape(-1))
    blank = values.new_zeros((len(numbers),))
    if name in ("sum", "mean"):
        total = blank.index_add(0, which, values)
    else:
        total = run_name("index_reduce", blank, 0, which, values, name, False)
    if name == "mean":
        total = total / index_tensor(np.bincount(group.reshape(-1), minlength=len(numbers)))
    return coo(index_tensor(kept[left]), total, places, [sizes[d] for d in left], True)

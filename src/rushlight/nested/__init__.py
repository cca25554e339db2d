"""torch.nested: batches of tensors of different sizes, without padding.

Rows of the jagged layout differ in one dimension, along which they are packed (core/nested.py); those of the
older strided layout in any, and there are fewer operators (core/nested_strided.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.construct import as_tensor, scalar_tensor
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, DType
from ..core.errors import check
from ..core.nested import Ragged, nest, ragged_of_offsets, ragged_of_sizes, read_integers
from ..core.nested_base import NestedBase
from ..core.nested_strided import Rows, strided_nest
from ..core.tensor import Tensor, wrap
from ..core.tokens import jagged, layout, strided
from ..decompositions.nested import jagged_from_list, strided_from_list
from . import _matmul, _pointwise, _reduction, _strided, _strided_view, _view  # noqa: F401  they declare the rules

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def _layout(wanted: Any, name: str) -> Any:
    """The layout asked for; the strided one if none is."""
    check(
        wanted is None or isinstance(wanted, layout),
        f"{name}(): layout must be rushlight.layout, not {type(wanted).__name__}",
        TypeError,
    )
    check(wanted in (None, jagged, strided), f"Specified layout is unsupported for nested tensors: {wanted}")
    return wanted or strided


def nested_tensor(
    tensor_list: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A nested tensor of copies of the tensors, arrays or sequences in `tensor_list`; a leaf of autograd.

    >>> rl.nested.nested_tensor([rl.ones(1), rl.ones(2)]).unbind()
    (tensor([1.]), tensor([1., 1.]))
    """
    wanted = _layout(layout, "nested_tensor")
    check(
        isinstance(tensor_list, list | tuple),
        "nested_tensor(): Expected a list of tensors, not "
        f"{type(tensor_list).__name__}; argument 'tensor_list' must be a list",
        TypeError,
    )
    rows = [
        row.detach() if isinstance(row, Tensor) else as_tensor(row, dtype=dtype, device=device)
        for row in tensor_list
    ]
    made = (strided_from_list if wanted is strided else jagged_from_list)(rows, dtype, device)
    return made.like(made._values.detach())._set_requires_grad(requires_grad)


def as_nested_tensor(ts: Any, dtype: DType | None = None, device: Any = None, layout: Any = None) -> Tensor:
    """A nested tensor of a list of tensors, or of the rows of a tensor; gradients flow to them.

    >>> rl.nested.as_nested_tensor([rl.ones(1), rl.ones(2)]).is_nested
    True
    """
    several = isinstance(ts, list | tuple) and all(isinstance(t, Tensor) for t in ts)
    check(
        several or isinstance(ts, Tensor),
        "as_nested_tensor(): Expected first argument to be a tensor or "
        f"a list / tuple of tensors, not {type(ts).__name__}",
        TypeError,
    )
    check(several or ts.ndim >= 2, "as_nested_tensor(): Expected tensor argument to have dim() > 1")
    if isinstance(ts, NestedBase):
        check(
            layout == ts.layout,
            "as_nested_tensor(): Converting between nested tensor layouts is not supported",
        )
        return ts.to(dtype=dtype, device=device)
    wanted = _layout(layout, "as_nested_tensor")
    if several:
        return (strided_from_list if wanted is strided else jagged_from_list)(list(ts), dtype, device)
    dense = ts.contiguous()
    if wanted is jagged:
        values = dense.flatten(0, 1).to(dtype=dtype, device=device)
        return nest(values, ragged_of_sizes([ts.shape[1]] * ts.shape[0]))
    rows = Rows([tuple(ts.shape[1:])] * ts.shape[0], dims=ts.ndim - 1)
    return strided_nest(dense.view(-1).to(dtype=dtype, device=device), rows)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """A view of `values` as rows: row i begins at offsets[i] and ends where the next begins, or after
    lengths[i].

    >>> rl.nested.nested_tensor_from_jagged(rl.arange(3.0), rl.tensor([0, 1, 3])).unbind()
    (tensor([0.]), tensor([1., 2.]))
    """
    check(
        offsets is not None or lengths is not None,
        "nested_tensor_from_jagged(): At least one of offsets or lengths is required.",
    )
    dim = 1 if jagged_dim is None else jagged_dim
    check(dim >= 1, f"Expected jagged_dim >=1, but got {jagged_dim}.", ValueError)
    check(
        dim <= values.ndim,
        f"nested_tensor_from_jagged(): jagged_dim {dim} is out of range for values of "
        f"{values.ndim} dimensions",
        IndexError,
    )
    extent = values.shape[dim - 1]
    if offsets is None:
        assert lengths is not None
        ends = run_name("constant_pad_nd", lengths.cumsum(0), (1, 0), 0)
        return nest(values, ragged_of_offsets(ends, None, extent), dim)
    return nest(values, ragged_of_offsets(offsets, lengths, extent), dim)


def narrow(
    tensor: Tensor, dim: int, start: int | Tensor, length: int | Tensor, layout: Any = strided
) -> Tensor:
    """A part of each row of `tensor`: `length` elements of dimension 1, from `start` on; a view if the layout
    is jagged. With the strided layout some of the rows, dimension 0.

    >>> x = rl.arange(6).reshape(2, 3)
    >>> rl.nested.narrow(x, 1, 0, rl.tensor([1, 2]), layout=rl.jagged).is_nested
    True
    """
    check(isinstance(start, int | Tensor), "start must be an integer or a tensor")
    check(isinstance(length, int | Tensor), "length must be an integer or a tensor")
    if _layout(layout, "narrow") is strided:
        if not isinstance(start, int) or not isinstance(length, int):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return strided_from_list([*tensor.unbind()]).narrow(dim, start, length)
    check(dim == 1, "jagged layout only supports dim=1")
    check(tensor.ndim >= 2, "tensor must at least be 2D for the nested narrow op to work", AssertionError)
    batch, size = tensor.shape[:2]
    starts, lengths = (_per_row(value, batch) for value in (start, length))
    first = read_integers(starts, "start")
    sizes = read_integers(lengths, "length")
    check(
        bool(((first >= 0) & (sizes >= 0) & (first + sizes <= size)).all()),
        "narrow(): start and length "
        f"go beyond the size {size} of dimension 1: start is {first.tolist()}, length {sizes.tolist()}",
    )
    values = tensor.view((-1, *tensor.shape[2:]))
    begins = first + size * np.arange(batch)
    if bool((begins[1:] == (begins + sizes)[:-1]).all()):  # the rows follow each other
        begin = int(begins[0]) if batch else 0
        return nest(values[begin : begin + int(sizes.sum())], ragged_of_sizes(sizes))
    offsets = np.concatenate([begins, begins[-1:] + sizes[-1:]])
    return nest(values, Ragged(wrap(offsets), lengths, begins, sizes))


def _per_row(value: int | Tensor, batch: int) -> Tensor:
    tensor = value if isinstance(value, Tensor) else scalar_tensor(value, DTYPES["int64"]).reshape(1)
    check(
        tensor.ndim <= 1 and tensor.numel() in (1, batch),
        "When constructing a jagged nested tensor using "
        "narrow(), your start and length must be Tensors that broadcast to input.shape[0]",
    )
    return tensor.expand((batch,))


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """The elements of `tensor` that `mask` selects, as one row for each row of `tensor`.

    >>> mask = rl.tensor([[True, False], [True, True]])
    >>> rl.nested.masked_select(rl.tensor([[1, 2], [3, 4]]), mask).values()
    tensor([1, 3, 4])
    """
    for name, given in (("tensor", tensor), ("mask", mask)):
        check(
            given.layout.name == "strided",
            f"rushlight.nested.masked_select requires a strided {name}, given {given.layout}",
        )
    values = tensor.masked_select(mask)
    counts = mask.expand(tuple(tensor.shape)).sum(tensor.ndim - 1).reshape(-1)
    return nest(values, ragged_of_sizes(read_integers(counts, "mask")))


def to_padded_tensor(input: Tensor, padding: float, output_size: Any = None) -> Tensor:
    """The rows of a nested tensor filled up with `padding` to the length of the longest.

    >>> rl.nested.to_padded_tensor(rl.nested.nested_tensor([rl.ones(1), rl.ones(2)]), 0.0)
    tensor([[1., 0.],
            [1., 1.]])
    """
    sizes = None if output_size is None else tuple(output_size)
    found: Tensor = run_name("to_padded_tensor", input, padding, sizes)
    return found

"""Constructors of sparse tensors."""

from __future__ import annotations

from typing import Any

from ..core.construct import as_tensor
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, DType
from ..core.errors import check
from ..core.shapes import Shape
from ..core.sparse import BLOCKED, BY_ROWS, COMPRESSED
from ..core.tensor import Tensor
from ..core.tokens import layout as Layout
from ..core.tokens import place, sparse_bsc, sparse_bsr, sparse_csc, sparse_csr
from ._invariants import check_compressed, check_coo, check_sparse_tensor_invariants

_INTEGERS = ("int64", "int32", "int16", "int8", "uint8")


def _checks(check_invariants: bool | None) -> bool:
    return check_sparse_tensor_invariants.is_enabled() if check_invariants is None else check_invariants


def _on_cpu(device: Any) -> None:
    check(
        device is None or place(device).type == "cpu",
        "there are no sparse tensors on the meta device",
        NotImplementedError,
    )


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """A tensor of coordinates: `values[i]` at `indices[:, i]`; values of the same coordinates add up.

    With a size alone, a tensor without elements. Gradients flow to `values`.

    >>> rl.sparse_coo_tensor([[0, 1], [1, 0]], [3.0, 4.0], (2, 2)).to_dense()
    tensor([[0., 3.],
            [4., 0.]])
    """
    _on_cpu(device)
    check(
        indices is not None or (size is not None and values is None),
        "sparse_coo_tensor(): takes indices and values, or a size",
        TypeError,
    )
    if values is None:
        sizes = tuple(indices if size is None else size)
        return _finish(
            run_name("_sparse_coo_tensor_with_dims", len(sizes), 0, sizes, dtype, None, None, None),
            requires_grad,
        )
    places = as_tensor(indices)
    if places.dtype.name not in _INTEGERS:
        places = places.to(DTYPES["int64"])
    given = as_tensor(values) if not isinstance(values, Tensor) else values
    given = given.unsqueeze(0) if given.ndim == 0 else given
    if dtype is not None and given.dtype is not dtype:
        given = given.to(dtype)
    check(places.ndim == 2, f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    shape = _coo_size(places, given) if size is None else tuple(int(n) for n in size)
    if _checks(check_invariants):
        check_coo(places, given, shape, is_coalesced)
    # The members are copies of nothing: as in PyTorch the tensor shares the memory of its arguments.
    result = run_name(
        "_sparse_coo_tensor_with_dims_and_tensors",
        places.shape[0],
        len(shape) - places.shape[0],
        shape,
        places,
        given,
        None,
        None,
        None,
        None,
        is_coalesced,
    )
    return _finish(result, requires_grad)


def _coo_size(indices: Tensor, values: Tensor) -> Shape:
    """The least size that has room for all indices."""
    places = indices.numpy_array()
    if places.shape[1] == 0:
        check(places.shape[0] == 0 or places.size == 0, "cannot infer a size")
        return (*(0,) * places.shape[0], *values.shape[1:])
    check(int(places.min(initial=0)) >= 0, f"found negative index {int(places.min(initial=0))}")
    return (*(int(n) + 1 for n in places.max(axis=1)), *values.shape[1:])


def _finish(tensor: Tensor, requires_grad: bool) -> Tensor:
    return tensor.detach()._set_requires_grad() if requires_grad else tensor


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A tensor of a compressed layout: sparse_csr, sparse_csc, sparse_bsr or sparse_bsc.

    >>> rl.sparse_compressed_tensor([0, 1, 2], [0, 1], [1.0, 2.0], layout=rl.sparse_csr).to_dense()
    tensor([[1., 0.],
            [0., 2.]])
    """
    _on_cpu(device)
    check(layout in COMPRESSED, f"expected a compressed sparse layout, but got {layout}")
    assert layout is not None
    compressed, plain = as_tensor(compressed_indices), as_tensor(plain_indices)
    given = values if isinstance(values, Tensor) else as_tensor(values)
    if dtype is not None and given.dtype is not dtype:
        given = given.to(dtype)
    for indices in (compressed, plain):
        check(
            indices.dtype.name in _INTEGERS,
            f"{layout.name}: indices must be integers, got {indices.dtype.name}",
        )
    shape = (
        _compressed_size(compressed, plain, given, layout) if size is None else tuple(int(n) for n in size)
    )
    if _checks(check_invariants):
        check_compressed(compressed, plain, given, shape, layout)
    return _finish(
        run_name(
            "sparse_compressed_tensor.comp_plain_value_size",
            compressed,
            plain,
            given,
            shape,
            None,
            layout,
            None,
            None,
        ),
        requires_grad,
    )


def _compressed_size(compressed: Tensor, plain: Tensor, values: Tensor, layout: Layout) -> Shape:
    batch = compressed.ndim - 1
    high, wide = tuple(values.shape[batch + 1 : batch + 3]) if layout in BLOCKED else (1, 1)
    lines = compressed.shape[-1] - 1
    places = plain.numpy_array()
    across = int(places.max()) + 1 if places.size else 0
    rows, columns = (lines * high, across * wide) if layout in BY_ROWS else (across * high, lines * wide)
    dense = values.shape[batch + (3 if layout in BLOCKED else 1) :]
    return (*compressed.shape[:-1], rows, columns, *dense)


def _of_layout(name: str, layout: Layout) -> Any:
    def construct(
        compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, **options: Any
    ) -> Tensor:
        given = options.pop("layout", layout)
        check(given is layout, f"{name}: the layout is {layout.name}, got {given}")
        return sparse_compressed_tensor(
            compressed_indices, plain_indices, values, size, layout=layout, **options
        )

    construct.__name__ = construct.__qualname__ = name
    values = "[[[1.0]]]" if "_bs" in layout.name else "[1.0]"
    construct.__doc__ = (
        f"A tensor of layout {layout.name}; see `sparse_compressed_tensor`.\n\n"
        f">>> rl.{name}([0, 1], [0], {values}, size=(1, 1)).to_dense()\ntensor([[1.]])\n"
    )
    return construct


def _by_names(function: Any, first: str, second: str) -> Any:
    """`function` with its first two arguments called as in PyTorch."""

    def construct(*args: Any, **kwargs: Any) -> Tensor:
        for public, own in ((first, "compressed_indices"), (second, "plain_indices")):
            if public in kwargs:
                kwargs[own] = kwargs.pop(public)
        made: Tensor = function(*args, **kwargs)
        return made

    construct.__name__ = construct.__qualname__ = function.__name__
    construct.__doc__ = function.__doc__
    return construct


_NAMES = {
    sparse_csr: ("crow_indices", "col_indices"),
    sparse_bsr: ("crow_indices", "col_indices"),
    sparse_csc: ("ccol_indices", "row_indices"),
    sparse_bsc: ("ccol_indices", "row_indices"),
}
sparse_csr_tensor, sparse_csc_tensor, sparse_bsr_tensor, sparse_bsc_tensor = (
    _by_names(_of_layout(f"{_layout.name}_tensor", _layout), *_NAMES[_layout])
    for _layout in (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
)

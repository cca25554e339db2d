"""What must hold of the members of a sparse tensor, and whether constructors check it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.errors import check
from ..core.shapes import Shape
from ..core.sparse import BLOCKED, BY_ROWS
from ..core.tensor import Tensor
from ..core.tokens import layout as Layout


class _State:
    enabled = False


class check_sparse_tensor_invariants:
    """Whether constructors of sparse tensors check their arguments: a context manager and a decorator, or set
    for good with `enable()` and `disable()`.

    >>> with rl.sparse.check_sparse_tensor_invariants():
    ...     rl.sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        return _State.enabled

    @staticmethod
    def enable() -> None:
        _State.enabled = True

    @staticmethod
    def disable() -> None:
        _State.enabled = False

    def __enter__(self) -> None:
        check(
            self.saved is None,
            "This context manager instance is already activated. Use a different context "
            "manager instance for context nesting",
        )
        self.saved, _State.enabled = _State.enabled, self.state

    def __exit__(self, *exception: object) -> None:
        assert self.saved is not None
        _State.enabled, self.saved = self.saved, None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked


def check_coo(indices: Tensor, values: Tensor, size: Shape, is_coalesced: bool | None) -> None:
    """Refuse coordinates outside of `size`, and duplicates of what is said to be coalesced."""
    check(indices.ndim == 2, f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    places = indices.numpy_array()
    if places.size == 0:
        return
    low, high = places.min(axis=1), places.max(axis=1)
    check(bool((low >= 0).all()), f"found negative index {int(low.min())} for dim {int(low.argmin())}")
    for dim, extent in enumerate(size[: len(places)]):
        check(
            int(high[dim]) < extent,
            f"size is inconsistent with indices: for dim {dim}, size is {extent} but "
            f"found index {int(high[dim])}",
        )
    if is_coalesced:
        numbers = np.ravel_multi_index(tuple(places), size[: len(places)])
        check(
            len(np.unique(numbers)) == len(numbers),
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor",
        )


def check_compressed(compressed: Tensor, plain: Tensor, values: Tensor, size: Shape, layout: Layout) -> None:
    """Refuse members that are no tensor of `layout` and `size`."""
    name = layout.name
    check(
        compressed.dtype is plain.dtype and compressed.dtype.name in ("int32", "int64"),
        f"{name}: both index "
        f"tensors must be int32 or int64, got {compressed.dtype.name} and {plain.dtype.name}",
    )
    check(
        compressed.ndim >= 1 and compressed.ndim == plain.ndim,
        f"{name}: compressed_indices and "
        f"plain_indices must have as many dimensions, got {compressed.ndim} and {plain.ndim}",
    )
    batch = compressed.ndim - 1
    block = tuple(values.shape[batch + 1 : batch + 3]) if layout in BLOCKED else (1, 1)
    _check_dimensions((compressed, plain, values), size, layout)
    lengths = (size[batch], size[batch + 1])
    check(
        all(b > 0 and n % b == 0 for n, b in zip(lengths, block, strict=True)),
        f"{name}: sizes {list(lengths)} must be divisible by the block size {list(block)}",
    )
    lines, across = (n // b for n, b in zip(lengths, block, strict=True))
    lines, across = (lines, across) if layout in BY_ROWS else (across, lines)
    check(
        compressed.shape[-1] == lines + 1,
        f"{name}: compressed_indices must have {lines + 1} elements, got {compressed.shape[-1]}",
    )
    number = plain.shape[-1]
    check(
        values.shape[batch] == number,
        f"{name}: there are {number} plain indices and {values.shape[batch]} values",
    )
    _check_indices(compressed.numpy_array(), plain.numpy_array(), across)


def _check_dimensions(members: tuple[Tensor, Tensor, Tensor], size: Shape, layout: Layout) -> None:
    """Refuse members whose dimensions are not those of `size`."""
    compressed, plain, values = members
    name, batch = layout.name, compressed.ndim - 1
    check(
        values.ndim >= batch + (3 if layout in BLOCKED else 1),
        f"{name}: values have too few dimensions, {values.ndim}",
    )
    check(
        len(size) == values.ndim - batch - (3 if layout in BLOCKED else 1) + batch + 2,
        f"{name}: the size {list(size)} does not match the dimensions of values, {list(values.shape)}",
    )
    same = (
        tuple(size[:batch])
        == tuple(compressed.shape[:-1])
        == tuple(plain.shape[:-1])
        == tuple(values.shape[:batch])
    )
    check(same, f"{name}: all members must have the batch dimensions of the size, {list(size[:batch])}")


def _check_indices(starts: np.ndarray, places: np.ndarray, across: int) -> None:
    """Refuse indices that do not cut all elements into lines, or places in a line that are not below `across`,
    in order and distinct."""
    number = places.shape[-1]
    check(bool((starts[..., 0] == 0).all()), "`compressed_indices[..., 0] == 0` is not satisfied.")
    check(bool((starts[..., -1] == number).all()), "`compressed_indices[..., -1] == nnz` is not satisfied.")
    steps = np.diff(starts, axis=-1)
    check(
        bool(((steps >= 0) & (steps <= across)).all()),
        "`0 <= compressed_indices[..., 1:] - compressed_indices[..., :-1] <= plain_dim` is not satisfied.",
    )
    check(
        places.size == 0 or bool((places >= 0).all() and (places < across).all()),
        "`0 <= plain_indices < plain_dim` is not satisfied.",
    )
    rising = np.diff(places, axis=-1) > 0
    inner = np.ones(rising.shape, bool)
    for place in np.ndindex(*starts.shape[:-1]):
        ends = starts[place][1:-1]
        inner[place][ends[(ends > 0) & (ends < number)] - 1] = False
    check(
        bool((rising | ~inner).all()),
        "`plain_indices[..., compressed_indices[..., i - 1]:"
        "compressed_indices[..., i]] for all i = 1, ..., compressed_dim are sorted and distinct along the "
        "last dimension values` is not satisfied.",
    )

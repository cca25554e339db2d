"""Public shape functions whose Python signature is not that of one ATen operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import shapes
from ..core.construct import tensor as constant
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check, warn_once
from ..core.tensor import AUTOGRAD, Tensor, tensor_method
from ..core.tokens import Size

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "detach_",
    "meshgrid",
    "split",
    "unravel_index",
]


def _tensors(tensors: tuple[Any, ...], name: str) -> tuple[Tensor, ...]:
    """The tensors of `name(a, b)` or of `name([a, b])`."""
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    for position, tensor in enumerate(tensors):
        check(
            isinstance(tensor, Tensor),
            f"{name}(): expected Tensor as element {position}, but got {type(tensor).__name__}",
            TypeError,
        )
    return tensors


def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of `tensor` along `dim`: of one size (the last may be smaller), or of the sizes listed.

    >>> rl.split(rl.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    return tensor.split(split_size_or_sections, dim)


def _atleast(count: int, tensors: tuple[Any, ...]) -> Any:
    name = f"atleast_{count}d"
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return run_name(name, tensors[0])
    return run_name(f"{name}.Sequence", _tensors(tensors, name))


def atleast_1d(*tensors: Any) -> Any:
    """Each tensor as a view with at least one dimension.

    >>> rl.atleast_1d(rl.tensor(1.0))
    tensor([1.])
    """
    return _atleast(1, tensors)


def atleast_2d(*tensors: Any) -> Any:
    """Each tensor as a view with at least two dimensions.

    >>> rl.atleast_2d(rl.tensor([1.0, 2.0]))
    tensor([[1., 2.]])
    """
    return _atleast(2, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """Each tensor as a view with at least three dimensions.

    >>> rl.atleast_3d(rl.tensor([1.0, 2.0])).shape
    rushlight.Size([1, 2, 1])
    """
    return _atleast(3, tensors)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors as views of their common broadcast shape.

    >>> a, b = rl.broadcast_tensors(rl.ones(2, 1), rl.ones(3))
    >>> a.shape
    rushlight.Size([2, 3])
    """
    given = _tensors(tensors, "broadcast_tensors")
    return run_name("broadcast_tensors", given)


def broadcast_shapes(*given: Any) -> Size:
    """The shape that tensors of these shapes (sequences of sizes, or single sizes) broadcast to.

    >>> rl.broadcast_shapes((2, 1), (3,))
    rushlight.Size([2, 3])
    """
    listed = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in given]
    for shape in listed:
        check(
            all(size >= 0 for size in shape),
            f"broadcast_shapes: sizes must not be negative, got {shape}",
            ValueError,
        )
    return Size(shapes.broadcast_shapes(*listed, name="broadcast_shapes"))


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids of the given axes, as views; `indexing` is "ij" (the default) or "xy".

    >>> rl.meshgrid(rl.tensor([1, 2]), rl.tensor([3, 4]), indexing="ij")
    (tensor([[1, 1],
            [2, 2]]), tensor([[3, 4],
            [3, 4]]))
    """
    axes = _tensors(tensors, "meshgrid")
    if indexing is None:
        warn_once("meshgrid: it will be required to pass the indexing argument; indexing is 'ij' here", 2)
        indexing = "ij"
    return run_name("meshgrid.indexing", axes, indexing)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element of each 1-D tensor, one per row.

    >>> rl.cartesian_prod(rl.tensor([1, 2]), rl.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    return run_name("cartesian_prod", _tensors(tensors, "cartesian_prod"))


def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the given ones on its diagonal and zeros elsewhere.

    >>> rl.block_diag(rl.tensor([[1]]), rl.tensor([[2, 3]]))
    tensor([[1, 0, 0],
            [0, 2, 3]])
    """
    return run_name("block_diag", tensors)


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """The coordinates, one tensor per dimension of `shape`, of flat indices into a tensor of that shape.

    >>> rl.unravel_index(rl.tensor([5]), (2, 3))
    (tensor([1]), tensor([2]))
    """
    check(
        not (indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype.name == "bool"),
        f"expected 'indices' to be integer dtype, but got {indices.dtype.name}",
        TypeError,
    )
    check(
        isinstance(shape, int | Sequence),
        f"expected 'shape' to be int or sequence of ints, but got {type(shape)}",
        TypeError,
    )
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for size in sizes:
        check(
            isinstance(size, int),
            f"expected 'shape' sequence to only contain ints, but got {type(size)}",
            TypeError,
        )
        check(size >= 0, f"'shape' cannot have negative values, but got {sizes}", ValueError)
    steps = [shapes.numel(sizes[i + 1 :]) for i in range(len(sizes))]
    flat = indices.unsqueeze(-1)
    coordinates = flat.floor_divide(_row(steps, indices)) % _row(sizes, indices)
    return coordinates.unbind(-1)


def _row(values: Sequence[int], like: Tensor) -> Tensor:
    return constant(list(values), dtype=DTYPES["int64"], device=like.device)


@tensor_method
def detach_(self: Tensor) -> Tensor:
    """Forget the history of this tensor, in place.

    >>> x = rl.ones(2, requires_grad=True) * 2
    >>> rl.detach_(x).requires_grad
    False
    """
    check(self._base is None, "Can't detach views in-place. Use detach() instead.")
    self._node, self._output_nr, self._requires_grad = None, 0, False
    self._tangents, self._own_levels = None, frozenset()
    self._keys &= ~AUTOGRAD
    return self

"""Functions whose Python signature is richer than that of any operator: einsum, tensordot, cdist, ...

They turn what a user may write into the arguments of the operator of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any

from ._api.indexing import unique, unique_consecutive  # noqa: F401  also functions of this module in PyTorch
from ._api.link import istft, stft  # noqa: F401
from ._api.reduction import norm  # noqa: F401  also functions of this module in PyTorch
from ._api.shape import (  # noqa: F401  also functions of this module in PyTorch
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_shapes,
    broadcast_tensors,
    cartesian_prod,
    meshgrid,
    split,
    unravel_index,
)
from .core.dispatch import call
from .core.errors import check, fail
from .core.generator import Generator
from .core.mutation import call_inplace
from .core.out_calls import call_out
from .core.registry import REGISTRY
from .core.tensor import Tensor, tensor_method
from .decompositions.matmul_einsum import LETTERS

__all__ = ["cdist", "chain_matmul", "einsum", "tensordot"]

_CDIST_MODES = {
    "use_mm_for_euclid_dist_if_necessary": 0,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}


def einsum(*args: Any) -> Tensor:
    """Sum of products: einsum("ij,jk->ik", a, b), or with sublists einsum(a, [0, 1], b, [1, 2], [0, 2]).

    >>> rl.einsum("ij,jk->ik", rl.ones(2, 3), rl.ones(3, 1))
    tensor([[3.],
            [3.]])
    """
    check(
        len(args) >= 2,
        "einsum: give the equation string and at least one operand, or at least one "
        "operand and its subscripts list",
        ValueError,
    )
    if isinstance(args[0], Tensor):
        equation, operands = _from_sublists(args)
    else:
        equation, operands = args[0], args[1:]
        check(
            isinstance(equation, str),
            f"einsum: the equation must be a string, not {type(equation).__name__}",
            TypeError,
        )
    while len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = operands[0]
    for operand in operands:
        check(
            isinstance(operand, Tensor),
            f"einsum: operands must be tensors, not {type(operand).__name__}",
            TypeError,
        )
    return call(REGISTRY["einsum"], (equation, tuple(operands), None))


def _from_sublists(args: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """The equation of operands that are each followed by a list of integers, and perhaps an output list."""
    equation = ",".join(_sublist(labels) for labels in args[1::2])
    if len(args) % 2:
        equation += "->" + _sublist(args[-1])
        return equation, args[:-1:2]
    return equation, args[::2]


def _sublist(labels: Sequence[int | EllipsisType]) -> str:
    check(
        isinstance(labels, list | tuple),
        f"einsum: every operand must be followed by its list of subscripts, not {type(labels).__name__}",
        TypeError,
    )
    for label in labels:
        check(
            label is Ellipsis or (isinstance(label, int) and 0 <= label < len(LETTERS)),
            f"einsum: subscript {label} in subscript list is not within the valid range [0, {len(LETTERS)})",
            ValueError,
        )
    return "".join("..." if isinstance(label, EllipsisType) else LETTERS[label] for label in labels)


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Contract the last `dims` dimensions of `a` with the first of `b`, or two given lists of dimensions.

    >>> rl.tensordot(rl.ones(2, 3), rl.ones(3, 2), dims=1)
    tensor([[3., 3.],
            [3., 3.]])
    """
    left, right = _contracted_dims(a, b, dims)
    op, args = REGISTRY["tensordot"], (a, b, left, right)
    return call(op, args) if out is None else call_out(op, args, out)


def _contracted_dims(a: Tensor, b: Tensor, dims: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        check(dims >= 0, f"tensordot expects dims >= 0, but got dims={dims}")
        check(dims <= min(a.ndim, b.ndim), f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        return tuple(range(-dims, 0)), tuple(range(dims))
    if not isinstance(dims, list | tuple):
        fail(f"tensordot expects dims to be an int or two lists of ints, but got dims={dims}")
    left, right = dims
    for part in (left, right):
        check(
            isinstance(part, list | tuple),
            f"tensordot: dims must be two lists of ints, but got {part!r} in it",
            TypeError,
        )
    return tuple(left), tuple(right)


def chain_matmul(*matrices: Any, out: Tensor | None = None) -> Tensor:
    """The product of matrices in the order that needs the fewest multiplications.

    >>> rl.chain_matmul(rl.ones(1, 2), rl.ones(2, 3), rl.ones(3, 1))
    tensor([[6.]])
    """
    given = matrices[0] if len(matrices) == 1 and isinstance(matrices[0], list | tuple) else matrices
    op, args = REGISTRY["chain_matmul"], (tuple(given),)
    return call(op, args) if out is None else call_out(op, args, out)


def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor:
    """The p-norm distance between each pair of rows.

    >>> rl.cdist(rl.tensor([[0.0, 0.0]]), rl.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    check(
        compute_mode in _CDIST_MODES,
        f"{compute_mode} is not a valid value for compute_mode; use one of {', '.join(_CDIST_MODES)}",
        ValueError,
    )
    return call(REGISTRY["cdist"], (x1, x2, float(p), _CDIST_MODES[compute_mode]))


@tensor_method
def bernoulli_(self: Tensor, p: Tensor | float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 with probability `p` (a number, or a tensor that broadcasts), else 0."""
    op = REGISTRY["bernoulli.Tensor" if isinstance(p, Tensor) else "bernoulli.p"]
    return call_inplace(op, (self, p if isinstance(p, Tensor) else float(p), generator))

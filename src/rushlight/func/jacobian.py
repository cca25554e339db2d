"""Whole Jacobians: jacrev, jacfwd, hessian."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.functional import _construct_standard_basis_for
from ..core import pytree
from ..core.dispatch import run_name
from ..core.errors import check
from ..core.tensor import Tensor
from .forward import jvp_by
from .reverse import Argnums, check_argnums, vjp_by
from .vmap import vmap


def standard_basis(tensors: Sequence[Tensor]) -> list[Tensor]:
    """For each tensor, its part of the unit vectors of all of them laid end to end: (total, *shape)."""
    columns = _construct_standard_basis_for(tensors, [tensor.numel() for tensor in tensors])
    return [
        part.reshape((part.shape[0], *tensor.shape)) for part, tensor in zip(columns, tensors, strict=True)
    ]


def split_rows(tensor: Tensor, counts: Sequence[int]) -> tuple[Tensor, ...]:
    return run_name("split_with_sizes", tensor, tuple(counts), 0)


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of `func`, by reverse mode: one row for each element of the output.

    >>> rl.func.jacrev(rl.square)(rl.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"jacrev: `chunk_size` should be greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers = check_argnums(argnums, len(args))
        chosen = tuple(args[n] for n in numbers)
        check_real(chosen, "jacrev", "inputs")
        found = vjp_by(func, args, numbers, kwargs, has_aux)
        output, vjp_fn = found[0], found[1]
        outputs, out_spec = pytree.flatten(output)
        check_real(outputs, "jacrev", "outputs")
        inputs, spec = pytree.flatten(chosen)

        def row(*basis: Any) -> list[Any]:
            return pytree.flatten(vjp_fn(out_spec.unflatten(basis)))[0]

        basis = standard_basis(outputs)
        columns = _one_by_one(row, basis) if chunk_size == 1 else vmap(row, chunk_size=chunk_size)(*basis)
        counts = [tensor.numel() for tensor in outputs]
        blocks = []
        split = [split_rows(column, counts) for column in columns]
        for i, value in enumerate(outputs):
            per_input = [split[j][i].reshape((*value.shape, *leaf.shape)) for j, leaf in enumerate(inputs)]
            tree = spec.unflatten(per_input)
            blocks.append(tree[0] if isinstance(argnums, int) else tree)
        result = out_spec.unflatten(blocks)
        return (result, found[2]) if has_aux else result

    return wrapper


def check_real(tree: Any, name: str, what: str) -> None:
    """Whole Jacobians are of real functions: a complex one has two, by a number and by its conjugate."""
    for i, leaf in enumerate(pytree.flatten(tree)[0]):
        check(
            not (isinstance(leaf, Tensor) and leaf.is_complex()),
            f"{name}: Expected all {what} to be real but received a complex tensor at flattened index {i}",
        )


def _one_by_one(row: Callable[..., list[Any]], basis: Sequence[Tensor]) -> list[Tensor]:
    """The rows for unit vectors, one after another: nothing runs under vmap."""
    rows = [row(*vectors) for vectors in zip(*[part.unbind(0) for part in basis], strict=True)]
    return [run_name("stack", column, 0) for column in zip(*rows, strict=True)]


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """The Jacobian of `func`, by forward mode: one column for each element of the input.

    >>> rl.func.jacfwd(rl.square)(rl.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers = check_argnums(argnums, len(args))
        chosen = tuple(args[n] for n in numbers)
        check_real(chosen, "jacfwd", "inputs")
        inputs, spec = pytree.flatten(chosen)

        def column(*basis: Any) -> Any:
            tangents = spec.unflatten(basis)
            found = jvp_by(func, args, numbers, kwargs, tangents, has_aux=has_aux)
            return (found[1], found[2]) if has_aux else found[1]

        out_dims = (0, None) if has_aux else 0
        columns = vmap(column, out_dims=out_dims, randomness=randomness)(*standard_basis(inputs))
        tangents, aux = columns if has_aux else (columns, None)
        leaves, out_spec = pytree.flatten(tangents)
        check_real(leaves, "jacfwd", "outputs")
        counts = [tensor.numel() for tensor in inputs]
        blocks = []
        for leaf in leaves:
            shape = leaf.shape[1:]
            moved = run_name("permute", leaf, (*range(1, leaf.ndim), 0))
            parts = run_name("split_with_sizes", moved, tuple(counts), -1)
            per_input = [
                part.reshape((*shape, *tensor.shape)) for part, tensor in zip(parts, inputs, strict=True)
            ]
            tree = spec.unflatten(per_input)
            blocks.append(tree[0] if isinstance(argnums, int) else tree)
        result = out_spec.unflatten(blocks)
        return (result, aux) if has_aux else result

    return wrapper


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """The matrix of second derivatives of `func`, forward over reverse.

    >>> rl.func.hessian(lambda x: (x ** 3).sum())(rl.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)

"""`associative_scan`: running combinations by an associative function, in a tree of logarithmic depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.pytree import TreeSpec, flatten
from ..core.shapes import wrap_dim
from ..core.tensor import Tensor
from ..func import vmap

_TOO_SHORT = "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """For each position along `dim`, the combination of all slices of `xs` up to it (with `reverse`, from it on).

    `combine_fn` must be associative. With `combine_mode` "pointwise" it is given many pairs of slices at once, as
    tensors with one more dimension, and must not care; with "generic" it is given one pair.
    """
    leaves, spec = flatten(xs)
    check(callable(combine_fn), f"Combine_fn must be a callable, but got {combine_fn}", ValueError)
    check(isinstance(dim, int), f"Dim must be an int, but got {type(dim)}", ValueError)
    check(isinstance(reverse, bool), f"Reverse must be a bool, but got {type(reverse)}")
    check(
        combine_mode in ("pointwise", "generic"),
        f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}",
        ValueError,
    )
    check(len(leaves) > 0, "Expected at least 1 xs leaf", ValueError)
    check(all(isinstance(x, Tensor) for x in leaves), "xs leaves must be a Tensor", ValueError)
    check(
        not any(x.is_sparse for x in leaves),
        "xs leaves must dense Tensors, consider using `to_dense()`",
        ValueError,
    )
    dim = wrap_dim(dim, leaves[0].ndim)
    check(all(x.ndim > dim and x.shape[dim] > 0 for x in leaves), _TOO_SHORT, ValueError)
    check(
        len({x.shape[dim] for x in leaves}) == 1,
        "All xs leaves must have the same size along the scan dimension",
        ValueError,
    )
    moved = [run_name("movedim.intlist", x, (dim,), (0,)) for x in leaves]
    if reverse:
        moved = [run_name("flip", x, (0,)) for x in moved]
    function = vmap(combine_fn) if combine_mode == "generic" else combine_fn
    results = _scan(lambda a, b: _combined(function, spec, a, b), moved)
    if reverse:
        results = [run_name("flip", x, (0,)) for x in results]
    return spec.unflatten([run_name("movedim.intlist", x, (0,), (dim,)) for x in results])


def _combined(function: Any, spec: TreeSpec, a: list[Tensor], b: list[Tensor]) -> list[Tensor]:
    """Pairs of slices combined; RuntimeError unless the results are like them."""
    found, structure = flatten(function(spec.unflatten(a), spec.unflatten(b)))
    check(
        structure == spec,
        f"associative_scan: combine_fn must return the structure of xs, with {len(a)} leaves, but returned "
        f"{len(found)}",
    )
    for number, (old, new) in enumerate(zip(a, found, strict=True)):
        check(
            isinstance(new, Tensor)
            and (tuple(old.shape[1:]), old.dtype) == (tuple(new.shape[1:]), new.dtype),
            f"associative_scan: expected xs and the results of combine_fn to have same metadata, but leaf "
            f"{number} is {old.dtype}{list(old.shape[1:])} in xs and "
            + (f"{new.dtype}{list(new.shape[1:])}" if isinstance(new, Tensor) else type(new).__name__),
        )
    return found


def _part(tensors: list[Tensor], start: int, stop: int, step: int = 1) -> list[Tensor]:
    return [run_name("slice.Tensor", x, 0, start, stop, step) for x in tensors]


def _scan(combine: Callable[[list[Tensor], list[Tensor]], list[Tensor]], xs: list[Tensor]) -> list[Tensor]:
    """Pairs of neighbours are combined and scanned, which gives every second result; those between follow from
    the one before."""
    count = xs[0].shape[0]
    if count < 2:
        return xs
    pairs = count // 2
    odd = _scan(combine, combine(_part(xs, 0, 2 * pairs, 2), _part(xs, 1, 2 * pairs, 2)))
    even = _part(xs, 0, 1)
    if count > 2:
        later = _part(xs, 2, count, 2)
        made = combine(_part(odd, 0, later[0].shape[0]), later)
        even = [run_name("cat", (first, rest), 0) for first, rest in zip(even, made, strict=True)]
    return [_interleaved(a, b, count) for a, b in zip(even, odd, strict=True)]


def _interleaved(even: Tensor, odd: Tensor, count: int) -> Tensor:
    """a0, b0, a1, b1, ...; `even` may have one more."""
    pairs = count // 2
    shape = tuple(even.shape[1:])
    both = run_name("stack", (run_name("slice.Tensor", even, 0, 0, pairs, 1), odd), 1)
    joined: Tensor = run_name("reshape", both, (2 * pairs, *shape))
    if count % 2:
        last = run_name("slice.Tensor", even, 0, pairs, pairs + 1, 1)
        joined = run_name("cat", (joined, last), 0)
    return joined

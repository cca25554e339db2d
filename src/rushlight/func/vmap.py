"""`vmap`: a function of one example as a function of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..batching.vmap import Vmap
from ..core import pytree
from ..core.dispatch import run_name
from ..core.nested_base import NestedBase
from ..core.tensor import Tensor
from ..core.transforms import opened

_RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`func` mapped over a dimension of its inputs.

    `in_dims` and `out_dims` say which dimension, as an int, None, or a structure of those that matches the
    inputs or outputs. `randomness` says whether random operators inside draw once for the whole batch
    ("same"), for each element ("different"), or are refused ("error"). `chunk_size` limits how many elements
    are computed at once.

    >>> rl.vmap(rl.dot)(rl.ones(3, 2), rl.ones(3, 2))
    tensor([2., 2., 2.])
    """
    if randomness not in _RANDOMNESS:
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        size, dims, leaves, spec = _inputs(in_dims, args, func)
        call = _Call(func, dims, spec, out_dims, randomness, kwargs)
        if chunk_size is not None and chunk_size < size:
            return _in_chunks(call, size, leaves, chunk_size)
        return _run(call, size, leaves)

    return wrapped


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", repr(func))


def _whole(value: Any) -> bool:
    """A nested tensor is one input here, not its values."""
    return isinstance(value, NestedBase)


def _inputs(
    in_dims: Any, args: tuple[Any, ...], func: Callable[..., Any]
) -> tuple[int, list[Any], list[Any], Any]:
    """The size of the batch, the dimension of each leaf of the inputs, the leaves and their structure."""
    where = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): "
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"{where}expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(f"{where}got no inputs, and there is nothing to map over without any.")
    leaves, spec = pytree.flatten(args, _whole)
    dims = pytree.broadcast_prefix(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{where}in_dims is not compatible with the structure of `inputs`. in_dims has "
            f"structure {pytree.flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    for i, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        dims[i] = _checked_dim(leaf, dim, where)
    sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes:
        raise ValueError(
            f"{where}vmap: at least one input must be mapped, but in_dims is None for all of them."
        )
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got "
            f"sizes {sizes} for the mapped dimension"
        )
    return sizes[0], dims, leaves, spec


def _checked_dim(leaf: Any, dim: Any, where: str) -> Any:
    if dim is not None and (not isinstance(dim, int) or isinstance(dim, bool)):
        raise ValueError(
            f"{where}Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
        )
    if dim is None:
        return None
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{where}Got in_dim={dim} for an input of type {type(leaf)}; only tensors can be "
            "mapped over, so its in_dim must be None"
        )
    if leaf.is_nested:
        raise ValueError(
            f"{where}a nested tensor cannot be mapped over: its rows have different sizes; use "
            "unbind(), or its in_dim must be None"
        )
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(
            f"{where}Got in_dim={dim} for some input, but that input is a Tensor of "
            f"dimensionality {leaf.ndim} so expected in_dim to satisfy -{leaf.ndim} <= in_dim < "
            f"{leaf.ndim}."
        )
    return dim % leaf.ndim


@dataclass(frozen=True)
class _Call:
    """A call of a mapped function, but for the tensors that it maps over."""

    func: Callable[..., Any]
    dims: list[Any]  # of the leaves of the arguments
    spec: Any  # how the arguments are made of their leaves
    out_dims: Any
    randomness: str
    kwargs: dict[str, Any]


def _run(call: _Call, size: int, leaves: list[Any]) -> Any:
    func, out_dims = call.func, call.out_dims
    with Vmap(size, call.randomness) as trace, opened(trace):
        batched = [
            leaf if dim is None else trace.lift(leaf, dim)
            for leaf, dim in zip(leaves, call.dims, strict=True)
        ]
        outputs = func(*call.spec.unflatten(batched), **call.kwargs)
        found, out_spec = pytree.flatten(outputs, _whole)
        for value in found:
            if not isinstance(value, Tensor) or value.is_nested:
                raise ValueError(
                    f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got "
                    f"type {type(value)}"
                )
        wanted = _out_dims(out_dims, out_spec, outputs, func)
        return out_spec.unflatten(
            [_unwrap(trace, value, dim, func) for value, dim in zip(found, wanted, strict=True)]
        )


def _out_dims(out_dims: Any, spec: Any, outputs: Any, func: Callable[..., Any]) -> list[Any]:
    dims = pytree.broadcast_prefix(out_dims, spec)
    if dims is None and isinstance(out_dims, tuple) and len(out_dims) == 1 and isinstance(outputs, Tensor):
        dims = list(out_dims)
    if dims is None or not all(dim is None or isinstance(dim, int) for dim in dims):
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not "
            "compatible with the structure of `outputs`. out_dims has structure "
            f"{pytree.flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    return dims


def _unwrap(trace: Vmap, value: Tensor, dim: int | None, func: Callable[..., Any]) -> Tensor:
    """An output without its wrapper, its batch dimension where the user wants it."""
    tensor, bdim = trace.unwrap(value)
    if dim is None:
        if bdim is not None:
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when "
                "out_dim is None"
            )
        return tensor
    if bdim is None:
        tensor = run_name("expand", tensor.unsqueeze(0), (trace.size, *tensor.shape), False)
        bdim = 0
    rank = tensor.ndim
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
        )
    dim %= rank
    if dim == bdim:
        return tensor
    order = [d for d in range(rank) if d != bdim]
    order.insert(dim, bdim)
    return run_name("permute", tensor, tuple(order))


def _in_chunks(call: _Call, size: int, leaves: list[Any], chunk_size: int) -> Any:
    """Parts of the batch one after the other, joined at the end."""
    parts: list[list[Any]] = []
    out_spec: Any = None
    joined: list[Any] = []
    for start in range(0, size, chunk_size):
        count = min(chunk_size, size - start)
        some = [
            leaf if dim is None else run_name("slice.Tensor", leaf, dim, start, start + count, 1)
            for leaf, dim in zip(leaves, call.dims, strict=True)
        ]
        outputs = _run(call, count, some)
        found, out_spec = pytree.flatten(outputs)
        joined = _out_dims(call.out_dims, out_spec, outputs, call.func)
        parts.append(found)
    columns = list(zip(*parts, strict=True))
    return out_spec.unflatten(
        [
            column[0] if dim is None else run_name("cat", tuple(column), dim)
            for column, dim in zip(columns, joined, strict=True)
        ]
    )

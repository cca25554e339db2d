"""Reductions, softmax and other operators along dimensions of nested tensors.

Over dimensions that are not ragged they run on the values and give nested tensors. Over the ragged dimension
they run on rows padded with the identity of the reduction, and give dense tensors; so they do over the batch
and the ragged dimension together, on the values. Over the batch alone the rows do not fit together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core.dispatch import Arguments, call, run_name
from ..core.dtypes import DType, finfo, iinfo
from ..core.errors import check, fail
from ..core.nested import (
    BOOL,
    NestedTensor,
    beside,
    from_padded,
    generic,
    nest,
    no_rule,
    packed,
    padded,
    rule,
    unholed,
)
from ..core.registry import OpDef
from ..core.shapes import wrap_dims
from ..core.tensor import Tensor


def lowest(dtype: DType) -> Any:
    if dtype is BOOL:
        return False
    return finfo(dtype).min if dtype.is_floating_point else iinfo(dtype).min


def highest(dtype: DType) -> Any:
    if dtype is BOOL:
        return True
    return finfo(dtype).max if dtype.is_floating_point else iinfo(dtype).max


# What padding does not change a reduction, by the name of the operator; None: there is no such value.
IDENTITY: dict[str, Callable[[DType], Any] | None] = {
    "sum": lambda dtype: 0,
    "mean": lambda dtype: 0,
    "nansum": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "amax": lowest,
    "max": lowest,
    "argmax": lowest,
    "amin": highest,
    "min": highest,
    "argmin": highest,
    "any": lambda dtype: False,
    "all": lambda dtype: True,
    "logsumexp": lambda dtype: -math.inf,
    "count_nonzero": lambda dtype: 0,
    "var": None,
    "std": None,
    "var_mean": None,
    "std_mean": None,
    "median": None,
    "linalg_vector_norm": None,
    "norm": None,
}


@generic(
    "sum",
    "mean",
    "prod",
    "max",
    "min",
    "any",
    "all",
    "nansum",
    "var",
    "std",
    "count_nonzero",
    "median",
    "sum.dim_IntList",
    "mean.dim",
    "prod.dim_int",
    "amax",
    "amin",
    "max.dim",
    "min.dim",
    "argmax",
    "argmin",
    "any.dim",
    "any.dims",
    "all.dim",
    "all.dims",
    "logsumexp",
    "count_nonzero.dim_IntList",
    "var.dim",
    "std.dim",
    "var.correction",
    "std.correction",
    "var_mean.correction",
    "std_mean.correction",
    "median.dim",
    "linalg_vector_norm",
    "norm.ScalarOpt_dim",
)
def reduction(op: OpDef, args: Arguments) -> Any:
    nested = args[0]
    names = op.schema.argument_names
    given = args[names.index("dim")] if "dim" in names else None
    keepdim = bool(args[names.index("keepdim")]) if "keepdim" in names else False
    if given is None or (isinstance(given, tuple) and not given):
        result = call(op, (unholed(nested), *args[1:]))
        return _each(result, lambda r: r.unsqueeze(0)) if keepdim else result
    dims = wrap_dims(given if isinstance(given, tuple) else (given,), nested.ndim)
    return _over(op, args, nested, dims, keepdim)


def _over(op: OpDef, args: Arguments, nested: NestedTensor, dims: Sequence[int], keepdim: bool) -> Any:
    name, ragged = op.schema.name, nested._ragged_idx
    others = [d for d in dims if d not in (0, ragged)]
    if 0 in dims:
        check(
            ragged in dims,
            f"{name}(): reducing along the batch dimension but not the ragged dimension is "
            "not supported for nested tensors: the rows have different lengths",
        )
        inner = tuple(dict.fromkeys(ragged - 1 if d == 0 else d - 1 for d in dims))
        result = _with_dims(op, args, unholed(nested), inner)
        return _each(result, lambda r: r.unsqueeze(0)) if keepdim else result
    if ragged in dims:
        check(
            not others,
            f"{name}(): reducing along a ragged and non-batch dimension is not supported for "
            "nested tensors; reduce one after the other",
        )
        return _over_ragged(op, args, nested)
    result = _with_dims(op, args, nested._values, tuple(d - 1 for d in dims))
    at = ragged if keepdim else ragged - sum(d < ragged for d in dims)
    return _each(result, lambda r: nest(r, nested._ragged, at))


def _over_ragged(op: OpDef, args: Arguments, nested: NestedTensor) -> Any:
    identity = IDENTITY[op.schema.name]
    if identity is None:
        raise no_rule(op)
    names = op.schema.argument_names
    dense = padded(nested, identity(nested.dtype))
    if op.schema.name != "mean":
        return _with_dims(op, args, dense, (nested._ragged_idx,))
    keepdim, dtype = args[names.index("keepdim")], args[names.index("dtype")]
    _with_dims(op, args, nested._values.new_zeros((1,) * nested.ndim), (0,))  # says which dtypes have a mean
    total = run_name("sum.dim_IntList", dense, (nested._ragged_idx,), True, dtype)
    counts = beside(nested._ragged.counts(), dense).reshape((-1,) + (1,) * (nested.ndim - 1))
    mean = total / counts
    return mean if keepdim else mean.squeeze(nested._ragged_idx)


def _with_dims(op: OpDef, args: Arguments, tensor: Tensor, dims: tuple[int, ...]) -> Any:
    at = op.schema.argument_names.index("dim")
    several = op.schema.arguments[at].type.is_list
    check(several or len(dims) == 1, f"{op.schema.name}(): takes one dimension of nested tensors")
    return call(op, (tensor, *args[1:at], dims if several else dims[0], *args[at + 1 :]))


def _each(result: Any, function: Callable[[Tensor], Any]) -> Any:
    return tuple([function(r) for r in result]) if isinstance(result, tuple) else function(result)


# Along one dimension, all others kept.


def _dim(op: OpDef, args: Arguments) -> int:
    nested, dim = args[0], args[op.schema.argument_names.index("dim")]
    wrapped: int = wrap_dims((dim,), nested.ndim)[0]
    check(
        wrapped != 0,
        f"{op.schema.name}(): not supported when reducing across the batch dimension for NestedTensor",
    )
    return wrapped


@generic(
    "softmax.int",
    "log_softmax.int",
    "_softmax",
    "_log_softmax",
    "cumsum",
    "cumprod",
    "logcumsumexp",
    "sort",
    "sort.stable",
    "argsort",
    "topk",
    "glu",
)
def along(op: OpDef, args: Arguments) -> Any:
    nested, dim = args[0], _dim(op, args)
    if dim == nested._ragged_idx:
        return _along_ragged(op, args, nested)
    at = op.schema.argument_names.index("dim")
    result = call(op, (nested._values, *args[1:at], dim - 1, *args[at + 1 :]))
    return _each(result, nested.like)


# What the padding after a row may be, so that the row does not see it.
BEHIND = {
    "softmax": -math.inf,
    "log_softmax": -math.inf,
    "_softmax": -math.inf,
    "_log_softmax": -math.inf,
    "cumsum": 0,
    "cumprod": 1,
    "logcumsumexp": -math.inf,
}


def _along_ragged(op: OpDef, args: Arguments, nested: NestedTensor) -> Any:
    name = op.schema.name
    if name not in BEHIND:
        fail(f"{name}(): not supported along the ragged dimension of a nested tensor; use unbind()")
    given: Any = nested
    if name in ("softmax", "log_softmax") and args[2] is not None:
        given = nested.to(args[2])
    at = op.schema.argument_names.index("dim")
    whole = packed(given)
    dense = call(op, (padded(whole, BEHIND[name]), *args[1:at], nested._ragged_idx, *args[at + 1 :]))
    return from_padded(dense, whole._ragged, whole._ragged_idx)


# Normalization.


@rule("layer_norm")
def layer_norm(input: NestedTensor, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _normalized(input, normalized_shape, weight, bias, eps)[0]


@rule("native_layer_norm")
def native_layer_norm(input: NestedTensor, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _normalized(input, normalized_shape, weight, bias, eps)


def _normalized(input: NestedTensor, shape: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    check(input.ndim > 2, "layer_norm(): not supported for NestedTensor objects with 2 or fewer dimensions")
    check(
        len(shape) < input.ndim,
        "layer_norm(): not supported when normalizing over the batch dimension for NestedTensor",
    )
    if len(shape) < input.ndim - input._ragged_idx:
        output, mean, rstd = run_name("native_layer_norm", input._values, tuple(shape), weight, bias, eps)
        return input.like(output), mean, rstd
    check(
        tuple(shape) == tuple(input.shape[input.ndim - len(shape) :]),
        f"layer_norm(): normalized_shape {tuple(shape)} does not end the shape {tuple(input.shape)}",
    )
    check(weight is None and bias is None, "layer_norm(): a weight or bias of ragged size is not possible")
    return _normalized_rows(packed(input), len(shape), eps)


def _normalized_rows(input: NestedTensor, count: int, eps: float) -> tuple[Any, Any, Any]:
    """Layer norm over the last `count` dimensions, of which one is ragged."""
    dense, dim = padded(input, 0), input._ragged_idx
    over = tuple(range(input.ndim - count, input.ndim))
    per_place = math.prod(dense.shape[d] for d in over if d != dim)
    column = (-1,) + (1,) * (input.ndim - 1)
    number = beside(input._ragged.counts(), dense).reshape(column) * per_place
    shape = [1] * input.ndim
    shape[0], shape[dim] = input._ragged.batch, dense.shape[dim]
    inside = beside(input._ragged.inside(dense.shape[dim]), dense).reshape(tuple(shape))
    mean = dense.sum(over, keepdim=True) / number
    centred = (dense - mean).masked_fill(inside.logical_not(), 0.0)
    deviation = ((centred * centred).sum(over, keepdim=True) / number + eps).sqrt()
    return from_padded(centred / deviation, input._ragged, dim), mean, deviation


@rule("rms_norm")
def rms_norm(input: NestedTensor, normalized_shape: Any, weight: Any, eps: Any) -> Any:
    check(
        len(normalized_shape) < input.ndim - input._ragged_idx,
        "rms_norm(): Normalization over the ragged dim not supported for nested tensors",
        ValueError,
    )
    return input.like(run_name("rms_norm", input._values, tuple(normalized_shape), weight, eps))

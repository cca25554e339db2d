"""Reductions, scans, sorting, softmax and products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._model import BOOL, INT64, Model, Value, onnx_type
from ._rules import rule
from ._shapes import axis_of

_REDUCTIONS = {
    "sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "prod": "ReduceProd",
    "max": "ReduceMax", "min": "ReduceMin", "logsumexp": "ReduceLogSumExp",
}  # fmt: skip


def _dims(dim: Any) -> list[int] | None:
    """The dimensions of a reduction; None for all."""
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return None
    return [dim] if isinstance(dim, int) else list(dim)


def reduced(model: Model, kind: str, x: Any, dims: list[int] | None, keepdim: bool) -> Any:
    axes = None if dims is None else np.array(dims)
    return model.op(kind, *((x,) if axes is None else (x, axes)), keepdims=int(keepdim))


@rule(
    "sum",
    "sum.dim_IntList",
    "mean",
    "mean.dim",
    "amax",
    "amin",
    "prod",
    "prod.dim_int",
    "max",
    "min",
    "logsumexp",
)
def reduction(model: Model, self: Value, result: Value, named: dict[str, Any], name: str) -> Any:
    x = model.cast(self, result.dtype)
    if not self.ndim:
        return model.op("Identity", x)
    kind = _REDUCTIONS[name]
    return reduced(model, kind, x, _dims(named.get("dim")), named.get("keepdim", False))


@rule("any", "any.dim", "any.dims", "all", "all.dim", "all.dims")
def truth(model: Model, self: Value, result: Value, named: dict[str, Any], name: str) -> Any:
    numbers = model.op("Cast", model.cast(self, BOOL), to=onnx_type(INT64))
    kind = "ReduceMax" if name == "any" else "ReduceMin"
    found = reduced(model, kind, numbers, _dims(named.get("dim")), named.get("keepdim", False))
    return model.op("Cast", found, to=onnx_type(result.dtype))


def _moments(
    model: Model, x: Value, dims: list[int] | None, correction: Any, keepdim: bool
) -> tuple[Any, Any]:
    """(variance, mean)."""
    mean = reduced(model, "ReduceMean", x, dims, True)
    away = model.op("Sub", x, mean)
    total = reduced(model, "ReduceSum", model.op("Mul", away, away), dims, keepdim)
    sizes = model.op("Shape", x)
    if dims is not None:
        sizes = model.op("Gather", sizes, np.array([axis_of(d, x.ndim) for d in dims]))
    count = model.op("Cast", model.op("ReduceProd", sizes, keepdims=0), to=onnx_type(x.dtype))
    freedom = 1 if correction is None else correction
    if freedom:
        less = model.op("Sub", count, model.constant(freedom, x.dtype))
        count = model.op("Max", less, model.constant(0, x.dtype))
    axes = None if dims is None else np.array(dims)
    plain = mean if keepdim else model.op("Squeeze", *((mean,) if axes is None else (mean, axes)))
    return model.op("Div", total, count), plain


@rule("var.correction", "std.correction", "var_mean.correction", "std_mean.correction")
def variance(model: Model, self: Value, dim: Any, correction: Any, keepdim: bool, name: str) -> Any:
    found, mean = _moments(model, self, _dims(dim), correction, keepdim)
    if name.startswith("std"):
        found = model.op("Sqrt", found)
    return [found, mean] if name.endswith("mean") else found


@rule("linalg_vector_norm")
def vector_norm(model: Model, self: Value, ord: Any, dim: Any, keepdim: bool, result: Value) -> Any:
    x, dims = model.cast(self, result.dtype), _dims(dim)
    named = {1: "ReduceL1", 2: "ReduceL2", math.inf: "ReduceMax", -math.inf: "ReduceMin"}.get(ord)
    if named in ("ReduceL1", "ReduceL2"):
        return reduced(model, named, x, dims, keepdim)
    away = model.op("Abs", x)
    if named is not None:
        return reduced(model, named, away, dims, keepdim)
    powers = model.op("Pow", away, model.constant(ord, result.dtype))
    if not ord:  # how many are not zero
        powers = model.op("Cast", model.op("Cast", away, to=onnx_type(BOOL)), to=onnx_type(result.dtype))
        return reduced(model, "ReduceSum", powers, dims, keepdim)
    total = reduced(model, "ReduceSum", powers, dims, keepdim)
    return model.op("Pow", total, model.constant(1 / ord, result.dtype))


@rule("argmax", "argmin")
def place(model: Model, self: Value, dim: Any, keepdim: bool, result: Value, name: str) -> Any:
    kind = "ArgMax" if name == "argmax" else "ArgMin"
    if dim is not None:
        return model.op(kind, self, axis=dim, keepdims=int(keepdim))
    flat = model.op("Reshape", self, np.array([-1]))
    found = model.op(kind, flat, axis=0, keepdims=0)
    return model.op("Reshape", found, np.ones(self.ndim, np.int64)) if keepdim else found


@rule("max.dim", "min.dim")
def extreme(model: Model, self: Value, dim: int, keepdim: bool, name: str) -> Any:
    axis = axis_of(dim, self.ndim)
    values = reduced(model, _REDUCTIONS[name], self, [axis], keepdim)
    kind = "ArgMax" if name == "max" else "ArgMin"
    return [values, model.op(kind, self, axis=axis, keepdims=int(keepdim))]


@rule("cumsum")
def cumsum(model: Model, self: Value, dim: int, result: Value) -> Any:
    return model.op("CumSum", model.cast(self, result.dtype), np.array(dim))


@rule("topk")
def topk(model: Model, self: Value, k: Any, dim: int, largest: bool, sorted: bool) -> Any:
    settings = {"axis": dim, "largest": int(largest), "sorted": int(sorted)}
    return model.op("TopK", self, model.row(k), outputs=2, **settings)


@rule("sort", "sort.stable")
def sort(model: Model, self: Value, dim: int, descending: bool) -> Any:
    axis = axis_of(dim, self.ndim)
    size = model.op("Shape", self, start=axis, end=axis + 1)
    return model.op("TopK", self, size, outputs=2, axis=axis, largest=int(descending), sorted=1)


@rule("_softmax", "_log_softmax")
def softmax(model: Model, self: Value, dim: int, result: Value, name: str) -> Any:
    kind = "Softmax" if name == "_softmax" else "LogSoftmax"
    return model.op(kind, model.cast(self, result.dtype), axis=dim)


# Products.


@rule("mm", "bmm", "matmul", "dot", "mv")
def product(model: Model, args: Sequence[Value]) -> Any:
    return model.op("MatMul", args[0], args[1])


@rule("addmm", "baddbmm", "addmv", "addbmm")
def added(model: Model, self: Value, args: Sequence[Any], alpha: Any, beta: Any, name: str) -> Any:
    if name == "addmm" and self.ndim <= 2 and self.dtype.is_floating_point:
        return model.op("Gemm", args[1], args[2], self, alpha=float(alpha), beta=float(beta))
    found = model.op("MatMul", args[1], args[2])
    if name == "addbmm":
        found = reduced(model, "ReduceSum", found, [0], False)
    if alpha != 1:
        found = model.op("Mul", found, model.constant(alpha, self.dtype))
    scaled = self if beta == 1 else model.op("Mul", self, model.constant(beta, self.dtype))
    return model.op("Add", scaled, found)


@rule("convolution")
def convolution(
    model: Model,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    rank = input.ndim - 2
    settings: dict[str, Any] = {
        "kernel_shape": list(weight.shape[2:]),
        "strides": _each(stride, rank),
        "pads": [*_each(padding, rank), *_each(padding, rank)],
        "dilations": _each(dilation, rank),
        "group": groups,
    }
    given = (input, weight) if bias is None else (input, weight, bias)
    if not transposed:
        return model.op("Conv", *given, **settings)
    return model.op("ConvTranspose", *given, **settings, output_padding=_each(output_padding, rank))


def _each(sizes: Sequence[int], rank: int) -> list[int]:
    return list(sizes) * rank if len(sizes) == 1 else list(sizes)


@rule("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool(
    model: Model,
    self: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    used: Sequence[bool],
) -> Any:
    if used[1]:
        raise NotImplementedError("its indices count another way")
    rank = self.ndim - 2
    padded = _each(padding, rank)
    found = model.op(
        "MaxPool",
        self,
        kernel_shape=_each(kernel_size, rank),
        strides=_each(stride or kernel_size, rank),
        pads=[*padded, *padded],
        dilations=_each(dilation, rank),
        ceil_mode=int(ceil_mode),
    )
    return [found, None]


@rule("avg_pool2d", "avg_pool3d")
def avg_pool(
    model: Model,
    self: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    if divisor_override is not None:
        raise NotImplementedError("it divides by another number than the size of a window")
    rank = self.ndim - 2
    padded = _each(padding, rank)
    return model.op(
        "AveragePool",
        self,
        kernel_shape=_each(kernel_size, rank),
        strides=_each(stride or kernel_size, rank),
        pads=[*padded, *padded],
        ceil_mode=int(ceil_mode),
        count_include_pad=int(count_include_pad),
    )

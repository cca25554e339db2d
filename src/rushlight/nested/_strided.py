"""Operators on strided nested tensors that compute: on the buffer where they are elementwise, else by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import Arguments, call, run_name
from ..core.errors import check
from ..core.nested_strided import (
    Rows,
    StridedNestedTensor,
    buffer_of,
    from_rows,
    generic,
    packed,
    rows_of,
    rule,
    strided_nest,
)
from ..core.registry import OpDef
from ..core.shapes import wrap_dim, wrap_dims
from ..core.tensor import Tensor
from ..decompositions.nested import padded_rows, rows_of_padded
from ._strided_view import last_size

Nested = StridedNestedTensor


# Elementwise.


@generic(
    "abs",
    "sgn",
    "logical_not",
    "isinf",
    "isposinf",
    "isneginf",
    "isnan",
    "relu",
    "silu",
    "sin",
    "sqrt",
    "cos",
    "neg",
    "tanh",
    "gelu",
    "conj_physical",
    "positive",
)
def unary(op: OpDef, args: Arguments) -> Any:
    return strided_nest(
        call(op, (buffer_of(args[0]), *args[1:])), Rows(args[0]._rows.sizes, dims=args[0]._rows.dims)
    )


@generic("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "masked_fill.Scalar", "eq.Tensor")
def binary(op: OpDef, args: Arguments) -> Any:
    self, other, name = args[0], args[1], op.schema.name
    for nested, dense in ((self, other), (other, self)):
        if (
            not isinstance(dense, Nested)
            and isinstance(nested, Nested)
            and (not isinstance(dense, Tensor) or dense.ndim == 0)
        ):
            pair = (nested._values, dense) if nested is self else (dense, nested._values)
            return nested.like(call(op, (*pair, *args[2:])))
    both = isinstance(self, Nested), isinstance(other, Nested)
    check(name != "eq" or not both[1], "eq does not support nested tensor as other value.")
    check(
        all(both),
        "Expected both self and other to be nested, but got a "
        f"{'nested' if both[0] else 'non-nested'} self and {'nested' if both[1] else 'non-nested'} other",
    )
    check(
        self._rows.sizes == other._rows.sizes and self.ndim == other.ndim,
        f"{name} does not support broadcasting when given a NestedTensor",
    )
    if name in ("add", "sub"):
        self, other = packed(self), packed(other)
    check(
        self._rows.strides == other._rows.strides,
        f"{name} requires strides to match when given NestedTensors",
    )
    check(
        self._rows.offsets == other._rows.offsets,
        f"{name} requires offsets to match when given NestedTensors",
    )
    return self.like(call(op, (self._values, other._values, *args[2:])))


@generic("add.Scalar", "sub.Scalar", "mul.Scalar", "div.Scalar", "eq.Scalar", "ge.Scalar", "gt.Scalar")
def by_scalar(op: OpDef, args: Arguments) -> Any:
    return args[0].like(call(op, (args[0]._values, *args[1:])))


@rule("where.self")
def where(condition: Any, self: Any, other: Any) -> Any:
    check(isinstance(condition, Nested), "condition must be nested")
    check(isinstance(other, Nested), "other must be nested")
    check(not isinstance(self, Nested), "self must not be nested")
    check(
        len(condition._rows) == len(other._rows), "condition and other must have the same number of tensors"
    )
    chosen = [
        run_name("where.self", c, self, o) for c, o in zip(rows_of(condition), rows_of(other), strict=True)
    ]
    return from_rows(chosen) if chosen else other


# The buffer as it is, in the same rows.


@generic(
    "detach",
    "alias",
    "zeros_like",
    "ones_like",
    "empty_like",
    "randn_like",
    "native_dropout",
    "dropout",
    "resolve_conj",
    "resolve_neg",
)
def on_buffer(op: OpDef, args: Arguments) -> Any:
    nested = args[0]
    result = call(op, (nested._values, *args[1:]))
    return tuple([nested.like(r) for r in result]) if isinstance(result, tuple) else nested.like(result)


@generic("fill.Scalar", "fill.Tensor", "zero", "normal_functional")
def over_buffer(op: OpDef, args: Arguments) -> Any:
    return strided_nest(call(op, (buffer_of(args[0]), *args[1:])), Rows(args[0]._rows.sizes))


@generic("_to_copy")
def to_copy(op: OpDef, args: Arguments) -> Any:
    buffer_of(args[0])  # refuses others
    return on_buffer(op, args)


@rule("copy")
def copy(self: Any, src: Any) -> Any:
    check(
        isinstance(self, Nested) and isinstance(src, Nested),
        "get_nested_tensor_impl requires a NestedTensor: copy_ takes two of them",
    )
    check(
        self._rows.sizes == src._rows.sizes,
        "copy_ only supports tensors that are the same size for Nested implementations",
    )
    return packed(self).like(buffer_of(src).to(self.dtype))


@rule("clone")
def clone(self: Nested, memory_format: Any) -> Any:
    name = "preserve_format" if memory_format is None else memory_format.name
    check(
        name in ("preserve_format", "contiguous_format"),
        "Nested tensor clone supports Preserve and "
        f"Contiguous memory formats, called clone with memory format: {name}",
    )
    if name == "contiguous_format" and not self._rows.contiguous:
        return packed(self)
    return self.like(self._values.clone())


@rule("contiguous")
def contiguous(self: Nested) -> Any:
    return self if self._rows.contiguous else packed(self)


@rule("is_same_size")
def is_same_size(self: Any, other: Any) -> bool:
    check(
        isinstance(self, Nested) and isinstance(other, Nested),
        "Expected both self and other to be nested tensors.",
    )
    return bool(self._rows.sizes == other._rows.sizes)


# Padding.


@rule("to_padded_tensor")
def to_padded_tensor(self: Nested, padding: float, output_size: Any) -> Tensor:
    check(self._rows.contiguous, "for now to_padded_tensor only supports contiguous nested tensor")
    if not len(self._rows) or not self._rows.dims:
        return self._values.clone()
    check(self.numel() > 0, "to_padded_tensor: at least one constituent tensor should have non-zero numel")
    dense = padded_rows(rows_of(self), self._rows.largest(), padding)
    if output_size is None:
        return dense
    sizes = tuple(output_size)
    check(
        len(sizes) == self.ndim,
        "Length of output_size does not match NestedTensor dims. Broadcasting is not supported.",
    )
    check(
        all(n >= least for n, least in zip(sizes, dense.shape, strict=True)),
        "Value in output_size is less than NestedTensor padded size. Truncation is not supported.",
    )
    more = tuple(n for d in reversed(range(self.ndim)) for n in (0, sizes[d] - dense.shape[d]))
    filled: Tensor = run_name("constant_pad_nd", dense, more, padding)
    return filled


# Along dimensions.


@generic("_softmax", "softmax.int", "_safe_softmax")
def softmax(op: OpDef, args: Arguments) -> Any:
    nested, dim = args[0], wrap_dim(args[1], args[0].ndim)
    if not len(nested._rows):
        return nested.like(nested._values.clone())
    check(dim >= 1, "Cannot apply softmax across nested dimension 0")
    return from_rows([call(op, (row, dim - 1, *args[2:])) for row in rows_of(nested)])


@rule("all.dim")
def all_dim(self: Nested, dim: int, keepdim: bool) -> Any:
    dim = wrap_dim(dim, self.ndim)
    if not len(self._rows):
        return self.like(self._values.clone())
    check(dim >= 1, "Cannot apply all across nested dimension 0")
    return from_rows([row.all(dim - 1, keepdim) for row in rows_of(self)])


@rule("sum.dim_IntList")
def sum_dim(self: Nested, dim: Any, keepdim: bool, dtype: Any) -> Any:
    dims = wrap_dims(tuple(dim or ()), self.ndim)
    check(len(dims) == 1, "NestedTensor only allows reduction of a single dimension for now.")
    check(
        dims[0] == self.ndim - 1,
        "NestedTensor can only be reduced across the last dimension for now got "
        f"dimension {dims[0]} instead.",
    )
    check(keepdim, "NestedTensor always requires keepdim=True for now.")
    check(dtype is None, "NestedTensor does not support dtype argument for now.")
    check(
        self._rows.contiguous,
        "NestedTensor does not support reductions when the input is noncontiguous for now.",
    )
    if not len(self._rows):
        return self
    return from_rows([row.sum(-1, keepdim=True, dtype=self.dtype) for row in rows_of(self)])


@rule("native_layer_norm")
def native_layer_norm(input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    check(
        weight is not None and bias is not None,
        "NestedTensor layer_norm requires weight and bias",
        ValueError,
    )
    check(not weight.is_nested, "NestedTensor weight not supported for layer_norm")
    check(not bias.is_nested, "NestedTensor bias not supported for layer_norm")
    shape, values = tuple(normalized_shape), buffer_of(input)
    check(
        len(shape) >= 1,
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at "
        "least one element, but got normalized_shape = []",
    )
    check(len(shape) < input.ndim, f"normalized_shape {list(shape)} extends into the batch dimension")
    for i, n in enumerate(shape):
        size = input._rows.size(input.ndim - len(shape) + i)
        check(size is not None, "normalized_shape extends into irregular dimensions for the nested tensor")
        check(
            size == n,
            f"The shape at dimension {i} of normalized_shape doesn't match the input: {n} and {size}",
        )
    output, mean, rstd = run_name("native_layer_norm", values.reshape((-1, *shape)), shape, weight, bias, eps)
    return input.like(output.reshape((-1,))), mean.reshape((-1,)), rstd.reshape((-1,))


@rule("layer_norm")
def layer_norm(input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    return native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


# Products and embedding.


@rule("linear")
def linear(input: Any, weight: Tensor, bias: Any) -> Any:
    check(
        isinstance(input, Nested) and not weight.is_nested,
        "Linear does not support nested weight: the input may be a nested tensor, weight and bias are dense",
    )
    check(input._rows.contiguous, "Linear: the nested tensor must be contiguous")
    check(weight.ndim == 2, "Linear does not support a weight of other than 2 dimensions")
    size = last_size(input)
    check(
        size == weight.shape[1],
        "Shape mismatch for NestedTensor Linear: Expected input's (a nested "
        f"tensor) 'last_dim' to equal 'weight.size(1), but got: last_dim = {size}, and weight.size(1) = "
        f"{weight.shape[1]}",
    )
    output = run_name("linear", buffer_of(input).reshape((-1, size)), weight, bias)
    return strided_nest(output.reshape((-1,)), Rows([(*s[:-1], weight.shape[0]) for s in input._rows.sizes]))


@rule("matmul")
def matmul(self: Any, other: Any) -> Any:
    if (
        isinstance(self, Nested)
        and not isinstance(other, Nested)
        and self._rows.contiguous
        and (
            self.ndim == 4
            and other.ndim == 2
            and self._rows.size(2) is not None
            and self._rows.size(3) == other.shape[0]
        )
    ):
        product = run_name("matmul", buffer_of(self).reshape((-1, self.size(2), self.size(3))), other)
        return strided_nest(
            product.reshape((-1,)), Rows([(*size[:-1], other.shape[1]) for size in self._rows.sizes])
        )
    kinds = ["nested" if isinstance(t, Nested) else "non-nested" for t in (self, other)]
    check(
        kinds == ["nested"] * 2, f"Expected both to be nested, but got a {kinds[0]} self and {kinds[1]} other"
    )
    for place, tensor in (("1st", self), ("2nd", other)):
        check(
            tensor.ndim >= 3,
            "matmul: For nested tensors, only inputs with >= 3 dims are currently "
            f"supported. {place} input has rank: {tensor.ndim}",
        )
    check(self.ndim == other.ndim, "matmul: both inputs must have the same rank")
    left, right = self._rows.sizes, other._rows.sizes
    check(
        len(left) == len(right),
        "matmul: Expected size for the 1st dimension of 2nd input tensor to be: "
        f"{len(left)} but got: {len(right)}.",
    )
    check(
        [s[:-2] for s in left] == [s[:-2] for s in right],
        "matmul: For nested tensors, batch dimensions "
        "must have the same sizes, no broadcasting is currently performed. Got batch shapes for self "
        f"{[s[:-2] for s in left]} and batch shapes for mat2 {[s[:-2] for s in right]}",
    )
    check(
        [s[-1] for s in left] == [s[-2] for s in right],
        "matmul: Nested tensors cannot be matrix "
        f"multiplied, last dimension of self has sizes {[s[-1] for s in left]}, second last dimension of "
        f"mat2 has sizes {[s[-2] for s in right]}",
    )
    return from_rows([run_name("matmul", a, b) for a, b in zip(rows_of(self), rows_of(other), strict=True)])


@rule("bmm")
def bmm(self: Any, mat2: Any) -> Any:
    check(self.ndim == 3, "batch1 must be a 3D tensor")
    check(mat2.ndim == 3, "batch2 must be a 3D tensor")
    left, right = ([*t.unbind()] if isinstance(t, Tensor) else [] for t in (self, mat2))
    check(
        len(left) == len(right),
        f"Expected size for the 1st dimension of batch2 tensor to be: {len(left)} but got: {len(right)}.",
    )
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        check(
            a.shape[1] == b.shape[0],
            f"{i}-th nested matrices in batch cannot be multiplied "
            f"({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})",
        )
    return from_rows([run_name("mm", a, b) for a, b in zip(left, right, strict=True)])


@rule("embedding")
def embedding(weight: Any, indices: Any, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> Any:
    check(not weight.is_nested, "NestedTensor weight not supported for embedding")
    check(indices.ndim < 3, "NestedTensor embedding takes indices of 1-D rows")
    check(weight.ndim == 2 and weight.is_contiguous(), "NestedTensor embedding takes a contiguous matrix")
    found = run_name("embedding", weight, buffer_of(indices), padding_idx, scale_grad_by_freq, sparse)
    sizes = [(*size, weight.shape[1]) for size in indices._rows.sizes]
    return strided_nest(found.reshape((-1,)), Rows(sizes))


@rule("scaled_dot_product_attention")
def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any,
    dropout_p: float,
    is_causal: bool,
    scale: Any,
    enable_gqa: bool,
) -> Any:
    three = (query, key, value)
    check(
        all(isinstance(t, Nested) for t in three),
        "scaled_dot_product_attention: Expected query, key and value to be nested tensors of the same layout",
        ValueError,
    )
    check(
        attn_mask is None,
        "scaled_dot_product_attention: Nested tensors for query / key / value are not "
        "supported when an explicit attn_mask is set",
    )
    check(
        len({len(t._rows) for t in three}) == 1,
        "scaled_dot_product_attention: query, key and value have different numbers of rows",
    )
    return from_rows(
        [
            run_name("scaled_dot_product_attention", q, k, v, None, dropout_p, is_causal, scale, enable_gqa)
            for q, k, v in zip(*map(rows_of, three), strict=True)
        ]
    )


# Joining.


@generic("cat", "concat", "concatenate")
def cat(op: OpDef, args: Arguments) -> Any:
    tensors, dim = args
    nested = [isinstance(t, Nested) for t in tensors]
    first = tensors[nested.index(True)]
    dim = wrap_dim(dim, first.ndim)
    check(all(nested), "Expected each tensor in given list to be nested.")
    check(all(t._rows.contiguous for t in tensors), "Expected each tensor in given list to be contiguous.")
    if dim == 0:
        return strided_nest(
            run_name("cat", tuple(buffer_of(t) for t in tensors), 0),
            Rows([size for t in tensors for size in t._rows.sizes]),
        )
    at, sizes = dim - 1, first._rows.sizes
    outside = [[(*s[:at], *s[at + 1 :]) for s in t._rows.sizes] for t in tensors]
    check(
        all(o == outside[0] for o in outside),
        "cat(): expected all nested tensors to have matching ragged "
        "structures outside of the concatenated dim",
    )
    check(
        all(t._rows.size(d) is not None for t in tensors for d in range(2, first.ndim)),
        "cat(): only nested tensors with a single ragged dim next to the batch dim are supported",
    )
    columns = zip(*map(rows_of, tensors), strict=True)
    return from_rows([run_name("cat", row, at) for row in columns]) if sizes else first


@rule("_nested_from_padded_and_nested_example")
def from_padded_and_example(padded: Tensor, nt_example: Any) -> Any:
    check(
        not padded.is_nested and isinstance(nt_example, Nested),
        "get_nested_tensor_impl requires a NestedTensor as the example, and padded is dense",
    )
    return rows_of_padded(padded, nt_example._rows.sizes, False)

"""Products, embedding and attention of nested tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.dispatch import AMBIENT, run_name
from ..core.errors import check
from ..core.nested import NestedTensor, beside, from_padded, nest, packed, padded, rule
from ..core.tensor import Tensor, wrap
from ._view import all_rows


@rule("linear", anywhere=True)
def linear(input: Any, weight: Tensor, bias: Any) -> Any:
    check(
        isinstance(input, NestedTensor) and not weight.is_nested and (bias is None or not bias.is_nested),
        "linear(): the input may be a nested tensor, weight and bias are dense",
        ValueError,
    )
    check(
        input._ragged_idx < input.ndim - 1, "linear(): the last dimension of the input is ragged", ValueError
    )
    return input.like(run_name("linear", input._values, weight, bias))


@rule("matmul", anywhere=True)
def matmul(self: Any, other: Any) -> Any:
    """Products along dimensions that are not ragged on the values; with one dense matrix for each row on
    padded rows; and over the ragged dimension row by row."""
    if isinstance(self, NestedTensor) and isinstance(other, NestedTensor):
        found = _nested_by_nested(self, other)
    elif isinstance(self, NestedTensor):
        found = _nested_by_dense(self, other)
    else:
        found = _dense_by_nested(self, other)
    check(
        found is not None,
        f"matmul(): not supported between inputs of shapes {tuple(self.shape)} and {tuple(other.shape)}",
    )
    return found


def _nested_by_dense(nested: NestedTensor, dense: Tensor) -> Any:
    if nested._ragged_idx >= nested.ndim - 1:
        return None
    if dense.ndim == 2 and nested.ndim > 2:
        return nested.like(run_name("matmul", nested._values, dense))
    if dense.ndim == nested.ndim >= 3:
        product = run_name("matmul", padded(nested, 0), dense)
        return from_padded(product, nested._ragged, nested._ragged_idx)
    return None


def _dense_by_nested(dense: Tensor, nested: NestedTensor) -> Any:
    if nested._ragged_idx < 2:
        return None
    if dense.ndim == 2 and nested.ndim > 2 and nested._ragged_idx != nested.ndim - 2:
        return nested.like(run_name("matmul", dense, nested._values))
    if dense.ndim == nested.ndim >= 3 and nested._ragged_idx != nested.ndim - 2:
        product = run_name("matmul", dense, padded(nested, 0))
        return from_padded(product, nested._ragged, nested._ragged_idx)
    return None


def _nested_by_nested(self: NestedTensor, other: NestedTensor) -> Any:
    if self._ragged.size != other._ragged.size:
        return None
    if self.ndim > 3 and other.ndim > 3 and self._ragged_idx == other._ragged_idx == 1:
        whole, right = packed(self), packed(other)
        return whole.like(run_name("matmul", whole._values, right._values))
    if self.ndim == other.ndim == 3 and (self._ragged_idx, other._ragged_idx) == (2, 1):
        return run_name("matmul", padded(self, 0), padded(other, 0))
    return None


@rule("bmm", anywhere=True)
def bmm(self: Any, mat2: Any) -> Any:
    check(self.ndim == 3, "bmm(): input must be 3D", ValueError)
    check(mat2.ndim == 3, "bmm(): mat2 must be 3D", ValueError)
    return matmul(self, mat2)


@rule("embedding", anywhere=True)
def embedding(weight: Any, indices: Any, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> Any:
    check(not weight.is_nested, "embedding(): the weight is dense", ValueError)
    return indices.like(
        run_name("embedding", weight, indices._values, padding_idx, scale_grad_by_freq, sparse)
    )


# Attention.


@rule("scaled_dot_product_attention", anywhere=True)
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
    _check_attention(query, key, value, attn_mask)
    options = (dropout_p, is_causal, scale, enable_gqa)
    if query.ndim > 3 and query._ragged_idx == 1:  # the ragged dimension is a second batch
        whole = packed(query)
        return whole.like(_dense(whole._values, packed(key)._values, packed(value)._values, None, *options))
    query, key, value = packed(query), packed(key), packed(value)
    run = _row_by_row if _padding_costs(query, key) else _on_padded
    return run(query, key, value, options)


# Running attention once more costs as much as so many scores, measured on rows of some ten to hundreds.
ROW_COST = 20_000


def _padding_costs(query: NestedTensor, key: NestedTensor) -> bool:
    """Whether scores of padding cost more than going row by row. A graph of many rows takes long to compile,
    so that under capture there must be three of padding for each that is needed."""
    batch = query._ragged.batch
    needed = int((query._ragged.sizes * key._ragged.sizes).sum())
    padding = batch * query._ragged.longest * key._ragged.longest - needed
    if AMBIENT.trace is not None:
        return padding > 3 * needed
    heads = math.prod(query._values.shape[: query._ragged_idx - 1])
    return padding * heads > ROW_COST * batch


def _check_attention(query: Any, key: Any, value: Any, attn_mask: Any) -> None:
    three = (query, key, value)
    check(
        all(isinstance(t, NestedTensor) for t in three),
        "Expected query, key, and value to be nested "
        f"tensors, but got query.is_nested: {query.is_nested}, key.is_nested: {key.is_nested}, and "
        f"value.is_nested: {value.is_nested} instead.",
        ValueError,
    )
    check(
        query.dtype is key.dtype and query.dtype is value.dtype,
        "Expected query, key, and value to have "
        f"the same dtype, but got {', '.join(t.dtype.name for t in three)}.",
        ValueError,
    )
    check(
        min(t.ndim for t in three) >= 3,
        "Expected query, key, and value to all be at least 3 dimensional, "
        f"but got {', '.join(str(t.ndim) for t in three)}.",
        ValueError,
    )
    check(
        query._ragged_idx == key._ragged_idx == value._ragged_idx,
        "Expected query, key, and value to all "
        "be ragged on the same dimension, but got ragged dims "
        f"{', '.join(str(t._ragged_idx) for t in three)}.",
        ValueError,
    )
    check(
        attn_mask is None,
        "scaled_dot_product_attention: masks are not supported for nested tensors; the "
        "ends of rows are masked, and is_causal=True masks what comes later",
        ValueError,
    )
    check(
        query._ragged.batch == key._ragged.batch,
        f"scaled_dot_product_attention: query has {query._ragged.batch} rows, key {key._ragged.batch}",
    )
    check(
        key._ragged.size == value._ragged.size,
        "scaled_dot_product_attention: the rows of key and value have different lengths",
    )


def _dense(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    dropout_p: float,
    is_causal: bool,
    scale: Any,
    enable_gqa: bool,
) -> Tensor:
    found: Tensor = run_name(
        "scaled_dot_product_attention", query, key, value, mask, dropout_p, is_causal, scale, enable_gqa
    )
    return found


def _on_padded(
    query: NestedTensor, key: NestedTensor, value: NestedTensor, options: tuple[float, bool, Any, bool]
) -> NestedTensor:
    """All rows at once, padded to the longest, with the padding of keys masked."""
    dropout_p, is_causal, scale, enable_gqa = options
    rows, columns = query._ragged.longest, key._ragged.longest
    mask = None
    if not key._ragged.uniform(columns):
        mask = beside(_mask(query, key, is_causal, rows, columns), query._values)
        is_causal = False
    result = _dense(
        padded(query, 0), padded(key, 0), padded(value, 0), mask, dropout_p, is_causal, scale, enable_gqa
    )
    return from_padded(result, query._ragged, query._ragged_idx)


def _mask(query: NestedTensor, key: NestedTensor, is_causal: bool, rows: int, columns: int) -> Tensor:
    """Which keys a query may look at: those of its row, and with `is_causal` none that comes later."""
    ragged = key._ragged
    kind = ("mask", is_causal, rows, query.ndim)
    if kind not in ragged._indices:
        inside = np.arange(columns) < ragged.sizes[:, None, None]
        if is_causal:
            inside = inside & (np.arange(columns) <= np.arange(rows)[:, None])
        ragged._indices[kind] = wrap(
            np.ascontiguousarray(inside.reshape(ragged.batch, *(1,) * (query.ndim - 3), -1, columns))
        )
    return ragged._indices[kind]


def _row_by_row(
    query: NestedTensor, key: NestedTensor, value: NestedTensor, options: tuple[float, bool, Any, bool]
) -> NestedTensor:
    """For rows of very different lengths, whose padding would cost more than the rows themselves."""
    rows = zip(all_rows(query), all_rows(key), all_rows(value), strict=True)
    results = [_dense(q, k, v, None, *options) for q, k, v in rows]
    return nest(run_name("cat", tuple(results), query._ragged_idx - 1), query._ragged, query._ragged_idx)


@rule("cosine_similarity", anywhere=True)
def cosine_similarity(x1: Any, x2: Any, dim: int, eps: float) -> Any:
    check(
        isinstance(x1, NestedTensor)
        and isinstance(x2, NestedTensor)
        and x1.shape == x2.shape
        and x1._ragged_idx == 1,
        "cosine_similarity(): takes two nested tensors of the same shape",
    )
    check(dim % x1.ndim > 1, "cosine_similarity(): not supported along the batch and the ragged dimension")
    left, right = packed(x1), packed(x2)
    return left.like(run_name("cosine_similarity", left._values, right._values, dim % x1.ndim - 1, eps))

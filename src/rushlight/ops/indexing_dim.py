"""Gather, scatter and index_* along one dimension, and take and put: schemas and shape rules.

Index values are not known here; the kernels check their range before they write anything.
"""

from __future__ import annotations

from typing import Any

from ..core.determinism import alert
from ..core.dtypes import DTYPES, DType
from ..core.errors import check
from ..core.registry import EXACT_OUT, FUNCTION, INPLACE_METHOD, METHOD, Api, define
from ..core.shapes import Spec, wrap_dim
from ..core.tensor import Tensor
from .creation import check_representable, new_like
from .rules import like

INDEX_DTYPES = frozenset((DTYPES["int64"], DTYPES["int32"]))
REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")
_ALL = FUNCTION | METHOD | INPLACE_METHOD | EXACT_OUT | Api.APART_INPLACE
_NO_INPLACE = FUNCTION | METHOD | EXACT_OUT
_NO_OUT = FUNCTION | METHOD | INPLACE_METHOD | Api.APART_INPLACE
_FILL = _NO_OUT | Api.EXPANDED_WARNS


def check_index_dtype(index: Tensor, name: str, error: type[Exception] = RuntimeError) -> None:
    check(
        index.dtype in INDEX_DTYPES,
        f"{name}(): Expected dtype int32/int64 for index, but got {index.dtype.name}",
        error,
    )


def check_long(index: Tensor, name: str, error: type[Exception] = RuntimeError) -> None:
    check(
        index.dtype is DTYPES["int64"],
        f"{name}(): Expected a long tensor for index, but got {index.dtype.torch_name}",
        error,
    )


def check_same_dtype(self: Tensor, other: Tensor, name: str, what: str) -> None:
    check(
        self.dtype is other.dtype,
        f"{name}(): Expected self.dtype to be equal to {what}.dtype, but got "
        f"{self.dtype.name} and {other.dtype.name}",
    )


def _nonempty_rank(tensor: Tensor) -> int:
    return max(tensor.ndim, 1)


def _sizes(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape) or (1,)


# Gather and scatter.


def gather(self: Tensor, dim: int, index: Tensor) -> Spec:
    dim = wrap_dim(dim, self.ndim, name="gather")
    if index.numel():
        check_index_dtype(index, "gather")
        check(
            _nonempty_rank(self) == _nonempty_rank(index),
            "gather: Index tensor must have the same number "
            f"of dimensions as input tensor: index is {list(index.shape)}, input is {list(self.shape)}",
        )
        _check_no_larger(index, self, dim, "gather")
    return Spec(tuple(index.shape), self.dtype)


def _check_no_larger(index: Tensor, self: Tensor, dim: int | None, name: str, what: str = "self") -> None:
    apart = "" if dim is None else f" apart from dimension {dim}"
    for at, (size, limit) in enumerate(zip(_sizes(index), _sizes(self), strict=True)):
        check(
            at == dim or size <= limit,
            f"{name}: Size does not match at dimension {at}: expected index "
            f"{list(index.shape)} to be no larger than {what} {list(self.shape)}{apart}",
        )


def scatter(self: Tensor, dim: int, index: Tensor, src: Tensor | None, name: str) -> Spec:
    dim = wrap_dim(dim, self.ndim, name=name)
    if src is not None:
        check_same_dtype(self, src, name, "src")
    if index.numel():
        check_index_dtype(index, name)
        check(
            _nonempty_rank(self) == _nonempty_rank(index),
            f"{name}: Index tensor must have the same "
            f"number of dimensions as self tensor: index is {list(index.shape)}, self is "
            f"{list(self.shape)}",
        )
        _check_no_larger(index, self, dim, name)
        if src is not None:
            check(
                _nonempty_rank(src) == _nonempty_rank(index),
                f"{name}: Index tensor must have the same "
                f"number of dimensions as src tensor: index is {list(index.shape)}, src is "
                f"{list(src.shape)}",
                IndexError if 0 < src.ndim < index.ndim else RuntimeError,
            )
            _check_no_larger(index, src, None, name, "src")
    return like(self)


def _check_scatter_reduce(reduce: str) -> None:
    check(
        reduce in ("add", "multiply"),
        f"scatter: reduce argument must be either add or multiply, got {reduce!r}",
    )


def scatter_value(self: Tensor, dim: int, index: Tensor, value: Any) -> Spec:
    check_representable(value, self.dtype, "scatter")
    return scatter(self, dim, index, None, "scatter")


def scatter_value_reduce(self: Tensor, dim: int, index: Tensor, value: Any, reduce: str) -> Spec:
    _check_scatter_reduce(reduce)
    return scatter_value(self, dim, index, value)


def scatter_src_reduce(self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str) -> Spec:
    _check_scatter_reduce(reduce)
    return scatter(self, dim, index, src, "scatter")


def scatter_reduce(self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str) -> Spec:
    check(
        reduce in REDUCTIONS,
        f"scatter_reduce: reduce argument must be either sum, prod, mean, amax or amin, got {reduce}",
    )
    check_reducible(self.dtype, reduce, "scatter_reduce")
    return scatter(self, dim, index, src, "scatter_reduce")


def check_reducible(dtype: DType, reduce: str, name: str) -> None:
    refused = dtype is DTYPES["bool"] if reduce == "mean" else dtype.is_complex and reduce in ("amax", "amin")
    check(
        not refused,
        f"\"{name}\" with reduce='{reduce}' not implemented for '{dtype.torch_name}'",
        NotImplementedError,
    )


define(
    "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    shape=gather,
    moves=True,
    api=_NO_INPLACE,
)
define(
    "scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    moves=True,
    api=_ALL,
    shape=lambda self, dim, index, src: scatter(self, dim, index, src, "scatter"),
)
define(
    "scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
    api=_ALL,
    shape=scatter_src_reduce,
)
define(
    "scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    moves=True,
    api=_ALL,
    shape=scatter_value,
)
define(
    "scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
    api=_ALL,
    shape=scatter_value_reduce,
)
define(
    "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    api=_ALL,
    shape=lambda self, dim, index, src: scatter(self, dim, index, src, "scatter_add"),
)
define(
    "scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool "
    "include_self=True) -> Tensor",
    api=_ALL,
    shape=scatter_reduce,
)


# Whole slices at the indices of one dimension.


def index_select(self: Tensor, dim: int, index: Tensor) -> Spec:
    dim = wrap_dim(dim, self.ndim, name="index_select")
    check(
        index.ndim <= 1,
        f"index_select(): Index is supposed to be a vector, but it has shape {list(index.shape)}",
        IndexError,
    )
    check_index_dtype(index, "index_select")
    if self.ndim == 0:
        check(
            index.numel() == 1,
            f"index_select(): Index to scalar can have only 1 value, got {index.numel()} value(s)",
        )
        return like(self)
    check(
        self.shape[dim] > 0 or index.numel() == 0,
        "index_select(): self indexing axis dim should be positive, but it has size 0",
    )
    return Spec((*self.shape[:dim], index.numel(), *self.shape[dim + 1 :]), self.dtype)


define(
    "index_select(Tensor self, int dim, Tensor index) -> Tensor",
    shape=index_select,
    moves=True,
    api=_NO_INPLACE,
)


def _check_slices(self: Tensor, dim: int, index: Tensor, source: Tensor, name: str) -> None:
    """`source` holds one slice of `self` per index along `dim`."""
    check(
        index.ndim <= 1,
        f"{name}(): Index is supposed to be a vector, but got shape {list(index.shape)}",
        IndexError,
    )
    check_index_dtype(index, name)
    check(
        self.dtype is source.dtype,
        f"{name}(): self ({self.dtype.torch_name}) and source "
        f"({source.dtype.torch_name}) must have the same scalar type",
    )
    check(
        dim == 0 or dim < source.ndim,
        f"{name}(): Indexing dim {dim} is out of bounds of source tensor of {source.ndim} dimensions",
        IndexError,
    )
    check(
        source.ndim > 0 or index.numel() == 1,
        f"{name}(): dim {dim} of the source has no slices; a scalar "
        f"source takes one index, not {index.numel()}",
        IndexError,
    )
    count = source.shape[dim] if source.ndim else 1
    check(
        index.numel() == count,
        f"{name}(): Number of indices ({index.numel()}) should be equal to "
        f"source.size(dim): ({count}), for dim: {dim}",
    )
    check(
        self.ndim == source.ndim and _rest(self, dim) == _rest(source, dim),
        f"{name}(): source tensor "
        f"shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
        f"{list(self.shape)} source.shape = {list(source.shape)}",
    )


def _rest(tensor: Tensor, dim: int) -> tuple[int, ...]:
    return (*tensor.shape[:dim], *tensor.shape[dim + 1 :])


def index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any) -> Spec:
    _check_slices(self, wrap_dim(dim, self.ndim, name="index_add"), index, source, "index_add")
    check_representable(alpha, self.dtype, "index_add")
    return like(self)


def index_reduce(self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str) -> Spec:
    check(
        reduce in REDUCTIONS[1:],
        f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}",
    )
    _check_slices(self, wrap_dim(dim, self.ndim, name="index_reduce"), index, source, "index_reduce")
    check_reducible(self.dtype, reduce, "index_reduce")
    return like(self)


def index_copy(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Spec:
    dim = wrap_dim(dim, self.ndim, name="index_copy")
    check(index.ndim <= 1, f"index_copy(): Index should have dimension 1 or 0 (got {index.ndim})", IndexError)
    count = index.numel()
    check(
        source.ndim > 0 or count == 1,
        f"index_copy(): When source is scalar, index should have one element (got {count})",
        IndexError,
    )
    check(
        0 in (self.ndim, source.ndim) or self.ndim == source.ndim,
        "index_copy(): When source and "
        f"destination are not scalars, their dimensionality must match. Source dimensionality "
        f"({source.ndim}), destination dimensionality ({self.ndim})",
        IndexError,
    )
    check_long(index, "index_copy")
    check_same_dtype(self, source, "index_copy", "source")
    ours, theirs = _rest(self, dim) if self.ndim else (), _rest(source, dim) if source.ndim else ()
    check(
        ours == theirs,
        "index_copy(): Source/destination tensor must have same slice shapes. Destination "
        f"slice shape: {list(ours)} and source slice shape: {list(theirs)} at dimension {dim}",
    )
    check(
        source.ndim == 0 or count == source.shape[dim],
        f"index_copy(): Number of indices ({count}) should be equal to source.size(dim)",
        IndexError,
    )
    return like(self)


def _index_fill(self: Tensor, dim: int, index: Tensor) -> Spec:
    wrap_dim(dim, self.ndim, name="index_fill")
    check_long(index, "index_fill", IndexError)
    check(
        index.ndim <= 1,
        f"index_fill(): Index has to be a vector/scalar, but it has shape {list(index.shape)}",
    )
    return new_like(self, None, None, None, "index_fill")


def index_fill_scalar(self: Tensor, dim: int, index: Tensor, value: Any) -> Spec:
    check_representable(value, self.dtype, "index_fill")
    check(
        self.dtype.is_complex or not isinstance(value, complex),
        "index_fill(): Converting complex Scalar to non-complex type is not supported",
    )
    return _index_fill(self, dim, index)


def index_fill_tensor(self: Tensor, dim: int, index: Tensor, value: Tensor) -> Spec:
    check(
        value.ndim == 0,
        f"index_fill only supports a 0-dimensional value tensor, but got tensor with "
        f"{value.ndim} dimension(s).",
    )
    check(
        self.dtype.is_complex or not value.dtype.is_complex,
        "index_fill(): Converting complex Scalar to non-complex type is not supported",
    )
    return _index_fill(self, dim, index)


define(
    "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
    shape=index_add,
    api=_ALL,
)
define(
    "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    shape=index_copy,
    moves=True,
    api=_ALL,
)
define(
    "index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
    shape=index_fill_tensor,
    moves=True,
    api=_FILL,
)
define(
    "index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    shape=index_fill_scalar,
    moves=True,
    api=_FILL,
)
define(
    "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool "
    "include_self=True) -> Tensor",
    shape=index_reduce,
    api=_ALL,
)


# Elements of the flattened tensor.


def take(self: Tensor, index: Tensor) -> Spec:
    check_long(index, "take")
    check(self.numel() or not index.numel(), "take(): tried to take from an empty tensor", IndexError)
    return Spec(tuple(index.shape), self.dtype)


def put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Spec:
    if not accumulate:
        alert("put_")
    check_long(index, "put_")
    check_same_dtype(self, source, "put_", "source")
    check(
        source.numel() == index.numel(),
        "put_(): Expected source and index to have the same number of "
        f"elements, but got source.numel() = {source.numel()}, index.numel() = {index.numel()}",
        IndexError,
    )
    check(self.numel() or not index.numel(), "put_(): Tried to put elements into an empty tensor", IndexError)
    return new_like(self, None, None, None, "put_")


define("take(Tensor self, Tensor index) -> Tensor", shape=take, moves=True, api=_NO_INPLACE)
define(
    "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
    shape=put,
    moves=True,
    api=_NO_OUT,
)

"""Sorting, searching and unique values: schemas and shape rules."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import DTYPES, DType
from ..core.errors import check
from ..core.promotion import common
from ..core.registry import EXACT_OUT, FUNCTION, INTERNAL, METHOD, OUT, Api, define
from ..core.shapes import Spec, reduced_shape, wrap_dim
from ..core.tensor import Tensor
from .creation import like_strides
from .rules import like

INT64, BOOL = DTYPES["int64"], DTYPES["bool"]
_SELECTED = FUNCTION | METHOD | EXACT_OUT


# Order along a dimension.


def sort(self: Tensor, dim: int) -> tuple[Spec, Spec]:
    wrap_dim(dim, self.ndim, name="sort")
    check(not self.dtype.is_complex, f"sort: complex numbers have no order; got {self.dtype.name}")
    strides = like_strides(self, None, "sort")
    return Spec(tuple(self.shape), self.dtype, strides), Spec(tuple(self.shape), INT64, strides)


define(
    "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, "
    "Tensor indices)",
    shape=sort,
    api=FUNCTION | METHOD | OUT | Api.EXACT,
)


def topk(self: Tensor, k: int, dim: int) -> tuple[Spec, Spec]:
    dim = wrap_dim(dim, self.ndim, name="topk")
    check(
        not self.dtype.is_complex and self.dtype is not BOOL,
        f"topk: {self.dtype.name} is not supported; convert to a number type that has an order",
    )
    size = self.shape[dim] if self.ndim else 1
    check(
        0 <= k <= size, f"topk: selected index k out of range: k is {k}, dimension {dim} has {size} elements"
    )
    shape = (*self.shape[:dim], k, *self.shape[dim + 1 :]) if self.ndim else ()
    return Spec(shape, self.dtype), Spec(shape, INT64)


define(
    "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, "
    "Tensor indices)",
    shape=topk,
    api=_SELECTED,
)


def kthvalue(self: Tensor, k: int, dim: int, keepdim: bool) -> tuple[Spec, Spec]:
    dim = wrap_dim(dim, self.ndim, name="kthvalue")
    check(
        not self.dtype.is_complex and self.dtype is not BOOL,
        f"\"kthvalue\" not implemented for '{self.dtype.torch_name}'",
        NotImplementedError,
    )
    size = self.shape[dim] if self.ndim else 1
    check(size > 0, f"kthvalue(): Expected reduction dim {dim} to have non-zero size.", IndexError)
    check(
        1 <= k <= size,
        f"kthvalue(): selected number k out of range for dimension {dim}: k is {k}, the "
        f"dimension has {size} elements",
    )
    shape = reduced_shape(self.shape, (dim,), keepdim)
    return Spec(shape, self.dtype), Spec(shape, INT64)


define(
    "kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    shape=kthvalue,
    api=_SELECTED,
)


# Unique values. The Python functions return only what was asked for; the operators always have three outputs.


def unique_values(self: Tensor) -> tuple[Spec, ...]:
    _check_no_complex(self, "unique")
    return Spec(None, self.dtype), Spec(None, INT64), Spec(None, INT64)


def unique_slices(self: Tensor, dim: int) -> tuple[Spec, ...]:
    _check_no_complex(self, "unique_dim")
    check(self.ndim > 0, "unique_dim: Dimension specified as 0 but tensor has no dimensions", IndexError)
    dim = wrap_dim(dim, self.ndim, name="unique_dim")
    others = (*self.shape[:dim], *self.shape[dim + 1 :])
    check(
        0 not in others,
        f"unique_dim: there are 0 sized dimensions in {list(self.shape)} besides "
        f"dimension {dim}, so unique cannot be applied",
    )
    return Spec(None, self.dtype), Spec(None, INT64), Spec(None, INT64)


def _check_no_complex(self: Tensor, name: str) -> None:
    check(
        not self.dtype.is_complex,
        f"\"{name}\" not implemented for '{self.dtype.torch_name}'",
        NotImplementedError,
    )


define(
    "_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)",
    shape=lambda self: unique_values(self)[:2],
    data_dependent=True,
    api=FUNCTION,
)
define(
    "_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> "
    "(Tensor, Tensor, Tensor)",
    shape=unique_values,
    data_dependent=True,
    api=FUNCTION,
)
define(
    "unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool "
    "return_counts=False) -> (Tensor, Tensor, Tensor)",
    shape=unique_slices,
    data_dependent=True,
    api=INTERNAL,
)
define(
    "unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) -> "
    "(Tensor, Tensor, Tensor)",
    shape=unique_slices,
    data_dependent=True,
    api=INTERNAL,
)
define(
    "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) "
    "-> (Tensor, Tensor, Tensor)",
    data_dependent=True,
    api=INTERNAL,
    shape=lambda self, dim: unique_values(self) if dim is None else unique_slices(self, dim),
)


# Searching.


def searchsorted(
    sorted_sequence: Tensor, self: Any, out_int32: bool, right: bool, side: str | None, sorter: Tensor | None
) -> Spec:
    name = "searchsorted()"
    shape = tuple(self.shape) if isinstance(self, Tensor) else ()
    check(side in (None, "left", "right"), f"{name}: side can only be 'left' or 'right' but got {side}")
    check(
        side != "left" or not right,
        f"{name}: side and right can't be set to opposites, got side of left while right was True",
    )
    if sorter is not None:
        check(
            sorter.shape == sorted_sequence.shape,
            f"{name}: boundary and sorter must have the same size, "
            f"but got boundary tensor {list(sorted_sequence.shape)} and got sorter tensor "
            f"{list(sorter.shape)}",
        )
        check(
            sorter.dtype is INT64,
            f"{name}: sorter must be a tensor of long dtype but got dtype {sorter.dtype.torch_name}",
        )
    rank = sorted_sequence.ndim
    check(rank > 0, f"{name}: boundaries tensor should have positive dimension, but got 0 dimension")
    check(
        shape != () or rank == 1,
        f"{name}: input value can be a scalar only when boundaries tensor "
        f"dimension is 1, but we got boundaries tensor dim({rank})",
    )
    check(
        rank == 1 or sorted_sequence.shape[:-1] == shape[:-1],
        f"{name}: boundaries tensor should be 1 "
        "dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, but "
        f"we got boundaries tensor {list(sorted_sequence.shape)} and input value tensor {list(shape)}",
    )
    _check_ordered(searched_dtype(sorted_sequence, self), "searchsorted")
    return Spec(shape, DTYPES["int32"] if out_int32 else INT64)


def searched_dtype(sequence: Tensor, values: Any) -> DType:
    """The dtype in which the values are compared with the sequence."""
    if isinstance(values, Tensor) and values.dtype is sequence.dtype:
        return sequence.dtype
    given = (values.dtype, values.ndim == 0) if isinstance(values, Tensor) else values
    return common([(sequence.dtype, False), given])


def _check_ordered(dtype: DType, name: str) -> None:
    check(
        not dtype.is_complex and dtype is not BOOL,
        f"\"{name}\" not implemented for '{dtype.torch_name}'",
        NotImplementedError,
    )


def bucketize(self: Any, boundaries: Tensor, out_int32: bool, right: bool) -> Spec:
    check(
        boundaries.ndim == 1,
        f"bucketize: boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})",
    )
    return searchsorted(boundaries, self, out_int32, right, None, None)


_SEARCH = FUNCTION | EXACT_OUT
_OPTIONS = "bool out_int32=False, bool right=False"
define(
    f"searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, {_OPTIONS}, str? side=None, Tensor? "
    "sorter=None) -> Tensor",
    shape=searchsorted,
    api=_SEARCH,
)
define(
    f"searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, {_OPTIONS}, str? side=None, Tensor? "
    "sorter=None) -> Tensor",
    shape=searchsorted,
    api=_SEARCH,
)
define(
    f"bucketize.Tensor(Tensor self, Tensor boundaries, *, {_OPTIONS}) -> Tensor", shape=bucketize, api=_SEARCH
)
define(
    f"bucketize.Scalar(Scalar self, Tensor boundaries, *, {_OPTIONS}) -> Tensor", shape=bucketize, api=_SEARCH
)


def isin(elements: Any, test_elements: Any) -> Spec:
    for value in (elements, test_elements):
        number = isinstance(value, complex | bool)
        wrong = number or (isinstance(value, Tensor) and (value.dtype.is_complex or value.dtype is BOOL))
        check(
            not wrong,
            f"Unsupported input type encountered for isin(): "
            f"{value.dtype.torch_name if isinstance(value, Tensor) else type(value).__name__}",
        )
    return like(elements, BOOL) if isinstance(elements, Tensor) else Spec((), BOOL)


_FLAGS = "*, bool assume_unique=False, bool invert=False"
define(
    f"isin.Tensor_Tensor(Tensor elements, Tensor test_elements, {_FLAGS}) -> Tensor", shape=isin, api=_SEARCH
)
define(
    f"isin.Tensor_Scalar(Tensor elements, Scalar test_element, {_FLAGS}) -> Tensor",
    shape=lambda elements, test_element: isin(elements, test_element),
    api=_SEARCH,
)
define(
    f"isin.Scalar_Tensor(Scalar element, Tensor test_elements, {_FLAGS}) -> Tensor",
    shape=lambda element, test_elements: isin(element, test_elements),
    api=_SEARCH,
)

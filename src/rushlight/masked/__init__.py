"""Reductions and normalizations that look only at the elements a mask selects.

A mask is a bool tensor (or converts to one) that broadcasts to the input; elements where it is False are left
out. A result of no elements is the operation's identity where it has one, NaN otherwise. `sum`, `prod`,
`amax`, `amin` and `mean` take sparse tensors, too (masked/_sparse.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.construct import scalar_tensor
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, Category, DType, iinfo
from ..core.errors import check
from ..core.shapes import Shape, wrap_dims
from ..core.tensor import Tensor
from ._sparse import reduced

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

Dims = int | Sequence[int] | None
INF = float("inf")
NAN = float("nan")


# The mask.


def _full_mask(input: Tensor, mask: Tensor) -> Tensor:
    """`mask` as bool, of the shape of `input`."""
    check(
        mask.ndim <= input.ndim,
        "masked: the mask must broadcast to the input, but has more dimensions: "
        f"{mask.ndim} and {input.ndim}",
        IndexError,
    )
    return mask.to(DTYPES["bool"]).broadcast_to(tuple(input.shape))


def _selected(input: Tensor, mask: Tensor | None, identity: Any) -> Tensor:
    """`input` with the elements left out replaced by `identity`."""
    check(
        input._parts is None,
        f"masked: this operation expects a strided tensor, got {input.layout}",
        ValueError,
    )
    if mask is None:
        return input
    return input.where(_full_mask(input, mask), scalar_tensor(identity, input.dtype))


def _lowest(dtype: DType) -> Any:
    """What never wins a maximum."""
    return -INF if dtype.category >= Category.FLOATING else iinfo(dtype).min


def _highest(dtype: DType) -> Any:
    """What never wins a minimum."""
    return INF if dtype.category >= Category.FLOATING else iinfo(dtype).max


def _dims(dim: Dims, rank: int) -> Shape:
    return tuple(sorted(wrap_dims(dim, rank, name="masked")))


def _sum_dtype(input: Tensor, dtype: DType | None) -> DType:
    if dtype is not None:
        return dtype
    return DTYPES["int64"] if input.dtype.category <= Category.INTEGRAL else input.dtype


def _count(input: Tensor, dims: Shape, keepdim: bool, mask: Tensor | None) -> Tensor:
    """How many elements are reduced to each result."""
    if mask is None:
        mask = input.new_ones((), dtype=DTYPES["bool"])
    return _full_mask(input, mask).sum(dims, keepdim)


# Reductions.


def sum(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum of the selected elements.

    >>> rl.masked.sum(rl.tensor([1.0, 5.0]), 0, mask=rl.tensor([True, False]))
    tensor(1.)
    """
    if input._parts is not None:
        return reduced("sum", input, _dims(dim, input.ndim), keepdim, _sum_dtype(input, dtype), mask)
    return _selected(input, mask, 0).sum(
        _dims(dim, input.ndim), bool(keepdim), dtype=_sum_dtype(input, dtype)
    )


def prod(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product of the selected elements.

    >>> rl.masked.prod(rl.tensor([2.0, 5.0]), 0, mask=rl.tensor([True, False]))
    tensor(2.)
    """
    if input._parts is not None:
        return reduced("prod", input, _dims(dim, input.ndim), keepdim, _sum_dtype(input, dtype), mask)
    result = _selected(input, mask, 1).to(_sum_dtype(input, dtype))
    for d in reversed(_dims(dim, input.ndim)):
        result = result.prod(d, bool(keepdim))
    return result


def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The running sum of the selected elements.

    >>> rl.masked.cumsum(rl.tensor([2.0, 3.0]), 0, mask=rl.tensor([True, True]))
    tensor([2., 5.])
    """
    return _selected(input, mask, 0).cumsum(dim, dtype=dtype or input.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The running product of the selected elements.

    >>> rl.masked.cumprod(rl.tensor([2.0, 3.0]), 0, mask=rl.tensor([True, True]))
    tensor([2., 6.])
    """
    return _selected(input, mask, 1).cumprod(dim, dtype=dtype or input.dtype)


def amax(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The largest of the selected elements.

    >>> rl.masked.amax(rl.tensor([1.0, 5.0]), 0, mask=rl.tensor([True, False]))
    tensor(1.)
    """
    if input._parts is not None:
        return reduced("amax", input, _dims(dim, input.ndim), keepdim, dtype or input.dtype, mask)
    selected = _selected(input, mask, _lowest(input.dtype))
    return selected.amax(_dims(dim, input.ndim), bool(keepdim)).to(dtype or input.dtype)


def amin(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The smallest of the selected elements.

    >>> rl.masked.amin(rl.tensor([1.0, 5.0]), 0, mask=rl.tensor([False, True]))
    tensor(5.)
    """
    if input._parts is not None:
        return reduced("amin", input, _dims(dim, input.ndim), keepdim, dtype or input.dtype, mask)
    selected = _selected(input, mask, _highest(input.dtype))
    return selected.amin(_dims(dim, input.ndim), bool(keepdim)).to(dtype or input.dtype)


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The position of the largest selected element, in the dtype of the input unless told otherwise.

    >>> rl.masked.argmax(rl.tensor([1.0, 5.0]), 0, mask=rl.tensor([True, False]))
    tensor(0.)
    """
    return _selected(input, mask, _lowest(input.dtype)).argmax(dim, bool(keepdim)).to(dtype or input.dtype)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The position of the smallest selected element, in the dtype of the input unless told otherwise.

    >>> rl.masked.argmin(rl.tensor([1.0, 5.0]), 0, mask=rl.tensor([False, True]))
    tensor(1.)
    """
    return _selected(input, mask, _highest(input.dtype)).argmin(dim, bool(keepdim)).to(dtype or input.dtype)


def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean of the selected elements; NaN if there are none.

    >>> rl.masked.mean(rl.tensor([1.0, 5.0]), 0, mask=rl.tensor([True, False]))
    tensor(1.)
    """
    wanted = dtype or input.dtype
    check(
        wanted.category >= Category.FLOATING,
        f"masked.mean: the dtype must be floating point or complex, got {wanted.torch_name}; pass dtype=",
        ValueError,
    )
    dims = _dims(dim, input.ndim)
    if input._parts is not None:
        return reduced("mean", input, dims, keepdim, wanted, mask)
    return sum(input, dims, keepdim=keepdim, dtype=dtype, mask=mask) / _count(
        input, dims, bool(keepdim), mask
    )


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The median of the selected elements, the lower one of two; NaN if there are none.

    >>> rl.masked.median(rl.tensor([1.0, 5.0, 2.0]), 0, mask=rl.tensor([True, False, True]))
    tensor(1.)
    """
    if input.is_floating_point():
        return _selected(input, mask, NAN).nanmedian(dim, keepdim)[0]
    result = _selected(input.to(DTYPES["float32"]), mask, NAN).nanmedian(dim, keepdim)[0]
    check(
        not result.isnan().any(),
        "masked.median: no row may be left out completely if the dtype is not floating point",
        ValueError,
    )
    return result.to(dtype or input.dtype)


def logsumexp(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of the sum of the exponentials of the selected elements.

    >>> rl.masked.logsumexp(rl.tensor([0.0, 9.0]), 0, mask=rl.tensor([True, False]))
    tensor(0.)
    """
    selected = _selected(input, mask, _lowest(input.dtype))
    return selected.logsumexp(_dims(dim, input.ndim), keepdim).to(dtype or input.dtype)


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm of order `ord` of the selected elements.

    >>> rl.masked.norm(rl.tensor([3.0, 4.0, 9.0]), 2, 0, mask=rl.tensor([True, True, False]))
    tensor(5.)
    """
    selected = _selected(input, mask, INF if ord == -INF else 0)
    return run_name(
        "linalg_vector_norm",
        selected,
        2.0 if ord is None else ord,
        _dims(dim, input.ndim),
        bool(keepdim),
        dtype or input.dtype,
    )


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of the selected elements.

    >>> mask = rl.tensor([True, True, False])
    >>> rl.masked.var(rl.tensor([1.0, 3.0, 9.0]), 0, unbiased=False, mask=mask)
    tensor(1.)
    """
    check(
        unbiased is None or correction is None,
        "masked.var: only one of unbiased and correction may be given",
        AssertionError,
    )
    if correction is None:
        correction = 1.0 if unbiased is None else float(unbiased)
    compute = dtype or input.dtype
    compute = compute if compute.category >= Category.FLOATING else DTYPES["float32"]
    dims = _dims(dim, input.ndim)
    count = _count(input, dims, True, mask)
    deviation = input - sum(input, dims, keepdim=True, dtype=compute, mask=mask) / count
    total = sum(deviation * deviation.conj(), dims, keepdim=keepdim, dtype=compute, mask=mask)
    freedom = count.reshape(total.shape).to(compute.to_real())
    return (total / (freedom - correction).clamp(min=0)).to(dtype or compute)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation of the selected elements.

    >>> mask = rl.tensor([True, True, False])
    >>> rl.masked.std(rl.tensor([1.0, 3.0, 9.0]), 0, unbiased=False, mask=mask)
    tensor(1.)
    """
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


# Normalizations.


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax of the selected elements; zero for the others.

    >>> rl.masked.softmax(rl.tensor([1.0, 1.0, 9.0]), 0, mask=rl.tensor([True, True, False]))
    tensor([0.5000, 0.5000, 0.0000])
    """
    return _selected(input, mask, _lowest(input.dtype)).softmax(dim, dtype or input.dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of `softmax`.

    >>> rl.masked.log_softmax(rl.tensor([1.0, 1.0]), 0, mask=rl.tensor([True, True]))
    tensor([-0.6931, -0.6931])
    """
    return _selected(input, mask, _lowest(input.dtype)).log_softmax(dim, dtype or input.dtype)


def softmin(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax of the negated selected elements; zero for the others.

    >>> rl.masked.softmin(rl.tensor([1.0, 1.0]), 0, mask=rl.tensor([True, True]))
    tensor([0.5000, 0.5000])
    """
    return (-_selected(input, mask, _highest(input.dtype))).softmax(dim, dtype or input.dtype)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The input divided by the norm of its selected elements, which is at least `eps`.

    >>> rl.masked.normalize(rl.tensor([3.0, 4.0]), 2, 0, mask=rl.tensor([True, True]))
    tensor([0.6000, 0.8000])
    """
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _selected(input, mask, 0) / size.clamp(min=eps)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DType | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(input) + exp(other)), where an element left out counts as zero in that sum.

    >>> rl.masked.logaddexp(rl.tensor([0.0]), rl.tensor([0.0]))
    tensor([0.6931])
    """
    left = _selected(input, input_mask, _lowest(input.dtype))
    return left.logaddexp(_selected(other, other_mask, _lowest(other.dtype))).to(dtype or input.dtype)

"""Bags of embeddings."""

from __future__ import annotations

import warnings

from .._api.link import API
from ..core.dispatch import run_name
from ..core.dtypes import int64
from ..core.errors import check
from ..core.tensor import Tensor

__all__ = ["embedding_bag"]

_MODES = {"sum": 0, "mean": 1, "max": 2}
_functions = API.functions[""]


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of the rows of `weight` in each bag.

    A bag is a row of a 2-D `input`; or what lies between two `offsets` into a 1-D one. Rows longer than
    `max_norm` are shortened first, in place.

    >>> F.embedding_bag(rl.tensor([0, 2, 1]), rl.eye(3), rl.tensor([0, 2]), mode="sum")
    tensor([[1., 0., 1.],
            [0., 1., 0.]])
    """
    if weight.dtype is int64 and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed: `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        weight, input = input, weight
    check(
        per_sample_weights is None or per_sample_weights.shape == input.shape,
        "embedding_bag: If per_sample_weights is not None, then it must have the same shape as the input "
        f"({list(input.shape)})",
        ValueError,
    )
    check(
        weight.ndim == 2,
        f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}",
        ValueError,
    )
    input, starts, per_sample_weights = _flat_bags(input, offsets, per_sample_weights)
    _check_mode(mode, scale_grad_by_freq or sparse, per_sample_weights is not None)
    if max_norm is not None:
        rows = weight.detach()
        rows.copy_(run_name("embedding_renorm", rows, input.contiguous(), max_norm, norm_type))
    return run_name(
        "embedding_bag.padding_idx",
        weight,
        input,
        starts,
        scale_grad_by_freq,
        _MODES[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )[0]


def _check_mode(mode: str, by_rows: bool, weighted: bool) -> None:
    """Refuse a mode that there is not, or not with gradients by rows or with weights of the samples."""
    check(mode in _MODES, f"mode has to be one of sum, mean or max, but got {mode!r}", ValueError)
    check(
        mode != "max" or not by_rows,
        "max mode does not support scaling the gradient by the frequency, nor sparse weights",
        ValueError,
    )
    check(
        not weighted or mode == "sum",
        "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
        f"(got mode='{mode}')",
        NotImplementedError,
    )


def _flat_bags(
    input: Tensor, offsets: Tensor | None, weights: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The indices in one row, where each bag starts, and the weights in one row."""
    if input.ndim == 1:
        check(offsets is not None, "offsets has to be a 1D Tensor but got None", ValueError)
        assert offsets is not None
        check(offsets.ndim == 1, "offsets has to be a 1D Tensor", ValueError)
        return input, offsets, weights
    check(
        input.ndim == 2,
        f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}",
        ValueError,
    )
    check(
        offsets is None,
        "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
        "sequences. However, found offsets of type " + type(offsets).__name__,
        ValueError,
    )
    rows, length = input.shape
    dtype = input.dtype if input.dtype.name == "int32" else int64
    starts = _functions["arange"](rows, dtype=dtype, device=input.device) * length
    return input.reshape(-1), starts, None if weights is None else weights.reshape(-1)

"""torch.nn.functional: the functions whose operators belong to the tensor library.

Those that are operators as they stand come from the registry; the others adapt PyTorch's signature.
"""

from __future__ import annotations

from typing import Any

from .. import _functions
from .._functions import API
from ..core.dispatch import run_name
from ..core.dtypes import DType
from ..core.errors import check
from ..core.tensor import Tensor

# Operators under the same name and signature.
_SAME = ("bilinear", "channel_shuffle", "cosine_similarity", "pairwise_distance", "pdist", "pixel_shuffle",
         "pixel_unshuffle")
globals().update({name: API.functions[""][name] for name in _SAME})
globals().update(API.functions["nn.functional"])

functions: Any = _functions


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    return functions.relu_(input) if inplace else functions.relu(input)


def relu_(input: Tensor) -> Tensor:
    return functions.relu_(input)


def tanh(input: Tensor) -> Tensor:
    return functions.tanh(input)


def sigmoid(input: Tensor) -> Tensor:
    return functions.sigmoid(input)


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    return functions.softmax(input, _dim(dim, input), dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    return functions.log_softmax(input, _dim(dim, input), dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    return functions.softmax(-input, _dim(dim, input), dtype=dtype)


def _dim(dim: int | None, input: Tensor) -> int:
    """The dimension PyTorch takes where none is given."""
    return (0 if input.ndim in (0, 1, 3) else 1) if dim is None else dim


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    return run_name("one_hot", tensor, num_classes)


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
              norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """Rows of `weight`, those longer than `max_norm` shortened first, in place."""
    rows = weight.shape[0]
    if padding_idx is None:
        padding_idx = -1
    else:
        check(
            -rows <= padding_idx < rows,
            f"Padding_idx must be within num_embeddings, got {padding_idx}",
            AssertionError,
        )
        padding_idx = padding_idx % rows
    if max_norm is not None:
        weight.detach().copy_(
            run_name("embedding_renorm", weight.detach(), input.contiguous(), max_norm, norm_type)
        )
    return run_name("embedding", weight, input, padding_idx, scale_grad_by_freq, sparse)


def _dropout(name: str, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    check(0.0 <= p <= 1.0, f"dropout probability has to be between 0 and 1, but got {p}", ValueError)
    return getattr(functions, f"{name}_" if inplace else name)(input, p, training)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return _dropout("dropout", input, p, training, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    return _dropout("alpha_dropout", input, p, training, inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    return _dropout("feature_alpha_dropout", input, p, training, inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    check(input.ndim in (2, 3), f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input")
    if input.ndim == 3:
        return _dropout("feature_dropout", input, p, training, inplace)
    result = _dropout(
        "feature_dropout", input.unsqueeze_(0) if inplace else input.unsqueeze(0), p, training, inplace
    )
    return result.squeeze_(0) if inplace else result.squeeze(0)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return _dropout("feature_dropout", input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return _dropout("feature_dropout", input, p, training, inplace)


__all__ = [name for name in dir() if not name.startswith("_") and name not in (
    "API", "Any", "DType", "Tensor", "annotations", "check", "functions", "run_name")]

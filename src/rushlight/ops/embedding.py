"""Embeddings and one-hot vectors: schemas and shape rules."""

from __future__ import annotations

from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, define
from ..core.shapes import Spec
from ..core.tensor import Tensor
from ..core.traits import Trait
from .creation import new_like
from .indexing_dim import INDEX_DTYPES

INT64 = DTYPES["int64"]
_WEIGHTS = frozenset(DTYPES[name] for name in ("float16", "bfloat16", "float32", "float64"))
SUM, MEAN, MAX = 0, 1, 2


def _check_indices(indices: Tensor, name: str, what: str = "indices") -> None:
    check(
        indices.dtype in INDEX_DTYPES,
        f"{name}: Expected tensor for argument '{what}' to have one of the "
        f"following scalar types: Long, Int; but got {indices.dtype.torch_name} instead",
    )


def embedding(weight: Tensor, indices: Tensor) -> Spec:
    check(weight.ndim == 2, f"embedding: 'weight' must be 2-D, but it has shape {list(weight.shape)}")
    _check_indices(indices, "embedding")
    return Spec((*indices.shape, weight.shape[1]), weight.dtype)


def embedding_dense_backward(grad_output: Tensor, indices: Tensor, num_weights: int) -> Spec:
    _check_indices(indices, "embedding_dense_backward")
    return Spec((num_weights, grad_output.shape[-1]), grad_output.dtype)


def embedding_renorm(self: Tensor, indices: Tensor) -> Spec:
    check(self.ndim == 2, f"embedding_renorm_: 'self' must be 2-D, but it has shape {list(self.shape)}")
    _check_indices(indices, "embedding_renorm_")
    return new_like(self, None, None, None, "embedding_renorm_")


define(
    "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool "
    "sparse=False) -> Tensor",
    shape=embedding,
    moves=True,
    api=FUNCTION,
)
define(
    "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, "
    "bool scale_grad_by_freq) -> Tensor",
    shape=embedding_dense_backward,
    api=INTERNAL,
)
define(
    "embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
    shape=embedding_renorm,
    api=INTERNAL,
)


# Bags of embeddings.


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    mode: int,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
) -> tuple[Spec, ...]:
    """The bags; the bag of every index; the size of every bag; with MAX the index of every maximum."""
    name = "embedding_bag"
    _check_indices(indices, name)
    _check_indices(offsets, name, "offsets")
    check(
        weight.ndim == 2, f"{name}: weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}"
    )
    check(
        offsets.ndim == 1,
        f"{name}: offsets has to be a 1D Tensor, but got Tensor of dimension {offsets.ndim}",
    )
    check(
        indices.ndim == 1,
        f"{name}: indices has to be a 1D Tensor, but got Tensor of dimension {indices.ndim}",
    )
    check(
        weight.dtype in _WEIGHTS,
        f"{name}: weight must be Half, BFloat16, Float or Double, not {weight.dtype.torch_name}",
    )
    check(mode in (SUM, MEAN, MAX), f"{name}: `mode` must be sum (0), mean (1), or max (2), got {mode}")
    if per_sample_weights is not None:
        check(mode == SUM, f"{name}: per_sample_weights only supported with mode='sum'")
        check(
            per_sample_weights.dtype is weight.dtype,
            f"{name}: weight and per_sample_weights must have "
            f"the same type, got {weight.dtype.torch_name} and {per_sample_weights.dtype.torch_name}",
        )
        check(
            per_sample_weights.shape == indices.shape,
            f"{name}: per_sample_weights must have the shape of "
            f"indices, {list(indices.shape)}, not {list(per_sample_weights.shape)}",
        )
    bags = offsets.shape[0] - (1 if include_last_offset else 0)
    check(bags >= 0, f"{name}: include_last_offset: number of offsets should be at least 1")
    dtype = indices.dtype if indices.dtype is offsets.dtype else INT64
    shape = (bags, weight.shape[1])
    return (
        Spec(shape, weight.dtype),
        Spec(tuple(indices.shape), dtype),
        Spec((bags,), dtype),
        Spec(shape if mode == MAX else (bags,), dtype),
    )


for _name in ("_embedding_bag", "_embedding_bag_forward_only"):
    define(
        f"{_name}(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int "
        "mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int "
        "padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
        shape=embedding_bag,
        api=FUNCTION,
    )

define(
    "_embedding_bag_dense_backward(Tensor grad, Tensor indices, Tensor offset2bag, Tensor bag_size, "
    "Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, Tensor? "
    "per_sample_weights, int padding_idx=-1) -> Tensor",
    api=INTERNAL,
    shape=lambda grad, num_weights: Spec((num_weights, grad.shape[1]), grad.dtype),
)


def per_sample_weights_backward(grad: Tensor, indices: Tensor, mode: int) -> Spec:
    check(mode == SUM, "embedding_bag_backward: per_sample_weights only supported for mode='sum'")
    return Spec(tuple(indices.shape), grad.dtype)


define(
    "_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor "
    "offsets, Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor",
    shape=per_sample_weights_backward,
    api=INTERNAL,
)


# One-hot vectors.


def one_hot(self: Tensor, num_classes: int) -> Spec:
    check(
        self.dtype is INT64,
        f"one_hot is only applicable to index tensor of type LongTensor, not {self.dtype.torch_name}.",
    )
    check(num_classes >= -1, f"one_hot: num_classes must be -1 or positive, got {num_classes}")
    if self.numel() == 0:
        check(num_classes > 0, "one_hot: Can not infer total number of classes from empty tensor.")
    return Spec(None if num_classes == -1 else (*self.shape, num_classes), INT64)


define("one_hot(Tensor self, int num_classes=-1) -> Tensor", shape=one_hot, api=INTERNAL, traits=Trait.RAISES)

"""Distances between rows, and similarity, in terms of norms and products."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.promotion import Promotion
from ..core.registry import FUNCTION, INTERNAL, composite, decomposition
from ..core.shapes import broadcast_shapes
from ..core.tensor import Tensor

LARGE = 25  # rows from which a Euclidean distance is computed by a matrix product


@composite("cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor", api=INTERNAL)
def cdist(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    """Mode 0 (and None) takes the matrix product for many rows, 1 always, 2 never."""
    large = x1.ndim >= 2 and x2.ndim >= 2 and (x1.shape[-2] > LARGE or x2.shape[-2] > LARGE)
    if p == 2 and (compute_mode == 1 or (compute_mode in (None, 0) and large)):
        check(
            x1.dtype.itemsize >= 4,
            f"\"cdist\" not implemented for '{x1.dtype.torch_name}'",
            NotImplementedError,
        )
        return run_name("_euclidean_dist", x1, x2)
    return run_name("_cdist_forward", x1, x2, p, compute_mode)


@decomposition("_cdist_forward")
def cdist_forward(x1: Tensor, x2: Tensor, p: float) -> Tensor:
    differences = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    return run_name("linalg_vector_norm", differences, p, (-1,), False, None)


@decomposition("_euclidean_dist")
def euclidean_dist(x1: Tensor, x2: Tensor) -> Tensor:
    squares1, squares2 = ((t * t).sum(-1, keepdim=True) for t in (x1, x2))
    return (x1.matmul(x2.mT) * -2 + squares1 + squares2.mT).clamp(min=0).sqrt()  # the kernel's order


@composite("pdist(Tensor self, float p=2.) -> Tensor", api=FUNCTION)
def pdist(self: Tensor, p: float) -> Tensor:
    return run_name("_pdist_forward", self, p)


@composite(
    "pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, "
    "bool keepdim=False) -> Tensor",
    api=FUNCTION,
)
def pairwise_distance(x1: Tensor, x2: Tensor, p: float, eps: float, keepdim: bool) -> Tensor:
    return run_name("linalg_vector_norm", x1 - x2 + eps, p, (-1,), keepdim, None)


@composite(
    "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
    promote=Promotion.DEFAULT,
    api=FUNCTION,
)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int, eps: float) -> Tensor:
    """The product of the normalised vectors, each norm at least `eps`; gradients see the norms unbounded."""
    check(
        x1.dtype.is_floating_point,
        "cosine_similarity: expected common dtype to be floating point, yet "
        f"common dtype is {x1.dtype.torch_name}",
    )
    check(eps >= 0, f"cosine_similarity: eps must be non-negative, got: {eps}")
    shape = broadcast_shapes(x1.shape, x2.shape, name="cosine_similarity")
    units = [t / bounded_norm(t, dim, eps) for t in (x1.expand(shape), x2.expand(shape))]
    return (units[0] * units[1]).sum(dim)


def bounded_norm(x: Tensor, dim: int, eps: float) -> Tensor:
    norm = run_name("linalg_vector_norm", x, 2.0, (dim,), True, None)
    return norm + (eps - norm.detach()).clamp(min=0.0)

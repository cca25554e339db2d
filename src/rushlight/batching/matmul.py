"""Batching rules of matrix products and distances: all of them are matmul with more batch dimensions."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.shapes import Shape
from ..core.tensor import Tensor
from .declare import batching, expand_batch, pad_ndim


def scaled(alpha: Any, tensor: Tensor) -> Tensor:
    """alpha * tensor in the dtype of the tensor, as the kernels have it: a number is cast to that first."""
    dtype = tensor.dtype
    if isinstance(alpha, complex) and not dtype.is_complex:
        alpha = alpha.real
    if isinstance(alpha, float) and not (dtype.is_floating_point or dtype.is_complex):
        alpha = int(alpha)
    return tensor if alpha == 1 else tensor * alpha


def added(self: Tensor, self_batched: bool, self_ndim: int, beta: Any, alpha: Any, product: Tensor) -> Tensor:
    """beta * self + alpha * product, where self broadcasts to the product the user sees; beta 0 ignores self."""
    if beta == 0:
        return scaled(alpha, product)
    own = pad_ndim(self, self_ndim, product.ndim - 1) if self_batched else self
    return scaled(beta, own) + scaled(alpha, product)


batching(["mm", "bmm"], lambda self, mat2: self.matmul(mat2))
batching(
    ["mm.dtype", "bmm.dtype"], lambda self, mat2, out_dtype: self.to(out_dtype).matmul(mat2.to(out_dtype))
)
batching("_int_mm", lambda self, mat2: self.to(DTYPES["int32"]).matmul(mat2.to(DTYPES["int32"])))
batching("mv", lambda self, vec: self.matmul(vec.unsqueeze(-1)).squeeze(-1))


@batching("dot", all_batched=True)
def dot(self: Tensor, tensor: Tensor) -> Tensor:
    return self.unsqueeze(1).matmul(tensor.unsqueeze(2)).squeeze(2).squeeze(1)


@batching("vdot", all_batched=True)
def vdot(self: Tensor, other: Tensor) -> Tensor:
    return self.conj().unsqueeze(1).matmul(other.unsqueeze(2)).squeeze(2).squeeze(1)


@batching("_grouped_mm", all_batched=True)
def grouped_mm(
    self: Tensor, mat2: Tensor, offs: Tensor | None, out_dtype: Any, self_ndim: int, mat2_ndim: int
) -> Tensor:
    """Products of all groups with everything, of which the parts that belong together are kept."""
    dtype = self.dtype if out_dtype is None else out_dtype
    a, b = (t.to(t.dtype.opmath) for t in (self, mat2))
    if offs is None:
        return a.matmul(b).to(dtype)
    if self_ndim == 2 and mat2_ndim == 2:
        mask = members(offs, a.shape[2], a).unsqueeze(2)
        return (a.unsqueeze(1) * mask).matmul(b.unsqueeze(1)).to(dtype)
    if self_ndim == 2:
        mask = members(offs, a.shape[1], a).unsqueeze(3)
        return (a.unsqueeze(1).matmul(b) * mask).sum(1).to(dtype)
    mask = members(offs, b.shape[2], b).unsqueeze(2)
    return (a.matmul(b.unsqueeze(1)) * mask).sum(1).to(dtype)


def members(offs: Tensor, count: int, like: Tensor) -> Tensor:
    """For each group, which of `count` places belong to it: group g ends before offs[:, g]."""
    places = run_name("arange", count, DTYPES["int64"], None, like.device, None)
    ends = offs.unsqueeze(2)
    starts = run_name("constant_pad_nd", ends.narrow(1, 0, ends.shape[1] - 1), (0, 0, 1, 0), 0)
    return ((places >= starts) & (places < ends)).to(like.dtype)


@batching("addmm")
def addmm(
    self: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    beta: Any,
    alpha: Any,
    self_batched: bool,
    self_ndim: int,
    mat1_batched: bool,
    mat2_batched: bool,
    batch: int,
) -> Tensor:
    mat1 = mat1 if mat1_batched or mat2_batched else expand_batch(mat1, batch)
    return added(self, self_batched, self_ndim, beta, alpha, mat1.matmul(mat2))


@batching("addmm.dtype", all_batched=True)
def addmm_dtype(
    self: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: Any, beta: Any, alpha: Any, self_ndim: int
) -> Tensor:
    product = mat1.to(out_dtype).matmul(mat2.to(out_dtype))
    return added(self.to(out_dtype), True, self_ndim, beta, alpha, product)


@batching("baddbmm.dtype", all_batched=True)
def baddbmm_dtype(
    self: Tensor, batch1: Tensor, batch2: Tensor, out_dtype: Any, beta: Any, alpha: Any, self_ndim: int
) -> Tensor:
    product = batch1.to(out_dtype).matmul(batch2.to(out_dtype))
    return added(self.to(out_dtype), True, self_ndim, beta, alpha, product)


@batching("addmv")
def addmv(
    self: Tensor,
    mat: Tensor,
    vec: Tensor,
    beta: Any,
    alpha: Any,
    self_batched: bool,
    self_ndim: int,
    mat_batched: bool,
    vec_batched: bool,
    batch: int,
) -> Tensor:
    mat = mat if mat_batched or vec_batched else expand_batch(mat, batch)
    return added(self, self_batched, self_ndim, beta, alpha, mat.matmul(vec.unsqueeze(-1)).squeeze(-1))


@batching("baddbmm", all_batched=True)
def baddbmm(self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any, self_ndim: int) -> Tensor:
    return added(self, True, self_ndim, beta, alpha, batch1.matmul(batch2))


@batching("addbmm", all_batched=True)
def addbmm(self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any, self_ndim: int) -> Tensor:
    return added(self, True, self_ndim, beta, alpha, batch1.matmul(batch2).sum(1))


@batching("addr", all_batched=True)
def addr(self: Tensor, vec1: Tensor, vec2: Tensor, beta: Any, alpha: Any, self_ndim: int) -> Tensor:
    return added(self, True, self_ndim, beta, alpha, vec1.unsqueeze(2) * vec2.unsqueeze(1))


@batching("linalg_cross", all_batched=True)
def linalg_cross(self: Tensor, other: Tensor, dim: int, self_ndim: int, other_ndim: int) -> Tensor:
    ndim = max(self_ndim, other_ndim)
    return run_name(
        "linalg_cross",
        pad_ndim(self, self_ndim, ndim),
        pad_ndim(other, other_ndim, ndim),
        dim if dim < 0 else dim + 1,
    )


def common_rank(*tensors: tuple[Tensor, int]) -> list[Tensor]:
    """Batched tensors, each given with the dimensions that the user sees, in one number of dimensions."""
    most = max(ndim for _, ndim in tensors)
    return [pad_ndim(tensor, ndim, most) for tensor, ndim in tensors]


@batching("_cdist_forward", all_batched=True)
def cdist_forward(
    x1: Tensor, x2: Tensor, p: float, compute_mode: int | None, x1_ndim: int, x2_ndim: int
) -> Tensor:
    return run_name("_cdist_forward", *common_rank((x1, x1_ndim), (x2, x2_ndim)), p, compute_mode)


@batching("_euclidean_dist", all_batched=True)
def euclidean_dist(x1: Tensor, x2: Tensor, x1_ndim: int, x2_ndim: int) -> Tensor:
    return run_name("_euclidean_dist", *common_rank((x1, x1_ndim), (x2, x2_ndim)))


@batching("_cdist_backward", all_batched=True)
def cdist_backward(
    grad: Tensor,
    x1: Tensor,
    x2: Tensor,
    p: float,
    cdist: Tensor,
    grad_ndim: int,
    x1_ndim: int,
    x2_ndim: int,
    cdist_ndim: int,
) -> Tensor:
    grad, x1, x2, cdist = common_rank((grad, grad_ndim), (x1, x1_ndim), (x2, x2_ndim), (cdist, cdist_ndim))
    return run_name("_cdist_backward", grad, x1, x2, p, cdist)


@batching("_trilinear", all_batched=True)
def trilinear(
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: Shape,
    expand2: Shape,
    expand3: Shape,
    sumdim: Shape,
    unroll_dim: int,
) -> Tensor:
    past = [tuple([dim + 1 for dim in dims]) for dims in (expand1, expand2, expand3, sumdim)]
    return run_name("_trilinear", i1, i2, i3, *past, unroll_dim + 1)


def pairs(count: int) -> Any:
    """The numbers of the first and second point of each pair, in the order of pdist."""
    return run_name("triu_indices", count, count, 1, DTYPES["int64"], None, None, None).unbind(0)


@batching("_pdist_forward")
def pdist_forward(self: Tensor, p: float) -> Tensor:
    first, second = pairs(self.shape[1])
    return run_name(
        "linalg_vector_norm",
        self.index_select(1, first) - self.index_select(1, second),
        p,
        (-1,),
        False,
        None,
    )


@batching("_pdist_backward", all_batched=True)
def pdist_backward(grad: Tensor, self: Tensor, p: float, pdist: Tensor) -> Tensor:
    first, second = pairs(self.shape[1])
    apart, distance = self.index_select(1, first) - self.index_select(1, second), pdist.unsqueeze(-1)
    if p == 0:
        return self * 0
    if p == float("inf"):
        slope = apart.sign() * (apart.abs() == distance)
    else:
        slope = apart.sign() * (apart.abs() / distance).nan_to_num(0.0).pow(p - 1)
    pull = (grad.unsqueeze(-1) * slope).masked_fill(distance == 0, 0)
    return (self * 0).index_add(1, first, pull).index_add(1, second, -pull)

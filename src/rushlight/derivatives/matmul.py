"""Derivatives of matrix and tensor products.

A product is linear in each factor: the gradient of one factor is the gradient of the product times the
adjoint of the others, and the tangent is a sum with one tangent in each term. Composites (matmul, linear,
einsum, ...) differentiate through their bodies. The overloads that return a wider dtype leave their tangents
to transposition.
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.shapes import Shape, Spec, broadcast_shapes
from ..core.tensor import Tensor
from .declare import NOT_DIFFERENTIABLE, derivative
from .helpers import conj


def adjoint(x: Tensor) -> Tensor:
    return conj(x).transpose(-2, -1)


def times(number: Any, x: Tensor) -> Tensor:
    """x * conj(number)."""
    return x if number == 1 else x * conj(number)


def _turned(spec: Spec) -> bool:
    """Whether a factor lies in memory transposed. Its gradient then comes out so, too, so that the gradient of a
    weight is laid out as the weight."""
    return spec.shape is not None and spec.known_strides() == (1, spec.shape[0])


def times_adjoint(spec: Spec, left: Tensor, right: Tensor) -> Tensor:
    """left @ right^H, for a factor that lies in memory as `spec` says."""
    return conj(right).mm(left.t()).t() if _turned(spec) else left.mm(adjoint(right))


def adjoint_times(spec: Spec, left: Tensor, right: Tensor) -> Tensor:
    """left^H @ right, for a factor that lies in memory as `spec` says."""
    return right.t().mm(conj(left)).t() if _turned(spec) else adjoint(left).mm(right)


def grouped(left: Tensor, right: Tensor, offs: Tensor | None, dtype: Any) -> Tensor:
    return run_name("_grouped_mm", left, right, offs, None, dtype)


# Two factors.

derivative("mm", self=lambda grad, mat2, self_spec: times_adjoint(self_spec, grad, mat2),
           mat2=lambda grad, self, mat2_spec: adjoint_times(mat2_spec, self, grad),
           result=lambda self_t, mat2_t, self_p, mat2_p: self_t.mm(mat2_p).addmm(self_p, mat2_t))
derivative("bmm", self=lambda grad, mat2: grad.bmm(adjoint(mat2)),
           mat2=lambda grad, self: adjoint(self).bmm(grad),
           result=lambda self_t, mat2_t, self_p, mat2_p: self_t.bmm(mat2_p).baddbmm(self_p, mat2_t))
derivative(["mm.dtype", "bmm.dtype"],
           self=lambda grad, mat2: grad.matmul(adjoint(mat2).to(grad.dtype)),
           mat2=lambda grad, self: adjoint(self).to(grad.dtype).matmul(grad))
derivative("_grouped_mm",
           self=lambda grad, mat2, offs, self_spec:
               grouped(grad.to(self_spec.dtype), adjoint(mat2), offs, self_spec.dtype),
           mat2=lambda grad, self, offs, mat2_spec:
               grouped(adjoint(self), grad.to(mat2_spec.dtype), offs, mat2_spec.dtype),
           offs=NOT_DIFFERENTIABLE, bias=NOT_DIFFERENTIABLE,  # a bias is refused
           result=lambda self_t, mat2_t, self_p, mat2_p, offs, out_dtype:
               grouped(self_t, mat2_p, offs, out_dtype) + grouped(self_p, mat2_t, offs, out_dtype))
derivative("mv", self=lambda grad, vec: grad.unsqueeze(1) * conj(vec),
           vec=lambda grad, self: adjoint(self).mv(grad),
           result=lambda self_t, vec_t, self_p, vec_p: self_t.mv(vec_p).addmv(self_p, vec_t))
derivative("dot", self=lambda grad, tensor: grad * conj(tensor), tensor=lambda grad, self: grad * conj(self),
           result=lambda self_t, tensor_t, self_p, tensor_p: self_t.dot(tensor_p) + self_p.dot(tensor_t))
derivative("vdot", self=lambda grad, other: conj(grad) * other, other=lambda grad, self: grad * self,
           result=lambda self_t, other_t, self_p, other_p: self_t.vdot(other_p) + self_p.vdot(other_t))
derivative("_int_mm", NOT_DIFFERENTIABLE)


# beta * self + alpha * product.

def plus(name: str, beta: Any, alpha: Any, self_t: Tensor, left_t: Tensor, right_t: Tensor, left: Tensor,
         right: Tensor) -> Tensor:
    """The tangent of `name`, two of the same products."""
    half = run_name(name, self_t, left_t, right, beta, alpha)
    return run_name(name, half, left, right_t, 1, alpha)


derivative("addmm", self=lambda grad, beta: times(beta, grad),
           mat1=lambda grad, mat2, alpha, mat1_spec: times(alpha, times_adjoint(mat1_spec, grad, mat2)),
           mat2=lambda grad, mat1, alpha, mat2_spec: times(alpha, adjoint_times(mat2_spec, mat1, grad)),
           result=lambda self_t, mat1_t, mat2_t, mat1_p, mat2_p, beta, alpha:
               plus("addmm", beta, alpha, self_t, mat1_t, mat2_t, mat1_p, mat2_p))
derivative("baddbmm", self=lambda grad, beta: times(beta, grad),
           batch1=lambda grad, batch2, alpha: times(alpha, grad.bmm(adjoint(batch2))),
           batch2=lambda grad, batch1, alpha: times(alpha, adjoint(batch1).bmm(grad)),
           result=lambda self_t, batch1_t, batch2_t, batch1_p, batch2_p, beta, alpha:
               plus("baddbmm", beta, alpha, self_t, batch1_t, batch2_t, batch1_p, batch2_p))
derivative("addmm.dtype", self=lambda grad, beta: times(beta, grad),
           mat1=lambda grad, mat2, alpha: times(alpha, grad.mm(adjoint(mat2).to(grad.dtype))),
           mat2=lambda grad, mat1, alpha: times(alpha, adjoint(mat1).to(grad.dtype).mm(grad)))
derivative("baddbmm.dtype", self=lambda grad, beta: times(beta, grad),
           batch1=lambda grad, batch2, alpha: times(alpha, grad.bmm(adjoint(batch2).to(grad.dtype))),
           batch2=lambda grad, batch1, alpha: times(alpha, adjoint(batch1).to(grad.dtype).bmm(grad)))


def for_each(grad: Tensor, count: int) -> Tensor:
    """The gradient of a sum over a batch, for each of its terms."""
    return grad.unsqueeze(0).expand((count, *grad.shape))


derivative("addbmm", self=lambda grad, beta: times(beta, grad),
           batch1=lambda grad, batch2, alpha:
               times(alpha, for_each(grad, batch2.shape[0]).bmm(adjoint(batch2))),
           batch2=lambda grad, batch1, alpha:
               times(alpha, adjoint(batch1).bmm(for_each(grad, batch1.shape[0]))),
           result=lambda self_t, batch1_t, batch2_t, batch1_p, batch2_p, beta, alpha:
               plus("addbmm", beta, alpha, self_t, batch1_t, batch2_t, batch1_p, batch2_p))
derivative("addmv", self=lambda grad, beta: times(beta, grad),
           mat=lambda grad, vec, alpha: times(alpha, grad.unsqueeze(1) * conj(vec)),
           vec=lambda grad, mat, alpha: times(alpha, adjoint(mat).mv(grad)),
           result=lambda self_t, mat_t, vec_t, mat_p, vec_p, beta, alpha:
               plus("addmv", beta, alpha, self_t, mat_t, vec_t, mat_p, vec_p))
derivative("addr", self=lambda grad, beta: times(beta, grad),
           vec1=lambda grad, vec2, alpha: times(alpha, grad.mv(conj(vec2).to(grad.dtype))),
           vec2=lambda grad, vec1, alpha: times(alpha, grad.t().mv(conj(vec1).to(grad.dtype))),
           result=lambda self_t, vec1_t, vec2_t, vec1_p, vec2_p, beta, alpha:
               plus("addr", beta, alpha, self_t, vec1_t, vec2_t, vec1_p, vec2_p))


# Vectors in space: g . (da x b) = da . (b x g), g . (a x db) = db . (g x a).

def cross(left: Tensor, right: Tensor, dim: int) -> Tensor:
    return run_name("linalg_cross", left, right, dim)


derivative("linalg_cross", self=lambda grad, other, dim: cross(conj(other), grad, dim),
           other=lambda grad, self, dim: cross(grad, conj(self), dim),
           result=lambda self_t, other_t, self_p, other_p, dim:
               cross(self_t, other_p, dim) + cross(self_p, other_t, dim))


# Three factors: expanded, multiplied, summed. The gradient is expanded where the product was summed, and
# summed where the factor was expanded.

def trilinear(*arguments: Any) -> Tensor:
    return run_name("_trilinear", *arguments, 1)


def factor_gradient(grad: Tensor, other1: Tensor, other2: Tensor, shape: Shape, expand: Shape, expand1: Shape,
                    expand2: Shape, sumdim: Shape) -> Tensor:
    """Along a dimension that only this factor has, which was summed, all elements have the same gradient."""
    image = trilinear(grad, conj(other1), conj(other2), sumdim, expand1, expand2, expand)
    return image.expand(broadcast_shapes(image.shape, shape))


derivative("_trilinear",
           i1=lambda grad, i1_shape, i2, i3, expand1, expand2, expand3, sumdim:
               factor_gradient(grad, i2, i3, i1_shape, expand1, expand2, expand3, sumdim),
           i2=lambda grad, i2_shape, i1, i3, expand1, expand2, expand3, sumdim:
               factor_gradient(grad, i1, i3, i2_shape, expand2, expand1, expand3, sumdim),
           i3=lambda grad, i3_shape, i1, i2, expand1, expand2, expand3, sumdim:
               factor_gradient(grad, i1, i2, i3_shape, expand3, expand1, expand2, sumdim),
           result=lambda i1_t, i2_t, i3_t, i1_p, i2_p, i3_p, expand1, expand2, expand3, sumdim:
               trilinear(i1_t, i2_p, i3_p, expand1, expand2, expand3, sumdim)
               + trilinear(i1_p, i2_t, i3_p, expand1, expand2, expand3, sumdim)
               + trilinear(i1_p, i2_p, i3_t, expand1, expand2, expand3, sumdim))

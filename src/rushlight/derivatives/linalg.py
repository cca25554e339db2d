"""Derivatives of factorizations and solvers.

Notation: G is the gradient of a result, A^H the conjugate transpose; every formula is that of the perturbed
defining equations (A X = B, A = L L^H, A = Q R, ...), with PyTorch's choice of gauge where a factor is
defined up to one.
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch import readable, run_name
from ..core.dtypes import finfo
from ..core.modes import MODES
from ..core.tensor import Tensor
from ..ops.linalg import is_vector
from .declare import NOT_DIFFERENTIABLE, derivative


def solve(a: Tensor, b: Tensor, left: bool = True) -> Tensor:
    return run_name("_linalg_solve_ex", a, b, left, False)[0]


def triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unit: bool = False) -> Tensor:
    return run_name("linalg_solve_triangular", a, b, upper, left, unit)


def with_diagonal(x: Tensor, diagonal: Tensor) -> Tensor:
    """`x` with another diagonal."""
    return (
        x
        - run_name("diag_embed", x.diagonal(0, -2, -1), 0, -2, -1)
        + run_name("diag_embed", diagonal, 0, -2, -1)
    )


def lower_half(x: Tensor) -> Tensor:
    """The lower triangle with half of the diagonal."""
    return x.tril(-1) + run_name("diag_embed", x.diagonal(0, -2, -1) * 0.5, 0, -2, -1)


def real_part(x: Tensor) -> Tensor:
    return x.real if x.is_complex() else x


# Inverses, determinants, solvers.

derivative(
    "linalg_inv_ex",
    A=lambda grad, inverse: -inverse.mH.matmul(grad).matmul(inverse.mH),
    result=lambda A_t, inverse: (-inverse.matmul(A_t).matmul(inverse), None),
)


def scaled_inverse_adjoint(a: Tensor, lu: Tensor, pivots: Tensor, scale: Tensor) -> Tensor:
    """scale * A^-H. Where nothing of it is recorded, the factors at hand serve, and exact zeros among the
    pivots are moved a little: the product with a determinant then has the right limit for a singular
    matrix."""
    identity = run_name("diag_embed", scale.unsqueeze(-1).expand(*scale.shape, a.shape[-1]), 0, -2, -1)
    if MODES.grad:
        return solve(a.mH, identity)
    return run_name("linalg_lu_solve", lu, pivots, identity, True, True)


def det_backward(grad: Tensor, A: Tensor, result0: Tensor, LU: Tensor, pivots: Tensor) -> Tensor:
    if A.shape[-1] == 1:  # the determinant is the number itself: nothing to divide, no second derivative
        return grad[..., None, None]
    if MODES.grad:
        if near_singular(LU):
            return grad[..., None, None] * adjugate(A).mH
        return scaled_inverse_adjoint(A, LU, pivots, grad * result0.conj())
    diagonal = LU.diagonal(0, -2, -1)
    limits = finfo(A.dtype)
    least = diagonal.abs().amax(-1, True) * limits.eps if A.shape[-1] else diagonal.abs()
    moved = run_name("where.self", diagonal == 0, (least + limits.tiny).to(A.dtype), diagonal)
    nearby = with_diagonal(LU, moved)
    size = run_name("where.self", (diagonal == 0).any(-1), _det_of(moved, pivots), result0)
    return scaled_inverse_adjoint(A, nearby, pivots, grad * size.conj())


def _det_of(diagonal: Tensor, pivots: Tensor) -> Tensor:
    place = run_name("arange", pivots.shape[-1], None, None, pivots.device, None) + 1
    odd = (pivots != place).sum(-1).remainder(2)
    return diagonal.prod(-1) * (1 - 2 * odd).to(diagonal.dtype)


def near_singular(lu: Tensor) -> bool:
    """Whether a pivot is so small that dividing by it costs all digits of a second derivative. True where the
    values cannot be looked at."""
    if not lu.numel():
        return False
    if not readable(lu):
        return True
    size = lu.detach().diagonal(0, -2, -1).abs()
    return bool((size.amin(-1) <= size.amax(-1) * (100 * lu.shape[-1] * finfo(lu.dtype).eps)).any())


def adjugate(a: Tensor) -> Tensor:
    """adj(A), of which the derivative of the determinant is made, for singular matrices, too.

    With B = A + U M V^H for any constant U, V and diagonal M, A is B less the rank of M, and
    det A = det B det Z with Z = I - M V^H B^-1 U. Singular vectors of the values that vanish make B
    invertible; of those, the last three make Z. Beyond three all derivatives that matter vanish.
    """
    n = a.shape[-1]
    k = min(n, 3)
    u, s, vh = run_name("_linalg_svd", a.detach(), False, True, None)
    largest = s.narrow(-1, 0, 1)
    ones = run_name("ones_like", largest, None, None, None, None, None)
    scale = run_name("where.self", largest > 0, largest, ones)
    vanishes = s <= scale * (100 * n * finfo(a.dtype).eps)
    shift = run_name("where.self", vanishes, scale.expand(s.shape), s * 0).to(a.dtype)
    b = a + (u * shift.unsqueeze(-2)).matmul(vh)
    identity = run_name("eye", n, a.dtype, None, a.device, None).expand(a.shape)
    inverse = solve(b, identity)
    left, right = u.narrow(-1, n - k, k), vh.narrow(-2, n - k, k) * shift.narrow(-1, n - k, k).unsqueeze(-1)
    z = run_name("eye", k, a.dtype, None, a.device, None) - right.matmul(inverse).matmul(left)
    det_z, adj_z = small_adjugate(z)
    outer = inverse.matmul(left).matmul(adj_z).matmul(right.matmul(inverse))
    parts = det_z[..., None, None] * inverse + outer
    det_b = run_name("_linalg_det", b)[0]
    if n > 3:
        det_b = run_name("where.self", vanishes.select(-1, n - 4), det_b * 0, det_b)
    return det_b[..., None, None] * parts


def small_adjugate(z: Tensor) -> tuple[Tensor, Tensor]:
    """The determinant and the adjugate of matrices of up to three rows, as polynomials of their elements."""
    k = z.shape[-1]
    columns = [z.select(-1, i) for i in range(k)]
    if k == 1:
        return z[..., 0, 0], run_name("ones_like", z, None, None, None, None, None)
    if k == 2:
        (a, c), (b, d) = [(column.select(-1, 0), column.select(-1, 1)) for column in columns]
        rows = [run_name("stack", pair, -1) for pair in ((d, -b), (-c, a))]
        return a * d - b * c, run_name("stack", tuple(rows), -2)
    cross = [run_name("linalg_cross", columns[i - 2], columns[i - 1], -1) for i in range(3)]
    return (columns[0] * cross[0]).sum(-1), run_name("stack", tuple(cross), -2)


def det_forward(A_t: Tensor, A_p: Tensor, result0: Tensor, LU: Tensor) -> tuple[Any, ...]:
    if A_p.shape[-1] > 1 and near_singular(LU):
        return (adjugate(A_p) * A_t.mT).sum((-2, -1)), None, None
    return result0 * solve(A_p, A_t).diagonal(0, -2, -1).sum(-1), None, None


derivative("_linalg_det", A=det_backward, differentiable_outputs=(0,), result=det_forward)


def slogdet_backward(
    grads: tuple[Tensor | None, ...], A: Tensor, sign: Tensor, LU: Tensor, pivots: Tensor
) -> Tensor | None:
    of_sign, of_size = grads[:2]
    scale = None if of_size is None else of_size.to(A.dtype)
    if A.is_complex() and of_sign is not None:
        turn = (of_sign.conj() * sign).imag
        turned = run_name("complex", run_name("zeros_like", turn, None, None, None, None, None), -turn)
        scale = turned if scale is None else scale + turned
    return None if scale is None else scaled_inverse_adjoint(A, LU, pivots, scale)


def slogdet_forward(A_t: Tensor, A_p: Tensor, sign: Tensor) -> tuple[Any, ...]:
    trace = solve(A_p, A_t).diagonal(0, -2, -1).sum(-1)
    if not A_p.is_complex():
        return None, trace, None, None
    turn = run_name("complex", run_name("zeros_like", trace.imag, None, None, None, None, None), trace.imag)
    return turn * sign, trace.real, None, None


derivative("_linalg_slogdet", A=slogdet_backward, differentiable_outputs=(0, 1), result=slogdet_forward)


def solve_backward(
    grad: Tensor,
    A: Tensor,
    B: Tensor,
    result0: Tensor,
    LU: Tensor,
    pivots: Tensor,
    left: bool,
    needs: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    vector = is_vector(A, B)
    gradient = grad.unsqueeze(-1) if vector else grad
    if MODES.grad:
        of_b = solve(A.mH, gradient, left)
    else:
        of_b = run_name("linalg_lu_solve", LU, pivots, gradient, left, True)
    of_a = None
    if needs[0]:
        x = result0.unsqueeze(-1) if vector else result0
        of_a = -of_b.matmul(x.mH) if left else -x.mH.matmul(of_b)
    return of_a, (of_b.squeeze(-1) if vector else of_b) if needs[1] else None


def solve_forward(
    A_t: Tensor, B_t: Tensor, A_p: Tensor, B_p: Tensor, result0: Tensor, left: bool
) -> tuple[Any, ...]:
    vector = is_vector(A_p, B_p)
    x = result0.unsqueeze(-1) if vector else result0
    side = B_t.unsqueeze(-1) if vector else B_t
    tangent = solve(A_p, side - (A_t.matmul(x) if left else x.matmul(A_t)), left)
    return tangent.squeeze(-1) if vector else tangent, None, None, None


derivative("_linalg_solve_ex", ("A", "B"), solve_backward, differentiable_outputs=(0,), result=solve_forward)


def triangular_backward(
    grad: Tensor,
    self: Tensor,
    result: Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
    needs: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    of_b = triangular(self.mH, grad, upper=not upper, left=left, unit=unitriangular)
    of_a = None
    if needs[0]:
        whole = -of_b.matmul(result.mH) if left else -result.mH.matmul(of_b)
        of_a = whole.triu(int(unitriangular)) if upper else whole.tril(-int(unitriangular))
    return of_a, of_b if needs[1] else None


def triangular_forward(
    self_t: Tensor, B_t: Tensor, self_p: Tensor, result: Tensor, upper: bool, left: bool, unitriangular: bool
) -> Tensor:
    seen = self_t.triu(int(unitriangular)) if upper else self_t.tril(-int(unitriangular))
    side = B_t - (seen.matmul(result) if left else result.matmul(seen))
    return triangular(self_p, side, upper=upper, left=left, unit=unitriangular)


derivative("linalg_solve_triangular", ("self", "B"), triangular_backward, result=triangular_forward)


# Cholesky and LU.


def cholesky_backward(grad: Tensor, L: Tensor, upper: bool) -> Tensor:
    lower, gradient = (L.mH, grad.mH) if upper else (L, grad)
    inner = lower.mH.matmul(gradient)
    whole = inner.tril() + inner.tril(-1).mH
    return triangular(lower.mH, triangular(lower, whole, upper=False, left=False), upper=True) * 0.5


def cholesky_forward(self_t: Tensor, L: Tensor, upper: bool) -> tuple[Tensor, None]:
    lower = L.mH if upper else L
    inner = triangular(lower, triangular(lower.mH, self_t, upper=True, left=False), upper=False)
    tangent = lower.matmul(lower_half(inner))
    return (tangent.mH if upper else tangent), None


derivative("linalg_cholesky_ex", self=cholesky_backward, result=cholesky_forward)


def product_of_factor(moved: Tensor, factor: Tensor, upper: bool) -> Tensor:
    """How L L^H, or U^H U, changes with its factor. The whole factor counts, not only its triangle."""
    half = moved.mH.matmul(factor) if upper else moved.matmul(factor.mH)
    return half + half.mH


def onto_factor(gradient: Tensor, factor: Tensor, upper: bool) -> Tensor:
    both = gradient + gradient.mH
    return factor.matmul(both) if upper else both.matmul(factor)


def cholesky_solve_backward(
    grad: Tensor, input2: Tensor, result: Tensor, upper: bool, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    of_b = run_name("cholesky_solve", grad, input2, upper)
    of_factor = -onto_factor(of_b.matmul(result.mH), input2, upper) if needs[1] else None
    return of_b if needs[0] else None, of_factor


derivative(
    "cholesky_solve",
    ("self", "input2"),
    cholesky_solve_backward,
    result=lambda self_t, input2_t, input2_p, result, upper: run_name(
        "cholesky_solve",
        self_t - product_of_factor(input2_t, input2_p, upper).matmul(result),
        input2_p,
        upper,
    ),
)
derivative(
    "cholesky_inverse",
    self=lambda grad, self, result, upper: -onto_factor(result.matmul(grad).matmul(result), self, upper),
    result=lambda self_t, self_p, result, upper: (
        -result.matmul(product_of_factor(self_t, self_p, upper)).matmul(result)
    ),
)


def lu_backward(
    of_l: Tensor | None, of_u: Tensor | None, permutation: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    """A = P L U. The part of a wide U, or a tall L, beyond the square follows from the rest."""
    m, n = lower.shape[-2], upper.shape[-1]
    k = min(m, n)
    of_l = run_name("zeros_like", lower, None, None, None, None, None) if of_l is None else of_l
    of_u = run_name("zeros_like", upper, None, None, None, None, None) if of_u is None else of_u
    l1, u1 = lower.narrow(-2, 0, k), upper.narrow(-1, 0, k)
    of_l1, of_u1 = of_l.narrow(-2, 0, k), of_u.narrow(-1, 0, k)
    beyond = None
    if n > k:
        beyond = triangular(l1.mH, of_u.narrow(-1, k, n - k), upper=True, unit=True)
        of_l1 = of_l1 - beyond.matmul(upper.narrow(-1, k, n - k).mH)
    elif m > k:
        beyond = triangular(u1.mH, of_l.narrow(-2, k, m - k), upper=False, left=False)
        of_u1 = of_u1 - lower.narrow(-2, k, m - k).mH.matmul(beyond)
    inner = l1.mH.matmul(of_l1).tril(-1) + of_u1.matmul(u1.mH).triu()
    first = triangular(l1.mH, triangular(u1.mH, inner, upper=False, left=False), upper=True, unit=True)
    if beyond is not None:
        first = run_name("cat", (first, beyond), -1 if n > k else -2)
    return permutation.matmul(first)


def lu_forward(moved: Tensor, permutation: Tensor, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    m, n = lower.shape[-2], upper.shape[-1]
    k = min(m, n)
    l1, u1 = lower.narrow(-2, 0, k), upper.narrow(-1, 0, k)
    change = permutation.mT.matmul(moved)
    square = change.narrow(-2, 0, k).narrow(-1, 0, k)
    inner = triangular(l1, triangular(u1, square, upper=True, left=False), upper=False, unit=True)
    of_l, of_u = l1.matmul(inner.tril(-1)), inner.triu().matmul(u1)
    if n > k:
        rest = change.narrow(-1, k, n - k) - of_l.matmul(upper.narrow(-1, k, n - k))
        of_u = run_name("cat", (of_u, triangular(l1, rest, upper=False, unit=True)), -1)
    elif m > k:
        rest = change.narrow(-2, k, m - k) - lower.narrow(-2, k, m - k).matmul(of_u)
        of_l = run_name("cat", (of_l, triangular(u1, rest, upper=True, left=False)), -2)
    return of_l, of_u


derivative(
    "linalg_lu",
    A=lambda grads, P, L, U: lu_backward(grads[1], grads[2], P, L, U),
    differentiable_outputs=(1, 2),
    result=lambda A_t, P, L, U: (None, *lu_forward(A_t, P, L, U)),
)


def lu_factor_backward(grad: Tensor, LU: Tensor, pivots: Tensor) -> Tensor:
    permutation, lower, upper = run_name("lu_unpack", LU, pivots, True, True)
    k = min(LU.shape[-2:])
    return lu_backward(
        grad.narrow(-1, 0, k).tril(-1), grad.narrow(-2, 0, k).triu(), permutation, lower, upper
    )


def lu_factor_forward(A_t: Tensor, LU: Tensor, pivots: Tensor) -> tuple[Tensor, None, None]:
    permutation, lower, upper = run_name("lu_unpack", LU, pivots, True, True)
    of_l, of_u = lu_forward(A_t, permutation, lower, upper)
    return packed(of_l.tril(-1), of_u.triu(), LU.shape), None, None


def packed(of_l: Tensor, of_u: Tensor, shape: Any) -> Tensor:
    """The two halves in one matrix."""
    m, n = shape[-2:]
    if n > of_l.shape[-1]:
        of_l = run_name("constant_pad_nd", of_l, (0, n - of_l.shape[-1]), 0)
    if m > of_u.shape[-2]:
        of_u = run_name("constant_pad_nd", of_u, (0, 0, 0, m - of_u.shape[-2]), 0)
    return of_l + of_u


derivative("linalg_lu_factor_ex", A=lu_factor_backward, differentiable_outputs=(0,), result=lu_factor_forward)


def lu_unpack_backward(
    grads: tuple[Tensor | None, ...], LU_data_shape: Any, L: Tensor, U: Tensor
) -> Tensor | None:
    of_l, of_u = grads[1:]
    if of_l is None and of_u is None:
        return None
    of_l = run_name("zeros_like", L, None, None, None, None, None) if of_l is None else of_l
    of_u = run_name("zeros_like", U, None, None, None, None, None) if of_u is None else of_u
    return packed(of_l.tril(-1), of_u.triu(), LU_data_shape)


def lu_unpack_forward(LU_data_t: Tensor, unpack_data: bool) -> tuple[Any, ...]:
    if not unpack_data:
        return None, None, None
    k = min(LU_data_t.shape[-2:])
    return None, LU_data_t.narrow(-1, 0, k).tril(-1), LU_data_t.narrow(-2, 0, k).triu()


derivative(
    "lu_unpack",
    LU_data=lu_unpack_backward,
    LU_pivots=NOT_DIFFERENTIABLE,
    differentiable_outputs=(1, 2),
    result=lu_unpack_forward,
)

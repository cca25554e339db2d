"""Derivatives of QR, singular values, eigenvalues, pseudo-inverses, least squares and the matrix
exponential."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import readable, run_name
from ..core.errors import check
from ..core.tensor import Tensor
from .declare import NOT_DIFFERENTIABLE, derivative
from .linalg import real_part, solve, triangular, with_diagonal


def zeros(x: Tensor) -> Tensor:
    return run_name("zeros_like", x, None, None, None, None, None)


def diagonal_matrix(x: Tensor) -> Tensor:
    return run_name("diag_embed", x, 0, -2, -1)


def skew(x: Tensor) -> Tensor:
    return x - x.mH


# QR: Q^H dQ is skew and dR R^-1 upper triangular, which splits Q^H dA R^-1 between them.


def upper_with_adjoint(x: Tensor) -> Tensor:
    """X + X^H of an upper triangle, with the real diagonal once."""
    whole = x + x.mH
    return with_diagonal(whole, real_part(x.diagonal(0, -2, -1)).to(x.dtype))


def tall_qr_backward(of_q: Tensor, of_r: Tensor, q: Tensor, r: Tensor) -> Tensor:
    inner = upper_with_adjoint((of_r.matmul(r.mH) - q.mH.matmul(of_q)).triu())
    return triangular(r.mH, of_q + q.matmul(inner), upper=False, left=False)


def qr_backward(
    grads: tuple[Tensor | None, Tensor | None], Q: Tensor, R: Tensor, A: Tensor, mode: str
) -> Tensor:
    check_qr_mode(A, mode)
    of_q = zeros(Q) if grads[0] is None else grads[0]
    of_r = zeros(R) if grads[1] is None else grads[1]
    m, n = A.shape[-2:]
    if m >= n:
        return tall_qr_backward(of_q, of_r, Q, R)
    # A = [X Y] with X = Q R1, and R2 = Q^H Y.
    of_rest = of_r.narrow(-1, m, n - m)
    rest = A.narrow(-1, m, n - m)
    first = tall_qr_backward(of_q + rest.matmul(of_rest.mH), of_r.narrow(-1, 0, m), Q, R.narrow(-1, 0, m))
    return run_name("cat", (first, Q.matmul(of_rest)), -1)


def check_qr_mode(a: Tensor, mode: str) -> None:
    m, n = a.shape[-2:]
    check(
        mode != "r",
        "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
        "linalg.qr(A, mode='reduced') if you are going to require gradients.",
    )
    check(
        mode == "reduced" or m <= n,
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols",
    )


def qr_forward(A_t: Tensor, Q: Tensor, R: Tensor, A_p: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    check_qr_mode(A_p, mode)
    m, n = A_p.shape[-2:]
    k = min(m, n)
    square = R.narrow(-1, 0, k)
    first = A_t.narrow(-1, 0, k)
    moved = triangular(square, first, upper=True, left=False)  # dA R^-1
    inner = Q.mH.matmul(moved)
    below = inner.tril(-1)
    turn = below - below.mH
    if A_p.is_complex():
        diagonal = inner.diagonal(0, -2, -1)
        turn = turn + diagonal_matrix(run_name("complex", zeros(diagonal.imag), diagonal.imag))
    of_q = moved - Q.matmul(inner) + Q.matmul(turn)
    of_r = (inner - turn).matmul(square)
    if n > k:
        rest = of_q.mH.matmul(A_p.narrow(-1, k, n - k)) + Q.mH.matmul(A_t.narrow(-1, k, n - k))
        of_r = run_name("cat", (of_r, rest), -1)
    return of_q, of_r


derivative("linalg_qr", A=qr_backward, result=qr_forward)


# Singular values.


def gaps(values: Tensor) -> Tensor:
    """E[i, j] = v[j] - v[i], and 1 on the diagonal."""
    difference = values.unsqueeze(-2) - values.unsqueeze(-1)
    return with_diagonal(difference, run_name("ones_like", values, None, None, None, None, None))


def check_phase(imaginary: Any, what: str) -> None:
    """Refuse the gradient of a loss that depends on the phase of complex vectors, which nothing determines:
    `imaginary`, its derivative by that phase, must vanish."""
    if readable(imaginary):
        size = imaginary.detach().abs()
        check(not size.numel() or float(size.amax()) <= 1e-2, f"{what} in the complex case are specified "
              "up to multiplication by e^{i phi}. The specified loss function depends on this quantity, so "
              "it is ill-defined.")


def svd_backward(
    grads: tuple[Tensor | None, ...],
    U: Tensor,
    S: Tensor,
    Vh: Tensor,
    A: Tensor,
    full_matrices: bool,
    compute_uv: bool,
) -> Tensor | None:
    of_u, of_s, of_vh = grads
    if of_u is None and of_s is None and of_vh is None:
        return None
    check(
        compute_uv,
        "svd_backward: Setting compute_uv to false in torch.svd doesn't compute singular matrices, and hence "
        "we cannot compute backward. Please use torch.svd(compute_uv=True)",
    )
    m, n = A.shape[-2:]
    k = min(m, n)
    u, vh = U.narrow(-1, 0, k), Vh.narrow(-2, 0, k)
    of_u = None if of_u is None else of_u.narrow(-1, 0, k)
    of_vh = None if of_vh is None else of_vh.narrow(-2, 0, k)
    s = S.to(A.dtype)
    inner = diagonal_matrix(zeros(s) if of_s is None else of_s.to(A.dtype))
    if of_u is None and of_vh is None:
        return u.matmul(inner).matmul(vh)
    if A.is_complex():
        phase = sum(part.diagonal(0, -2, -1).imag for part in (
            None if of_u is None else skew(u.mH.matmul(of_u)),
            None if of_vh is None else skew(vh.matmul(of_vh.mH))) if part is not None)
        check_phase(phase, "svd_backward: The singular vectors")
    distance = gaps(real_part(s) * real_part(s)).to(A.dtype)
    if of_u is not None:
        turn = skew(u.mH.matmul(of_u))
        inner = inner + turn / distance * s.unsqueeze(-2)
        if A.is_complex():
            inner = inner + diagonal_matrix(turn.diagonal(0, -2, -1) / (2 * s))
    if of_vh is not None:
        turn = skew(vh.matmul(of_vh.mH))
        inner = inner + s.unsqueeze(-1) * (turn / distance)
    result = u.matmul(inner).matmul(vh)
    if of_u is not None and m > k:
        side = of_u / s.unsqueeze(-2)
        result = result + (side - u.matmul(u.mH.matmul(side))).matmul(vh)
    if of_vh is not None and n > k:
        side = of_vh / s.unsqueeze(-1)
        result = result + u.matmul(side - side.matmul(vh.mH).matmul(vh))
    return result


def svd_forward(
    A_t: Tensor, U: Tensor, S: Tensor, Vh: Tensor, full_matrices: bool, A_p: Tensor, compute_uv: bool
) -> tuple[Any, ...]:
    check(compute_uv, "forward mode of svd needs the singular vectors")
    m, n = A_p.shape[-2:]
    k = min(m, n)
    whole_u, whole_vh = U, Vh
    U, Vh = U.narrow(-1, 0, k), Vh.narrow(-2, 0, k)
    s = S.to(A_p.dtype)
    inner = U.mH.matmul(A_t).matmul(Vh.mH)
    of_s = real_part(inner.diagonal(0, -2, -1))
    turn = skew(inner) if A_p.is_complex() else inner - inner.mT
    free = with_diagonal(inner, (inner.diagonal(0, -2, -1) * 0))
    distance = gaps(S * S).to(A_p.dtype)
    # U^H dU = (F S + S F^H) / E and V^H dV = (S F + F^H S) / E, off the diagonal.
    columns, rows = s.unsqueeze(-2), s.unsqueeze(-1)
    of_u_inner = (free * columns + rows * free.mH) / distance
    of_v_inner = (rows * free + free.mH * columns) / distance
    if A_p.is_complex():  # the phase goes to U
        of_u_inner = of_u_inner + diagonal_matrix(turn.diagonal(0, -2, -1) / (2 * s))
    of_u, of_v = U.matmul(of_u_inner), Vh.mH.matmul(of_v_inner)
    if m > k:
        side = A_t.matmul(Vh.mH) / s.unsqueeze(-2)
        of_u = of_u + side - U.matmul(U.mH.matmul(side))
    if n > k:
        side = A_t.mH.matmul(U) / s.unsqueeze(-2)
        of_v = of_v + side - Vh.mH.matmul(Vh.matmul(side))
    if full_matrices:
        of_u, of_v = completed(of_u, whole_u, k), completed(of_v, whole_vh.mH, k)
    return of_u, of_s, of_v.mH


def completed(tangent: Tensor, whole: Tensor, k: int) -> Tensor:
    """The tangents of all columns of a unitary matrix from those of its first k: the others stay orthogonal
    to them."""
    extra = whole.shape[-1] - k
    if not extra:
        return tangent
    others = whole.narrow(-1, k, extra)
    return run_name("cat", (tangent, -whole.narrow(-1, 0, k).matmul(tangent.mH.matmul(others))), -1)


derivative("_linalg_svd", A=svd_backward, result=svd_forward)


# Eigenvalues.


def eigh_backward(
    grads: tuple[Tensor | None, Tensor | None], eigenvalues: Tensor, eigenvectors: Tensor, compute_v: bool
) -> Tensor | None:
    of_values, of_vectors = grads
    if of_values is None and of_vectors is None:
        return None
    check(compute_v, "eigh_backward: the eigenvectors are needed; use linalg.eigh")
    vectors = eigenvectors
    inner = None if of_values is None else diagonal_matrix(of_values.to(vectors.dtype))
    if of_vectors is not None:
        along = vectors.mH.matmul(of_vectors)
        if vectors.is_complex():
            check_phase(along.diagonal(0, -2, -1).imag, "linalg_eigh_backward: The eigenvectors")
        turn = along / gaps(eigenvalues).to(vectors.dtype)
        turn = with_diagonal(turn, turn.diagonal(0, -2, -1) * 0)
        inner = turn if inner is None else inner + turn
    assert inner is not None
    result = vectors.matmul(inner).matmul(vectors.mH)
    return (result + result.mH) * 0.5  # only Hermitian changes mean anything


def eigh_forward(A_t: Tensor, eigenvalues: Tensor, eigenvectors: Tensor, compute_v: bool) -> tuple[Any, ...]:
    check(compute_v, "forward mode of eigh needs the eigenvectors")
    inner = eigenvectors.mH.matmul(A_t).matmul(eigenvectors)
    turn = inner / gaps(eigenvalues).to(inner.dtype)
    turn = with_diagonal(turn, turn.diagonal(0, -2, -1) * 0)
    return real_part(inner.diagonal(0, -2, -1)), eigenvectors.matmul(turn)


derivative("_linalg_eigh", A=eigh_backward, result=eigh_forward)


def eig_backward(
    grads: tuple[Tensor | None, Tensor | None], eigenvalues: Tensor, eigenvectors: Tensor
) -> Tensor | None:
    """Vectors are of unit length, which takes the part along themselves out of their gradient."""
    of_values, of_vectors = grads
    if of_values is None and of_vectors is None:
        return None
    vectors = eigenvectors
    of_values = zeros(eigenvalues) if of_values is None else of_values
    inner = diagonal_matrix(of_values)
    if of_vectors is not None:
        along = vectors.mH.matmul(of_vectors)
        check_phase(along.diagonal(0, -2, -1).imag, "linalg_eig_backward: The eigenvectors")
        part = along.diagonal(0, -2, -1).real.to(vectors.dtype)
        turn = (along - vectors.mH.matmul(vectors * part.unsqueeze(-2))) / gaps(eigenvalues.conj())
        inner = with_diagonal(turn, of_values)
    return solve(vectors.mH, inner.matmul(vectors.mH))


def eig_forward(self_t: Tensor, eigenvalues: Tensor, eigenvectors: Tensor) -> tuple[Tensor, Tensor]:
    vectors = eigenvectors
    inner = solve(vectors, self_t.to(vectors.dtype).matmul(vectors))
    turn = inner / gaps(eigenvalues)
    turn = with_diagonal(turn, turn.diagonal(0, -2, -1) * 0)
    moved = vectors.matmul(turn)
    along = (vectors.mH.matmul(moved)).diagonal(0, -2, -1).real.to(vectors.dtype)
    return inner.diagonal(0, -2, -1), moved - vectors * along.unsqueeze(-2)


derivative("linalg_eig", self=eig_backward, result=eig_forward)


def eigvals_backward(grad: Tensor, self: Tensor) -> Tensor | None:
    values, vectors = run_name("linalg_eig", self)
    return eig_backward((grad, None), values, vectors)


derivative("_linalg_eigvals", self=eigvals_backward)


# Pseudo-inverse and least squares (Golub and Pereyra, for matrices of constant rank).


def pinv_backward(grad: Tensor, pinv: Tensor, a: Tensor) -> Tensor:
    adjoint, p = grad.mH, pinv
    k = adjoint.matmul(p)
    outer = k.matmul(p.mH)
    direct = p.matmul(k)
    return outer - a.matmul(p.matmul(outer)) + p.mH.matmul(p.matmul(adjoint - k.matmul(a))) - direct.mH


def pinv_forward(moved: Tensor, pinv: Tensor, a: Tensor) -> Tensor:
    p, adjoint = pinv, moved.mH
    left = p.matmul(p.mH.matmul(adjoint))
    right = adjoint.matmul(p.mH).matmul(p)
    return left - left.matmul(a).matmul(p) + right - p.matmul(a.matmul(right)) - p.matmul(moved).matmul(p)


derivative(
    "linalg_pinv.atol_rtol_tensor",
    self=lambda grad, self, result: pinv_backward(grad, result, self),
    atol=NOT_DIFFERENTIABLE,
    rtol=NOT_DIFFERENTIABLE,
    result=lambda self_t, self_p, result: pinv_forward(self_t, result, self_p),
)


def as_columns(self: Tensor, b: Tensor) -> bool:
    return self.ndim - 1 == b.ndim and tuple(b.shape) == tuple(self.shape[:-1])


def lstsq_backward(
    grads: tuple[Tensor | None, ...], self: Tensor, b: Tensor, solution: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    vector = as_columns(self, b)
    side, x = (b.unsqueeze(-1), solution.unsqueeze(-1)) if vector else (b, solution)
    of_a: Tensor | None = None
    of_b: Tensor | None = None
    if grads[0] is not None:
        gradient = grads[0].unsqueeze(-1) if vector else grads[0]
        pinv = pseudo_inverse(self)
        of_a = pinv_backward(gradient.matmul(side.mH), pinv, self) if needs[0] else None
        of_b = pinv.mH.matmul(gradient) if needs[1] else None
    if (
        grads[1] is not None and grads[1].numel()
    ):  # at the minimum the solution does not matter to the residual
        pull = (self.matmul(x) - side) * (2 * grads[1]).unsqueeze(-2)
        of_a = _sum(of_a, pull.matmul(x.mH)) if needs[0] else None
        of_b = _sum(of_b, -pull) if needs[1] else None
    return of_a, of_b.squeeze(-1) if vector and of_b is not None else of_b


def _sum(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a + b


def lstsq_forward(
    self_t: Tensor, b_t: Tensor, self_p: Tensor, b_p: Tensor, solution: Tensor, residuals: Tensor
) -> tuple[Any, ...]:
    vector = as_columns(self_p, b_p)
    side, moved = (b_p.unsqueeze(-1), b_t.unsqueeze(-1)) if vector else (b_p, b_t)
    x = solution.unsqueeze(-1) if vector else solution
    pinv = pseudo_inverse(self_p)
    tangent = pinv_forward(self_t, pinv, self_p).matmul(side) + pinv.matmul(moved)
    gap = self_p.matmul(x) - side
    change = real_part(gap.conj() * (self_t.matmul(x) - moved)).sum(-2) * 2
    return (
        tangent.squeeze(-1) if vector else tangent,
        change if residuals.numel() else zeros(residuals),
        None,
        None,
    )


def pseudo_inverse(a: Tensor) -> Tensor:
    return run_name("linalg_pinv.atol_rtol_tensor", a, None, None, False)


derivative("linalg_lstsq", ("self", "b"), lstsq_backward, differentiable_outputs=(0, 1), result=lstsq_forward)


# The exponential: exp of [[A, E], [0, A]] has the derivative of exp at A in direction E above its diagonal.


def exponential_derivative(a: Tensor, direction: Tensor) -> Tensor:
    n = a.shape[-1]
    above = run_name("cat", (a, direction), -1)
    below = run_name("cat", (zeros(a), a), -1)
    return (
        run_name("linalg_matrix_exp", run_name("cat", (above, below), -2)).narrow(-2, 0, n).narrow(-1, n, n)
    )


derivative(
    "linalg_matrix_exp",
    self=lambda grad, self: exponential_derivative(self.mH, grad),
    result=lambda self_t, self_p: exponential_derivative(self_p, self_t),
)

derivative("linalg_ldl_factor_ex", NOT_DIFFERENTIABLE)
derivative("linalg_ldl_solve", NOT_DIFFERENTIABLE)

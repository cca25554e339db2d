"""Low-rank factorizations by random projections, and the older `lu`."""

from __future__ import annotations

from .._api.link import API
from ..core.tensor import Tensor, tensor_method

__all__ = ["lu", "pca_lowrank", "svd_lowrank"]

_functions = API.functions[""]
_linalg = API.functions["linalg"]


def lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: tuple[Tensor, ...] | None = None
) -> tuple[Tensor, ...]:
    """The packed LU factorization with its pivots, and on request whether each matrix was regular.

    >>> rl.lu(rl.tensor([[2.0, 0.0], [0.0, 4.0]]))[0]
    tensor([[2., 0.],
            [0., 4.]])
    """
    everything = _linalg["lu_factor_ex"](A, pivot=pivot)
    found = everything if get_infos else tuple(everything[:2])
    if out is None:
        return found
    for target, result in zip(out, found, strict=True):
        target.resize_(result.shape).copy_(result)
    return out


def _lu_method(self: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    return tuple(lu(self, pivot, get_infos))


_lu_method.__name__ = "lu"
tensor_method(_lu_method)


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) of rank q, close to those of A - M: Halko, Martinsson and Tropp, algorithm 5.1.

    >>> U, S, V = rl.svd_lowrank(rl.diag(rl.tensor([3.0, 2.0, 1.0])), q=2)
    >>> S.shape
    rushlight.Size([2])
    """
    q = 6 if q is None else q
    m, n = A.shape[-2:]
    shifted = A if M is None else A - M.expand(A.shape)
    if m < n:
        shifted = shifted.mH
    basis = _range(shifted, q, 2 if niter is None else niter)
    u, s, vh = _linalg["svd"](basis.mH.matmul(shifted), full_matrices=False)
    u, v = basis.matmul(u), vh.mH
    return (v, s, u) if m < n else (u, s, v)


def _range(a: Tensor, q: int, niter: int) -> Tensor:
    """An orthonormal basis that nearly spans the range of `a`, by power iteration from random columns."""
    start = _functions["randn"]((a.shape[-1], q), dtype=a.dtype, device=a.device)
    basis = _linalg["qr"](a.matmul(start))[0]
    for _ in range(niter):
        basis = _linalg["qr"](a.mH.matmul(basis))[0]
        basis = _linalg["qr"](a.matmul(basis))[0]
    return basis


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Principal components of the rows of A, which are centred unless told otherwise.

    >>> U, S, V = rl.pca_lowrank(rl.diag(rl.tensor([3.0, 2.0, 1.0])), q=2)
    >>> V.shape
    rushlight.Size([3, 2])
    """
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)

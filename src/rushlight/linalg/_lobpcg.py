"""A few extreme eigenpairs of a large symmetric matrix, by locally optimal block conjugate gradients.

Each step looks for the best pairs in the span of the present vectors, their residuals and the last directions
(Knyazev 2001). A basis of that span is made orthonormal by QR, in the product of B by a Cholesky factor of a
small matrix, so that directions that nearly coincide do no harm. Where gradients are asked for, the pairs
come from a full decomposition, through which they flow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._api.link import API
from ..core.dtypes import finfo
from ..core.modes import MODES
from ..core.tensor import Tensor

__all__ = ["lobpcg"]

_functions = API.functions[""]
_linalg = API.functions["linalg"]


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[[Any], None] | None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """(eigenvalues, eigenvectors) of A x = e B x: the `k` largest in descending order, or the smallest in
    ascending order. `X` holds first guesses of the vectors, `iK` approximates the inverse of A.

    >>> rl.lobpcg(rl.diag(rl.arange(1.0, 10.0)), k=1)[0].round(decimals=2)
    tensor([9.])
    """
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg: method must be 'basic' or 'ortho', not {method!r}")
    if tracker is not None or any((ortho_iparams, ortho_fparams, ortho_bparams)):
        raise NotImplementedError(
            "lobpcg: a tracker and parameters of the orthogonalization are not supported"
        )
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(
            f"lobpcg: A must be a square matrix or a batch of them, but its shape is {tuple(A.shape)}"
        )
    size = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if X is None else X.shape[-1]) if n is None else n
    if size < 3 * n:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={size}) is smaller than 3 x "
            f"the number of requested eigenpairs (={n})"
        )
    largest = True if largest is None else largest
    if MODES.grad and any(t is not None and t.requires_grad for t in (A, B)):
        return _whole(A, B, k, largest)
    steps = 1000 if niter is None else niter
    accuracy = finfo(A.dtype).eps ** 0.5 if tol is None else tol
    values, vectors = _iterate(A, B, _start(A, n) if X is None else X, iK, steps, accuracy, largest)
    return values[..., :k], vectors[..., :k]


def _whole(A: Tensor, B: Tensor | None, k: int, largest: bool) -> tuple[Tensor, Tensor]:
    """By a full decomposition: x = L^-H y for B = L L^H and the eigenvectors y of L^-1 A L^-H."""
    if B is None:
        values, vectors = _linalg["eigh"](_symmetric(A))
    else:
        factor = _linalg["cholesky"](_symmetric(B))
        inner = _linalg["solve_triangular"](factor, A, upper=False)
        inner = _linalg["solve_triangular"](factor, inner.mH, upper=False).mH
        values, vectors = _linalg["eigh"](_symmetric(inner))
        vectors = _linalg["solve_triangular"](factor.mH, vectors, upper=True)
    values, vectors = (values.flip(-1), vectors.flip(-1)) if largest else (values, vectors)
    return values[..., :k], vectors[..., :k]


def _symmetric(A: Tensor) -> Tensor:
    """The Hermitian part: a decomposition reads one triangle, but both are variables."""
    return (A + A.mH) / 2


def _start(A: Tensor, n: int) -> Tensor:
    made: Tensor = _functions["randn"]((*A.shape[:-1], n), dtype=A.dtype)
    return made


def _times(B: Tensor | None, x: Tensor) -> Tensor:
    return x if B is None else B @ x


def _orthonormal(S: Tensor, B: Tensor | None) -> Tensor:
    """A basis of the span of `S`, orthonormal in the product of B."""
    basis = _linalg["qr"](S)[0]
    if B is None:
        return basis
    factor = _linalg["cholesky"](basis.mH @ (B @ basis))
    made: Tensor = _linalg["solve_triangular"](factor.mH, basis, upper=True, left=False)
    return made


def _best(A: Tensor, basis: Tensor, n: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The extreme pairs of A in the span of an orthonormal basis."""
    inner = basis.mH @ (A @ basis)
    values, parts = _linalg["eigh"](_symmetric(inner))
    values, parts = (values.flip(-1), parts.flip(-1)) if largest else (values, parts)
    return values[..., :n], basis @ parts[..., :n]


def _iterate(
    A: Tensor, B: Tensor | None, start: Tensor, iK: Tensor | None, steps: int, tol: float, largest: bool
) -> tuple[Tensor, Tensor]:
    n = start.shape[-1]
    values, x = _best(A, _orthonormal(start, B), n, largest)
    last: Tensor | None = None
    for _ in range(steps):
        image = A @ x
        residual = image - _times(B, x) * values.unsqueeze(-2)
        scale = image.norm(dim=-2) + values.abs() * _times(B, x).norm(dim=-2)
        if bool((residual.norm(dim=-2) <= tol * scale).all()):
            break
        ahead = residual if iK is None else iK @ residual
        parts = [x, ahead] if last is None else [x, ahead, last]
        values, found = _best(A, _orthonormal(_functions["cat"](parts, -1), B), n, largest)
        last = found - x @ (x.mH @ _times(B, found))
        x = found
    return values, x

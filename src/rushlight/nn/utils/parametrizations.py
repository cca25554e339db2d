"""Ready parametrizations: orthogonal matrices, weight and spectral normalization."""

from __future__ import annotations

from typing import Any

from ..._api.link import API
from ...autograd.grad_mode import no_grad
from ...core.dtypes import finfo
from ...core.errors import check
from ...core.tensor import Tensor
from ..functional import normalize
from ..modules.module import Module
from . import parametrize
from .spectral_norm import as_matrix, default_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

functions: Any = API.functions[""]
_MAPS = ("matrix_exp", "cayley", "householder")


def _weight_of(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    check(
        isinstance(weight, Tensor),
        f"{type(module).__name__} has no parameter or buffer with name '{name}'",
        ValueError,
    )
    return weight  # type: ignore[return-value]


def _linalg(name: str) -> Any:
    return API.functions["linalg"][name]


# Orthogonal matrices.


def _is_orthogonal(matrix: Tensor) -> bool:
    rows, columns = matrix.shape[-2:]
    identity = functions["eye"](columns, dtype=matrix.dtype)
    return bool(
        functions["allclose"](matrix.mH @ matrix, identity, atol=10.0 * rows * finfo(matrix.dtype).eps)
    )


def _made_orthogonal(matrix: Tensor) -> Tensor:
    """The orthogonal factor of `matrix`, with the signs that make it unique."""
    q, r = _linalg("qr")(matrix)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """A matrix with orthonormal columns, or rows if there are fewer of them."""

    base: Any

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        check(
            not weight.is_complex() or orthogonal_map != "householder",
            "The householder parametrization does not support complex tensors.",
            ValueError,
        )
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        matrix = X.mT if wide else X
        rows, columns = matrix.shape[-2:]
        if self.orthogonal_map == "householder":
            lower = matrix.tril(diagonal=-1)
            scale = 2.0 / (1.0 + (lower * lower).sum(dim=-2))
            q = _linalg("householder_product")(lower, scale)
            q = q * matrix.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            q = self._mapped(matrix, rows, columns)[..., :columns]
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _mapped(self, matrix: Tensor, rows: int, columns: int) -> Tensor:
        """The orthogonal matrix that the skew-symmetric one of the lower triangle is mapped to."""
        lower = matrix.tril()
        if rows != columns:
            zeros = lower.new_zeros((*lower.shape[:-1], rows - columns))
            lower = functions["cat"]([lower, zeros], -1)
        skew = lower - lower.mH
        if self.orthogonal_map == "matrix_exp":
            return functions["matrix_exp"](skew)
        identity = functions["eye"](rows, dtype=skew.dtype)
        return _linalg("solve")(identity - 0.5 * skew, identity + 0.5 * skew)

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        check(
            Q.shape == self.shape,
            f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}.",
            ValueError,
        )
        wide = Q.shape[-2] < Q.shape[-1]
        matrix = Q.mT if wide else Q
        rows, columns = matrix.shape[-2:]
        if not hasattr(self, "base"):
            check(
                self.orthogonal_map == "householder",
                "It is not possible to assign to the matrix exponential or the "
                "Cayley parametrizations when use_trivialization=False.",
                NotImplementedError,
            )
            reflectors, scale = functions["geqrf"](matrix)
            diagonal = reflectors.diagonal(dim1=-2, dim2=-1)
            diagonal.copy_(functions["where"](scale == 0.0, -diagonal.sign(), diagonal.sign()))
            return reflectors.mT if wide else reflectors
        if rows != columns:
            more = functions["randn"](*matrix.shape[:-2], rows, rows - columns, dtype=matrix.dtype)
            self.base = _made_orthogonal(functions["cat"]([matrix, more], -1))
        else:
            self.base = matrix.clone() if _is_orthogonal(matrix) else _made_orthogonal(matrix)
        # minus the identity is mapped to the identity (its lower triangle is no rotation)
        start = functions["zeros_like"](Q)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a weight orthogonal.

    >>> w = nn.utils.parametrizations.orthogonal(nn.Linear(2, 2)).weight
    >>> rl.allclose(w @ w.T, rl.eye(2), atol=1e-5)
    True
    """
    weight = _weight_of(module, name)
    check(
        weight.ndim >= 2,
        f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.",
        ValueError,
    )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    check(
        orthogonal_map in _MAPS,
        f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}',
        ValueError,
    )
    inner = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, inner, unsafe=True)


# Normalizations.


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return functions["_weight_norm"](weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return functions["norm_except_dim"](weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the norm and the direction of a weight apart.

    >>> nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))(rl.ones(1, 2)).shape
    rushlight.Size([1, 3])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def accept_former_names(state_dict: Any, prefix: str, *rest: Any) -> None:
        former = f"{prefix}{name}_g", f"{prefix}{name}_v"
        if all(key in state_dict for key in former):
            for i, key in enumerate(former):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(accept_former_names)
    return module


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        rank = weight.ndim
        check(
            -rank <= dim < rank,
            f"Dimension out of range (expected to be in range of [-{rank}, {rank - 1}] but got {dim})",
            IndexError,
        )
        check(
            n_power_iterations > 0,
            f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}",
            ValueError,
        )
        self.dim = dim % rank
        self.eps = eps
        if rank > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight.detach(), self.dim)
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                self.register_buffer(name, normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps))
            self._power_method(matrix, 15)

    @no_grad()
    def _power_method(self, matrix: Tensor, n_power_iterations: int) -> None:
        for _ in range(n_power_iterations):
            self._u.copy_(normalize(functions["mv"](matrix, self._v), dim=0, eps=self.eps))
            self._v.copy_(normalize(functions["mv"](matrix.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next iteration must not change what backward needs
        return weight / functions["vdot"](u, functions["mv"](matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value  # the weight of the largest singular value one is a fixed point


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Keep the largest singular value of a weight at one.

    >>> nn.utils.parametrizations.spectral_norm(nn.Linear(2, 3))(rl.ones(1, 2)).shape
    rushlight.Size([1, 3])
    """
    weight = _weight_of(module, name)
    inner = _SpectralNorm(weight, n_power_iterations, default_dim(module) if dim is None else dim, eps)
    return parametrize.register_parametrization(module, name, inner)

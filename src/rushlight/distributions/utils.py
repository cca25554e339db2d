"""What distributions share: parameters of one shape, probabilities and logits, attributes made on demand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import update_wrapper
from types import SimpleNamespace
from typing import Any

from .._api.link import API, log, log1p, randn, sigmoid, softmax, tril_indices, zeros
from .._api.shape import broadcast_tensors
from ..autograd.grad_mode import enable_grad
from ..core.construct import tensor
from ..core.dispatch import AMBIENT
from ..core.dtypes import DType, finfo, get_default_dtype
from ..core.modes import MODES
from ..core.tensor import Tensor
from ..core.tokens import Size
from ..overrides import is_tensor_like

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

linalg: Any = SimpleNamespace(**API.functions["linalg"])
special: Any = SimpleNamespace(**API.functions["special"])
euler_constant = 0.57721566490153286060
half_log_two_pi = 0.5 * math.log(2 * math.pi)


def constrained(**parameters: Any) -> Any:
    """The `arg_constraints` of a class: its parameters that are tensors, and where they lie."""
    return parameters


def is_number(value: Any) -> bool:
    """Whether it is a Python number, or one that a capture keeps live."""
    return isinstance(value, int | float)


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors of one shape. Numbers take dtype and device of the first tensor, or the default dtype."""
    if not all(is_number(value) or is_tensor_like(value) for value in values):
        kinds = ", ".join(type(value).__name__ for value in values)
        raise ValueError(f"parameters of distributions are numbers or tensors, not ({kinds})")
    first = next((value for value in values if isinstance(value, Tensor)), None)
    options: dict[str, Any] = (
        {"dtype": get_default_dtype()} if first is None else {"dtype": first.dtype, "device": first.device}
    )
    return broadcast_tensors(*(tensor(value, **options) if is_number(value) else value for value in values))


def _standard_normal(shape: Sequence[int], dtype: DType | None, device: Any) -> Tensor:
    return randn(Size(shape), dtype=dtype, device=device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` dimensions."""
    return value.sum(tuple(range(-dim, 0))) if dim else value


def tiny(dtype: DType) -> float:
    """The smallest normal number."""
    return float(finfo(dtype).tiny)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities that are neither 0 nor 1, so that their logits are finite."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities: of 1 each if `is_binary`, of categories along the last dimension otherwise."""
    return sigmoid(logits) if is_binary else softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The inverse of `logits_to_probs`, finite for all probabilities."""
    clamped = clamp_probs(probs)
    return log(clamped) - log1p(-clamped) if is_binary else log(clamped)


def transformed() -> bool:
    """Whether values are those of a capture or a function transform, which nothing may keep."""
    return AMBIENT.trace is not None or bool(MODES.traces)


class lazy_property:
    """An attribute that is computed when it is first read, and kept.

    A capture or a function transform keeps nothing: its values have no meaning once it has ended.
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        if not transformed():
            instance.__dict__[self.wrapped.__name__] = value
        return value


def part(path: str) -> Any:
    """A property that is read off a part: `loc = part("base_dist.loc")`."""

    def read(self: Any) -> Any:
        for name in path.split("."):
            self = getattr(self, name)
        return self

    return property(read, doc=f"`{path}`")


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """What lies on and below the diagonal number `diag` of each matrix, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) is not in [{-n}, {n - 1}]")
    rows, columns = tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The inverse of `tril_matrix_to_vec`, with zeros elsewhere."""
    length, shift = vec.shape[-1], 1 + 2 * diag
    exact = (math.sqrt(shift**2 + 8 * length + 4 * abs(diag) * (diag + 1)) - shift) / 2
    n = round(exact)
    if abs(n - exact) > 1e-9:
        raise ValueError(f"{length} numbers do not fill the lower triangle of a square matrix (diag {diag})")
    rows, columns = tril_indices(n, n, diag, device=vec.device)
    matrix = zeros(vec.shape[:-1] + (n, n), dtype=vec.dtype, device=vec.device)
    matrix[..., rows, columns] = vec
    return matrix

"""Clipping of gradients, by their norm or by value."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable
from typing import Any

from ..._api.link import API
from ...autograd.grad_mode import no_grad
from ...core.construct import tensor
from ...core.errors import check
from ...core.tensor import Tensor

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensors = Tensor | Iterable[Tensor]
functions: Any = API.functions[""]
_vector_norm: Any = API.functions["linalg"]["vector_norm"]


def _listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _grads(parameters: Tensors) -> list[Tensor]:
    return [param.grad for param in _listed(parameters) if param.grad is not None]


def _on_one_mesh(norms: list[Any]) -> list[Any]:
    """Norms of distributed tensors, as plain numbers if they lie on different meshes."""
    meshes = {norm.device_mesh for norm in norms if hasattr(norm, "device_mesh")}
    if len(meshes) < 2:
        return norms
    return [norm.full_tensor() if hasattr(norm, "device_mesh") else norm for norm in norms]


@no_grad()
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors together, as if they were one vector.

    >>> nn.utils.get_total_norm([rl.tensor([3.0]), rl.tensor([4.0])])
    tensor(5.)
    """
    given = _listed(tensors)
    norm_type = float(norm_type)
    if not given:
        return tensor(0.0)
    norms = _on_one_mesh(functions["_foreach_norm"](given, norm_type))
    total = _vector_norm(functions["stack"]([norm.to(norms[0].dtype) for norm in norms]), norm_type)
    if error_if_nonfinite:
        check(
            bool(total.isfinite()),
            f"The total norm of order {norm_type} for gradients from `parameters` is "
            "non-finite, so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite "
            "norm anyway, set `error_if_nonfinite=False`",
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients so that a total norm that is larger than `max_norm` becomes that.

    >>> x = rl.ones(1, requires_grad=True)
    >>> x.grad = rl.tensor([5.0])
    >>> nn.utils.clip_grads_with_norm_(x, 1.0, rl.tensor(5.0))
    >>> x.grad
    tensor([1.0000])
    """
    grads = _grads(parameters)
    if grads:
        scale = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
        functions["_foreach_mul_"](grads, scale)


@no_grad()
def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Clip the norm of all gradients together, in place; returns what it was.

    >>> x = rl.ones(1, requires_grad=True)
    >>> x.grad = rl.tensor([5.0])
    >>> nn.utils.clip_grad_norm_(x, 1.0)
    tensor(5.)
    """
    generated = isinstance(parameters, types.GeneratorType)
    given = _listed(parameters)
    if generated and not given:
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", UserWarning, stacklevel=3
        )
    total = get_total_norm(_grads(given), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(given, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """clip_grad_norm_ by its former name.

    >>> x = rl.ones(1, requires_grad=True)
    >>> x.grad = rl.tensor([5.0])
    >>> _ = nn.utils.clip_grad_norm(x, 1.0)
    >>> x.grad
    tensor([1.0000])
    """
    warnings.warn(
        "`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clip each element of the gradients to [-clip_value, clip_value], in place.

    >>> x = rl.ones(1, requires_grad=True)
    >>> x.grad = rl.tensor([5.0])
    >>> nn.utils.clip_grad_value_(x, 1.0)
    >>> x.grad
    tensor([1.])
    """
    for grad in _grads(parameters):
        grad.clamp_(min=-clip_value, max=clip_value)

"""The Jacobians that gradcheck once gave out, for programs that still ask for them: deprecated, as in PyTorch.

Each is a matrix with a row for each element of an input and a column for each element of an output.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.construct import from_numpy
from ..core.tensor import Tensor
from .api import grad
from .real_vectors import perturbed, real, real_like, tensors, units

__all__ = ["get_analytical_jacobian", "get_numerical_jacobian"]


def _refuse_weights(name: str, grad_out: Any) -> None:
    warnings.warn(
        f"`{name}` was part of PyTorch's private API and will be removed; use gradcheck, or "
        "autograd.functional.jacobian for the derivatives themselves",
        FutureWarning,
        stacklevel=3,
    )
    if grad_out != 1.0:
        raise ValueError(f"Expected grad_out to be 1.0, the only value that {name} takes, but got {grad_out}")


def _check_real(values: Sequence[Tensor], name: str) -> None:
    if any(tensor.dtype.is_complex for tensor in values):
        raise ValueError(f"{name}: complex tensors are not supported")


def get_numerical_jacobian(
    fn: Callable[..., Any], inputs: Any, target: Any = None, eps: float = 1e-3, grad_out: float = 1.0
) -> list[Tensor]:
    """By finite differences, of the first output of `fn(inputs)` by each tensor of `target`, or of `inputs`, that
    requires grad."""
    _refuse_weights("get_numerical_jacobian", grad_out)
    variables = [t for t in tensors(inputs if target is None else target) if t.requires_grad]
    _check_real(variables, "get_numerical_jacobian")
    found = []
    for tensor in variables:
        values = [real(tensors(fn(inputs))[0].detach()) for _ in perturbed(tensor, eps)]
        rows = [(up - down) / (2 * eps) for up, down in zip(values[::2], values[1::2], strict=True)]
        found.append(from_numpy(np.stack(rows).astype(tensor.dtype.numpy)))
    return found


def get_analytical_jacobian(
    inputs: Any, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Tensor, ...], bool, bool, bool]:
    """By backward passes, of `output` by each of `inputs` that requires grad; and whether a second pass agrees
    within `nondet_tol`, whether all gradients have the sizes, and the dtypes, of their inputs."""
    _refuse_weights("get_analytical_jacobian", grad_out)
    variables = [t for t in tensors(inputs) if t.requires_grad]
    _check_real([*variables, output], "get_analytical_jacobian")
    sizes = types = True
    passes: list[list[list[np.ndarray]]] = []
    for _ in range(2):
        columns: list[list[np.ndarray]] = [[] for _ in variables]
        for unit in units(output):
            grads = grad(output, variables, unit, retain_graph=True, allow_unused=True)
            for column, gradient, tensor in zip(columns, grads, variables, strict=True):
                sizes = sizes and (gradient is None or gradient.shape == tensor.shape)
                types = types and (gradient is None or gradient.dtype is tensor.dtype)
                column.append(real_like(gradient, tensor))
        passes.append(columns)
    first, second = ([np.stack(column, axis=1) for column in columns] for columns in passes)
    agree = all(np.all(np.abs(a - b) <= nondet_tol) for a, b in zip(first, second, strict=True))
    made = [from_numpy(m.astype(t.dtype.numpy)) for m, t in zip(first, variables, strict=True)]
    return tuple(made), bool(agree), sizes, types

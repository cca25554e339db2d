"""Operators of libraries of others, as operators of ours: those that models in wide use call.

`transformers` multiplies by the experts of a model with operators of its own where it is compiled, so that other
compilers need not look into a loop whose length is data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor


def _grouped(left: Tensor, right: Tensor, offs: Tensor) -> Tensor:
    return run_name("_grouped_mm", left, right, offs, None, None)


def _grouped_backward(input: Tensor, weight: Tensor, offs: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    return _grouped(grad, weight.transpose(-2, -1), offs), _grouped(input.transpose(0, 1), grad, offs)


OPERATORS: dict[str, Callable[..., Any]] = {
    "transformers::grouped_mm_fallback": _grouped,
    "transformers::grouped_mm_fallback_backward": _grouped_backward,
}


def library_operator(target: Any) -> Callable[..., Any] | None:
    """What computes an operator of a library, on positional arguments; None if it is none that is known."""
    schema = getattr(target, "_schema", None)
    return None if schema is None else OPERATORS.get(schema.name)

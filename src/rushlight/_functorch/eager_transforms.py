"""The transforms themselves, and how arguments are chosen."""

from typing import Any

from ..func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from ..func.reverse import check_argnums

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]


def _slice_argnums(args: tuple[Any, ...], argnums: Any, as_tuple: bool = True) -> Any:
    """The arguments that `argnums` names."""
    numbers = check_argnums(argnums, len(args))
    chosen = tuple(args[number] for number in numbers)
    return chosen[0] if isinstance(argnums, int) and not as_tuple else chosen

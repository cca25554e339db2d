"""The package `functorch`, which comes with PyTorch: older names of the transforms, which warn as PyTorch's do.

`import functorch` finds this module in programs that run under `rushlight run` (programs/redirect.py).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from .. import func, version
from ..func import functional_modules
from ..fx.experimental.proxy_tensor import make_fx

__path__: list[str] = []  # it has submodules, none of them in a directory (programs/redirect.py)
FunctionalModule = functional_modules.FunctionalModule
FunctionalModuleWithBuffers = functional_modules.FunctionalModuleWithBuffers

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "make_fx",
    "vjp",
    "vmap",
]


def _older(function: Callable[..., Any], now: str = "") -> Callable[..., Any]:
    """A function that warns of its name, and says which one to use."""
    name = function.__name__
    message = (
        f"We've integrated functorch into PyTorch. `functorch.{name}` is deprecated; please use "
        f"`{now or f'torch.func.{name}'}` instead."
    )

    @functools.wraps(function)
    def older(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(message, FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    return older


functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp = (
    _older(getattr(func, name))
    for name in ("functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp")
)
vmap = _older(func.vmap, "torch.vmap")
combine_state_for_ensemble = _older(
    functional_modules.combine_state_for_ensemble, "torch.func.stack_module_state"
)
make_functional, make_functional_with_buffers = (
    _older(getattr(functional_modules, name), "torch.func.functional_call")
    for name in ("make_functional", "make_functional_with_buffers")
)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version.__version__
    raise AttributeError(f"module 'functorch' has no attribute {name!r}")

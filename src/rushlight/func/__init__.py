"""Composable function transforms: grad, vjp, jvp, jacrev, jacfwd, hessian, linearize, vmap, functionalize."""

from .forward import jvp, linearize
from .functional_modules import combine_state_for_ensemble, make_functional, make_functional_with_buffers  # noqa: F401  functorch's older names
from .functionalize import functionalize
from .jacobian import hessian, jacfwd, jacrev
from .modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from .rearrange import rearrange
from .reverse import grad, grad_and_value, vjp
from .vmap import vmap

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
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

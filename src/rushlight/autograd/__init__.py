"""Automatic differentiation: the tape and its engine, forward mode, custom functions, hooks and checks."""

# isort: off  the operators first: the derivative table and the engine refer to them by name
from .. import ops as _ops  # noqa: F401
from .. import kernels as _kernels  # noqa: F401
from .. import decompositions as _decompositions  # noqa: F401
from .. import derivatives as _derivatives  # noqa: F401
# isort: on
from . import record as _record  # noqa: F401  installs the autograd layer
from . import variable as _variable  # noqa: F401  gives Tensor its autograd methods
from . import views as _views  # noqa: F401  installs the rules of in-place writes
from . import forward_ad
from .api import backward, get_gradient_edge, grad
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)

__all__ = ["backward", "enable_grad", "forward_ad", "get_gradient_edge", "grad", "inference_mode", "is_grad_enabled",
           "is_inference_mode_enabled", "no_grad", "set_grad_enabled"]

"""Automatic differentiation: the tape and its engine, forward mode, custom functions, hooks and checks."""

# The operators first: the derivative table and the engine refer to them by name.
# isort: off
from .. import ops as _ops  # noqa: F401
from .. import kernels as _kernels  # noqa: F401
from .. import decompositions as _decompositions  # noqa: F401
from .. import derivatives as _derivatives  # noqa: F401

# isort: on
from . import anomaly_mode, forward_ad, function, functional, grad_mode, graph, profiler, profiler_util
from . import function_vmap as _function_vmap  # noqa: F401  how vmap treats custom functions
from . import record as _record  # noqa: F401  installs the autograd layer
from . import variable as _variable  # noqa: F401  gives Tensor its autograd methods
from . import views as _views  # noqa: F401  installs the rules of in-place writes
from .anomaly_mode import detect_anomaly, is_anomaly_check_nan_enabled, is_anomaly_enabled, set_detect_anomaly
from .api import backward, grad
from .function import Function
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .gradcheck import GradcheckError, gradcheck, gradgradcheck
from .profiler import _profiler_enabled, kineto_available
from .saved_tensor import SavedTensor
from .variable import Variable

__all__ = [
    "Function",
    "GradcheckError",
    "SavedTensor",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "kineto_available",
    "no_grad",
    "_profiler_enabled",
    "profiler",
    "profiler_util",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

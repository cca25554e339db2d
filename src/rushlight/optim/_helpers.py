"""Functions that optimizers of others import from PyTorch's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._api.link import API
from ..autograd.grad_mode import set_grad_enabled
from ..core.dtypes import DType, float32, float64, get_default_dtype
from ..core.modes import MODES
from ..core.tensor import Tensor
from ._batch import capturing

_foreach_doc = "foreach (bool, optional): whether to update lists of tensors at once, which is always so"
_fused_doc = "fused (bool, optional): whether to update in one pass over memory, which compiled steps do"
_capturable_doc = "capturable (bool, optional): whether a step can be captured, which is always so"
_differentiable_doc = (
    "differentiable (bool, optional): whether a step is recorded by autograd (default: False)"
)
_maximize_doc = "maximize (bool, optional): maximize the objective instead of minimizing it (default: False)"
_params_doc = "params (iterable): parameters, or groups of them as dictionaries, to optimize"


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """A step that autograd records if the optimizer is differentiable."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = MODES.grad
        try:
            set_grad_enabled(self.defaults["differentiable"])
            return func(self, *args, **kwargs)
        finally:
            set_grad_enabled(before)

    return step


def _get_value(x: Any) -> Any:
    """The number in a tensor; while a step is captured, the tensor."""
    return x.item() if isinstance(x, Tensor) and not capturing() else x


def _stack_if_compiling(x: Any) -> Any:
    return API.functions[""]["stack"](x) if capturing() else x


def _default_to_fused_or_foreach(
    params: list[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """(fused, foreach): which form PyTorch would choose; on the processor, neither."""
    return False, False


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Types of devices whose steps PyTorch records as graphs: none of those that there are here."""
    return []


def _get_scalar_dtype(is_fused: bool | None = None) -> DType:
    """The dtype of the count of steps."""
    return float32 if is_fused or get_default_dtype() is not float64 else float64


def _view_as_real(params: list[Any], *state_and_grads: list[Any]) -> None:
    """Replace complex tensors in lists by pairs of reals over the same memory."""
    for i, param in enumerate(params):
        if param.is_complex():
            params[i] = API.functions[""]["view_as_real"](param)
            for tensors in state_and_grads:
                tensors[i] = API.functions[""]["view_as_real"](tensors[i])


def _to_scalar(x: Any) -> Any:
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _cast(param: Tensor, value: Any, group: dict[str, Any], key: Any = None) -> Any:
    """A loaded state for `param`; `step` keeps its dtype."""
    if isinstance(value, Tensor):
        if key == "step":
            return value.to(float32) if group.get("capturable") or group.get("fused") else value
        return value.to(param.device, param.dtype) if param.is_floating_point() else value.to(param.device)
    if isinstance(value, dict):
        return {name: _cast(param, item, group, name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_cast(param, item, group) for item in value])
    return value

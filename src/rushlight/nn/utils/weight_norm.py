"""Weight normalization by a hook; `parametrizations.weight_norm` is the newer form."""

from __future__ import annotations

import warnings
from typing import Any

from ..._api.link import API
from ...core.errors import check
from ..parameter import Parameter, is_lazy

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

functions: Any = API.functions[""]


class WeightNorm:
    """Computes the weight from its norms, `name_g`, and its directions, `name_v`, before each forward."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Any) -> Any:
        return functions["_weight_norm"](
            getattr(module, self.name + "_v"), getattr(module, self.name + "_g"), self.dim
        )

    @staticmethod
    def apply(module: Any, name: str, dim: int | None) -> WeightNorm:
        warnings.warn(
            "`nn.utils.weight_norm` is deprecated in favor of `nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        known = any(
            isinstance(hook, WeightNorm) and hook.name == name for hook in module._forward_pre_hooks.values()
        )
        check(not known, f"Cannot register two weight_norm hooks on the same parameter {name}")
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        check(
            not is_lazy(weight),
            "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure "
            "to run the dummy forward before applying weight normalization",
            ValueError,
        )
        del module._parameters[name]
        module.register_parameter(
            name + "_g", Parameter(functions["norm_except_dim"](weight, 2, hook.dim).detach())
        )
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Any) -> None:
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Learn the norm and the direction of the weight apart.

    >>> [name for name, _ in nn.utils.weight_norm(nn.Linear(2, 3)).named_parameters()]
    ['bias', 'weight_g', 'weight_v']
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Undoes `weight_norm`: the weight is a parameter again.

    >>> layer = nn.utils.remove_weight_norm(nn.utils.weight_norm(nn.Linear(2, 3)))
    >>> isinstance(layer.weight, nn.Parameter)
    True
    """
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")

"""Spectral normalization by a hook; `parametrizations.spectral_norm` is the newer form."""

from __future__ import annotations

from typing import Any

from ..._api.link import API
from ...autograd.grad_mode import no_grad
from ...core.errors import check
from ...core.tensor import Tensor
from ..functional import normalize
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..parameter import Parameter, is_lazy

__all__ = ["SpectralNorm", "default_dim", "remove_spectral_norm", "spectral_norm"]

functions: Any = API.functions[""]


def default_dim(module: Any) -> int:
    """The dimension of the outputs in the weight of `module`."""
    return 1 if isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d) else 0


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight as a matrix with a row for each output."""
    if dim != 0:
        weight = weight.permute(dim, *[d for d in range(weight.ndim) if d != dim])
    return weight.flatten(1)


class SpectralNorm:
    """Divides the weight by its largest singular value, which a power iteration in each forward follows."""

    _version = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        check(
            n_power_iterations > 0,
            f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}",
            ValueError,
        )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Tensor:
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(normalize(functions["mv"](matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(normalize(functions["mv"](matrix, v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # the next iteration must not change what backward needs
        return weight / functions["dot"](u, functions["mv"](matrix, v))

    def remove(self, module: Any) -> None:
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def _solve_v_and_rescale(self, matrix: Tensor, u: Tensor, sigma: Tensor) -> Tensor:
        """The right vector for a left one: u W v = sigma for v in the row space of W."""
        v = functions["mv"](functions["pinverse"](matrix.t().mm(matrix)).mm(matrix.t()), u)
        return v * (sigma / functions["dot"](u, functions["mv"](matrix, v)))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module: Any, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        known = any(
            isinstance(hook, SpectralNorm) and hook.name == name
            for hook in module._forward_pre_hooks.values()
        )
        check(not known, f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        check(
            weight is not None, f"`SpectralNorm` cannot be applied as parameter `{name}` is None", ValueError
        )
        check(
            not is_lazy(weight),
            "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure "
            "to run the dummy forward before applying spectral normalization",
            ValueError,
        )
        with no_grad():
            matrix = as_matrix(weight, dim)
            rows, columns = matrix.shape
            u = normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
            v = normalize(weight.new_empty(columns).normal_(0, 1), dim=0, eps=eps)
        del module._parameters[name]
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.detach())
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook


class SpectralNormStateDictHook:
    """Notes in the metadata of a state dict which version of SpectralNorm wrote it."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Any, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        check(key not in versions, f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


class SpectralNormLoadStateDictPreHook:
    """Turns a state dict from before there was a version into one of today: it has the normalized weight
    instead of the right singular vector."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("spectral_norm", {}).get(self.fn.name + ".version")
        key = prefix + self.fn.name
        today = all(key + suffix in state_dict for suffix in ("_orig", "_u", "_v")) and key not in state_dict
        if (version is not None and version >= 1) or (version is None and today):
            return
        missing = [key + suffix for suffix in ("_orig", "", "_u") if key + suffix not in state_dict]
        if missing:
            if strict:
                missing_keys.extend(missing)
            return
        with no_grad():
            weight, normalized = state_dict[key + "_orig"], state_dict.pop(key)
            matrix = self.fn.reshape_weight_to_matrix(weight)
            sigma = (weight / normalized).mean()
            state_dict[key + "_v"] = self.fn._solve_v_and_rescale(matrix, state_dict[key + "_u"], sigma)


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Keep the largest singular value of the weight at one.

    >>> nn.utils.spectral_norm(nn.Linear(2, 3))(rl.ones(1, 2)).shape
    rushlight.Size([1, 3])
    """
    SpectralNorm.apply(module, name, n_power_iterations, default_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Undoes `spectral_norm`: the weight is a parameter again.

    >>> layer = nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Linear(2, 3)))
    >>> isinstance(layer.weight, nn.Parameter)
    True
    """
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for table in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for number, other in list(table.items()):
            if getattr(other, "fn", None) is hook:
                del table[number]
    return module

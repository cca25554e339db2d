"""States of modules and optimizers by the names of parameters: what checkpoints are made of.

The names are those of the plain module, whatever wraps it, and the states of an optimizer have the names of the
parameters that they belong to, so that they can be loaded with another division among processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..._api.link import zeros_like
from ...autograd.grad_mode import no_grad
from ...core.tensor import Tensor
from ...nn.modules.module import Module
from ...nn.parallel.distributed import DistributedDataParallel
from ...optim.optimizer import Optimizer
from .. import distributed_c10d as c10d
from ..tensor._api import DTensor, distribute_tensor

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]


@dataclass
class StateDictOptions:
    """`full_state_dict`: whole tensors in place of DTensors (with `cpu_offload`, in the first process alone);
    `ignore_frozen_params`: without parameters that require no gradient; `strict`: all names must be there."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False

    def __post_init__(self) -> None:
        for name in ("broadcast_from_rank0", "flatten_optimizer_state_dict"):
            if getattr(self, name):
                raise NotImplementedError(
                    f"torch.distributed.checkpoint: StateDictOptions({name}=True) is not available"
                )
        if not self.keep_submodule_prefixes:
            raise NotImplementedError(
                "torch.distributed.checkpoint: StateDictOptions(keep_submodule_prefixes=False) is not available"
            )


Optimizers = Optimizer | Iterable[Optimizer]


def get_model_state_dict(model: Module, *, options: StateDictOptions | None = None) -> dict[str, Any]:
    """The state of `model`, without the prefix that DistributedDataParallel adds."""
    asked = options or StateDictOptions()
    inner = _plain(model)
    frozen = {name for name, p in inner.named_parameters() if not p.requires_grad}
    found = {
        name: value
        for name, value in inner.state_dict().items()
        if not (asked.ignore_frozen_params and name in frozen)
    }
    return _given_out(found, asked)


def get_optimizer_state_dict(
    model: Module, optimizers: Optimizers, *, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The states of optimizers by names of parameters. One that has not made a step yet gets its states first,
    from a step that changes nothing."""
    names = _names(model)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _several(optimizers):
        _begin(optimizer)
        for parameter, values in optimizer.state.items():
            state[names[id(parameter)]] = dict(values)
        for group in optimizer.param_groups:
            row = {key: value for key, value in group.items() if key != "params"}
            groups.append({**row, "params": [names[id(p)] for p in group["params"]]})
    return _given_out({"state": state, "param_groups": groups}, options or StateDictOptions())


def get_state_dict(
    model: Module, optimizers: Optimizers, *, options: StateDictOptions | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both, of a model and its optimizers."""
    return get_model_state_dict(model, options=options), get_optimizer_state_dict(
        model, optimizers, options=options
    )


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Give `model` a state that `get_model_state_dict` gave, of whole tensors or of DTensors."""
    asked = options or StateDictOptions()
    inner = _plain(model)
    own = {**dict(inner.named_parameters()), **dict(inner.named_buffers())}
    placed = {name: _like(value, own.get(name)) for name, value in model_state_dict.items()}
    return inner.load_state_dict(placed, strict=asked.strict)


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizers,
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Give optimizers the states that `get_optimizer_state_dict` gave."""
    asked = options or StateDictOptions()
    names = _names(model)
    rows = {tuple(row["params"]): row for row in optim_state_dict["param_groups"]}
    for optimizer in _several(optimizers):
        for group in optimizer.param_groups:
            own = tuple(names[id(p)] for p in group["params"])
            if own not in rows:
                raise ValueError(f"no group of the state has these parameters: {', '.join(own)}")
            group.update({key: value for key, value in rows[own].items() if key != "params"})
            for parameter, name in zip(group["params"], own, strict=True):
                values = optim_state_dict["state"].get(name)
                if values is not None:
                    optimizer.state[parameter] = {
                        key: _like(value, parameter) for key, value in values.items()
                    }
                elif asked.strict and parameter.requires_grad and optim_state_dict["state"]:
                    raise ValueError(f"the state has nothing for the parameter {name}")


def set_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Both, of a model and its optimizers."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)


def _plain(model: Module) -> Module:
    while isinstance(model, DistributedDataParallel):
        model = model.module
    return model


def _names(model: Module) -> dict[int, str]:
    return {id(parameter): name for name, parameter in _plain(model).named_parameters()}


def _several(optimizers: Optimizers) -> Sequence[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def _begin(optimizer: Optimizer) -> None:
    """Let an optimizer that has no state make it: a step with no gradient and no rate."""
    if optimizer.state:
        return
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    before = [p.grad for p in parameters]
    rates = [group.get("lr") for group in optimizer.param_groups]
    with no_grad():
        for parameter in parameters:
            parameter.grad = zeros_like(parameter)
        for group in optimizer.param_groups:
            if group.get("lr") is not None:
                group["lr"] = 0.0 if not isinstance(group["lr"], Tensor) else zeros_like(group["lr"])
        optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        if rate is not None:
            group["lr"] = rate
    for parameter, grad in zip(parameters, before, strict=True):
        parameter.grad = grad


def _given_out(state: Any, asked: StateDictOptions) -> Any:
    if not asked.full_state_dict:
        return state
    whole = _whole(state)
    elsewhere = asked.cpu_offload and c10d.is_initialized() and c10d.get_rank() != 0
    return {} if elsewhere else whole


def _whole(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _whole(value) for key, value in state.items()}
    if isinstance(state, list):
        return [_whole(value) for value in state]
    return state.full_tensor().detach() if isinstance(state, DTensor) else state


def _like(value: Any, target: Any) -> Any:
    """A whole tensor, distributed as `target` is, if it is of its shape."""
    if (
        isinstance(target, DTensor)
        and isinstance(value, Tensor)
        and not isinstance(value, DTensor)
        and value.shape == target.shape
    ):
        return distribute_tensor(value.detach(), target.device_mesh, target.placements, src_data_rank=None)
    return value

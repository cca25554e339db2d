"""fully_shard: a module whose parameters lie in pieces and are whole only while it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._api.compiler import is_compiling
from ...autograd.saved_hooks import saved_tensors_hooks
from ...core.pytree import tree_map
from ...core.tensor import Tensor
from ...nn.modules.module import Module
from .. import distributed_c10d as c10d
from ..device_mesh import init_device_mesh
from ._group import ParameterGroup, pack, unpack
from ._policy import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy

__all__ = ["FSDPModule", "fully_shard", "register_fsdp_forward_method"]


class _State:
    """What a sharded module knows."""

    def __init__(self, group: ParameterGroup, policy: MixedPrecisionPolicy) -> None:
        self.group, self.policy = group, policy
        self.hooks: list[saved_tensors_hooks] = []


def _state(module: Any) -> _State:
    return module.__dict__["_fsdp_state"]


class FSDPModule:
    """What `fully_shard` adds to a module."""

    def unshard(self, async_op: bool = False) -> None:
        """Gather the parameters now; with `async_op`, begin to."""
        group = _state(self).group
        if async_op:
            group.begin_gathering()
        else:
            group.gather()

    def reshard(self) -> None:
        """Free the gathered parameters."""
        _state(self).group.free()

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether the next backward pass averages gradients, or adds them up in each process."""
        for state in self._states(recurse):
            state.group.sync = requires_gradient_sync

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        for state in self._states(recurse):
            state.group.reshard = reshard_after_forward

    def set_modules_to_forward_prefetch(self, modules: Sequence[Any]) -> None:
        """Begin to gather the parameters of these modules when this one runs."""
        _state(self).group.next_forward = [_state(module).group for module in modules]

    def set_modules_to_backward_prefetch(self, modules: Sequence[Any]) -> None:
        """Begin to gather the parameters of these modules when the backward pass comes to this one."""
        _state(self).group.next_backward = [_state(module).group for module in modules]

    def _states(self, recurse: bool) -> list[_State]:
        modules = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        return [_state(module) for module in modules if isinstance(module, FSDPModule)]


_classes: dict[type, type] = {}


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Any] | None = None,
    mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),  # noqa: B008  it cannot be changed
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Any] | None = None,
) -> Any:
    """Shard the parameters of `module` that no part of it has sharded already, in place: its inner modules
    first, then itself. The parameters become DTensors, cut along their first dimension over the processes of
    `mesh` (of two dimensions: copies along the first, pieces along the second). Optimizers are made afterwards.

    Parameters are gathered before the forward pass of the module. After it they are freed, and gathered again
    for the backward pass, unless `reshard_after_forward` is False. None: True, but for the outermost module.
    """
    if isinstance(module, list | tuple):
        raise NotImplementedError("torch.distributed.fsdp.fully_shard: lists of modules are not available")
    if shard_placement_fn is not None:
        raise NotImplementedError("torch.distributed.fsdp.fully_shard: shard_placement_fn is not available")
    if type(reshard_after_forward) is int:
        raise NotImplementedError(
            "torch.distributed.fsdp.fully_shard: an integer for reshard_after_forward is not available"
        )
    if isinstance(offload_policy, CPUOffloadPolicy):
        raise NotImplementedError("torch.distributed.fsdp.fully_shard: CPUOffloadPolicy is not available")
    if isinstance(module, FSDPModule):
        raise AssertionError("fully_shard has been applied to this module already")
    if mesh is None:
        mesh = init_device_mesh("cpu", (c10d.get_world_size(),))
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    reshard = reshard_after_forward is None or bool(reshard_after_forward)
    group = ParameterGroup(_own_parameters(module, ignored_params or set()), mesh, mp_policy, reshard)
    module.__dict__["_fsdp_state"] = _State(group, mp_policy)
    if reshard_after_forward is None:
        _defaults_of_inner(module)
        group.reshard = False  # until a module around it is sharded
        module.__dict__["_fsdp_default"] = True
    else:
        _defaults_of_inner(module)
    kind = type(module)
    if kind not in _classes:
        _classes[kind] = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {"__deepcopy__": _no_copy})
    module.__class__ = _classes[kind]
    module.register_forward_pre_hook(_before, prepend=True, with_kwargs=True)
    module.register_forward_hook(_after, always_call=True)
    return module


def _no_copy(module: Any, memo: Any) -> Any:
    raise AssertionError("FSDP does not support deepcopy. Please use state dict for serialization.")


def _defaults_of_inner(module: Module) -> None:
    """Modules that were the outermost, and are not any more, free their parameters after the forward pass."""
    for part in module.modules():
        if part is not module and part.__dict__.pop("_fsdp_default", False):
            _state(part).group.reshard = True


def _own_parameters(module: Module, ignored: set[Any]) -> list[tuple[str, Tensor, list[tuple[Module, str]]]]:
    """The parameters that are not sharded yet, and all modules that have them."""
    found: dict[int, tuple[str, Tensor, list[tuple[Module, str]]]] = {}
    without = {id(parameter) for parameter in ignored}
    for part in module.modules():
        if isinstance(part, FSDPModule):
            without.update(id(each.shard) for each in _state(part).group.sharded)
    for prefix, part in module.named_modules():
        parameters: dict[str, Any] = part._parameters
        for name, parameter in parameters.items():
            if parameter is None or id(parameter) in without:
                continue
            full = f"{prefix}.{name}" if prefix else name
            found.setdefault(id(parameter), (full, parameter, []))[2].append((part, name))
    by_dtype = {parameter.dtype for _, parameter, _ in found.values()}
    if len(by_dtype) > 1:
        raise NotImplementedError(
            f"torch.distributed.fsdp.fully_shard: parameters of several dtypes in one module: {by_dtype}"
        )
    return list(found.values())


def _before(module: Any, args: Any, kwargs: Any) -> Any:
    state = _state(module)
    state.group.unshard()
    for other in state.group.next_forward:
        other.begin_gathering()
    if state.group.reshard and not is_compiling():
        hooks = saved_tensors_hooks(pack, unpack)
        hooks.__enter__()
        state.hooks.append(hooks)
    dtype = state.policy.param_dtype
    if dtype is not None and state.policy.cast_forward_inputs:
        return tree_map(lambda value: _cast(value, dtype), (args, kwargs))
    return None


def _after(module: Any, args: Any, result: Any) -> Any:
    state = _state(module)
    if state.hooks and not is_compiling():
        state.hooks.pop().__exit__()
    state.group.take_back()
    if state.group.reshard:
        state.group.free()
    dtype = state.policy.output_dtype
    return None if dtype is None else tree_map(lambda value: _cast(value, dtype), result)


def _cast(value: Any, dtype: Any) -> Any:
    return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Have another method of a sharded module find its parameters whole, as forward does."""
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        changed = _before(module, args, kwargs)
        args, kwargs = (args, kwargs) if changed is None else changed
        result = None
        try:
            result = method(*args, **kwargs)
        finally:
            changed = _after(module, args, result)
        return result if changed is None else changed

    setattr(module, method_name, wrapped)

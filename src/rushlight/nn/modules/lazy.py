"""Lazy modules: the shapes of their parameters are known when they see their first input."""

from __future__ import annotations

from typing import Any

from ...autograd.grad_mode import no_grad
from ...core.errors import check
from ..parameter import is_lazy
from .module import Module

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin(Module):
    """A Module with uninitialised parameters, that becomes `cls_to_become` when they are initialised."""

    cls_to_become: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            if tensor is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Take over the shapes of what is going to be loaded."""
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            value: Any = state_dict.get(prefix + name)
            if is_lazy(tensor) and value is not None and not is_lazy(value):
                with no_grad():
                    tensor.materialize(value.shape)  # type: ignore[union-attr]

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters for these arguments of forward; every lazy module defines it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        return any(is_lazy(tensor) for tensor in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module: Any, args: tuple[Any, ...], kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        check(
            not module.has_uninitialized_params(), f"module {self._get_name()} has not been fully initialized"
        )
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> Module:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy "
            "forward pass to correctly initialize the modules"
        )

"""The state of modules: state_dict, load_state_dict, and their hooks."""

from __future__ import annotations

import functools
import itertools
import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from ... import __future__ as settings
from ...autograd.grad_mode import no_grad
from ...core.errors import check
from ...core.tensor import Tensor
from ...utils.hooks import HookDict, RemovableHandle, add_hook
from ...utils.swapping import exchange
from ..parameter import Parameter, is_lazy

EXTRA = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict did not find, or did not expect."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class _WithModule:
    """A load hook that is given the module, which it does not keep alive."""

    def __init__(self, hook: Callable[..., Any], module: Any) -> None:
        functools.update_wrapper(self, hook)
        self.hook = hook
        self.module = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module = self.module()
        check(module is not None, "You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> _WithModule:
        return _WithModule(self.hook, memo.get(id(self.module()), self.module()))

    def __reduce__(self) -> Any:
        return _WithModule, (self.hook, self.module())


class Stateful:
    """The part of Module that knows its state."""

    _version = 1
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: HookDict
    _state_dict_pre_hooks: HookDict
    _load_state_dict_pre_hooks: HookDict
    _load_state_dict_post_hooks: HookDict

    def get_extra_state(self) -> Any:
        """State beyond tensors that belongs into the state dict; define set_extra_state with it."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state: Any) -> None:
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def _has_extra(self, name: str) -> bool:
        return getattr(type(self), name, None) is not getattr(Stateful, name)

    # Saving.

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` may change the state dict in place."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` runs before the state dict is made."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        check(
            not getattr(hook, "_from_public_api", False),
            "Cannot register the same function as the state dict post hook that was previously registered "
            "via "
            "register_state_dict_post_hook",
        )
        return add_hook(self._state_dict_hooks, hook)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put the module's own tensors, not those of its children, into `destination`."""
        persistent = {n: b for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set}
        for name, tensor in itertools.chain(self._parameters.items(), persistent.items()):
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if self._has_extra("get_extra_state"):
            destination[prefix + EXTRA] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """The parameters and persistent buffers by name, sharing memory with the module."""
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead.", FutureWarning, stacklevel=2
            )
            given: Any = [*args, *[destination, prefix, keep_vars][len(args) :]]
            destination, prefix, keep_vars = given
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, local_metadata)
            if not getattr(hook, "_from_public_api", False):
                destination = destination if result is None else result
            else:
                check(result is None, "state_dict post-hook must return None")
        return destination

    # Loading.

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors)` runs
        before the
        module's own tensors are loaded."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return add_hook(self._load_state_dict_pre_hooks, _WithModule(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, incompatible_keys)` may change the lists of keys in place."""
        return add_hook(self._load_state_dict_post_hooks, hook)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Copy the values of `state_dict` into this module, or with `assign` take over its tensors.

        `strict` asks for exactly the keys of this module's own state dict.
        """
        check(
            isinstance(state_dict, Mapping),
            f"Expected state_dict to be dict-like, got {type(state_dict)}.",
            TypeError,
        )
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        copied: Any = OrderedDict(state_dict)
        if metadata is not None:
            copied._metadata = metadata
        _load_below(self, copied, "", metadata, assign, (missing, unexpected, errors))
        if strict:
            for what, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    names = ", ".join(f'"{key}"' for key in keys)
                    errors.insert(0, f"{what} key(s) in state_dict: {names}. ")
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load the module's own tensors, not those of its children; problems go into the three lists."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = {
            **self._parameters,
            **{n: b for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set},
        }
        own = {name: tensor for name, tensor in own.items() if tensor is not None}
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                problem = self._load_tensor(name, key, tensor, state_dict[key], assign)
                if problem:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        self._load_extra(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            self._find_unexpected(state_dict, prefix, own, unexpected_keys)

    def _load_tensor(self, name: str, key: str, own: Any, value: Any, assign: bool) -> str:
        """Copy or take over one tensor; returns what is wrong, if anything is."""
        if not isinstance(value, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object '
                f"from checkpoint but received {type(value)}"
            )
        lazy = is_lazy(own)
        if lazy and is_lazy(value) and not assign:
            return ""  # neither has values
        if not lazy and own.ndim == 0 and value.ndim == 1:
            value = value[0]  # written when there were no 0-d tensors
        if not lazy and own.shape != value.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the "
                f"shape in current model is {own.shape}."
            )
        if own.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in "
                "the current model, which is a no-op. (Did you mean to pass `assign=True` to assign items "
                "in the state dictionary to their corresponding key in the module instead of copying them "
                "in place?)",
                UserWarning,
                stacklevel=4,
            )
        swaps = settings.get_swap_module_params_on_conversion()
        action = "swapping" if swaps else "copying"
        try:
            with no_grad():
                if swaps:
                    _swap_in(own, value, assign)
                    return ""
                if not assign:
                    own.copy_(value)
                    return ""
                if isinstance(own, Parameter):
                    if isinstance(value, Parameter):
                        value.requires_grad_(own.requires_grad)
                    else:
                        value = Parameter(value, requires_grad=own.requires_grad)
                setattr(self, name, value)
        except Exception as error:
            return (
                f'While {action} the parameter named "{key}", whose dimensions in the model are '
                f"{tuple(own.shape)} and whose dimensions in the checkpoint are {tuple(value.shape)}, an "
                f"exception occurred : {error.args}."
            )
        return ""

    def _load_extra(
        self, state_dict: Any, prefix: str, strict: bool, missing_keys: list[str], unexpected_keys: list[str]
    ) -> None:
        key = prefix + EXTRA
        if self._has_extra("set_extra_state"):
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def _find_unexpected(self, state_dict: Any, prefix: str, own: Any, unexpected_keys: list[str]) -> None:
        for key in state_dict:
            if key.startswith(prefix) and key != prefix + EXTRA:
                first, dot, _ = key[len(prefix) :].partition(".")
                if first not in (self._modules if dot else own):
                    unexpected_keys.append(key)


def _load_below(
    module: Any, part: Any, prefix: str, metadata: Any, assign: bool, problems: tuple[list[str], ...]
) -> None:
    """Load `part` of a state dict, whose keys start with `prefix`, into `module` and what is below it.

    `problems` are the lists of missing keys, unexpected keys and errors.
    """
    missing, unexpected, errors = problems
    local = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local["assign_to_params_buffers"] = True
    module._load_from_state_dict(part, prefix, local, True, missing, unexpected, errors)
    for name, child in module._modules.items():
        if child is not None:
            below = f"{prefix}{name}."
            inside = {k: v for k, v in part.items() if k.startswith(below)}
            _load_below(child, inside, below, metadata, assign, problems)
    incompatible = _IncompatibleKeys(missing, unexpected)
    for hook in module._load_state_dict_post_hooks.values():
        check(
            hook(module, incompatible) is None,
            "Hooks registered with "
            "``register_load_state_dict_post_hook`` are not expected to return new values, if "
            "incompatible_keys need to be modified, it should be done inplace.",
            AssertionError,
        )


def _swap_in(own: Any, value: Tensor, assign: bool) -> None:
    """Make `own` what its class makes of the loaded `value`; the object stays the same."""
    new = own.module_load(value, assign=assign)
    check(
        new is not value and new is not own,
        "module_load returned one of self or other, please .detach() the result if returning one of the "
        "inputs in module_load",
    )
    if isinstance(own, Parameter):
        if isinstance(new, Parameter):
            new.requires_grad_(own.requires_grad)
        else:
            new = Parameter(new, requires_grad=own.requires_grad)
    exchange(own, new)

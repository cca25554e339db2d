"""Module: the base of all neural network modules.

A Module holds parameters, buffers and other modules, which it registers when they are assigned as attributes.
It is called like the function `forward`; hooks see the call (_hooks.py), its state can be saved and loaded
(_state.py), its tensors converted (_conversion.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar

from ..._api.compile import compile as compile_function
from ..._api.types import typename
from ...autograd.tape import set_to_zero
from ...core.dispatch import AMBIENT
from ...core.errors import check
from ...core.modes import MODES
from ...core.tensor import Tensor
from ...utils.hooks import HookDict, RemovableHandle
from ..parameter import Buffer, Parameter, is_lazy, is_plain
from ._conversion import Convertible
from ._hooks import (
    EVERYWHERE,
    Hooked,
    after_registration,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from ._state import Stateful, _IncompatibleKeys

__all__ = [
    "Module",
    "RemovableHandle",
    "_IncompatibleKeys",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

Self = TypeVar("Self", bound="Module")

_TABLES = ("_parameters", "_buffers", "_modules")

_HOOK_TABLES = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def _missing_forward(self: Any, *input: Any) -> Any:
    """What the module computes; every subclass defines it."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


class Module(Hooked, Stateful, Convertible):
    """A differentiable function with parameters. Subclasses define `forward`.

    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = nn.Parameter(rl.tensor(2.0))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(rl.ones(2)).detach()
    tensor([2., 2.])
    """

    dump_patches = False
    call_super_init = False
    training: bool
    _compiled_call_impl: Callable[..., Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            check(
                not kwargs,
                f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                f"'{next(iter(kwargs), None)}'",
                TypeError,
            )
            check(
                not args,
                f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were "
                "given",
                TypeError,
            )
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_is_full_backward_hook"] = None
        for name in _HOOK_TABLES:
            own[name] = HookDict()
        own["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward: Callable[..., Any] = _missing_forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        if MODES.pieces is not None and AMBIENT.trace is None and self._modules:
            return MODES.pieces(self, type(self)._call_impl, args, kwargs)
        if MODES.watch is not None:
            MODES.watch(self)
        return self._call_impl(*args, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the call of this module, in place; takes the arguments of `rushlight.compile`."""
        self._compiled_call_impl = compile_function(self._call_impl, *args, **kwargs)

    # Registration.

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter that is reached as attribute `name`."""
        check(
            "_parameters" in self.__dict__,
            "cannot assign parameter before Module.__init__() call",
            AttributeError,
        )
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' "
                    "(torch.nn.Parameter or None required)"
                )
            check(
                is_lazy(param) or param.is_leaf,
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model "
                f"parameters must be created explicitly. To express '{name}' as a function of another "
                f"Tensor, "
                "compute the value in the forward() method.",
                ValueError,
            )
            if EVERYWHERE.parameter:
                param = after_registration(EVERYWHERE.parameter, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is no parameter, reached as attribute `name`; saved with the state if
        `persistent`."""
        check(
            "_buffers" in self.__dict__, "cannot assign buffer before Module.__init__() call", AttributeError
        )
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or "
                "None required)"
            )
        self._set_buffer(name, tensor, persistent)

    def _set_buffer(self, name: str, tensor: Tensor | None, persistent: bool) -> None:
        if tensor is not None and EVERYWHERE.buffer:
            tensor = after_registration(EVERYWHERE.buffer, self, name, tensor)
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(
            name
        )

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child that is reached as attribute `name`."""
        check(
            module is None or isinstance(module, Module),
            f"{typename(module)} is not a Module subclass",
            TypeError,
        )
        self._check_name("module", name, self._modules)
        self._modules[name] = after_registration(EVERYWHERE.module, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as add_module."""
        self.add_module(name, module)

    def _check_name(self, what: str, name: Any, table: dict[str, Any]) -> None:
        check(isinstance(name, str), f"{what} name should be a string. Got {typename(name)}", TypeError)
        check(
            "." not in name,
            f'{what} name can\'t contain "."' + (f", got: {name}" if what == "module" else ""),
            KeyError,
        )
        check(name != "", f'{what} name can\'t be empty string ""', KeyError)
        check(name in table or not hasattr(self, name), f"attribute '{name}' already exists", KeyError)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if name in own and (is_plain(value) or not isinstance(value, (Tensor, Module))):  # in no table
            super().__setattr__(name, value)
        elif isinstance(value, Parameter):
            check(
                "_parameters" in own, "cannot assign parameters before Module.__init__() call", AttributeError
            )
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            check("_modules" in own, "cannot assign module before Module.__init__() call", AttributeError)
            self._forget(name, "_modules")
            self._modules[name] = after_registration(EVERYWHERE.module, self, name, value)
        elif isinstance(value, Buffer) or ("_buffers" in own and name in own["_buffers"]):
            check("_buffers" in own, "cannot assign buffer before Module.__init__() call", AttributeError)
            self._assign_buffer(name, value)
        elif "_parameters" in own and name in own["_parameters"]:
            check(
                value is None,
                f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or "
                "None expected)",
                TypeError,
            )
            self.register_parameter(name, None)
        elif "_modules" in own and name in own["_modules"]:
            check(
                value is None,
                f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or "
                "None expected)",
                TypeError,
            )
            self._modules[name] = after_registration(EVERYWHERE.module, self, name, None)
        else:
            super().__setattr__(name, value)

    def _assign_buffer(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, "
                "torch.Tensor or None expected)"
            )
        persistent = (
            value.persistent if isinstance(value, Buffer) else name not in self._non_persistent_buffers_set
        )
        self._forget(name, "_buffers")
        self._set_buffer(name, value, persistent)

    def _forget(self, name: str, kept: str) -> None:
        """Remove what is known under `name` in all tables but `kept`."""
        self.__dict__.pop(name, None)
        for table in _TABLES:
            if table != kept:
                self.__dict__[table].pop(name, None)
        if kept != "_buffers":
            self._non_persistent_buffers_set.discard(name)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for table in _TABLES:
            if table in own and name in own[table]:
                return own[table][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in _TABLES:
            if name in self.__dict__[table]:
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        own = self.__dict__
        names = [*dir(type(self)), *own, *own["_parameters"], *own["_modules"], *own["_buffers"]]
        return sorted({name for name in names if not name[:1].isdigit()})

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        state.pop("_pieces", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in _HOOK_TABLES:
            self.__dict__.setdefault(name, HookDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # Looking up.

    def get_submodule(self, target: str) -> Module:
        """The module at the dotted path `target`; itself for ""."""
        module = self
        for part in target.split(".") if target else ():
            check(hasattr(module, part), f"{module._get_name()} has no attribute `{part}`", AttributeError)
            module = getattr(module, part)
            check(isinstance(module, Module), f"`{part}` is not an nn.Module", AttributeError)
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at the dotted path `target`; with `strict` only in the place of another one."""
        check(target != "", "Cannot set the submodule without a target name!", ValueError)
        check(isinstance(module, Module), f"`module` is not an nn.Module, found {type(module)}", ValueError)
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        check(
            not strict or hasattr(parent, name),
            f"{parent._get_name()} has no attribute `{name}`",
            AttributeError,
        )
        check(
            not hasattr(parent, name) or isinstance(getattr(parent, name), Module),
            f"`{name}` is not an nn.Module",
            AttributeError,
        )
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        return self._at(target, Parameter, "an nn.Parameter")

    def get_buffer(self, target: str) -> Tensor:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        check(hasattr(owner, name), f"{owner._get_name()} has no attribute `{name}`", AttributeError)
        check(name in owner._buffers, f"`{name}` is not a buffer", AttributeError)
        return getattr(owner, name)

    def _at(self, target: str, kind: type, what: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        check(hasattr(owner, name), f"{owner._get_name()} has no attribute `{name}`", AttributeError)
        found = getattr(owner, name)
        check(isinstance(found, kind), f"`{name}` is not {what}", AttributeError)
        return found

    # Walking.

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        return self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_children(self) -> Iterator[tuple[str, Module]]:
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and (number := id(module)) not in seen:
                seen.add(number)
                yield name, module

    def children(self) -> Iterator[Module]:
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once unless told otherwise."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, below, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def apply(self: Self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` on every module below this one, then on itself."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # Modes and gradients.

    def train(self: Self, mode: bool = True) -> Self:
        """Set training mode (or, with False, evaluation mode) here and below."""
        check(isinstance(mode, bool), "training mode is expected to be boolean", ValueError)
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: Self) -> Self:
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero."""
        for param in self.parameters():
            if set_to_none:
                param.grad = None
            elif param.grad is not None:
                set_to_zero(param.grad)

    # Text.

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What the module's representation says besides its children."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()]
        lines = extra_lines + child_lines
        if len(extra_lines) == 1 and not child_lines:
            return f"{self._get_name()}({extra_lines[0]})"
        inside = "\n  " + "\n  ".join(lines) + "\n" if lines else ""
        return f"{self._get_name()}({inside})"

    def _replicate_for_data_parallel(self) -> Module:
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        for table in _TABLES:
            replica.__dict__[table] = self.__dict__[table].copy()
        replica._parameters = {}
        return replica


def _addindent(s_: str, numSpaces: int) -> str:
    """Text with all lines but the first indented."""
    return s_.replace("\n", "\n" + " " * numSpaces)


class _WithTables(ModuleType):
    """This Python module: the hooks of every module (_hooks.py) can be read and replaced here under the names
    that PyTorch gives them."""


def _table(field: str) -> property:
    return property(lambda self: getattr(EVERYWHERE, field), lambda self, to: setattr(EVERYWHERE, field, to))


for _name, _field in {
    "backward_hooks": "backward",
    "backward_pre_hooks": "backward_pre",
    "buffer_registration_hooks": "buffer",
    "forward_hooks": "forward",
    "forward_hooks_always_called": "forward_always",
    "forward_hooks_with_kwargs": "forward_with_kwargs",
    "forward_pre_hooks": "forward_pre",
    "is_full_backward_hook": "full_backward",
    "module_registration_hooks": "module",
    "parameter_registration_hooks": "parameter",
}.items():
    setattr(_WithTables, f"_global_{_name}", _table(_field))
sys.modules[__name__].__class__ = _WithTables

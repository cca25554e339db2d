"""Parametrizations: a parameter of a module that is computed, by other modules, from what is really learned.

`register_parametrization(module, "weight", f)` makes `module.weight` a property: f of `original`, a
parameter kept
under `module.parametrizations.weight`. The module gets a class of its own, derived from the one it had.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ...autograd.grad_mode import no_grad
from ...core.errors import check
from ...core.tensor import Tensor
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cached_depth = 0
_cache: dict[tuple[int, str], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Within this context every parametrized tensor is computed once.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> with nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    global _cached_depth
    _cached_depth += 1
    try:
        yield
    finally:
        _cached_depth -= 1
        if not _cached_depth:
            _cache.clear()


def _register(module: Module, name: str, tensor: Any) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _replace(target: Tensor, value: Tensor) -> None:
    """Let `target` be `value`, whatever its shape; it stays the same object."""
    target.data = value.detach()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, first to last, and the tensors they start from.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> type(layer.parametrizations.weight).__name__
    'ParametrizationList'
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        check(len(modules) > 0, "ParametrizationList requires one or more modules.", ValueError)
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new: Any = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):
                        new = module.right_inverse(new)
        check(
            isinstance(new, Tensor | Sequence),
            "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
            f"tuple...). Got {type(new).__name__}",
            ValueError,
        )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            check(
                new.dtype is dtype,
                "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                f"original.dtype: {dtype}\nright_inverse(original).dtype: {new.dtype}",
                ValueError,
            )
            _replace(original, new)
            _register(self, "original", original)
        else:
            self._register_several(new, original)
        if not unsafe:
            self._check_result(self(), shape, dtype)

    def _register_several(self, new: Any, original: Tensor) -> None:
        for i, tensor in enumerate(new):
            check(
                isinstance(tensor, Tensor),
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                f"tuple...). Got element {i} of the sequence with type {type(tensor).__name__}.",
                ValueError,
            )
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, original.requires_grad)
            _register(self, f"original{i}", tensor.requires_grad_(original.requires_grad))

    @staticmethod
    def _check_result(result: Any, shape: Any, dtype: Any) -> None:
        check(
            isinstance(result, Tensor),
            f"A parametrization must return a tensor. Got {type(result).__name__}.",
            ValueError,
        )
        check(
            result.dtype is dtype,
            "Registering a parametrization may not change the dtype of the tensor, unless "
            f"`unsafe` flag is enabled.\nunparametrized dtype: {dtype}\nparametrized dtype: {result.dtype}",
            ValueError,
        )
        check(
            result.shape == shape,
            "Registering a parametrization may not change the shape of the tensor, unless "
            f"`unsafe` flag is enabled.\nunparametrized shape: {shape}\nparametrized shape: {result.shape}",
            ValueError,
        )

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the parametrized tensor is `value`."""
        with no_grad():
            for module in reversed(list(self)):
                check(
                    hasattr(module, "right_inverse"),
                    f"parametrization {type(module).__name__} does not implement right_inverse.",
                )
                value = module.right_inverse(value)
            if self.is_tensor:
                check(
                    isinstance(value, Tensor),
                    f"`right_inverse` should return a tensor. Got {type(value).__name__}",
                    ValueError,
                )
            else:
                check(
                    isinstance(value, Sequence),
                    f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.",
                    ValueError,
                )
                check(
                    len(value) == self.ntensors,
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(value)}.",
                    ValueError,
                )
            for name, tensor in zip(self._names(), [value] if self.is_tensor else value, strict=True):
                original = getattr(self, name)
                check(
                    tensor.dtype is original.dtype,
                    f"The tensor returned by `right_inverse` has dtype "
                    f"{tensor.dtype} while `{name}` has dtype {original.dtype}",
                    ValueError,
                )
                _replace(original, tensor)

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def forward(self) -> Tensor:
        first, *rest = self
        result = first(*[getattr(self, name) for name in self._names()])
        for module in rest:
            result = module(result)
        return result


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    if id(self) not in memo:
        replica = self.__new__(self.__class__)
        memo[id(self)] = replica
        replica.__dict__ = copy.deepcopy(self.__dict__, memo)
    return memo[id(self)]


def _getstate(self: Any) -> Any:
    raise RuntimeError("Serialization of parametrized modules is only supported through state_dict().")


def _give_own_class(module: Module) -> None:
    kind = type(module)
    members: dict[str, Any] = {"__getstate__": _getstate}
    if not hasattr(kind, "__deepcopy__"):
        members["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), members)


def _add_property(module: Module, name: str) -> None:
    def get(self: Any) -> Tensor:
        if not _cached_depth:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def assign(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, assign))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute `module.<tensor_name>` by `parametrization`, of what it was or of what others make of it.

    >>> class Twice(nn.Module):
    ...     def forward(self, x):
    ...         return 2 * x
    >>> layer = nn.utils.parametrize.register_parametrization(nn.Linear(1, 1), "weight", Twice())
    >>> bool(layer.weight == 2 * layer.parametrizations.weight.original)
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        known = module.parametrizations[tensor_name]
        known.append(parametrization)
        known.unsafe |= unsafe
        return module
    check(
        tensor_name in module._buffers or tensor_name in module._parameters,
        f"{type(module).__name__} does not have a "
        f"parameter, a buffer, or a parametrized element with name '{tensor_name}'",
        ValueError,
    )
    parametrizations = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _give_own_class(module)
        module.parametrizations = ModuleDict()
    _add_property(module, tensor_name)
    module.parametrizations[tensor_name] = parametrizations
    return module


def _check_further(module: Module, name: str, parametrization: Any) -> None:
    """A parametrization after others keeps shape and dtype, and so does its inverse."""
    before = getattr(module, name)
    ParametrizationList._check_result(parametrization(before), before.shape, before.dtype)
    if hasattr(parametrization, "right_inverse"):
        try:
            back = parametrization.right_inverse(parametrization(before))
        except NotImplementedError:
            return
        check(
            isinstance(back, Tensor),
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}",
            ValueError,
        )
        check(
            back.dtype is before.dtype and back.shape == before.shape,
            "The tensor returned by "
            f"parametrization.right_inverse must have the same dtype and shape as module.{name}, unless the "
            f"`unsafe` flag is enabled.\nmodule.{name}: {before.dtype}, {before.shape}\nreturned: "
            f"{back.dtype}, "
            f"{back.shape}",
            ValueError,
        )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module, or one of its tensors, is parametrized.

    >>> nn.utils.parametrize.is_parametrized(nn.Linear(2, 3))
    False
    """
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make `module.<tensor_name>` a parameter again: its present value or, if it can be, what it is
    computed from.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> nn.utils.parametrize.remove_parametrizations(layer, "weight")
    Linear(in_features=2, out_features=3, bias=True)
    """
    check(
        is_parametrized(module, tensor_name),
        f"{type(module).__name__} does not have a parametrization on {tensor_name}",
        ValueError,
    )
    known = module.parametrizations[tensor_name]
    check(
        known.is_tensor or leave_parametrized,
        "Cannot leave unparametrized (`leave_parametrized=False`) a tensor "
        "that is parametrized in terms of a sequence of tensors.",
        ValueError,
    )
    if known.is_tensor:
        original = known.original
        if leave_parametrized:
            with no_grad():
                _replace(original, getattr(module, tensor_name))
    else:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of a module without its parametrizations.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> nn.utils.parametrize.type_before_parametrizations(layer).__name__
    'Linear'
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give `to_module` the parametrizations of `from_module`, and what they start from.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> other = nn.utils.parametrize.transfer_parametrizations_and_params(layer, nn.Linear(2, 3))
    >>> nn.utils.parametrize.is_parametrized(other)
    True
    """
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        for original in source._names():
            setattr(to_module.parametrizations[name], original, getattr(source, original))
    return to_module

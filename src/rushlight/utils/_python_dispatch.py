"""Modes that are given every operator below autograd, and helpers for classes with `__torch_dispatch__`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ..core.aten import OpOverload
from ..core.errors import check
from ..core.modes import MODES
from ..core.overrides import modes_replaced, undispatched
from ..core.python_dispatch import pop_mode, push_mode
from ..core.tensor import Tensor

__all__ = [
    "BaseTorchDispatchMode",
    "TorchDispatchMode",
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing",
    "transform_subclass",
]


class TorchDispatchMode:
    """Derive from this, define `__torch_dispatch__(self, func, types, args=(), kwargs=None)`, and open it as
    a context: operators inside are given to it, and run by the modes outside of it if it calls them."""

    supports_higher_order_operators = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no __torch_dispatch__")

    def __enter__(self) -> Any:
        push_mode(self)
        return self

    def __exit__(self, *exception: object) -> None:
        pop_mode()

    @classmethod
    def is_infra_mode(cls) -> bool:
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """The mode that changes nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """The innermost open mode."""
    return MODES.dispatchers[-1] if MODES.dispatchers else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """The open modes, the innermost last."""
    return list(MODES.dispatchers)


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    return bool(MODES.dispatchers)


def any_torch_dispatch_mode_on_stack() -> bool:
    return bool(MODES.dispatchers)


def _push_mode(mode: TorchDispatchMode) -> None:
    push_mode(mode)


def _pop_mode() -> TorchDispatchMode:
    mode: TorchDispatchMode = pop_mode()
    return mode


@contextmanager
def _pop_mode_temporarily() -> Iterator[TorchDispatchMode]:
    """The innermost mode, closed for as long as the context is open."""
    mode = MODES.dispatchers[-1]
    with modes_replaced(MODES.dispatchers[:-1]):
        yield mode


@contextmanager
def _disable_current_modes() -> Iterator[list[TorchDispatchMode]]:
    """A context without open modes; gives those that were open."""
    modes = list(MODES.dispatchers)
    with modes_replaced(()):
        yield modes


def no_dispatch() -> AbstractContextManager[None]:
    """A context in which neither modes nor classes are given operators."""
    return undispatched()


# Classes that consist of tensors.


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether `t` is a tensor of a class that says which tensors it consists of, by `__tensor_flatten__` and
    `__tensor_unflatten__`."""
    return is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    return (
        issubclass(t, Tensor)
        and t is not Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def transform_subclass(
    t: Any, callback: Callable[[str, Tensor], Any], outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """Another object of the class of `t`, made of what `callback(name, tensor)` gives for its tensors."""
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    parts = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(parts, context, size, stride)
    for what, wanted, given in (
        ("shape", tuple(size), tuple(made.shape)),
        ("stride", tuple(stride), tuple(made.stride())),
    ):
        check(
            given == wanted,
            f"{type(t).__name__}.__tensor_unflatten__ was asked for {what} {wanted} and made {given}",
            AssertionError,
        )
    return made


def return_and_correct_aliasing(func: OpOverload, args: Any, kwargs: Any, out: Any) -> Any:
    """What a class returns for `func`: where the operator writes to an argument, that argument and not what
    was made for it; where it is a view, `out` over the storage of the argument it is a view of."""
    schema = func._schema
    given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | dict(kwargs or {})
    owners = {
        name: given.get(a.name)
        for a in schema.arguments
        if a.alias_info is not None
        for name in a.alias_info.before_set
    }

    def owner(result: Any) -> Any:
        found = (owners.get(name) for name in sorted(result.alias_info.before_set))
        return next((one for one in found if one is not None), None)

    results = schema.returns
    several = isinstance(out, tuple | list)
    corrected = []
    parts = [out] if not several else list(out)
    told = results if len(results) == len(parts) else [results[0]] * len(parts) if results else []
    for part, result in zip(parts, told, strict=False):
        if result.alias_info is not None and result.alias_info.is_write:
            part = owner(result)
        elif result.alias_info is not None:
            _share(owner(result), part)
        corrected.append(part)
    if not told:
        return out
    return corrected[0] if not several else type(out)(corrected)


def _share(source: Any, view: Any) -> None:
    """Make an object without data a view of another: both have one storage."""
    if (
        isinstance(source, Tensor)
        and isinstance(view, Tensor)
        and view is not source
        and source._array is None
        and view._array is None
        and source._parts is None
    ):
        view._storage = source.storage_object

"""The former way to define operators, by their names as strings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ._custom_op import impl as _impl
from ._library import operators
from ._library.utils import parse_namespace
from .core.errors import check
from .library import register_fake

__all__ = ["custom_op", "impl", "impl_abstract", "impl_backward", "impl_save_for_backward"]


def custom_op(qualname: str, func_or_schema: Any = None) -> Any:
    """Define an operator by a schema "(Tensor x) -> Tensor", or as a decorator of an annotated function."""
    namespace, name = parse_namespace(qualname)
    check("." not in name, f"custom_op: the name {qualname!r} must have no overload", ValueError)
    _impl.validate_namespace(namespace)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        _impl.custom_op(qualname)(function)
        return function

    if func_or_schema is None:
        return decorate
    if callable(func_or_schema):
        return decorate(func_or_schema)
    _impl.validate_schema(f"{name}{func_or_schema}")
    _impl.make(namespace, name, func_or_schema)
    return lambda function: function


def _registering(set_: Callable[..., Any], qualname: str, func: Any, *rest: Any) -> Any:
    def register(function: Callable[..., Any]) -> Any:
        return set_(operators.find(qualname), *rest, function)

    return register if func is None else register(func)


def impl(qualname: str, *, device_types: str | Iterable[str] = ("cpu", "cuda"), func: Any = None) -> Any:
    return _registering(_impl.set_kernel, qualname, func, device_types)


def impl_abstract(qualname: str, *, func: Any = None) -> Any:
    return register_fake(qualname, func)


def impl_save_for_backward(qualname: str, *, func: Any = None) -> Any:
    return _registering(_impl.set_save, qualname, func)


def impl_backward(qualname: str, output_differentiability: Any = None, *, func: Any = None) -> Any:
    def set_(custom: Any, function: Any) -> Any:
        return _impl.set_backward(custom, function, output_differentiability)

    return _registering(set_, qualname, func)


def _destroy(qualname: str) -> None:
    found = _impl.global_registry.get(qualname)
    if found is not None:
        found._destroy()

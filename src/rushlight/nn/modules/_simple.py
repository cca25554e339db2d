"""Modules that are a function of nn.functional with arguments fixed at construction, and small shared
helpers."""

from __future__ import annotations

from typing import Any

from ..._api.link import API
from ...core.tensor import Tensor
from .. import functional as _functional
from ..parameter import Parameter
from .module import Module

F: Any = _functional
functions: Any = API.functions[""]


class FunctionModule(Module):
    """`F.<function>(*inputs, *arguments)`: the arguments are attributes of the module, in the order they
    were set.

    A subclass names the function and passes the arguments of its constructor on by keyword.
    """

    function: str
    _arguments: tuple[str, ...] = ()

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self.__dict__.update(arguments)
        if type(self)._arguments != tuple(arguments):
            self._arguments = tuple(arguments)

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self.function)(input, *[getattr(self, name) for name in self._arguments])

    def extra_repr(self) -> str:
        """name=value for every argument; a false `inplace` is left out."""
        return ", ".join(
            f"{name}={getattr(self, name)!r}" for name in self._arguments if name != "inplace" or self.inplace
        )


def new_parameter(shape: Any, device: Any = None, dtype: Any = None) -> Parameter:
    """A parameter that is not initialised yet."""
    return Parameter(functions["empty"](shape, device=device, dtype=dtype))


def repeated(value: Any, count: int) -> tuple[Any, ...]:
    """A number as a tuple of `count`; a sequence as it is."""
    return tuple(value) if isinstance(value, list | tuple) else (value,) * count

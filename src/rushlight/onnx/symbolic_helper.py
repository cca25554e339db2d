"""What functions for `register_custom_op_symbolic` are made with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import OnnxExporterError

__all__ = ["parse_args"]

F = TypeVar("F", bound=Callable[..., Any])

_KINDS: dict[str, tuple[type, ...]] = {"i": (int,), "f": (int, float), "b": (bool, int), "s": (str,)}
_CONVERT: dict[str, Callable[[Any], Any]] = {"i": int, "f": float, "b": bool, "s": str}
_KNOWN = ("v", "t", "none", "i", "f", "b", "s", "is", "fs")


def parse_args(*arg_descriptors: str) -> Callable[[F], F]:
    """A decorator that says what the arguments behind the graph are: "v" and "t" tensors, "i" an integer, "f" a
    float, "b" a bool, "s" a string, "is" and "fs" lists, "none" whatever it is. A call with something else
    cannot be exported.

    >>> rl.onnx.symbolic_helper.parse_args("v", "i")(lambda g, x, axis: axis + 1)(None, "x", 2)
    3
    """
    for descriptor in arg_descriptors:
        if descriptor not in _KNOWN:
            raise ValueError(f"parse_args: {descriptor!r} is none of {', '.join(_KNOWN)}")

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def parsed(g: Any, *args: Any, **kwargs: Any) -> Any:
            if len(args) > len(arg_descriptors):
                raise OnnxExporterError(
                    f"{function.__name__} takes {len(arg_descriptors)} arguments, and is given {len(args)}"
                )
            pairs = zip(args, arg_descriptors, strict=False)
            return function(g, *(_parsed(function.__name__, *pair) for pair in pairs), **kwargs)

        return parsed  # type: ignore[return-value]

    return decorate


def _parsed(name: str, value: Any, descriptor: str) -> Any:
    kinds = _KINDS.get(descriptor[:1]) if descriptor != "none" else None
    if kinds is None or value is None:
        return value
    several = len(descriptor) == 2
    parts = value if several and isinstance(value, list | tuple) else [value]
    if several is not isinstance(value, list | tuple) or not all(isinstance(part, kinds) for part in parts):
        raise NotImplementedError(f"{name} needs an argument that is the same in every call, not {value!r}")
    found = [_CONVERT[descriptor[0]](part) for part in parts]
    return found if several else found[0]

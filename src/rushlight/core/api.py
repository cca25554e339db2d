"""The public functions and methods, made from the registry.

`build(registry)` groups overloads by public name into Packets: module functions by namespace ("" is the
package itself), Tensor methods, and their in-place forms. Nothing here knows any operator by name, except
that Python's arithmetic
operators must be told which operator they mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .construct import as_tensor
from .dtypes import Category
from .errors import RegistrationError
from .registry import FUNCTION, INPLACE, INPLACE_METHOD, METHOD, Api, OpDef, Registry
from .resolve import Packet
from .tensor import Tensor

OPERAND = (Tensor, bool, int, float, complex, np.number, np.bool_)

# special method -> public name; the reflected forms swap their operands, the in-place ones use name_.
BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "div": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}
COMPARISON = ("eq", "ne", "lt", "le", "gt", "ge")
UNARY = {"neg": "neg", "pos": "positive", "abs": "abs"}
NO_INPLACE = ("matmul",)


class PublicApi:
    """`functions[namespace][name]` and `methods[name]`."""

    def __init__(self) -> None:
        self.functions: dict[str, dict[str, Packet]] = {}
        self.methods: dict[str, Packet] = {}


def build(registry: Registry) -> PublicApi:
    """Group the operators of `registry` into packets."""
    result = PublicApi()
    for form, suffix in ((False, ""), (True, "_")):
        functions = _group(registry, FUNCTION, inplace=form)
        for (namespace, name), overloads in functions.items():
            result.functions.setdefault(namespace, {})[name + suffix] = Packet(
                name + suffix, overloads, inplace=form, owner=f"rushlight.{namespace}" if namespace else ""
            )
        for (_, name), overloads in _group(registry, METHOD, inplace=form).items():
            shared = result.functions.get("", {}).get(name + suffix)
            same = shared is not None and shared.overloads == overloads
            result.methods[name + suffix] = (
                shared
                if same and shared is not None
                else Packet(name + suffix, overloads, inplace=form, owner="rushlight:Tensor")
            )
    return result


def _group(registry: Registry, api: Api, *, inplace: bool) -> dict[tuple[str, str], list[OpDef]]:
    groups: dict[tuple[str, str], list[OpDef]] = {}
    # as ints: operators of enum.Flag are slow, and this is part of every import
    wanted, in_place = api.value, INPLACE.value
    alone = (INPLACE_METHOD if api is METHOD else Api.INPLACE_FUNCTION).value
    for op in registry:
        bits = op.api.value
        if inplace:
            found = bits & alone or (bits & wanted and bits & in_place)
        else:
            found = bits & wanted
        if found and (not inplace or _can_be_inplace(op)):
            namespace = op.namespace if api is FUNCTION else ""
            groups.setdefault((namespace, op.public_name), []).append(op)
    for overloads in groups.values():
        if len(overloads) > 1:
            overloads.sort(key=_tensors_first)
    return groups


def _tensors_first(op: OpDef) -> tuple[bool, ...]:
    """The order to try overloads in.

    A 0-d tensor is a tensor before it is a number (max.other before max.dim).
    """
    return tuple(not argument.type.is_tensor for argument in op.schema.positional)


def _can_be_inplace(op: OpDef) -> bool:
    arguments = op.schema.arguments
    if not arguments or arguments[0].name not in ("self", "input"):
        return False
    return arguments[0].type.is_tensor or arguments[0].type.is_tensor_list


def attach_methods(api: PublicApi) -> None:
    """Give Tensor its operator methods and Python's arithmetic operators."""
    for name, packet in api.methods.items():
        if name in Tensor.__dict__:
            raise RegistrationError(
                f"Tensor.{name} is written by hand and also comes from the registry; "
                "declare the "
                "operator with api=INTERNAL or without METHOD"
            )
        setattr(Tensor, name, packet)
    for special, name in BINARY.items():
        _attach_binary(api, special, name)
    for name in COMPARISON:
        _set_special(f"__{name}__", _binary(api.methods.get(name)))
    _set_special("__eq__", _equal(api.methods.get("eq")))
    for special, name in UNARY.items():
        _set_special(f"__{special}__", _unary(api.methods.get(name)))
    _set_special("__invert__", _inverted(api.methods.get("bitwise_not")))


def _attach_binary(api: PublicApi, special: str, name: str) -> None:
    functions = api.functions.get("", {})
    _set_special(f"__{special}__", _binary(functions.get(name)))
    _set_special(f"__r{special}__", _reflected(functions.get("rsub" if name == "sub" else name), name))
    if name not in NO_INPLACE:
        _set_special(f"__i{special}__", _binary(api.methods.get(name + "_")))


def _set_special(name: str, function: Callable[..., Any] | None) -> None:
    if function is not None:
        setattr(Tensor, name, function)


def _binary(packet: Packet | None) -> Callable[[Tensor, Any], Any] | None:
    if packet is None:
        return None

    def operation(self: Tensor, other: Any) -> Any:
        if isinstance(other, OPERAND) or hasattr(other, "__torch_function__"):
            return packet(self, other)
        return NotImplemented

    return operation


def _equal(packet: Packet | None) -> Callable[[Tensor, Any], Any] | None:
    """As any comparison, and also with an ndarray: NumPy's own would ask this one again."""
    operation = _binary(packet)

    def equal(self: Tensor, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return packet(self, as_tensor(other))  # type: ignore[misc]
        return operation(self, other)  # type: ignore[misc]

    return None if packet is None else equal


def _reflected(packet: Packet | None, name: str) -> Callable[[Tensor, Any], Any] | None:
    """`other op self` for a number `other`."""
    if packet is None:
        return None
    if name == "sub":
        return _binary(packet)  # rsub(self, other) = other - self
    if name == "div":
        return lambda self, other: (
            self.reciprocal() * other if isinstance(other, (*OPERAND, np.ndarray)) else NotImplemented
        )

    def operation(self: Tensor, other: Any) -> Any:
        if not isinstance(self, Tensor):
            raise TypeError(f"a reflected operator of Tensor needs a Tensor, not {type(self).__name__}")
        if not isinstance(other, OPERAND):
            return NotImplemented
        if name in ("add", "mul", "bitwise_and", "bitwise_or", "bitwise_xor"):
            return packet(self, other)
        return packet(other, self)

    return operation


def _inverted(packet: Packet | None) -> Callable[[Tensor], Any] | None:
    def operation(self: Tensor) -> Any:
        if self.dtype.category > Category.INTEGRAL:
            raise TypeError(f"~ (operator.invert) needs an integer or bool tensor, not {self.dtype.name}")
        return packet(self)  # type: ignore[misc]

    return None if packet is None else operation


def _unary(packet: Packet | None) -> Callable[[Tensor], Any] | None:
    return None if packet is None else lambda self: packet(self)

"""From a user's call to an operator and its argument tuple.

A `Packet` holds the overloads that share one public name. Calling it tries them in the order of their
declaration, with PyTorch's rules for what fits what: numbers, 0-d tensors as scalars, an int for a one-
element list, `*size`,
`input`/`self`, NumPy's spellings `axis` and `keepdims`. A call whose argument types alone decide is
remembered, so that the next one like it costs a dictionary look-up.
"""

from __future__ import annotations

import functools
import operator
from collections import namedtuple
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import numpy as np

from . import dtypes
from .dispatch import call
from .dtypes import DType
from .errors import fail, warn_once
from .generator import Generator
from .modes import MODES
from .mutation import call_inplace
from .nested_int import NestedInt
from .out_calls import call_out
from .overrides import ask, overriding_types
from .registry import REGISTRY, Api, OpDef
from .schema import REQUIRED, Argument, Type
from .symbols import SymInt
from .tensor import Tensor
from .tokens import device, layout, memory_format, place

ALIASES = {"axis": "dim", "keepdims": "keepdim", "x": "self", "a": "self", "input": "self", "x2": "other"}
_PYTHON_DTYPES = {float: "float64", int: "int64", bool: "bool", complex: "complex128"}
_LARGEST = 2**63
_PLAIN = (int, float, bool, complex, str, type(None), DType, device)


class _NoMatch:
    pass


NO_MATCH = _NoMatch()


# One value against one type.


def _to_tensor(value: Any, type_: Type) -> Any:
    return value if isinstance(value, Tensor) else NO_MATCH


def _to_scalar(value: Any, type_: Type) -> Any:
    if isinstance(value, bool | int | float | complex):
        return value
    if isinstance(value, np.number | np.bool_):
        return value.item()
    if isinstance(value, Tensor) and value.ndim == 0 and not value.requires_grad:
        return value.item()
    return NO_MATCH


def _to_int(value: Any, type_: Type) -> Any:
    if type(value) is int:
        return (
            value
            if -_LARGEST <= value < _LARGEST
            else fail(f"Overflow when unpacking long long: {value} is not a 64-bit integer", ValueError)
        )
    if type(value) is SymInt:
        return value if value.symbols.capturing else int(value)
    if isinstance(value, bool | np.bool_):
        return NO_MATCH
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, NestedInt):
        return value
    if isinstance(value, Tensor):
        if (
            value.ndim == 0
            and not value.dtype.is_floating_point
            and not value.dtype.is_complex
            and value.dtype is not dtypes.DTYPES["bool"]
        ):
            return int(value.item())
        return NO_MATCH
    if hasattr(value, "__index__") and (
        not hasattr(value, "__array__")
        or (isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iu")
    ):
        return operator.index(value)
    return NO_MATCH


def _to_float(value: Any, type_: Type) -> Any:
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, np.floating | np.integer):
        return float(value)
    if (
        isinstance(value, Tensor)
        and value.ndim == 0
        and not value.dtype.is_complex
        and not value.requires_grad
    ):
        return float(value.item())
    return NO_MATCH


def _to_bool(value: Any, type_: Type) -> Any:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return NO_MATCH


def _to_dtype(value: Any, type_: Type) -> Any:
    if isinstance(value, DType):
        return value
    name = _PYTHON_DTYPES.get(value) if isinstance(value, type) else None
    return NO_MATCH if name is None else dtypes.DTYPES[name]


def _to_device(value: Any, type_: Type) -> Any:
    if value.__class__ is device or isinstance(value, str):
        return place(value)
    return NO_MATCH


def _instance(cls: type) -> Callable[[Any, Type], Any]:
    return lambda value, type_: value if isinstance(value, cls) else NO_MATCH


_CONVERT: dict[str, Callable[[Any, Type], Any]] = {
    "Tensor": _to_tensor,
    "Scalar": _to_scalar,
    "int": _to_int,
    "float": _to_float,
    "bool": _to_bool,
    "str": _instance(str),
    "ScalarType": _to_dtype,
    "Device": _to_device,
    "Layout": _instance(layout),
    "MemoryFormat": _instance(memory_format),
    "Generator": _instance(Generator),
    "complex": _to_scalar,
}


def convert(value: Any, type_: Type) -> Any:
    """`value` as an argument of `type_`, or NO_MATCH."""
    if value is None:
        return None if type_.optional else NO_MATCH
    to_element = _CONVERT.get(type_.base)
    if to_element is None:
        return NO_MATCH
    if not type_.is_list:
        return to_element(value, type_)
    if isinstance(value, list | tuple):
        items = [
            None if item is None and type_.element_optional else to_element(item, type_) for item in value
        ]
        return NO_MATCH if any(item is NO_MATCH for item in items) else tuple(items)
    if type_.base == "Tensor":
        return NO_MATCH
    if isinstance(value, Tensor) and value.ndim == 1 and type_.base == "int" and not value.requires_grad:
        return tuple(value.tolist())
    if type_.size is not None:
        item = to_element(value, type_)
        return NO_MATCH if item is NO_MATCH else (item,) * type_.size
    return NO_MATCH


def _converted(value: Any, argument: Argument) -> Any:
    """`convert`, where None may also stand for an empty list that is the default (`dims` of roll)."""
    return () if value is None and argument.default == () else convert(value, argument.type)


# One call against one overload.


def bind(op: OpDef, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...] | str:
    """The complete argument tuple of `op` for a call, or why the call does not fit."""
    arguments = op.schema.arguments
    positional = op.schema.positional
    values: list[Any] = [REQUIRED] * len(arguments)
    if len(args) > len(positional) or _takes_varargs(positional, args):
        packed = _pack_varargs(positional, args)
        if packed is None:
            return f"takes at most {len(positional)} positional arguments but {len(args)} were given"
        args = packed
    for i, value in enumerate(args):
        converted = _converted(value, positional[i])
        if converted is NO_MATCH:
            name, wanted = _public(positional[i]), _named(positional[i].type)
            return f"argument {name} (position {i + 1}) must be {wanted}, not {_kind(value)}"
        values[i] = converted
    if kwargs:
        problem = _bind_keywords(op, kwargs, values)
        if problem:
            return problem
    for i, argument in enumerate(arguments):
        if values[i] is REQUIRED:
            if argument.default is REQUIRED:
                return f"missing argument {_public(argument)}"
            values[i] = argument.default
    return tuple(values)


def _takes_varargs(positional: Sequence[Argument], args: Sequence[Any]) -> bool:
    """`x.permute(0)` or `zeros(3)`: a lone int for an unsized list that may be spelled as *size."""
    return (
        bool(args)
        and len(args) == len(positional)
        and positional[-1].type.is_list
        and positional[-1].type.base == "int"
        and positional[-1].type.size is None
        and not isinstance(args[-1], list | tuple)
        and args[-1] is not None
    )


def _pack_varargs(positional: Sequence[Argument], args: Sequence[Any]) -> list[Any] | None:
    """`args` with trailing ints packed into a list, where the only argument besides self is a list of ints."""
    if not positional or not positional[-1].type.is_list or positional[-1].type.base != "int":
        return None
    lead = len(positional) - 1
    if lead > 1 or (lead == 1 and positional[0].name != "self"):
        return None
    return [*args[:lead], tuple(args[lead:])]


def _bind_keywords(op: OpDef, kwargs: dict[str, Any], values: list[Any]) -> str | None:
    names = op.schema.argument_names
    for key, value in kwargs.items():
        name = key if key in names else ALIASES.get(key, key)
        if name not in names:
            return f"got an unexpected keyword argument '{key}'"
        i = names.index(name)
        if values[i] is not REQUIRED:
            return f"got multiple values for argument '{key}'"
        type_ = op.schema.arguments[i].type
        converted = _converted(value, op.schema.arguments[i])
        if converted is NO_MATCH:
            return f"argument '{key}' must be {_named(type_)}, not {_kind(value)}"
        values[i] = converted
    return None


def _public(argument: Argument) -> str:
    return f"'{'input' if argument.name == 'self' else argument.name}'"


def _named(type_: Type) -> str:
    return "tuple of Tensors" if type_.is_list and type_.base == "Tensor" else str(type_)


def _kind(value: Any) -> str:
    if isinstance(value, list | tuple) and value:
        return f"{type(value).__name__} of {type(value[0]).__name__}"
    return type(value).__name__


# A call against all overloads of a name.


class Packet:
    """A public name: its overloads and the memory of which call goes where."""

    def __init__(
        self, name: str, overloads: Sequence[OpDef], *, inplace: bool = False, owner: str = ""
    ) -> None:
        self.__name__ = name
        # where the public name is found, which is how it is pickled
        self.__module__, _, holder = (owner or "rushlight").partition(":")
        self.__qualname__ = f"{holder}.{name}" if holder else name
        self.overloads = list(overloads)
        self.inplace = inplace
        # the operator, what follows the arguments that are given, and which of those must fit into 64 bits
        self._plans: dict[Any, tuple[OpDef, tuple[Any, ...], tuple[int, ...]]] = {}
        # for calls such as x.view(2, 3): how many arguments come before the ints, which are one list
        self._packing: dict[Any, tuple[OpDef, int, tuple[Any, ...]]] = {}
        self._factory = any(_is_factory(op) for op in overloads)
        self._places = any(_is_factory(op) and not op.tensor_positions for op in overloads)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self._places and MODES.devices and kwargs.get("device") is None:
            kwargs["device"] = MODES.devices[-1]
        if not kwargs:
            plan = self._plans.get(tuple([type(a) for a in args]))
            if plan is not None:
                op, rest, ints = plan
                for i in ints:
                    if not -_LARGEST <= args[i] < _LARGEST:
                        return self._resolve_and_call(args, kwargs)
                if self.inplace:
                    return call_inplace(op, args + rest)
                result = call(op, args + rest)
                return result if op.result_names is None else named_result(op, result)
            packing = self._packing.get(tuple([type(a) for a in args]))
            if packing is not None:
                op, lead, rest = packing
                return call(op, (*args[:lead], args[lead:], *rest))
        return self._resolve_and_call(args, kwargs)

    def _resolve_and_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not MODES.plain and (kinds := overriding_types((*args, *kwargs.values()))):
            return ask(self, kinds, args, kwargs)
        out = kwargs.pop("out", None) if kwargs else None
        requires_grad = kwargs.pop("requires_grad", False) if self._factory and kwargs else False
        op, values = self.resolve(args, kwargs)
        if out is not None:
            return named_result(op, call_out(op, values, out))
        if self.inplace:
            result: Any = call_inplace(op, values)
            return args[0] if type(result) is list and args else result  # the very list that was given
        result = named_result(op, call(op, values))
        return result._set_requires_grad() if requires_grad else result

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else MethodType(self, instance)

    def resolve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[OpDef, tuple[Any, ...]]:
        """The first overload that fits and its argument tuple; TypeError listing the candidates otherwise."""
        problems = []
        for op in self.overloads:
            values = bind(op, args, kwargs)
            if isinstance(values, tuple):
                if not kwargs:
                    self._remember(op, args, values)
                return op, values
            problems.append(values)
        return self._resolve_otherwise(args, kwargs) or fail(
            self._no_match(args, kwargs, problems), TypeError
        )

    def _resolve_otherwise(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[OpDef, tuple[Any, ...]] | None:
        """Older or looser forms of a call that fits no overload as it is."""
        if self.inplace or not args or not isinstance(args[0], bool | int | float | complex):
            first: Any = ()
        else:
            first = (number_tensor(args[0]),)
        for op in self.overloads:
            if first and op.api & Api.NUMBERS:
                values = bind(op, (*first, *args[1:]), kwargs)
                if isinstance(values, tuple):
                    return op, values
            if op.api & Api.LEGACY and (reordered := _reordered(op, args)):
                values = bind(op, reordered[0], kwargs | reordered[1])
                if isinstance(values, tuple):
                    warn_once(
                        f"This overload of {self.__name__} is deprecated: give the numbers by keyword "
                        f"after the tensors, as in {op.schema}",
                        stacklevel=5,
                    )
                    return op, values
        return None

    def _remember(self, op: OpDef, args: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Keep the decision if any call with the same argument types is bound to be resolved the same way."""
        lead = len(op.schema.positional) - 1  # before a list of ints that was given as several arguments
        packed = (
            0 <= lead < len(args) and all(type(a) is int for a in args[lead:]) and values[lead] == args[lead:]
        )
        for i, value in enumerate(args[:lead] if packed else args):
            if values[i] is not value or not (type(value) in _PLAIN or isinstance(value, Tensor)):
                return
            if isinstance(value, Tensor) and value._overrides:
                return
            if isinstance(value, Tensor) and any(
                i < len(o.schema.positional) and o.schema.positional[i].type.base != "Tensor"
                for o in self.overloads[: self.overloads.index(op)]
            ):
                return
        types = tuple([type(a) for a in args])
        if not packed:
            ints = [
                i
                for i, kind in enumerate(types)
                if kind is int and op.schema.positional[i].type.base == "int"
            ]
            self._plans[types] = (op, values[len(args) :], tuple(ints))
        elif not self.inplace and op.result_names is None:
            self._packing[types] = (op, lead, values[lead + 1 :])

    def _no_match(self, args: tuple[Any, ...], kwargs: dict[str, Any], problems: Sequence[str]) -> str:
        given = [_kind(a) for a in args] + [f"{k}={_kind(v)}" for k, v in kwargs.items()]
        if len(self.overloads) == 1:
            return f"{self.__name__}(): {problems[0]}. The signature is {self.overloads[0].schema}"
        lines = [
            f" * {op.schema}\n      {problem}" for op, problem in zip(self.overloads, problems, strict=True)
        ]
        return (
            f"{self.__name__}() received an invalid combination of arguments - got ({', '.join(given)}), "
            "but "
            f"expected one of:\n" + "\n".join(lines)
        )

    def __reduce__(self) -> str:
        return self.__qualname__

    def __copy__(self) -> Packet:
        return self

    def __deepcopy__(self, memo: Any) -> Packet:
        return self

    def __repr__(self) -> str:
        return f"<rushlight function {self.__name__}>"


@functools.cache
def result_type(name: str, fields: tuple[str, ...]) -> Any:
    """The named tuple that the operator `name` returns."""
    # a class of its own, since a named tuple's own __repr__ is a method of it
    return type(
        name,
        (namedtuple(name, fields),),
        {"__repr__": _show_result, "__module__": "rushlight.return_types", "__slots__": ()},
    )


def _show_result(result: Any) -> str:
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(result._fields, result, strict=True))
    return f"rushlight.return_types.{type(result).__name__}(\n{fields})"


def named_result(op: OpDef, result: Any) -> Any:
    """`result` with its outputs named, where the schema names them."""
    if op.result_names is None:
        return result
    return result_type(op.schema.name, op.result_names)(*result)


def _reordered(op: OpDef, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The tensors of `addmm(beta, self, alpha, mat1, mat2)` and its like, and the numbers by their names."""
    tensors = tuple([a for a in args if isinstance(a, Tensor)])
    numbers = [a for a in args if isinstance(a, bool | int | float | complex)]
    names = [a.name for a in op.schema.arguments if a.type.base == "Scalar" and a not in op.schema.positional]
    count = len(op.schema.positional)
    if (
        not numbers
        or len(tensors) != count
        or len(tensors) + len(numbers) != len(args)
        or len(numbers) > len(names)
        or not all(isinstance(a, Tensor) for a in args[1 - count :])
    ):
        return None
    return tensors, dict(zip(names, numbers, strict=False))


def number_tensor(value: Any) -> Tensor:
    """A number where a tensor is wanted: of the dtype that a tensor made from it would have."""
    return call(REGISTRY["scalar_tensor"], (value, dtypes.scalar_dtype(value), None, None, None))


def _is_factory(op: OpDef) -> bool:
    names = op.schema.argument_names
    return "dtype" in names and "layout" in names and "device" in names


def invoke(op: OpDef, *args: Any, **kwargs: Any) -> Any:
    """Call one overload with a user's arguments."""
    values = bind(op, args, kwargs)
    if isinstance(values, str):
        raise TypeError(f"{op.name}(): {values}. The signature is {op.schema}")
    return call(op, values)

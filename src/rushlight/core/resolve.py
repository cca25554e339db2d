"""From a user's call to an operator and its argument tuple.

A `Packet` holds the overloads that share one public name. Calling it tries them in the order of their
declaration, with PyTorch's rules for what fits what: numbers, 0-d tensors as scalars, an int for a one-
element list, `*size`,
`input`/`self`, NumPy's spellings `axis` and `keepdims`. A call whose argument types alone decide is
remembered, so that the next one like it costs a dictionary look-up.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from . import documentation, dtypes
from .convert import LARGEST, NO_MATCH, converted
from .dispatch import call
from .dtypes import DType
from .errors import fail, warn_once
from .modes import MODES
from .mutation import call_inplace
from .out_calls import call_out
from .overrides import ask, overriding_types
from .registry import REGISTRY, Api, OpDef
from .schema import REQUIRED, Argument, Type
from .shown_name import SHOWN
from .tensor import Tensor
from .tokens import Size, device, layout, memory_format

ALIASES = {"axis": "dim", "keepdims": "keepdim", "x": "self", "a": "self", "input": "self", "x2": "other"}
_PLAIN = (int, float, bool, complex, str, type(None), DType, device, layout, memory_format)


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
        fitted = converted(value, positional[i])
        if fitted is NO_MATCH:
            name, wanted = _public(positional[i]), _named(positional[i].type)
            return f"argument {name} (position {i + 1}) must be {wanted}, not {_kind(value)}"
        values[i] = fitted
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
        fitted = converted(value, op.schema.arguments[i])
        if fitted is NO_MATCH:
            return f"argument '{key}' must be {_named(type_)}, not {_kind(value)}"
        values[i] = fitted
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

# The operator; what follows the arguments that are given without a name; where, and how, arguments are made of
# what is given; where those go that are given by name; and, of calls with names, how many come before ints that
# are one list, or -1.
_Plan = tuple[OpDef, tuple[Any, ...], tuple[tuple[int, Callable[[Any], Any]], ...], tuple[int, ...], int]


def _fixed(values: Sequence[Any], fixes: Sequence[tuple[int, Callable[[Any], Any]]]) -> Any:
    """The arguments made of what is given, or None if a value does not fit."""
    fixed = list(values)
    for i, fix in fixes:
        value = fixed[i] = fix(fixed[i])
        if value is None:
            return None
    return tuple(fixed)


def as_long(value: int) -> Any:
    return value if -LARGEST <= value < LARGEST else None


def as_one_long(value: int) -> Any:
    return (value,) if -LARGEST <= value < LARGEST else None


def as_longs(value: Sequence[Any]) -> Any:
    for item in value:
        if type(item) is not int or not -LARGEST <= item < LARGEST:
            return None
    return tuple(value) or None


def as_longs_or_none(value: Sequence[Any]) -> Any:
    return as_longs(value) if value else ()


def _as_numbers(value: Sequence[Any]) -> Any:
    for item in value:
        if type(item) is not float and type(item) is not int:
            return None
    return tuple(value) or None


def as_tensors(value: Sequence[Any]) -> Any:
    for item in value:
        if not isinstance(item, Tensor) or item._overrides:
            return None
    return tuple(value) or None


# How calls become native (runtime/native_dispatch.py): "begin" is called once there were so many that it is worth
# it; then "learn" is told of each kind of call that is resolved.
_native: dict[str, Callable[..., None]] = {}
_NOTHING: dict[Any, Any] = {}
_calls_left = 0


def when_warm(calls: int, begin: Callable[[], None]) -> None:
    """Have `begin` called once there were so many calls of packets."""
    global _calls_left
    _native["begin"], _calls_left = begin, calls


def install_native(learn: Callable[..., None], learn_named: Callable[..., None]) -> None:
    """Have `learn` called with each kind of call: the packet, the types, the operator, how many arguments come
    before those that are one list, the arguments that follow, and how some are made of what is given;
    `learn_named` with those that give arguments by name: the packet, the types and names, how many have none,
    how many of these come before those that are one list, or -1, the operator, the arguments that follow these,
    and how some are made and where those go that have a name."""
    global _calls_left
    _native["learn"], _native["learn_named"], _calls_left = learn, learn_named, 0


def _count_call() -> None:
    global _calls_left
    _calls_left -= 1
    if not _calls_left:
        _native["begin"]()


class Packet:
    """A public name: its overloads and the memory of which call goes where."""

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """What the function does, read when it is asked for."""
        return documentation.describe(self)

    _fast = _NOTHING  # by the types of the arguments: how a call runs natively
    _named = _NOTHING  # the same of calls that give some by name, by these names, too

    def __init__(
        self, name: str, overloads: Sequence[OpDef], *, inplace: bool = False, owner: str = ""
    ) -> None:
        self.__name__ = name
        # where the public name is found, which is how it is pickled
        self.__module__, _, holder = (owner or "rushlight").partition(":")
        self.__qualname__ = f"{holder}.{name}" if holder else name
        self.overloads = list(overloads)
        self.inplace = inplace
        self._plans: dict[
            Any, _Plan
        ] = {}  # by the types of the arguments, and the names of those that have one
        # for calls such as x.view(2, 3): how many arguments come before the ints, which are one list
        self._packing: dict[Any, tuple[OpDef, int, tuple[Any, ...]]] = {}
        self._factory = any(_is_factory(op) for op in overloads)
        self._takes_out = any("out" in op.schema.argument_names for op in overloads)  # as one of its own
        self._places = any(_is_factory(op) and not op.tensor_positions for op in overloads)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if _calls_left:
            _count_call()
        if self._places and MODES.devices and kwargs.get("device") is None:
            kwargs["device"] = MODES.devices[-1]
        if kwargs:
            return self._call_with_names(args, kwargs)
        types = tuple([type(a) for a in args])
        plan = self._plans.get(types)
        if plan is not None:
            op, rest, fixes, _, _ = plan
            if "learn" in _native and types not in self._fast:
                _native["learn"](self, types, op, -1, rest, fixes)
            values = args + rest
            if fixes:
                fixed = _fixed(values, fixes)
                if fixed is None:
                    return self._resolve_and_call(args, kwargs)
                values = fixed
            if self.inplace:
                return _written(op, values, args)
            result = call(op, values)
            return result if op.result_names is None else named_result(op, result)
        packing = self._packing.get(types)
        if packing is not None:
            op, lead, rest = packing
            if "learn" in _native and types not in self._fast:
                _native["learn"](self, types, op, lead, rest, ())
            return call(op, (*args[:lead], args[lead:], *rest))
        return self._resolve_and_call(args, kwargs)

    def _call_with_names(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        types = tuple([type(a) for a in args])
        key = (*types, *kwargs, *[type(a) for a in kwargs.values()])
        plan = self._plans.get(key)
        if plan is None:
            return self._resolve_and_call(args, kwargs)
        op, rest, fixes, places, lead = plan
        if "learn" in _native and key not in self._named:
            _native["learn_named"](self, key, len(args), lead, op, rest, fixes, places)
        values = [*args, *rest] if lead < 0 else [*args[:lead], args[lead:], *rest]
        for place, value in zip(places, kwargs.values(), strict=True):
            values[place] = value
        fixed = _fixed(values, fixes)
        if fixed is None:
            return self._resolve_and_call(args, kwargs)
        if self.inplace:
            return _written(op, fixed, args)
        result = call(op, fixed)
        return result if op.result_names is None else named_result(op, result)

    def _resolve_and_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not MODES.plain and (kinds := overriding_types((*args, *kwargs.values()))):
            return ask(self, kinds, args, kwargs)
        out = kwargs.pop("out", None) if kwargs and not self._takes_out else None
        requires_grad = kwargs.pop("requires_grad", False) if self._factory and kwargs else False
        op, values = self.resolve(args, kwargs)
        if out is not None:
            return named_result(op, call_out(op, values, out))
        if self.inplace:
            return _written(op, values, args)
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
                self._remember(op, args, kwargs, values)
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

    def _remember(
        self, op: OpDef, args: tuple[Any, ...], kwargs: dict[str, Any], values: tuple[Any, ...]
    ) -> None:
        """Keep the decision if any call with the same argument types is bound to be resolved the same way."""
        lead = len(op.schema.positional) - 1  # before a list of ints that was given as several arguments
        packed = (
            0 <= lead < len(args) - bool(kwargs)
            and all(type(a) is int for a in args[lead:])
            and values[lead] == args[lead:]
        )
        given = list(enumerate(args[:lead] if packed else args))
        names = op.schema.argument_names
        places = tuple([names.index(name if name in names else ALIASES[name]) for name in kwargs])
        given.extend(zip(places, kwargs.values(), strict=True))
        fixes = []
        for i, value in given:
            fix = self._fix(op, i, value, values[i])
            if fix is NO_MATCH:
                return
            if fix is not None:
                fixes.append((i, fix))
        types = tuple([type(a) for a in args])
        if kwargs:
            # of what is given by name there is another value in each call
            start = lead + 1 if packed else len(args)
            rest = tuple([None if i in places else v for i, v in enumerate(values)][start:])
            key = (*types, *kwargs, *[type(a) for a in kwargs.values()])
            if packed:
                fixes.append((lead, as_longs))
            self._plans[key] = (op, rest, tuple(fixes), places, lead if packed else -1)
        elif not packed:
            self._plans[types] = (op, values[len(args) :], tuple(fixes), (), -1)
        elif not self.inplace and op.result_names is None and not fixes:
            self._packing[types] = (op, lead, values[lead + 1 :])

    def _fix(self, op: OpDef, i: int, value: Any, bound: Any) -> Any:
        """What makes an argument of a value of that type, None if that is what it is; NO_MATCH if more than
        its type decides what becomes of it."""
        type_ = op.schema.arguments[i].type
        if isinstance(value, Tensor):
            name = op.schema.argument_names[i]
            number = any(
                (k == i or other.name == name) and other.type.base != "Tensor"
                for o in self.overloads[: self.overloads.index(op)]
                for k, other in enumerate(o.schema.arguments)
            )
            return NO_MATCH if bound is not value or value._overrides or number else None
        if bound is value and type(value) in _PLAIN:
            return as_long if type(value) is int and type_.base == "int" else None
        if not type_.is_list or type_.element_optional:
            return NO_MATCH
        # an empty list fits any: who asks first has it
        empty = op is self.overloads[0] and type_.base == "int" and type_.size is None
        if not bound and not (empty and bound == ()):
            return NO_MATCH
        if type(value) is int and type_.base == "int" and bound == (value,):
            return as_one_long
        if type(value) not in (tuple, list, Size):
            return NO_MATCH
        if type_.base == "int" and all(type(v) is int for v in value):
            return as_longs_or_none if empty else as_longs
        if type_.base == "Scalar":
            return NO_MATCH if _as_numbers(value) is None else _as_numbers
        return as_tensors if type_.base == "Tensor" and as_tensors(value) is not None else NO_MATCH

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


def _written(op: OpDef, values: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
    """What an in-place call returns: of lists, the very list that was given."""
    result: Any = call_inplace(op, values)
    return args[0] if type(result) is list and args else result


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
    return f"{SHOWN.package}.return_types.{type(result).__name__}(\n{fields})"


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

"""Operator schemas: ATen's one-line signatures as immutable data.

In:  text such as `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`, with or without a
     namespace (`aten::`).
Out: a `Schema` of `Argument`s, each with a `Type` and, where it has one, a default as a Python value.

Invariants
- `str(parse_schema(text)) == text` for every text in canonical spacing (one space after `,`, one around
  `->`). The text is put together again from the parts: nothing is lost in parsing.
- Everything here is immutable and hashable; defaults that are lists are tuples. `parse_schema` returns the
  same object for the same text, and equal arguments of different schemas are often the same object.
- `Type.name` keeps ATen's spelling (`SymInt`), `Type.base` what a consumer cares about (`int`).
- `parse_schema` raises `SchemaError`, with the position, for any text that does not follow the grammar.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from . import dtypes, tokens


class SchemaError(ValueError):
    """A schema text that does not follow the grammar."""


class _Required:
    """The type of `REQUIRED`, the default of an argument that has none."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "REQUIRED"

    def __reduce__(self) -> str:
        return "REQUIRED"

    def __copy__(self) -> _Required:
        return self

    def __deepcopy__(self, memo: object) -> _Required:
        return self


REQUIRED: Final = _Required()

# What each spelling means to a consumer: symbolic numbers are numbers.
_BASES = {
    name: name
    for name in (
        "Tensor",
        "int",
        "float",
        "bool",
        "complex",
        "Scalar",
        "str",
        "ScalarType",
        "Layout",
        "MemoryFormat",
        "Device",
        "DeviceIndex",
        "Generator",
        "Dimname",
        "Stream",
        "Storage",
        "QScheme",
        "ConstQuantizerPtr",
        "DimVector",
    )
}
_BASES |= {"SymInt": "int", "SymFloat": "float", "SymBool": "bool", "number": "Scalar"}
_CUSTOM_CLASS = "__torch__."


@dataclasses.dataclass(frozen=True, slots=True)
class Alias:
    """The part in parentheses of `Tensor(a!)`: which memory the value shares, and whether it is written."""

    before: tuple[str, ...]
    write: bool = False
    after: tuple[str, ...] = ()  # `*` in `(a -> *)`: what the value may alias once the operator has run

    def __str__(self) -> str:
        text = "|".join(self.before) + ("!" if self.write else "")
        return f"({text} -> {'|'.join(self.after)})" if self.after else f"({text})"


@dataclasses.dataclass(frozen=True)
class Type:
    """The type of an argument or return: a base type, perhaps optional, perhaps a list.

    name              as spelled: `Tensor`, `SymInt`, `Scalar`, ...
    base              as a consumer sees it: SymInt is `int`, SymBool is `bool`, SymFloat is `float`
    alias             what is in parentheses, or None
    optional          the value as a whole may be None: `Tensor?`, `int[]?`
    is_list           `int[]`, `int[2]`, `Tensor?[]`
    size              2 in `int[2]`, where one int stands for that many; else None
    element_optional  elements of the list may be None: `Tensor?[]`

    The predicates `is_int`, `is_tensor`, ... look at the base and list-ness and ignore optional.
    """

    name: str
    alias: Alias | None = None
    optional: bool = False
    is_list: bool = False
    size: int | None = None
    element_optional: bool = False

    base: str = dataclasses.field(init=False, repr=False, compare=False)
    is_tensor: bool = dataclasses.field(init=False, repr=False, compare=False)
    is_tensor_list: bool = dataclasses.field(init=False, repr=False, compare=False)
    is_int: bool = dataclasses.field(init=False, repr=False, compare=False)
    is_int_list: bool = dataclasses.field(init=False, repr=False, compare=False)
    is_float: bool = dataclasses.field(init=False, repr=False, compare=False)
    is_bool: bool = dataclasses.field(init=False, repr=False, compare=False)
    is_scalar: bool = dataclasses.field(init=False, repr=False, compare=False)
    is_mutable: bool = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        base = self.name if self.name.startswith(_CUSTOM_CLASS) else _BASES[self.name]
        single = not self.is_list
        self.__dict__.update(
            base=base,
            is_tensor=base == "Tensor" and single,
            is_tensor_list=base == "Tensor" and self.is_list,
            is_int=base == "int" and single,
            is_int_list=base == "int" and self.is_list,
            is_float=base == "float" and single,
            is_bool=base == "bool" and single,
            is_scalar=base == "Scalar" and single,
            is_mutable=self.alias is not None and self.alias.write,
        )

    def __str__(self) -> str:
        text = self.name
        if self.alias is not None:
            text += str(self.alias)
        if self.element_optional:
            text += "?"
        if self.is_list:
            text += "[]" if self.size is None else f"[{self.size}]"
        return text + "?" if self.optional else text


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """An argument, or a return (whose name may be empty and which has no default).

    default is the Python value or `REQUIRED`; default_text is its spelling in the schema. A single number as
    the default of a sized list (`int[2] stride=1`) is repeated: default is (1, 1). The enum names of ATen
    become their values: `Mean` is 1, `long` is the dtype int64, `contiguous_format` the memory format token.
    """

    name: str
    type: Type
    default: Any = REQUIRED
    default_text: str | None = None
    keyword_only: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    @property
    def is_mutable(self) -> bool:
        return self.type.is_mutable

    def __str__(self) -> str:
        text = f"{self.type} {self.name}" if self.name else str(self.type)
        return text if self.default_text is None else f"{text}={self.default_text}"


_INPLACE_DUNDER = re.compile(
    r"__i(?:add|sub|mul|div|truediv|floordiv|mod|pow|matmul|and|or|xor|lshift|rshift)__"
)


@dataclasses.dataclass(frozen=True)
class Schema:
    """The signature of an operator.

    namespace   `aten`, or empty for it; `quantized_decomposed`, ... for operators that are not ATen's
    name        `add`
    overload    `Tensor`, or empty
    arguments   all of them in order: the positional ones, then the keyword-only ones
    returns     as arguments whose name may be empty
    """

    namespace: str
    name: str
    overload: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]

    # `add.Tensor`, or `relu` where there is no overload name; `space::add` if it is not ATen's
    full_name: str = dataclasses.field(init=False, repr=False, compare=False)
    argument_names: tuple[str, ...] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        name = f"{self.name}.{self.overload}" if self.overload else self.name
        if self.namespace not in ("", "aten"):
            name = f"{self.namespace}::{name}"
        self.__dict__.update(full_name=name, argument_names=tuple([a.name for a in self.arguments]))

    @functools.cached_property
    def positional(self) -> tuple[Argument, ...]:
        return tuple(argument for argument in self.arguments if not argument.keyword_only)

    @functools.cached_property
    def keyword_only(self) -> tuple[Argument, ...]:
        return tuple(argument for argument in self.arguments if argument.keyword_only)

    @functools.cached_property
    def tensor_arguments(self) -> tuple[int, ...]:
        """Indices of the arguments that hold tensors: Tensor, Tensor?, Tensor[], Tensor?[]."""
        return tuple(i for i, argument in enumerate(self.arguments) if argument.type.base == "Tensor")

    @functools.cached_property
    def mutable_arguments(self) -> tuple[int, ...]:
        """Indices of the arguments the operator writes to, `out` included."""
        return tuple(i for i, argument in enumerate(self.arguments) if argument.type.is_mutable)

    @functools.cached_property
    def out_arguments(self) -> tuple[int, ...]:
        """Indices of the keyword-only arguments that receive the results."""
        return tuple(i for i in self.mutable_arguments if self.arguments[i].keyword_only)

    @functools.cached_property
    def has_out(self) -> bool:
        """An `out=` variant: the results are written to keyword-only arguments."""
        return bool(self.out_arguments)

    @functools.cached_property
    def is_inplace(self) -> bool:
        """Writes its result to its first argument and says so by name: `add_`, `__iadd__`."""
        named = (self.name.endswith("_") and not self.name.endswith("__")) or _INPLACE_DUNDER.fullmatch(
            self.name
        ) is not None
        return named and 0 in self.mutable_arguments

    def argument(self, name: str) -> Argument:
        """The argument called `name`; KeyError if there is none."""
        try:
            return self.arguments[self.argument_names.index(name)]
        except ValueError:
            known = ", ".join(self.argument_names)
            raise KeyError(f"{self.full_name} has no argument {name!r}; it has {known}") from None

    def __str__(self) -> str:
        parts: list[str] = []
        for argument in self.arguments:
            if argument.keyword_only and "*" not in parts:
                parts.append("*")
            parts.append(str(argument))
        results = ", ".join(map(str, self.returns))
        if len(self.returns) != 1:
            results = f"({results})"
        prefix = "aten::" if self.namespace == "aten" else ""  # any other is part of the full name
        return f"{prefix}{self.full_name}({', '.join(parts)}) -> {results}"


# --- parsing ---------------------------------------------------------------------------------------

_DEFAULT = r"""\[[^\[\]]*\]|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,()\[\]"']+"""
_TYPE = r"[A-Za-z_][\w.]*(?:\([^()]*\))?\??(?:\[\d*\]\??)?"
_HEAD_PATTERN = re.compile(r"\s*(?:(\w+)::)?(\w+)(?:\.(\w+))?\(\s*", re.ASCII)
# An argument or return as a whole, then what ends it. The whole is the key of the cache of parsed arguments.
_ITEM_PATTERN = re.compile(
    rf"({_TYPE}(?:\s+[A-Za-z_]\w*(?:=(?:{_DEFAULT}))?)?|\*)\s*(,\s*|\)\s*|$)", re.ASCII
)
_ARGUMENT_PATTERN = re.compile(rf"({_TYPE})(?:\s+(\w+)(?:=({_DEFAULT}))?)?", re.ASCII | re.DOTALL)
_TYPE_PATTERN = re.compile(r"([\w.]+)(?:\(([^()]*)\))?(\?)?(?:\[(\d*)\](\?)?)?", re.ASCII)
_ALIAS_PATTERN = re.compile(r"(\w+(?:\|\w+)*)(!)?(?: -> (\*|\w+(?:\|\w+)*))?", re.ASCII)
_ARROW_PATTERN = re.compile(r"->\s*(\(\s*)?", re.ASCII)

_type_cache: dict[str, Type] = {}
_argument_cache: dict[tuple[str, bool], Argument] = {}


def _fail(text: str, position: int, problem: str) -> NoReturn:
    raise SchemaError(f"schema: {problem} at position {position}\n  {text}\n  {' ' * position}^")


@functools.cache
def parse_schema(text: str) -> Schema:
    """The schema written in `text`; SchemaError, with the position, if it is malformed."""
    head = _HEAD_PATTERN.match(text)
    if head is None:
        _fail(text, 0, "expected an operator name and '(', as in 'add.Tensor('")
    namespace, name, overload = head.groups("")
    arguments, position = _parse_arguments(text, head.end())
    returns = _parse_returns(text, position)
    return Schema(namespace, name, overload, arguments, returns)


def _parse_arguments(text: str, position: int) -> tuple[tuple[Argument, ...], int]:
    """The arguments up to the closing parenthesis, and where to go on after it."""
    arguments: list[Argument] = []
    names: set[str] = set()
    keyword_only = False
    if text.startswith(")", position):
        return (), len(text) - len(text[position + 1 :].lstrip())
    while True:
        item = _ITEM_PATTERN.match(text, position)
        if item is None:
            _fail(text, position, "expected an argument such as 'Tensor self' or 'int dim=0', and ',' or ')'")
        written, end = item.groups()
        if written == "*":
            if keyword_only or not end.startswith(","):
                _fail(text, position, "a '*' must come once and before at least one argument")
            keyword_only = True
        else:
            argument = _argument_cache.get((written, keyword_only))
            if argument is None:
                argument = _parse_argument(text, position, written, keyword_only)
            if not argument.name:
                _fail(text, position, f"the argument of type {written} has no name")
            if argument.name in names:
                _fail(text, position, f"there is already an argument called {argument.name!r}")
            names.add(argument.name)
            arguments.append(argument)
        position = item.end()
        if end.startswith(")"):
            return tuple(arguments), position
        if not end:
            _fail(text, position, "the arguments are not closed: expected ',' or ')'")


def _parse_returns(text: str, position: int) -> tuple[Argument, ...]:
    arrow = _ARROW_PATTERN.match(text, position)
    if arrow is None:
        _fail(text, position, "expected '->' and the returns")
    position = arrow.end()
    closing = ")" if arrow.group(1) else ""
    returns: list[Argument] = []
    if closing and text.startswith(")", position):
        _expect_end(text, position + 1)
        return ()
    while True:
        item = _ITEM_PATTERN.match(text, position)
        if item is None or item.group(1) == "*":
            _fail(text, position, "expected a return such as 'Tensor' or 'Tensor values'")
        written, end = item.groups()
        result = _argument_cache.get((written, False)) or _parse_argument(text, position, written, False)
        if not result.is_required:
            _fail(text, position, "a return cannot have a default")
        returns.append(result)
        position = item.end()
        if end.startswith(","):
            if not closing:
                _fail(text, position, "several returns need parentheses")
            continue
        if end.strip() != closing:
            _fail(text, position, "the parentheses around the returns do not match")
        _expect_end(text, position)
        return tuple(returns)


def _expect_end(text: str, position: int) -> None:
    if text[position:].strip():
        _fail(text, position, "unexpected text after the returns")


def _parse_argument(text: str, position: int, written: str, keyword_only: bool) -> Argument:
    match = _ARGUMENT_PATTERN.fullmatch(written)
    assert match is not None, "the pattern of items contains the pattern of arguments"
    type_text, name, default_text = match.groups()
    kind = _type_cache.get(type_text) or _parse_type(text, position, type_text)
    default: Any = REQUIRED
    if default_text is not None:
        try:
            default = _parse_default(kind, default_text)
        except (KeyError, ValueError, SyntaxError):
            _fail(text, position + match.start(3), f"{default_text} is not a value of type {kind}")
    argument = Argument(name or "", kind, default, default_text, keyword_only)
    return _argument_cache.setdefault((written, keyword_only), argument)


def _parse_type(text: str, position: int, type_text: str) -> Type:
    match = _TYPE_PATTERN.fullmatch(type_text)
    assert match is not None, "the pattern of items contains the pattern of types"
    name, alias_text, first_optional, size, last_optional = match.groups()
    if name not in _BASES and not name.startswith(_CUSTOM_CLASS):
        _fail(text, position, f"unknown type {name!r}; the types are {', '.join(_BASES)}")
    alias = None
    if alias_text is not None:
        alias = _parse_alias(text, position + match.start(2), alias_text)
    if size is None:
        kind = Type(name, alias, optional=first_optional is not None)
    else:
        kind = Type(
            name,
            alias,
            optional=last_optional is not None,
            is_list=True,
            size=int(size) if size else None,
            element_optional=first_optional is not None,
        )
    return _type_cache.setdefault(type_text, kind)


def _parse_alias(text: str, position: int, alias_text: str) -> Alias:
    match = _ALIAS_PATTERN.fullmatch(alias_text)
    if match is None:
        _fail(text, position, f"expected an alias such as 'a', 'a!' or 'a -> *', not {alias_text!r}")
    before, write, after = match.groups()
    return Alias(tuple(before.split("|")), write is not None, tuple(after.split("|")) if after else ())


# --- defaults --------------------------------------------------------------------------------------

_REDUCTIONS = {"Mean": 1, "Sum": 2}
# Positions in PyTorch's enums, which is how its own printer spells such defaults.
_SCALAR_TYPE_CODES = {
    code: dtypes.DTYPES[name]
    for code, name in enumerate(("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"))
}
_SCALAR_TYPE_CODES |= {
    8: dtypes.complex32,
    9: dtypes.complex64,
    10: dtypes.complex128,
    11: dtypes.bool_,
    15: dtypes.bfloat16,
}
_MEMORY_FORMAT_CODES = dict(enumerate(tokens.MEMORY_FORMATS.values()))


def _parse_default(kind: Type, text: str) -> Any:
    if text == "None":
        if not kind.optional:
            raise ValueError(text)
        return None
    parse = _PARSERS.get(kind.base)
    if parse is None:
        raise ValueError(text)
    if not kind.is_list:
        return parse(text)
    if text.startswith("["):
        inner = text[1:-1].strip()
        return tuple(parse(item.strip()) for item in inner.split(",")) if inner else ()
    if kind.size is None:
        raise ValueError(text)
    return (parse(text),) * kind.size


def _parse_bool(text: str) -> bool:
    return {"True": True, "False": False}[text]


def _parse_int(text: str) -> int:
    return _REDUCTIONS[text] if text in _REDUCTIONS else int(text)


def _parse_scalar(text: str) -> bool | int | float | complex:
    if text in ("True", "False"):
        return _parse_bool(text)
    for number in (int, float, complex):
        try:
            return number(text)
        except ValueError:
            continue
    raise ValueError(text)


def _parse_str(text: str) -> str:
    if text[0] not in "\"'":
        raise ValueError(text)
    return str(ast.literal_eval(text)) if "\\" in text else text[1:-1]


def _parse_scalar_type(text: str) -> dtypes.DType:
    return _SCALAR_TYPE_CODES[int(text)] if text.isdigit() else dtypes.dtype_named(text)


def _parse_memory_format(text: str) -> tokens.memory_format:
    return _MEMORY_FORMAT_CODES[int(text)] if text.isdigit() else tokens.MEMORY_FORMATS[text]


_PARSERS: dict[str, Callable[[str], Any]] = {
    "bool": _parse_bool,
    "int": _parse_int,
    "float": float,
    "complex": complex,
    "Scalar": _parse_scalar,
    "str": _parse_str,
    "ScalarType": _parse_scalar_type,
    "MemoryFormat": _parse_memory_format,
    "Layout": tokens.LAYOUTS.__getitem__,
    "Device": lambda text: tokens.device(_parse_str(text)),
}

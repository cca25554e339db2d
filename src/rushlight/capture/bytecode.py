"""What the code of a function mentions: dotted names that it reads, and those that it assigns to."""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections.abc import Iterator, Mapping
from enum import Enum


class Scope(Enum):
    """Where a name of a function, or of functions inside of it, is found."""

    ARGUMENT = "among its arguments"
    CELL = "in the function around it"
    GLOBAL = "in its module"


Path = tuple[Scope, tuple[str, ...]]  # a dotted name, and where its first part is found


@functools.lru_cache(maxsize=1024)
def paths_in(code: types.CodeType) -> tuple[Path, ...]:
    """The dotted names that `code` reads, those of functions inside of it included; not its own variables."""
    return tuple(dict.fromkeys(_paths(code, _scopes(code))))


@functools.lru_cache(maxsize=1024)
def attributes_in(code: types.CodeType) -> frozenset[str]:
    """The names of attributes that `code` mentions."""
    own = {str(i.argval) for i in dis.get_instructions(code) if i.opname in ("LOAD_ATTR", "LOAD_METHOD")}
    inner = [attributes_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return frozenset(own).union(*inner)


@functools.lru_cache(maxsize=1024)
def stores_in(code: types.CodeType) -> tuple[Path, ...]:
    """The dotted names that `code` assigns to."""
    paths = _paths(code, _scopes(code), stores=True)
    return tuple(dict.fromkeys((scope, path[:-1]) for scope, path in paths if path[-1] == _STORED))


@functools.lru_cache(maxsize=1024)
def global_stores_in(code: types.CodeType) -> tuple[str, ...]:
    """The globals that `code` assigns to."""
    inner = [
        name
        for constant in code.co_consts
        if isinstance(constant, types.CodeType)
        for name in global_stores_in(constant)
    ]
    return (*inner, *(str(i.argval) for i in dis.get_instructions(code) if i.opname == "STORE_GLOBAL"))


@functools.lru_cache(maxsize=1024)
def assigned_in(code: types.CodeType) -> frozenset[str]:
    """The names of attributes and globals that `code` assigns to, or may set by a string."""
    stores = ("STORE_ATTR", "STORE_GLOBAL")
    own = {str(i.argval) for i in dis.get_instructions(code) if i.opname in stores}
    if "setattr" in code.co_names:
        own.update(_identifiers(code))
    inner = [assigned_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return frozenset(own).union(*inner)


@functools.lru_cache(maxsize=1024)
def asked_in(code: types.CodeType) -> frozenset[str]:
    """The names of attributes that need not be there for `code`: it asks for them or sets them by a string,
    or handles the error."""
    own: set[str] = set()
    if not {"getattr", "hasattr", "setattr"}.isdisjoint(code.co_names):
        own.update(_identifiers(code))
    if "AttributeError" in code.co_names:
        own.update(str(i.argval) for i in dis.get_instructions(code) if i.opname == "LOAD_ATTR")
    inner = [asked_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return frozenset(own).union(*inner)


def _identifiers(code: types.CodeType) -> list[str]:
    return [constant for constant in code.co_consts if isinstance(constant, str) and constant.isidentifier()]


_STORED = "="  # ends the path of an attribute that is assigned to


def _scopes(code: types.CodeType) -> dict[str, Scope]:
    """Of the variables of a function that are not its own, where they are."""
    flags = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + flags]
    return dict.fromkeys(code.co_freevars, Scope.CELL) | dict.fromkeys(arguments, Scope.ARGUMENT)


def _paths(
    code: types.CodeType, scopes: Mapping[str, Scope], stores: bool = False
) -> Iterator[tuple[Scope, tuple[str, ...]]]:
    """`scopes` are those of the variables that `code` does not have of its own."""
    current: list[str] = []
    scope: Scope | None = None
    for instruction in dis.get_instructions(code):
        name, variable = instruction.opname, instruction.argval
        if name in ("LOAD_ATTR", "LOAD_METHOD") and scope is not None:
            current.append(str(variable))
            continue
        if scope is not None:
            if stores and name == "STORE_ATTR":
                yield scope, (*current, str(variable), _STORED)
            yield scope, tuple(current)
        current = [str(variable)]
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            scope = Scope.GLOBAL
        elif name.startswith("LOAD_FAST") or name in ("LOAD_DEREF", "LOAD_CLASSDEREF"):
            scope = scopes.get(variable) if isinstance(variable, str) else None
        else:
            scope = None
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = {name: scopes[name] for name in constant.co_freevars if name in scopes}
            yield from _paths(constant, inner, stores)


@functools.lru_cache(maxsize=1024)
def codes_in(code: types.CodeType) -> frozenset[types.CodeType]:
    """`code` and that of the functions inside of it."""
    inner = [codes_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return frozenset({code}).union(*inner)


_WRITES = frozenset(
    {
        "STORE_ATTR",
        "STORE_SUBSCR",
        "STORE_GLOBAL",
        "STORE_DEREF",
        "DELETE_ATTR",
        "DELETE_SUBSCR",
        "DELETE_GLOBAL",
        "DELETE_DEREF",
    }
)
_WRITERS = frozenset(
    {
        "append",
        "appendleft",
        "extend",
        "insert",
        "pop",
        "popleft",
        "popitem",
        "remove",
        "clear",
        "update",
        "setdefault",
        "add",
        "discard",
        "setattr",
        "delattr",
        "sort",
        "reverse",
        "put",
        "write",
    }
)


@functools.lru_cache(maxsize=1024)
def may_write(code: types.CodeType) -> bool:
    """Whether `code` looks as if it changed something besides its own variables."""
    own = set(code.co_cellvars)
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in _WRITES and not (name.endswith("_DEREF") and instruction.argval in own):
            return True
        if name in ("LOAD_METHOD", "LOAD_ATTR", "LOAD_GLOBAL") and instruction.argval in _WRITERS:
            return True
    return any(may_write(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))

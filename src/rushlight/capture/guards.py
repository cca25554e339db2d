"""Guards: what a captured program took from around it, and whether that is still so.

A program is captured for the Python values it could see. `environment_of(function, args)` collects the ones
that it may read besides its arguments, and `Environment.change` tells, before each run, whether one of them
is another now:
- variables of enclosing functions, globals and default arguments that the function, and the functions that it
  calls by name, mention: numbers, strings, None and tuples of them by value, tensors by identity;
- attributes of objects that are named in the code (`config.scale`, `self.scale`), in the same way;
- what is in lists and dictionaries reached like that;
- of every module reached: whether it is training, its parameters, buffers and modules by identity, its other
  plain attributes by value.

Code of this package is not looked into: what it reads is covered by the modes of the call.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import types
from collections.abc import Iterator
from typing import Any

from ..core.pytree import flatten
from ..core.tensor import Tensor

_PACKAGE = __name__.partition(".")[0]
_PLAIN = (int, float, bool, str, complex, bytes, type(None))
_MOST = 2000  # guards of one function; a program that reaches more is taken as it is beyond that
_MISSING = object()
_TABLES = ("_parameters", "_buffers", "_modules")


class Environment:
    """Places and what they held: (container, key, value, name)."""

    def __init__(self, places: list[tuple[Any, Any, Any, str]]) -> None:
        self.places = places

    def without_numbers_of(self, containers: list[Any]) -> Environment:
        """Without the guards on numbers in `containers`, which are live."""
        if not containers:
            return self
        live = {id(container) for container in containers}
        return Environment([place for place in self.places
                            if id(place[0]) not in live or type(place[2]) not in (int, float)])

    def holds(self) -> bool:
        for container, key, value, _ in self.places:
            try:
                found = container[key]
            except (KeyError, IndexError):
                return False
            if found is not value and not _equal(found, value):
                return False
        return True

    def change(self) -> str | None:
        """What is different now, in words."""
        for container, key, value, name in self.places:
            try:
                found = container[key]
            except (KeyError, IndexError):
                return f"{name} is gone"
            if found is not value and not _equal(found, value):
                if isinstance(value, Tensor) or not isinstance(value, _PLAIN):
                    return f"{name} is another {type(value).__name__}"
                return f"{name} changed from {value!r} to {found!r}"
        return None


def _equal(found: Any, value: Any) -> bool:
    kind = type(value)
    if type(found) is not kind:
        return False
    if kind in (int, str, bytes, bool):
        return bool(found == value)
    if kind in (float, complex):
        return repr(found) == repr(value)
    return kind is _Cells and found is value


class _Cells:
    """The variables of enclosing functions as a container."""

    def __init__(self, cells: dict[str, Any]) -> None:
        self.cells = cells

    def __getitem__(self, name: str) -> Any:
        try:
            return self.cells[name].cell_contents
        except ValueError:
            raise KeyError(name) from None


def environment_of(function: Any, args: Any = ()) -> Environment:
    """What `function` may read besides its arguments, as it is now."""
    collector = _Collector()
    collector.callable(function, "", args[0] if args else ())
    for leaf in flatten(args, records=True)[0]:
        if _is_module(leaf):
            collector.module(leaf, type(leaf).__name__)
    return Environment(collector.places[:_MOST])


class _Collector:
    def __init__(self) -> None:
        self.places: list[tuple[Any, Any, Any, str]] = []
        self.seen: set[int] = set()
        self.functions: set[tuple[int, int]] = set()  # with the object they are methods of
        self.recorded: set[tuple[int, Any]] = set()
        self._keep: list[Any] = []

    def first(self, thing: Any) -> bool:
        if id(thing) in self.seen:
            return False
        self.seen.add(id(thing))
        self._keep.append(thing)
        return True

    # Functions.

    def callable(self, function: Any, name: str, args: tuple[Any, ...] = ()) -> None:
        if isinstance(function, functools.partial):
            self.callable(function.func, name, (*function.args, *args))
            self.value(function.args, name)
            self.value(function.keywords, name)
        elif isinstance(function, types.MethodType):
            self.function(function.__func__, function.__self__, args)
            self.value(function.__self__, name or "self")
        elif isinstance(function, types.FunctionType):
            self.function(function, None, args)
        elif _is_module(function):
            self.module(function, name or type(function).__name__)
        elif isinstance(getattr(type(function), "__call__", None), types.FunctionType):  # noqa: B004
            self.function(type(function).__call__, function, args)

    def function(self, function: Any, owner: Any, args: tuple[Any, ...] = ()) -> None:
        key = id(function), id(owner)
        if key in self.functions or len(self.places) > _MOST or _is_own(function.__module__):
            return
        self.functions.add(key)
        self._keep.extend((function, owner))
        cells = _Cells(dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)))
        self._keep.append(cells)
        given = args if owner is None else (owner, *args)
        named = dict(zip(function.__code__.co_varnames[:function.__code__.co_argcount], given, strict=False))
        for path in paths_in(function.__code__):
            self.path(path, function, cells, named)
        for i, value in enumerate(function.__defaults__ or ()):
            if isinstance(value, _PLAIN):
                self.place(_Defaults(function), i, value, f"default argument {i} of {function.__name__}")

    def path(self, path: tuple[str, ...], function: types.FunctionType, cells: _Cells,
             named: dict[str, Any]) -> None:
        """Follow a dotted name from the code as far as it leads through plain attributes."""
        root, *attributes = path
        if root in named:
            value = named[root]
            if isinstance(value, (*_PLAIN, Tensor, list, tuple, dict)) or dataclasses.is_dataclass(value):
                return  # the call's own business
        elif root in cells.cells:
            value = self._contents(cells, root)
            if value is _MISSING:
                return
            self.place(cells, root, value, root)
        elif root in function.__globals__:
            value = function.__globals__[root]
            self.place(function.__globals__, root, value, root)
        else:
            return
        name = root
        for attribute in attributes:
            name = f"{name}.{attribute}"
            own = getattr(value, "__dict__", None)
            if isinstance(value, types.ModuleType) and _is_own(value.__name__):
                return
            if not isinstance(own, dict) or attribute not in own:
                method = getattr(type(value), attribute, None)
                if isinstance(method, types.FunctionType):
                    self.function(method, value)
                return
            container, value = own, own[attribute]
            self.place(container, attribute, value, name)

    def _contents(self, cells: _Cells, name: str) -> Any:
        try:
            return cells[name]
        except KeyError:
            return _MISSING

    # Values.

    def place(self, container: Any, key: Any, value: Any, name: str) -> None:
        """Guard on what is at a place, as far as it can matter."""
        if isinstance(value, types.ModuleType) or len(self.places) > _MOST:
            return
        if (id(container), key) not in self.recorded:
            self.recorded.add((id(container), key))
            self._keep.append(container)
            seen = (*_PLAIN, Tensor, list, dict, tuple)
            if isinstance(value, seen) or _is_module(value) or callable(value):
                self.places.append((container, key, value, name))
        self.value(value, name)

    def value(self, value: Any, name: str) -> None:
        if isinstance(value, (*_PLAIN, Tensor)):
            return
        if isinstance(value, list | tuple | dict):
            if self.first(value) and len(value) <= _MOST:
                for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                    if isinstance(item, (*_PLAIN, Tensor, list, tuple, dict)) or _is_module(item):
                        self.place(value, key, item, f"{name}[{key!r}]")
        elif _is_module(value):
            self.module(value, name)
        elif isinstance(value, types.FunctionType | types.MethodType):
            self.callable(value, name)

    def module(self, module: Any, name: str) -> None:
        if not self.first(module):
            return
        own = module.__dict__
        for attribute, value in own.items():
            if isinstance(value, _PLAIN):
                self.place(own, attribute, value, f"{name}.{attribute}")
        for table in _TABLES:
            for key, item in own[table].items():
                self.places.append((own[table], key, item, f"{name}.{key}"))
        forward = getattr(module.forward, "__func__", None)
        if isinstance(forward, types.FunctionType):
            self.function(forward, module)
        for key, child in own["_modules"].items():
            if child is not None:
                self.module(child, f"{name}.{key}")


class _Defaults:
    """The default arguments of a function as a container."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __getitem__(self, i: int) -> Any:
        return (self.function.__defaults__ or ())[i]


def _is_module(value: Any) -> bool:
    own = getattr(value, "__dict__", None)
    return isinstance(own, dict) and "_parameters" in own and "_modules" in own


def _is_own(module: str | None) -> bool:
    return str(module).partition(".")[0] in (_PACKAGE, "numpy", "scipy", "builtins", "math")


@functools.lru_cache(maxsize=1024)
def paths_in(code: types.CodeType) -> tuple[tuple[str, ...], ...]:
    """The dotted names that `code` reads, those of functions inside of it included."""
    return tuple(dict.fromkeys(_paths(code)))


def _paths(code: types.CodeType) -> Iterator[tuple[str, ...]]:
    current: list[str] = []
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in ("LOAD_ATTR", "LOAD_METHOD") and current:
            current.append(str(instruction.argval))
            continue
        if current:
            yield tuple(current)
            current = []
        if name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF") or (
                name.startswith("LOAD_FAST") and isinstance(instruction.argval, str)):
            current = [str(instruction.argval)]
    if current:
        yield tuple(current)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _paths(constant)

"""Guards: what a captured program took from around it, and whether that is still so.

A program is captured for the Python values it could see. `environment_of(function, args)` collects the ones
that it may read besides its arguments, and `Environment.change` tells, before each run, whether one of them
is another now:
- variables of enclosing functions, globals and default arguments that the function, and the functions that it
  calls by name, mention: numbers, strings, None and tuples of them by value, tensors by identity;
- attributes of objects that are named in the code (`config.scale`, `self.scale`), in the same way;
- what is in lists, dictionaries and sets reached like that, and how much; of objects in them the attributes
  whose names the code mentions;
- of every module reached: whether it is training, its parameters, buffers and modules by identity, how many
  of them and of hooks there are, its other plain attributes by value.

The same places tell what of Python's the program changed while it was captured (capture/effects.py).

Code of this package is not looked into: what it reads is covered by the modes of the call.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import types
from collections.abc import Iterator, Sequence
from typing import Any

from ..core.pytree import flatten
from ..core.tensor import Tensor
from .places import MISSING, PLAIN, Attributes, Cells, Defaults, Elements, Environment, Length, Place

_PACKAGE = __name__.partition(".")[0]
_MOST = 50_000  # guards of one function; a program that reaches more is taken as it is beyond that
_LONGEST = 2000  # of a longer container the length alone
_TABLES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")

def environment_of(function: Any, args: Any = ()) -> Environment:
    """What `function` may read besides its arguments, as it is now."""
    collector = _Collector()
    collector.callable(function, "", args[0] if args else ())
    for leaf in flatten(args, records=True)[0]:
        if _is_module(leaf):
            collector.module(leaf, type(leaf).__name__)
    collector.finish()
    found = Environment(collector.places[:_MOST], collector.stored)
    found.unfinished, found.asks_types = collector.unfinished, collector.asks_types
    found.caches = [(cache, cache.cache_info().misses) for cache in collector.caches]
    return found


class _Collector:
    def __init__(self) -> None:
        self.places: list[Place] = []
        self.stored: list[Place] = []
        self.unfinished = self.asks_types = False
        self.caches: list[Any] = []
        self.names: set[str] = set()  # of attributes that the code mentions
        self.objects: list[tuple[Any, str]] = []  # whose attributes it may mention by other names
        self.plain: list[Place] = []  # attributes of modules, which it may mention or not
        self.asks_names = False  # whether it may know attributes by names that are not in the code
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
        cells = Cells(dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)))
        self._keep.append(cells)
        given = args if owner is None else (owner, *args)
        named = dict(zip(function.__code__.co_varnames[:function.__code__.co_argcount], given, strict=False))
        paths = paths_in(function.__code__)
        self.names.update(name for path in paths for name in path[1:])
        self.asks_names |= "__dict__" in self.names
        for path in paths:
            self.path(path, function, cells, named)
        for *names, attribute in stores_in(function.__code__):
            self.store(self.found(names, function, cells, named), attribute)
        for name in global_stores_in(function.__code__):
            self.watch(function.__globals__, name, name)
        for i, value in enumerate(function.__defaults__ or ()):
            self.place(Defaults(function), i, value, f"default argument {i} of {function.__name__}")
        for key, value in (function.__kwdefaults__ or {}).items():
            self.place(function.__kwdefaults__, key, value, f"default argument {key} of {function.__name__}")

    def path(self, path: tuple[str, ...], function: types.FunctionType, cells: Cells,
             named: dict[str, Any]) -> None:
        """Follow a dotted name from the code as far as it leads through plain attributes."""
        root, *attributes = path
        if root in named:
            value = named[root]
            if isinstance(value, (*PLAIN, Tensor, list, tuple, dict)) or dataclasses.is_dataclass(value):
                return  # the call's own business
        elif root in cells.cells:
            value = self._contents(cells, root)
            if value is MISSING:
                return
            self.place(cells, root, value, root, bool(attributes) or _is_plain_object(value))
        elif root in function.__globals__:
            value = function.__globals__[root]
            self.place(function.__globals__, root, value, root, bool(attributes) or _is_plain_object(value))
        else:
            self.asks_types |= root == "type"
            self.asks_names |= root in ("getattr", "vars")
            return
        name = root
        for attribute in attributes:
            name = f"{name}.{attribute}"
            own = getattr(value, "__dict__", None)
            if isinstance(value, types.ModuleType) and _is_own(value.__name__):
                return
            tables = [value.__dict__[t] for t in _TABLES] if _is_module(value) else []
            table = next((t for t in tables if attribute in t), None)
            if table is not None:
                value = table[attribute]
            elif not isinstance(own, dict) or attribute not in own:
                value = self.inherited(value, attribute, name)
                if value is MISSING:
                    return
            else:
                value = own[attribute]
                self.place(own, attribute, value, name,
                           attribute is not attributes[-1] or _is_plain_object(value))
        if attributes or root not in named:
            self.objects.append((value, name))

    def inherited(self, owner: Any, attribute: str, name: str) -> Any:
        """Look at an attribute that a class has; the value, if it is more than a method."""
        kind = owner if isinstance(owner, type) else type(owner)
        if _is_own(kind.__module__):
            return MISSING
        attributes = Attributes(owner)
        try:
            found = attributes[attribute]
        except KeyError:
            return MISSING
        if isinstance(found, types.FunctionType | classmethod | staticmethod | property):
            self.method(kind, attribute, found, name)
        if isinstance(found, types.FunctionType):
            self.function(found, None if isinstance(owner, type) else owner)
        elif isinstance(found, classmethod | staticmethod):
            self.function(found.__func__, kind if isinstance(found, classmethod) else None)
        elif isinstance(found, property | functools.cached_property):
            getter = found.fget if isinstance(found, property) else found.func
            if isinstance(getter, types.FunctionType):
                self.function(getter, owner)
            if isinstance(found, functools.cached_property):
                self.store(owner, attribute)
        elif isinstance(found, _CACHED):
            self.value(found, name)
        elif not callable(found) or _is_module(found):
            self._keep.append(attributes)
            self.place(attributes, attribute, found, name)
            return found
        return MISSING

    def method(self, kind: type, attribute: str, found: Any, name: str) -> None:
        """Guard on a method of a class."""
        where = next(vars(base) for base in kind.__mro__ if attribute in vars(base))
        if (id(found), attribute) not in self.recorded:
            self.recorded.add((id(found), attribute))
            self.places.append((where, attribute, found, name))

    def finish(self) -> None:
        """Guard on those attributes of objects that the code mentions, by whatever name it has the object."""
        for place in self.plain:
            if self.asks_names or place[1] in self.names:
                self.place(*place)
        while self.objects:
            value, name = self.objects.pop()
            if _is_plain_object(value) and self.first(value):
                own = value.__dict__
                for attribute in sorted(self.names & own.keys()):
                    self.place(own, attribute, own[attribute], f"{name}.{attribute}", True)
                    self.objects.append((own[attribute], f"{name}.{attribute}"))

    def found(self, path: Sequence[str], function: types.FunctionType, cells: Cells,
              named: dict[str, Any]) -> Any:
        """What a dotted name leads to through plain attributes, or MISSING."""
        root, *attributes = path
        around = named if root in named else cells if root in cells.cells else function.__globals__
        try:
            value = around[root]
        except KeyError:
            return MISSING
        for attribute in attributes:
            own = getattr(value, "__dict__", None)
            tables = [own, *(value.__dict__[t] for t in _TABLES)] if _is_module(value) else [own]
            value = next((t[attribute] for t in tables if isinstance(t, dict) and attribute in t), MISSING)
        return value

    def store(self, owner: Any, attribute: str) -> None:
        """The code sets an attribute of `owner`."""
        own = getattr(owner, "__dict__", None)
        if isinstance(own, dict) and not isinstance(owner, (Tensor, types.ModuleType)) and not (
                dataclasses.is_dataclass(owner)):
            self.watch(own, attribute, f"{type(owner).__name__}.{attribute}")

    def watch(self, container: Any, key: Any, name: str) -> None:
        if (id(container), key) not in self.recorded:
            self.recorded.add((id(container), key))
            self._keep.append(container)
            self.stored.append((container, key, container.get(key, MISSING), name))

    def _contents(self, cells: Cells, name: str) -> Any:
        try:
            return cells[name]
        except KeyError:
            return MISSING

    # Values.

    def place(self, container: Any, key: Any, value: Any, name: str, followed: bool = False) -> None:
        """Guard on what is at a place, as far as it can matter; an object if its attributes are looked at."""
        if isinstance(value, types.ModuleType) or len(self.places) > _MOST:
            return
        if (id(container), key) not in self.recorded:
            self.recorded.add((id(container), key))
            self._keep.append(container)
            seen = (*PLAIN, Tensor, list, dict, tuple, set)
            if isinstance(value, seen) or _is_module(value) or callable(value) or followed:
                self.places.append((container, key, value, name))
        self.value(value, name)

    def value(self, value: Any, name: str) -> None:
        if isinstance(value, (*PLAIN, Tensor)):
            return
        if isinstance(value, list | tuple | dict):
            if not self.first(value):
                return
            if not isinstance(value, tuple):
                self.places.append((Length(value), None, len(value), f"the length of {name}"))
            if len(value) <= _LONGEST:
                for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                    if isinstance(item, (*PLAIN, Tensor, list, tuple, dict)) or _is_module(item):
                        self.place(value, key, item, f"{name}[{key!r}]")
                    elif _is_plain_object(item):
                        self.place(value, key, item, f"{name}[{key!r}]", True)
                        self.objects.append((item, f"{name}[{key!r}]"))
        elif isinstance(value, set):
            if self.first(value) and len(value) <= _LONGEST:
                self.places.append((Elements(value), None, frozenset(value), name))
        elif _is_module(value):
            self.module(value, name)
        elif isinstance(value, types.FunctionType | types.MethodType):
            self.callable(value, name)
        elif isinstance(value, _CACHED) and self.first(value):
            self.caches.append(value)
            self.callable(value.__wrapped__, name)

    def module(self, module: Any, name: str) -> None:
        if not self.first(module):
            return
        own = module.__dict__
        if getattr(module, "_initialize_hook", None) is not None:
            self.unfinished = True
        base = next((kind for kind in type(module).__mro__ if _is_own(kind.__module__)), None)
        users = base is not None and base.__name__ == "Module"  # all but the base is the user's code
        for attribute, value in own.items():
            if isinstance(value, PLAIN):
                place = own, attribute, value, f"{name}.{attribute}"
                if users and attribute != "training" and not attribute.startswith("_"):
                    self.plain.append(place)
                else:
                    self.place(*place)
        for table in _HOOKS:
            for hook in own[table].values():
                self.callable(hook, f"{name}.{table}")
        for table in _TABLES:
            for key, item in own[table].items():
                self.places.append((own[table], key, item, f"{name}.{key}"))
        for table in (*_TABLES, *_HOOKS):
            self.places.append((Length(own[table]), None, len(own[table]), f"the number of {name}.{table}"))
        self.places.append((Length(own), None, len(own), f"the number of attributes of {name}"))
        forward = getattr(module.forward, "__func__", None)
        if isinstance(forward, types.FunctionType):
            if not _is_own(type(module).__module__) and "forward" not in own:
                self.method(type(module), "forward", forward, f"{name}.forward")
            self.function(forward, module)
        for key, child in own["_modules"].items():
            if child is not None:
                self.module(child, f"{name}.{key}")


def _is_module(value: Any) -> bool:
    own = getattr(value, "__dict__", None)
    return isinstance(own, dict) and "_parameters" in own and "_modules" in own


_CACHED = functools._lru_cache_wrapper


def _is_plain_object(value: Any) -> bool:
    """Whether `value` is an object of the user's: it has attributes, and is no module, class or function."""
    return isinstance(getattr(value, "__dict__", None), dict) and not (
        isinstance(value, (type, Tensor, types.ModuleType)) or callable(value)
        or _is_own(type(value).__module__))


def _is_own(module: str | None) -> bool:
    return str(module).partition(".")[0] in (_PACKAGE, "numpy", "scipy", "builtins", "math")


@functools.lru_cache(maxsize=1024)
def paths_in(code: types.CodeType) -> tuple[tuple[str, ...], ...]:
    """The dotted names that `code` reads, those of functions inside of it included."""
    return tuple(dict.fromkeys(_paths(code)))


@functools.lru_cache(maxsize=1024)
def stores_in(code: types.CodeType) -> tuple[tuple[str, ...], ...]:
    """The dotted names that `code` assigns to."""
    return tuple(dict.fromkeys(path[:-1] for path in _paths(code, stores=True) if path[-1] == _STORED))


@functools.lru_cache(maxsize=1024)
def global_stores_in(code: types.CodeType) -> tuple[str, ...]:
    """The globals that `code` assigns to."""
    inner = [name for constant in code.co_consts if isinstance(constant, types.CodeType)
             for name in global_stores_in(constant)]
    return (*inner, *(str(i.argval) for i in dis.get_instructions(code) if i.opname == "STORE_GLOBAL"))


_STORED = "="  # ends the path of an attribute that is assigned to


def _paths(code: types.CodeType, stores: bool = False) -> Iterator[tuple[str, ...]]:
    current: list[str] = []
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in ("LOAD_ATTR", "LOAD_METHOD") and current:
            current.append(str(instruction.argval))
            continue
        if current:
            if stores and name == "STORE_ATTR":
                yield (*current, str(instruction.argval), _STORED)
            yield tuple(current)
            current = []
        if name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF") or (
                name.startswith("LOAD_FAST") and isinstance(instruction.argval, str)):
            current = [str(instruction.argval)]
    if current:
        yield tuple(current)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _paths(constant, stores)

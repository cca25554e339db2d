"""Collecting what a program may read besides its arguments: locations of Python's, and what is there.

Starting from functions and arguments, names that the code mentions are followed through variables, attributes,
containers, modules and classes (bytecode.py reads the names). Environments are made of the result
(environment.py).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
import random
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from .bytecode import (
    Path,
    Scope,
    asked_in,
    assigned_in,
    attributes_in,
    codes_in,
    global_stores_in,
    paths_in,
    stores_in,
)
from .hooks import CLOCKS, is_watched
from .locations import (
    MISSING,
    PLAIN,
    Absent,
    AllValues,
    Attributes,
    Cells,
    Defaults,
    Elements,
    Items,
    Length,
    Place,
    Slots,
    State,
)
from .module_attributes import TABLES, SeenModule, look_at_module, look_at_modules
from .object_kinds import (
    CACHED,
    LIBRARIES,
    has_attributes,
    is_callable_object,
    is_module,
    is_own,
    is_plain_object,
    is_users_class,
    mentioned,
    slots_of,
)
from .tensor_attributes import look_at_tensors

_MOST = 50_000  # guards of one function; a program that reaches more is taken as it is beyond that
_MOST_FUNCTIONS = 5000  # likewise
_LONGEST = 2000  # a longer container is one guard
_SEQUENCES = (list, tuple, collections.deque)
_MAKERS = frozenset(
    {"__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"}
)  # of objects


class Collector:
    """The locations that were found so far, and what is left to look into."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.stored: list[Place] = []
        self.unfinished = self.asks_types = False
        self.refusal: str | None = None
        self.codes: set[types.CodeType] = set()  # that the program may run
        self.caches: list[Any] = []
        self.assigned: set[str] = set()  # names of attributes and globals that the code assigns to
        self.names: set[str] = set()  # of attributes that the code mentions
        self.asked: set[str] = set()  # of those that need not be there
        self.tensors: dict[int, tuple[Tensor, str, set[str]]] = {}  # found, with names that were looked for
        self.tensors_seen: tuple[Any, int] = None, 0  # how many of them were looked at, for which names
        self.objects: list[tuple[Any, str]] = []  # whose attributes it may mention by other names
        self.modules: list[SeenModule] = []
        self.looked_into: list[tuple[Any, str]] = []  # those that were found, as far as names were known
        self.plain: list[Place] = []  # attributes of modules, which it may mention or not
        self.asks_names = False  # whether it may know attributes by names that are not in the code
        self.seen: set[int] = set()
        self.functions: set[tuple[int, int]] = set()  # with the object they are methods of
        self.recorded: set[tuple[int, Any]] = set()  # locations in `places`
        self.watched: set[tuple[int, Any]] = set()  # locations in `stored`
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
            self._keep.append(function)
        elif isinstance(function, types.MethodType):
            self.function(function.__func__, function.__self__, args)
            self.value(function.__self__, name or "self")
        elif isinstance(function, types.FunctionType):
            self.function(function, None, args)
        elif is_module(function):
            self.module(function, name or type(function).__name__)
        elif isinstance(function, type):
            self.kind(function, name)
        elif isinstance(function, CACHED):
            self.value(function, name)
        elif isinstance(getattr(type(function), "__call__", None), types.FunctionType):  # noqa: B004
            self.function(type(function).__call__, function, args)
            self.objects.append((function, name or type(function).__name__))

    def function(self, function: Any, owner: Any, args: tuple[Any, ...] = ()) -> None:
        key = id(function), id(owner)
        if (
            key in self.functions
            or is_own(function.__module__)
            or (len(self.places) > _MOST or len(self.functions) > _MOST_FUNCTIONS)
        ):
            return
        self.functions.add(key)
        self.codes.update(codes_in(function.__code__))
        self._keep.extend((function, owner))
        cells = Cells(dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)))
        self._keep.append(cells)
        given = args if owner is None else (owner, *args)
        named = dict(zip(function.__code__.co_varnames[: function.__code__.co_argcount], given, strict=False))
        paths = paths_in(function.__code__)
        self.names.update(attributes_in(function.__code__))
        self.assigned.update(assigned_in(function.__code__))
        self.asked.update(asked_in(function.__code__))
        self.names.update(self.asked)
        self.asks_names |= "__dict__" in self.names
        for path in paths:
            self.path(path, function, cells, named)
        for scope, (*names, attribute) in stores_in(function.__code__):
            around = {Scope.ARGUMENT: named, Scope.CELL: cells, Scope.GLOBAL: function.__globals__}[scope]
            self.store(self.found(names, around), attribute)
        for name in global_stores_in(function.__code__):
            self.watch(function.__globals__, name, name)
        wrapped = getattr(function, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType) and is_own(function.__globals__.get("__name__")):
            self.function(wrapped, owner, args)  # which a wrapper of ours calls with its own arguments
        for i, value in enumerate(function.__defaults__ or ()):
            self.place(Defaults(function), i, value, f"default argument {i} of {function.__name__}")
        for key, value in (function.__kwdefaults__ or {}).items():
            self.place(function.__kwdefaults__, key, value, f"default argument {key} of {function.__name__}")

    def path(self, path: Path, function: types.FunctionType, cells: Cells, named: dict[str, Any]) -> None:
        """Follow a dotted name from the code as far as it leads through plain attributes."""
        scope, (root, *attributes) = path
        if scope is Scope.ARGUMENT:
            value = named.get(root)
            if isinstance(value, (*PLAIN, Tensor, list, tuple, dict)) or dataclasses.is_dataclass(value):
                return  # the call's own business
        elif scope is Scope.CELL:
            value = self._contents(cells, root)
            if value is MISSING:
                return
            self.place(cells, root, value, root, bool(attributes) or is_plain_object(value))
        elif is_own(function.__globals__.get("__name__")):
            return  # a wrapper that has the name of what it wraps: the wrapped function is in a cell
        elif root in function.__globals__:
            value = function.__globals__[root]
            self.place(function.__globals__, root, value, root, bool(attributes) or is_plain_object(value))
        else:
            self.asks_types |= root == "type"
            self.asks_names |= root in ("getattr", "vars")
            return
        name = root
        for attribute in attributes:
            name = f"{name}.{attribute}"
            own = getattr(value, "__dict__", None)
            if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] in LIBRARIES:
                return
            tables = [value.__dict__[t] for t in TABLES] if is_module(value) else []
            table = next((t for t in tables if attribute in t), None)
            if table is not None:
                value = table[attribute]
            elif attribute in slots_of(value):
                slots = Slots(value)
                value = slots.get(attribute)
                if value is MISSING:
                    return
                self._keep.append(slots)
                self.place(slots, attribute, value, name, True)
            elif not isinstance(own, dict) or attribute not in own:
                value = self.inherited(value, attribute, name)
                if value is MISSING:
                    return
            else:
                value = own[attribute]
                self.place(
                    own, attribute, value, name, attribute is not attributes[-1] or is_plain_object(value)
                )
        if attributes or root not in named:
            self.objects.append((value, name))

    def inherited(self, owner: Any, attribute: str, name: str) -> Any:
        """Look at an attribute that a class has; the value, if it is more than a method."""
        kind = owner if isinstance(owner, type) else type(owner)
        if is_own(kind.__module__):
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
            if isinstance(found.__func__, types.FunctionType):
                self.function(found.__func__, kind if isinstance(found, classmethod) else None)
        elif isinstance(found, property | functools.cached_property):
            getter = found.fget if isinstance(found, property) else found.func
            if isinstance(getter, types.FunctionType):
                self.function(getter, owner)
            if isinstance(found, functools.cached_property):
                self.store(owner, attribute)
        elif isinstance(found, (CACHED, type)):
            self.value(found, name)
        elif isinstance(getattr(type(found), "__get__", None), types.FunctionType) and not (
            is_own(type(found).__module__)
        ):
            self.kind(type(found), name)  # a descriptor of the user's
            self.objects.append((found, name))
        elif not callable(found) or is_module(found):
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
        while True:
            known = len(self.names), self.asks_names, len(self.looked_into)
            for place in self.plain:
                if self.asks_names or place[1] in self.names:
                    self.place(*place)
            while self.objects:
                value, name = self.objects.pop()
                if has_attributes(value) and self.first(value):
                    self.looked_into.append((value, name))
            for value, name in list(self.looked_into):
                self.attributes(value, name)
            look_at_modules(self)
            look_at_tensors(self)
            self.objects = [(value, name) for value, name in self.objects if id(value) not in self.seen]
            if known == (len(self.names), self.asks_names, len(self.looked_into)) and not any(
                has_attributes(value) for value, _ in self.objects
            ):
                return

    def attributes(self, value: Any, name: str) -> None:
        """Look at the attributes of an object or a class that the code mentions."""
        if isinstance(value, type):
            for attribute in mentioned(self.names, value):
                self.inherited(value, attribute, f"{name}.{attribute}")
            return
        own = getattr(value, "__dict__", {})
        for attribute in sorted(own.keys() if self.asks_names else self.names & own.keys()):
            self.place(own, attribute, own[attribute], f"{name}.{attribute}", True)
            self.objects.append((own[attribute], f"{name}.{attribute}"))
        if isinstance(own, dict):
            absent = frozenset(n for n in self.asked if n not in own and not hasattr(type(value), n))
            self.missing(own, absent, name)
            if is_plain_object(value):
                for attribute in self.assigned:
                    self.store(value, attribute)
        slots = None
        for attribute in slots_of(value):
            if attribute in self.names or self.asks_names:
                slots = slots or Slots(value)
                found = slots.get(attribute)
                if found is not MISSING and (id(value), attribute) not in self.recorded:
                    self.recorded.add((id(value), attribute))
                    self._keep.append(slots)
                    self.place(slots, attribute, found, f"{name}.{attribute}", True)
                    self.objects.append((found, f"{name}.{attribute}"))
        kind = type(value)
        if not is_own(kind.__module__):
            for attribute in mentioned(self.names, kind):
                made = attribute in _MAKERS and attribute not in self.names and not self.asks_types
                if attribute not in own and not made:
                    self.inherited(value, attribute, f"{name}.{attribute}")

    def missing(self, held: Any, names: frozenset[str], name: str) -> None:
        """Guard on the absence of attributes that the code asks for; `held` has those that there are."""
        names = frozenset(n for n in names if (id(held), n) not in self.recorded)
        if names:
            self._keep.append(held)
            self.places.append((Absent(held, names), None, True, f"attributes that {name} does not have"))
            for attribute in names & self.assigned:
                self.watch(held, attribute, f"{name}.{attribute}")
            self.recorded.update((id(held), n) for n in names)

    def kind(self, kind: type, name: str) -> None:
        """A class of the user's is mentioned: its methods may run, and its attributes may be read."""
        if is_users_class(kind):
            self.objects.append((kind, name))

    def methods(self, kind: type) -> None:
        """A class some of whose methods, which nobody mentions, are about to run."""
        for base in kind.__mro__:
            if not is_own(base.__module__):
                for found in list(vars(base).values()):
                    function = found.__func__ if isinstance(found, classmethod | staticmethod) else found
                    if isinstance(function, types.FunctionType):
                        self.function(function, None)

    def found(self, path: Sequence[str], around: Any) -> Any:
        """What a dotted name leads to through plain attributes, or MISSING."""
        root, *attributes = path
        try:
            value = around[root]
        except KeyError:
            return MISSING
        for attribute in attributes:
            own = getattr(value, "__dict__", None)
            tables = [own, *(value.__dict__[t] for t in TABLES)] if is_module(value) else [own]
            value = next((t[attribute] for t in tables if isinstance(t, dict) and attribute in t), MISSING)
        return value

    def store(self, owner: Any, attribute: str) -> None:
        """The code sets an attribute of `owner`."""
        own = getattr(owner, "__dict__", None)
        if (
            isinstance(own, dict)
            and not isinstance(owner, (Tensor, types.ModuleType))
            and not (dataclasses.is_dataclass(owner))
        ):
            self.watch(own, attribute, f"{type(owner).__name__}.{attribute}")

    def counters(self) -> list[tuple[dict[str, Any], str]]:
        """Where numbers are that the code may assign to."""
        found = {
            (id(container), key): (container, key)
            for container, key, value, _ in (*self.places, *self.stored)
            if type(container) is dict and type(value) in (int, float) and key in self.assigned
        }
        return list(found.values())

    def watch(self, container: Any, key: Any, name: str) -> None:
        location = id(container), key
        if location not in self.recorded and location not in self.watched:
            self.watched.add(location)
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
        if isinstance(value, types.ModuleType) or len(self.places) > _MOST or is_watched(container, key):
            return
        if (id(container), key) not in self.recorded:
            self.recorded.add((id(container), key))
            self._keep.append(container)
            seen = (*PLAIN, Tensor, *_SEQUENCES, dict, set)
            if isinstance(value, seen) or is_module(value) or callable(value) or followed:
                self.places.append((container, key, value, name))
        if isinstance(value, Tensor):
            self.tensors.setdefault(id(value), (value, name, set()))
        self.value(value, name)

    def value(self, value: Any, name: str) -> None:
        if isinstance(value, (*PLAIN, Tensor)):
            return
        if isinstance(value, (*_SEQUENCES, dict)):
            if not self.first(value):
                return
            if len(value) > _LONGEST or isinstance(type(value).__getitem__, types.FunctionType):
                items = Items(value)
                self.places.append((items, None, items[None], f"what is in {name}"))
                return
            if not isinstance(value, tuple):
                self.places.append((Length(value), None, len(value), f"the length of {name}"))
            for key, item in list(value.items()) if isinstance(value, dict) else enumerate(value):
                followed = is_plain_object(item) or bool(slots_of(item))
                self.place(value, key, item, f"{name}[{key!r}]", followed)
                if followed:
                    self.objects.append((item, f"{name}[{key!r}]"))
        elif isinstance(value, set):
            if self.first(value):
                self.places.append((Elements(value), None, frozenset(value), name))
        elif is_module(value):
            self.module(value, name)
        elif isinstance(value, types.FunctionType | types.MethodType | functools.partial):
            self.callable(value, name)
        elif isinstance(value, CACHED) and self.first(value):
            self.caches.append(value)
            self.callable(value.__wrapped__, name)
        elif isinstance(value, type):
            self.kind(value, name)
        elif isinstance(value, types.BuiltinFunctionType):
            self.builtin(value, name)
        elif isinstance(
            value, np.ndarray | np.random.Generator | np.random.RandomState | random.Random | os._Environ
        ):
            if self.first(value):
                state = State(value)
                self.places.append((state, None, state[None], name))
        elif isinstance(value, collections.abc.Iterator):
            self.refuse(f"it may advance {name}, an iterator: what that gives is not known before each call")
        elif is_callable_object(value):
            self.callable(value, name)

    def builtin(self, function: Any, name: str) -> None:
        if function in CLOCKS.values():
            self.refuse(f"it reads a clock, {name}")
        owner = getattr(function, "__self__", None)
        if isinstance(owner, random.Random | np.random.RandomState | list | dict | collections.deque):
            self.value(owner, name)
        elif (
            isinstance(owner, type)
            and owner.__module__ == "datetime"
            and (function.__name__ in ("now", "today", "utcnow"))
        ):
            self.refuse(f"it reads a clock, {name}")

    def refuse(self, reason: str) -> None:
        self.refusal = self.refusal or reason

    def hooks(self, table: Any, name: str) -> None:
        """Guard on the hooks of a table, and on what these read."""
        if table:
            self.places.append((AllValues(table, list(table.values())), None, True, name))
            for hook in table.values():
                self.callable(hook, name)
        else:
            self.places.append((Length(table), None, 0, f"the number of {name}"))

    def module(self, module: Any, name: str) -> None:
        if self.first(module):
            look_at_module(self, module, name)

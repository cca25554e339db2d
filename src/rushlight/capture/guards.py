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
  of them there are, its hooks and what these read, its other plain attributes by value;
- of classes that are named and of objects' classes: what their methods read.

Code that nothing named leads to (a hook of a tensor, what a table of functions has by a computed name) is
added when it is about to run, or found to run, while the program is captured (`Surroundings.include`).
What cannot be guarded (an iterator, a clock) is said in `refusal`: the program has no graph.

The same places tell what of Python's the program changed while it was captured (capture/effects.py).

Code of this package is not looked into: what it reads is covered by the modes of the call.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import os
import random
import sys
import time
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.pytree import flatten
from ..core.tensor import Tensor
from .locations import (
    MISSING,
    PLAIN,
    Attributes,
    Cells,
    Defaults,
    Elements,
    Environment,
    Items,
    Length,
    Place,
    Slots,
    State,
    Values,
)
from .mentions import assigned_in, attributes_in, codes_in, global_stores_in, may_write, paths_in, stores_in

_PACKAGE = __name__.partition(".")[0]
_MOST = 50_000  # guards of one function; a program that reaches more is taken as it is beyond that
_MOST_FUNCTIONS = 5000  # likewise
_LONGEST = 2000  # a longer container is one guard
_TABLES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_SEQUENCES = (list, tuple, collections.deque)
_CLOCKS = frozenset(
    f
    for f in vars(time).values()
    if isinstance(f, types.BuiltinFunctionType)
    and (
        "time" in f.__name__ or f.__name__ in ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
    )
)
_everywhere: list[tuple[dict[Any, Any], str]] = []


def watch_table(table: dict[Any, Any], name: str) -> None:
    """Every program guards on these hooks, which concern all modules or all optimizers."""
    _everywhere.append((table, name))


def environment_of(function: Any, args: Any = (), more: Sequence[Any] = ()) -> Surroundings:
    """What `function` may read besides its arguments, as it is now; and `more` functions, which it calls."""
    collector = _Collector()
    collector.callable(function, "", args[0] if args else ())
    for known in more:
        collector.callable(known, "")
    for leaf in flatten(args, records=True)[0]:
        if _is_module(leaf):
            collector.module(leaf, type(leaf).__name__)
        elif isinstance(leaf, types.FunctionType | types.MethodType | functools.partial):
            collector.callable(leaf, "")
        elif isinstance(leaf, np.ndarray):
            collector.value(leaf, "an array among the arguments")
        elif _has_attributes(leaf):
            collector.objects.append((leaf, type(leaf).__name__))
    for table, name in _everywhere:
        collector.hooks(table, name)
    for generator, name in ((random._inst, "Python"), (np.random.mtrand._rand, "NumPy")):
        state = State(generator)
        collector.stored.append((state, None, state[None], f"the state of {name}'s random numbers"))
    collector.finish()
    return Surroundings(collector)


class Surroundings(Environment):
    """An environment that grows while a program is captured."""

    def __init__(self, collector: _Collector) -> None:
        super().__init__(collector.places, collector.stored)
        self._collector = collector
        self.unforeseen: list[Any] = []  # functions that ran before it was known what they read
        self.counters = [] if collector.asks_types else collector.counters()
        self._update()

    def _update(self) -> None:
        collector = self._collector
        self.unfinished, self.asks_types = collector.unfinished, collector.asks_types
        self.refusal = collector.refusal
        known = {id(cache) for cache, _ in self.caches}
        self.caches = [
            *self.caches,
            *((cache, cache.cache_info().misses) for cache in collector.caches if id(cache) not in known),
        ]

    def include(self, function: Any) -> str | None:
        """A function, method or module that is about to run; why it may not, if it reads what cannot be
        guarded."""
        collector = self._collector
        before = collector.refusal
        if isinstance(function, type):
            collector.kind(function, function.__name__)
            collector.methods(function)
        else:
            collector.callable(function, getattr(function, "__name__", type(function).__name__))
        collector.finish()
        self._update()
        return collector.refusal if before is None else None

    def knows(self, code: types.CodeType) -> bool:
        return code in self._collector.codes

    def meet(self, frame: types.FrameType) -> str | None:
        """Code that runs already, and that nothing led to; why it may not, if there is a reason."""
        code = frame.f_code
        if _is_own(frame.f_globals.get("__name__")):
            self._collector.codes.add(code)
            return None
        functions = [
            f
            for f in gc.get_referrers(code)
            if isinstance(f, types.FunctionType) and f.__code__ is code and f.__globals__ is frame.f_globals
        ]
        self._collector.codes.update(codes_in(code))
        found = None
        for function in functions:
            found = self.include(function) or found
        if found is None and may_write(code):
            self.unforeseen.extend(functions)
            found = f"{code.co_name}, which it calls, was not known to belong to it, and may change something"
        return found


class _Collector:
    def __init__(self) -> None:
        self.places: list[Place] = []
        self.stored: list[Place] = []
        self.unfinished = self.asks_types = False
        self.refusal: str | None = None
        self.codes: set[types.CodeType] = set()  # that the program may run
        self.caches: list[Any] = []
        self.assigned: set[str] = set()  # names of attributes and globals that the code assigns to
        self.names: set[str] = set()  # of attributes that the code mentions
        self.objects: list[tuple[Any, str]] = []  # whose attributes it may mention by other names
        self.looked_into: list[tuple[Any, str]] = []  # those that were found, as far as names were known
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
            self._keep.append(function)
        elif isinstance(function, types.MethodType):
            self.function(function.__func__, function.__self__, args)
            self.value(function.__self__, name or "self")
        elif isinstance(function, types.FunctionType):
            self.function(function, None, args)
        elif _is_module(function):
            self.module(function, name or type(function).__name__)
        elif isinstance(function, type):
            self.kind(function, name)
        elif isinstance(function, _CACHED):
            self.value(function, name)
        elif isinstance(getattr(type(function), "__call__", None), types.FunctionType):  # noqa: B004
            self.function(type(function).__call__, function, args)
            self.objects.append((function, name or type(function).__name__))

    def function(self, function: Any, owner: Any, args: tuple[Any, ...] = ()) -> None:
        key = id(function), id(owner)
        if (
            key in self.functions
            or _is_own(function.__module__)
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

    def path(
        self, path: tuple[str, ...], function: types.FunctionType, cells: Cells, named: dict[str, Any]
    ) -> None:
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
            if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] in _LIBRARIES:
                return
            tables = [value.__dict__[t] for t in _TABLES] if _is_module(value) else []
            table = next((t for t in tables if attribute in t), None)
            if table is not None:
                value = table[attribute]
            elif attribute in _slots_of(value):
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
                    own, attribute, value, name, attribute is not attributes[-1] or _is_plain_object(value)
                )
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
            if isinstance(found.__func__, types.FunctionType):
                self.function(found.__func__, kind if isinstance(found, classmethod) else None)
        elif isinstance(found, property | functools.cached_property):
            getter = found.fget if isinstance(found, property) else found.func
            if isinstance(getter, types.FunctionType):
                self.function(getter, owner)
            if isinstance(found, functools.cached_property):
                self.store(owner, attribute)
        elif isinstance(found, (_CACHED, type)):
            self.value(found, name)
        elif isinstance(getattr(type(found), "__get__", None), types.FunctionType) and not (
            _is_own(type(found).__module__)
        ):
            self.kind(type(found), name)  # a descriptor of the user's
            self.objects.append((found, name))
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
        while True:
            known = len(self.names), self.asks_names, len(self.looked_into)
            for place in self.plain:
                if self.asks_names or place[1] in self.names:
                    self.place(*place)
            while self.objects:
                value, name = self.objects.pop()
                if _has_attributes(value) and self.first(value):
                    self.looked_into.append((value, name))
            for value, name in list(self.looked_into):
                self.attributes(value, name)
            self.objects = [(value, name) for value, name in self.objects if id(value) not in self.seen]
            if known == (len(self.names), self.asks_names, len(self.looked_into)) and not any(
                _has_attributes(value) for value, _ in self.objects
            ):
                return

    def attributes(self, value: Any, name: str) -> None:
        """Look at the attributes of an object or a class that the code mentions."""
        if isinstance(value, type):
            for attribute in _mentioned(self.names, value):
                self.inherited(value, attribute, f"{name}.{attribute}")
            return
        own = getattr(value, "__dict__", {})
        for attribute in sorted(own.keys() if self.asks_names else self.names & own.keys()):
            self.place(own, attribute, own[attribute], f"{name}.{attribute}", True)
            self.objects.append((own[attribute], f"{name}.{attribute}"))
        slots = None
        for attribute in _slots_of(value):
            if attribute in self.names or self.asks_names:
                slots = slots or Slots(value)
                found = slots.get(attribute)
                if found is not MISSING and (id(value), attribute) not in self.recorded:
                    self.recorded.add((id(value), attribute))
                    self._keep.append(slots)
                    self.place(slots, attribute, found, f"{name}.{attribute}", True)
                    self.objects.append((found, f"{name}.{attribute}"))
        kind = type(value)
        if not _is_own(kind.__module__):
            for attribute in _mentioned(self.names, kind):
                made = attribute in _MAKERS and attribute not in self.names and not self.asks_types
                if attribute not in own and not made:
                    self.inherited(value, attribute, f"{name}.{attribute}")

    def kind(self, kind: type, name: str) -> None:
        """A class of the user's is mentioned: its methods may run, and its attributes may be read."""
        if _is_users_class(kind):
            self.objects.append((kind, name))

    def methods(self, kind: type) -> None:
        """A class some of whose methods, which nobody mentions, are about to run."""
        for base in kind.__mro__:
            if not _is_own(base.__module__):
                for found in list(vars(base).values()):
                    function = found.__func__ if isinstance(found, classmethod | staticmethod) else found
                    if isinstance(function, types.FunctionType):
                        self.function(function, None)

    def found(
        self, path: Sequence[str], function: types.FunctionType, cells: Cells, named: dict[str, Any]
    ) -> Any:
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
            seen = (*PLAIN, Tensor, *_SEQUENCES, dict, set)
            if isinstance(value, seen) or _is_module(value) or callable(value) or followed:
                self.places.append((container, key, value, name))
        self.value(value, name)

    def value(self, value: Any, name: str) -> None:
        if isinstance(value, (*PLAIN, Tensor)):
            return
        if isinstance(value, (*_SEQUENCES, dict)):
            if not self.first(value):
                return
            if len(value) > _LONGEST:
                items = Items(value)
                self.places.append((items, None, items[None], f"what is in {name}"))
                return
            if not isinstance(value, tuple):
                self.places.append((Length(value), None, len(value), f"the length of {name}"))
            for key, item in list(value.items()) if isinstance(value, dict) else enumerate(value):
                followed = _is_plain_object(item) or bool(_slots_of(item))
                self.place(value, key, item, f"{name}[{key!r}]", followed)
                if followed:
                    self.objects.append((item, f"{name}[{key!r}]"))
        elif isinstance(value, set):
            if self.first(value):
                self.places.append((Elements(value), None, frozenset(value), name))
        elif _is_module(value):
            self.module(value, name)
        elif isinstance(value, types.FunctionType | types.MethodType | functools.partial):
            self.callable(value, name)
        elif isinstance(value, _CACHED) and self.first(value):
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
        elif _is_callable_object(value):
            self.callable(value, name)

    def builtin(self, function: Any, name: str) -> None:
        if function in _CLOCKS:
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
            self.places.append((Values(table, list(table.values())), None, True, name))
            for hook in table.values():
                self.callable(hook, name)
        else:
            self.places.append((Length(table), None, 0, f"the number of {name}"))

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
            self.hooks(own[table], f"{name}.{table}")
        for table in _TABLES:
            for key, item in own[table].items():
                self.places.append((own[table], key, item, f"{name}.{key}"))
        for table in _TABLES:
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


def _is_callable_object(value: Any) -> bool:
    """Whether `value` is an object of a class of the user's that can be called."""
    return (
        callable(value)
        and not _is_own(type(value).__module__)
        and not isinstance(value, (type, Tensor, types.FunctionType, types.MethodType))
        and not _is_module(value)
        and isinstance(
            getattr(type(value), "__call__", None),  # noqa: B004
            types.FunctionType,
        )
    )


def _has_attributes(value: Any) -> bool:
    return (
        _is_plain_object(value)
        or _is_callable_object(value)
        or _is_users_class(value)
        or bool(_slots_of(value))
    )


def _is_users_class(value: Any) -> bool:
    return isinstance(value, type) and not _is_own(value.__module__)


def _slots_of(value: Any) -> tuple[str, ...]:
    """The slots of an object of a class of the user's."""
    kind: Any = type(value)
    if isinstance(value, (type, Tensor, *PLAIN)) or _is_own(kind.__module__):
        return ()
    return _slots(kind)


@functools.lru_cache(maxsize=1024)
def _slots(kind: Any) -> tuple[str, ...]:
    found: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        found += [slots] if isinstance(slots, str) else slots
    return tuple(name for name in found if not name.startswith("__"))


_MAKERS = frozenset(
    {"__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"}
)  # of objects


def _mentioned(names: set[str], kind: type) -> list[str]:
    """The attributes of a class that are mentioned, and its special methods, which nobody mentions."""
    found = {
        name
        for base in kind.__mro__
        if not _is_own(base.__module__)
        for name in vars(base)
        if name in names or (name.startswith("__") and isinstance(vars(base)[name], types.FunctionType))
    }
    return sorted(found)


def _is_plain_object(value: Any) -> bool:
    """Whether `value` is an object of the user's: it has attributes, and is no module, class or function."""
    return isinstance(getattr(value, "__dict__", None), dict) and not (
        isinstance(value, (type, Tensor, types.ModuleType))
        or callable(value)
        or str(type(value).__module__).partition(".")[0] in (*_LIBRARIES, "builtins", "math")
    )


_LIBRARIES = frozenset({_PACKAGE, "numpy", "scipy"})
_OWN = _LIBRARIES | (sys.stdlib_module_names - {"test"})  # whose functions are not looked into


def _is_own(module: str | None) -> bool:
    return str(module).partition(".")[0] in _OWN

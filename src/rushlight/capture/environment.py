"""The environment of a program: what it may take from around it.

A program is captured for the Python values it could see. `environment_of(function, args)` collects the ones
that it may read besides its arguments, on which the compiled program guards (compiler/guards.py):
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

import functools
import gc
import random
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.pytree import flatten
from ..core.tensor import Tensor
from .bytecode import codes_in, may_write
from .collector import Collector
from .locations import Environment, State
from .object_kinds import has_attributes, is_module, is_own
from .tensor_attributes import look_at_argument, may_be_set

_everywhere: list[tuple[dict[Any, Any], str]] = []


def watch_table(table: dict[Any, Any], name: str) -> None:
    """Every program guards on these hooks, which concern all modules or all optimizers."""
    _everywhere.append((table, name))


def environment_of(function: Any, args: Any = (), more: Sequence[Any] = ()) -> Surroundings:
    """What `function` may read besides its arguments, as it is now; and `more` functions, which it calls."""
    collector = Collector()
    collector.callable(function, "", args[0] if args else ())
    for known in more:
        collector.callable(known, "")
    for leaf in flatten(args, records=True)[0]:
        if is_module(leaf):
            collector.module(leaf, type(leaf).__name__)
        elif isinstance(leaf, types.FunctionType | types.MethodType | functools.partial):
            collector.callable(leaf, "")
        elif isinstance(leaf, np.ndarray):
            collector.value(leaf, "an array among the arguments")
        elif has_attributes(leaf):
            collector.objects.append((leaf, type(leaf).__name__))
    for table, name in _everywhere:
        collector.hooks(table, name)
    for generator, name in ((random._inst, "Python"), (np.random.mtrand._rand, "NumPy")):
        state = State(generator)
        collector.stored.append((state, None, state[None], f"the state of {name}'s random numbers"))
    collector.finish()
    arguments = [leaf for leaf in flatten(args)[0] if isinstance(leaf, Tensor)]
    return Surroundings(collector, [leaf for leaf in arguments if id(leaf) not in collector.tensors])


class Surroundings(Environment):
    """An environment that grows while a program is captured."""

    def __init__(self, collector: Collector, arguments: Sequence[Tensor]) -> None:
        super().__init__(collector.places, collector.stored)
        self._collector, self._arguments = collector, arguments
        self.unforeseen: list[Any] = []  # functions that ran before it was known what they read
        self.counters = [] if collector.asks_types else collector.counters()
        self._update()

    def _update(self) -> None:
        collector = self._collector
        for tensor in self._arguments:
            look_at_argument(collector, tensor)
        self.absent = may_be_set(collector.asked) if self._arguments else frozenset()
        self.unfinished, self.asks_types = collector.unfinished, collector.asks_types
        self.refusal = collector.refusal
        self.settable = may_be_set(collector.assigned)
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
        if is_own(frame.f_globals.get("__name__")):
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

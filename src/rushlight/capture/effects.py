"""What a program does to Python's objects: containers among its arguments, variables, attributes, lists and
dictionaries that its guards know.

The program runs once, when it is captured, so that what it stores must be stored again by every run. After
the capture, `stores_of` compares what is in these places with what was there. Each difference is a `StoredValue`,
whose value is returned by the captured program like a result; what the capture itself left there is undone.
A tensor that the program both reads and puts another in place of is another one in every call, and is read
from its place again. A program that removes something, or keeps what is neither tensor nor plain value, has
no graph (`StateError`).
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ..core.pytree import flatten
from ..core.tensor import Tensor
from .deferred import DeferredNumber, plain
from .errors import StateError
from .locations import MISSING, PLAIN, Alike, Environment, Length, Place
from .trace import Capture


@dataclass(frozen=True, eq=False)
class StoredValue:
    """A value is put into a container: one that the program knows, or one of its arguments."""

    place: Any  # the container, or a tuple of keys and names that leads to it from (args, kwargs)
    key: Any  # None: it is appended
    of_arguments: bool = False
    old: Tensor | None = None  # what was there, if the program reads it

    def put(self, value: Any, arguments: Any) -> None:
        container = self.place
        if self.of_arguments:
            container = arguments
            for key in self.place:
                container = _inside(container, key)
        if self.key is None:
            container.append(value)
        elif dataclasses.is_dataclass(container) and not isinstance(container, dict):
            object.__setattr__(container, self.key, value)
        else:
            container[self.key] = value


def _inside(container: Any, key: Any) -> Any:
    if dataclasses.is_dataclass(container) and not isinstance(container, dict):
        return getattr(container, key)
    return container[key]


class Contents:
    """What was in the containers among the arguments when the program began."""

    def __init__(self, arguments: Any) -> None:
        self.found: list[tuple[tuple[Any, ...], Any, dict[Any, Any]]] = []
        args, kwargs = arguments
        for place, value in ((0, args), (1, kwargs)):  # these two are no objects of the caller
            for key, item in _items(value).items():
                self._look(item, (place, key))

    def _look(self, value: Any, path: tuple[Any, ...]) -> None:
        if isinstance(value, list | dict | tuple) or (
            dataclasses.is_dataclass(value) and not isinstance(value, type)
        ):
            items = _items(value)
            if not isinstance(value, tuple):
                self.found.append((path, value, items))
            for key, item in items.items():
                self._look(item, (*path, key))

    def stores(self) -> Iterator[tuple[StoredValue, Any]]:
        for path, container, before in self.found:
            now = _items(container)
            if any(key not in now for key in before):
                raise StateError("it removes something from a container among its arguments")
            for key, value in now.items():
                if key not in before and isinstance(container, list):
                    yield StoredValue(path, None, True), value
                elif key not in before or value is not before[key]:
                    yield StoredValue(path, key, True), value

    def give_back(self, arguments: Any) -> None:
        """Do the same to the caller's containers, of which the program had copies."""
        for path, container, before in self.found:
            now = _items(container)
            theirs = arguments
            for key in path:
                theirs = _inside(theirs, key)
            if isinstance(theirs, list) and len(now) < len(before):
                del theirs[len(now) :]
            elif isinstance(theirs, dict):
                for key in before.keys() - now.keys():
                    del theirs[key]
            for key, value in now.items():
                if key not in before or value is not before[key]:
                    new = key not in before and isinstance(container, list)
                    StoredValue(path, None if new else key, True).put(plain(value), arguments)


def _items(container: Any) -> dict[Any, Any]:
    if isinstance(container, dict):
        return dict(container)
    if isinstance(container, list | tuple):
        return dict(enumerate(container))
    return {
        f.name: getattr(container, f.name)
        for f in dataclasses.fields(container)
        if hasattr(container, f.name)
    }


def stores_of(
    capture: Capture, changed: list[tuple[Place, Any]], contents: Contents, returned: Any
) -> list[tuple[StoredValue, Any]]:
    """What the program, which returned `returned` and has `changed` its environment, stored and where."""
    stores = list(contents.stores())
    counted = {(id(container), key) for container, key, _, _ in capture.numbers.counters}
    for (container, key, old, name), new in changed:
        if (id(container), key) in counted:
            continue
        if type(container) is Length:
            stores += _added(container, old, name)
        elif new is MISSING or not hasattr(container, "__setitem__"):
            raise StateError(f"it changes {name}")
        else:
            read = isinstance(old, Tensor) and id(old) in capture.lifted
            stores.append((StoredValue(container, key, old=old if read else None), new))
    for container, key, new in chain(capture.numbers.state_changes(), capture.numbers.counted()):
        if new is MISSING:
            raise StateError(f"it removes {key!r}")
        stores.append((StoredValue(container, key), new))
    results = flatten((returned, [value for _, value in stores]), records=True)[0]
    for store, _ in stores:
        if store.old is not None and not _may_change(capture, store.old, results):
            raise StateError(
                "it puts another tensor in the place of one that it reads, and writes to, "
                "returns or differentiates by; write the new values to that one (copy_)"
            )
    for _, value in stores:
        for leaf in flatten(value, records=True)[0]:
            if type(leaf) is DeferredNumber or not isinstance(leaf, (*PLAIN, Tensor)):
                raise StateError(
                    f"it keeps something of type {type(leaf).__name__} elsewhere than in what it returns"
                )
    return stores


def _may_change(capture: Capture, tensor: Tensor, results: list[Any]) -> bool:
    """Whether a program that reads `tensor` can read another in its place: nothing else depends on which."""
    state = capture.states[id(capture.abstract(tensor).storage_object)]
    others = [
        e
        for e in capture.lifted.values()
        if e.tensor._storage is not None and e.tensor._storage is tensor._storage and e.tensor is not tensor
    ]
    shown = any(
        isinstance(t, Tensor)
        and (t is tensor or (t._trace is capture and capture.states.get(id(t.storage_object)) is state))
        for t in results
    )
    return not (tensor.requires_grad or state.writes or others or shown or id(tensor) in capture.arguments)


def _added(length: Length, old: int, name: str) -> Iterator[tuple[StoredValue, Any]]:
    """What is new in a container that has another length now."""
    container = length.of
    if not isinstance(container, dict):
        if len(container) < old:
            raise StateError(f"it removes something: {name}")
        for value in list(container)[old:]:
            yield StoredValue(container, None), value
        return
    if any(key not in container for key in length.keys):
        raise StateError(f"it removes something: {name}")
    for key in container:
        if key not in length.keys:
            yield StoredValue(container, key), container[key]


def undo(environment: Environment) -> None:
    """Make what the program changed in these places as it was."""
    for cache, misses in environment.caches:
        if cache.cache_info().misses != misses:
            cache.cache_clear()  # of tensors that have no data
    for (container, key, old, _), new in list(environment.changed()):
        if type(container) is not Length:
            if old is MISSING:
                container.pop(key, None)
            elif hasattr(container, "__setitem__"):
                if new is MISSING and isinstance(container, list):
                    container.insert(key, old)
                elif type(old) is not Alike:
                    container[key] = old
        elif not isinstance(container.of, dict):
            while len(container.of) > old:
                container.of.pop()
        else:
            for name in [name for name in container.of if name not in container.keys]:
                del container.of[name]


class Changes:
    """What the program has `changed` so far in the places of its environment."""

    def __init__(self, environment: Environment, changed: list[tuple[Place, Any]]) -> None:
        self.environment = environment
        self.places = {(id(place[0]), place[1]): (place, new) for place, new in changed}
        self.contents = [
            (place[0].of, _contents(place[0].of), place[3])
            for place in environment.places
            if type(place[0]) is Length
        ]

    def undo_later(self) -> str | None:
        """Undo what was changed since; the name of one such place."""
        found = None
        for container, before, name in self.contents:
            now = _contents(container)
            if len(now) != len(before) or any(map(operator.is_not, now, before)):
                _refill(container, before)
                found = found or name
        later = {(id(place[0]), place[1]): (place, new) for place, new in self.environment.changed()}
        for which, (place, new) in later.items():
            container, key, old, name = place
            value: Any = self.places[which][1] if which in self.places else old
            if type(container) is Length or new is value or (type(new) is int and new == value):
                continue
            found = found or name
            _restore(container, key, value)
        for which, (place, value) in self.places.items():
            if which not in later and type(place[0]) is not Length:  # it is again what it was before
                found = found or place[3]
                _restore(place[0], place[1], value)
        return found


def _restore(container: Any, key: Any, value: Any) -> None:
    if hasattr(container, "__setitem__") and type(value) is not Alike:
        if value is not MISSING:
            container[key] = value
        else:
            container.pop(key, None)


def _contents(container: Any) -> list[Any]:
    """What is in a container; of a dictionary keys and values in turn."""
    return list(chain.from_iterable(container.items()) if isinstance(container, dict) else container)


def _refill(container: Any, contents: list[Any]) -> None:
    container.clear()
    if isinstance(container, dict):
        container.update(zip(contents[::2], contents[1::2], strict=True))
    else:
        container.extend(contents)


def settled(environment: Environment, stores: list[StoredValue]) -> Environment:
    """The guards of a program with these stores: a tensor that it puts another in place of without reading it
    must be there, but need not be the same one.
    """
    replaced = {(id(store.place), store.key) for store in stores if not store.of_arguments}

    def place(container: Any, key: Any, value: Any, name: str) -> Place:
        alike = isinstance(value, Tensor) and (id(container), key) in replaced
        return container, key, Alike(value) if alike else value, name

    return Environment([place(*known) for known in environment.places])

"""Places of Python's, and what they held when a program was captured.

A place is a container and a key: a dictionary and a name, a list and a number, or one of the containers here,
which stand for variables of enclosing functions, attributes that a class has, or how much is in something.
"""

from __future__ import annotations

import operator
import types
from array import array
from collections.abc import Collection, Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from ..core.lazy import LazyModule
from ..core.tensor import Tensor

random = LazyModule("random")

PLAIN = (int, float, bool, str, complex, bytes, type(None))
MISSING = object()

Place = tuple[Any, Any, Any, str]  # container, key, value, name


class Environment:
    """Places and what they held; `stored` are those that the program may write to but does not read."""

    unfinished = False  # whether a module has yet to make its parameters
    asks_types = False  # whether the code may ask for the type of a number
    refusal: str | None = None  # why the program can have no graph: it reads what cannot be guarded
    unforeseen: Sequence[Any] = ()  # functions of which it was found too late that the program calls them
    counters: Sequence[tuple[dict[str, Any], str]] = ()  # where numbers are that the program assigns to
    settable: frozenset[str] = frozenset()  # names of attributes that the program may give to tensors
    all_gradients = False  # whether gradients of its results must be those of eager calls, inner ones, too
    absent: frozenset[str] = frozenset()  # names that it asks for, of which no argument has an attribute
    caches: Sequence[tuple[Any, int]] = ()  # functions with a cache, and how often they computed a value

    def __init__(self, places: list[Place], stored: Sequence[Place] = ()) -> None:
        self.places, self.stored = places, stored

    def include(self, function: Any) -> str | None:
        """A function of the user's is about to run; why it may not, if there is a reason."""
        return None

    def knows(self, code: types.CodeType) -> bool:
        return True

    def meet(self, frame: types.FrameType) -> str | None:
        return None

    def without_numbers_of(self, containers: list[Any], counters: Collection[tuple[int, Any]]) -> Environment:
        """Without the guards on numbers in `containers` and at `counters`, which are live."""
        if not containers and not counters:
            return self
        live = {id(container) for container in containers}
        return Environment(
            [
                place
                for place in self.places
                if not (id(place[0]) in live or (id(place[0]), place[1]) in counters)
                or type(place[2]) not in (int, float)
            ]
        )

    def changed(self) -> Iterator[tuple[Place, Any]]:
        """Places that hold something else now, and what; MISSING if nothing."""
        read = {(id(place[0]), place[1]) for place in self.places}
        written = [place for place in self.stored if (id(place[0]), place[1]) not in read]
        for place in (*self.places, *written):
            container, key, value, _ = place
            if type(container) is Absent:
                continue  # what is added is seen by its name
            try:
                found = container[key]
            except (KeyError, IndexError):
                found = MISSING
            if found is not value and not equal(found, value):
                yield place, found


NOTHING_KNOWN = Environment([])


def equal(found: Any, value: Any) -> bool:
    """Whether what is at a location, another object than `value`, is as good as that: equal and of its type."""
    kind = type(value)
    if kind is Alike:
        return bool(value.fits(found))
    if type(found) is not kind:
        return False
    if kind in (int, str, bytes, bool, frozenset):
        return bool(found == value)
    if kind is Snapshot:
        return _same(found.of, value.of)
    if kind in (float, complex):
        return repr(found) == repr(value)
    return False


class Snapshot:
    """A copy of what something held."""

    def __init__(self, of: Any) -> None:
        self.of = of


def _same(found: Any, value: Any) -> bool:
    """Whether two copies hold the same things."""
    if type(found) is not type(value) or not isinstance(value, list | tuple):
        return found is value or equal(found, value)
    return len(found) == len(value) and all(a is b or _same(a, b) for a, b in zip(found, value, strict=True))


class Cells:
    """The variables of enclosing functions as a container."""

    def __init__(self, cells: dict[str, Any]) -> None:
        self.cells = cells

    def __getitem__(self, name: str) -> Any:
        try:
            return self.cells[name].cell_contents
        except ValueError:
            raise KeyError(name) from None

    def __setitem__(self, name: str, value: Any) -> None:
        self.cells[name].cell_contents = value


class Length:
    """How much is in a container, as a container."""

    def __init__(self, of: Any) -> None:
        self.of = of
        self.keys = frozenset(of) if isinstance(of, dict) else frozenset()

    def __getitem__(self, key: Any) -> int:
        return len(self.of)


class AllValues:
    """Whether a dictionary holds, in its order, what it did, as a container."""

    def __init__(self, of: dict[Any, Any], known: list[Any]) -> None:
        self.of, self.known = of, known  # of what is there, None for what may be another

    def __getitem__(self, key: Any) -> bool:
        found, known = self.of.values(), self.known
        return len(found) == len(known) and (
            all(map(operator.is_, found, known))
            or all(b is None or a is b for a, b in zip(found, known, strict=True))
        )


class Alike:
    """Stands for every tensor that looks like this one."""

    def __init__(self, tensor: Tensor) -> None:
        self.looks = self._looks(tensor)

    @staticmethod
    def _looks(tensor: Tensor) -> Any:
        return type(tensor), tensor.shape, tensor.dtype, tensor.layout, tensor.requires_grad

    def fits(self, found: Any) -> bool:
        return isinstance(found, Tensor) and self._looks(found) == self.looks


class OfArgument:
    """The attributes that a program gives to a tensor among its arguments, as a container. It cannot put any
    there: the next call has another one.

    (`__dict__` would make a dictionary, after which all attributes of the tensor take longer to read.)
    """

    def __init__(self, of: Tensor) -> None:
        self.of = of

    def get(self, name: str, default: Any) -> Any:
        return getattr(self.of, name, default)

    def __getitem__(self, name: str) -> Any:
        found = self.get(name, MISSING)
        if found is MISSING:
            raise KeyError(name)
        return found

    def pop(self, name: str, default: Any) -> Any:
        return self.of.__dict__.pop(name, default)


class OfTensor(OfArgument):
    """Those that it gives to a tensor from around it."""

    def __setitem__(self, name: str, value: Any) -> None:
        object.__setattr__(self.of, name, value)


class Absent:
    """Whether something has none of certain attributes, as a container."""

    def __init__(self, of: dict[str, Any] | OfArgument, names: frozenset[str]) -> None:
        self.of, self.names = of, names

    def __getitem__(self, key: Any) -> bool:
        if isinstance(self.of, dict):
            return self.of.keys().isdisjoint(self.names)
        found = map(getattr, repeat(self.of.of), self.names, repeat(MISSING))
        return all(map(operator.is_, found, repeat(MISSING)))


class Elements:
    """What is in a set, as a container."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __getitem__(self, key: Any) -> frozenset[Any]:
        return frozenset(self.of)


class Items:
    """What is in a long container, or in one that makes what it gives, as a container."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __getitem__(self, key: Any) -> Snapshot:
        return Snapshot(list(dict.items(self.of) if isinstance(self.of, dict) else self.of))


class State:
    """The contents of an array, the state of a random generator or the environment, as a container."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __getitem__(self, key: Any) -> Any:
        of = self.of
        if isinstance(of, np.ndarray):
            return Snapshot((of.shape, of.dtype.str, of.tolist() if of.dtype.hasobject else of.tobytes()))
        if isinstance(of, np.random.Generator):
            return repr(of.bit_generator.state)
        if isinstance(of, np.random.RandomState):
            state = of.get_state(legacy=False)
            held, next_normal = state["state"], (state["has_gauss"], state["gauss"])
            words = (held["key"].tobytes(), held["pos"]) if "pos" in held else (repr(held),)
            return Snapshot((*words, *next_normal))
        if isinstance(of, random.Random):
            return _generator_state(of)
        return Snapshot(list(of.items()))


def _generator_state(of: Any) -> Any:
    """The state of Python's generator, its 625 words as bytes: comparing them one by one took milliseconds."""
    state = of.getstate()
    if type(of).getstate is not random.Random.getstate:
        return Snapshot(state)
    version, words, next_normal = state
    return Snapshot((version, array("Q", words).tobytes(), next_normal))


class Slots:
    """The slots of an object, as a container."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def get(self, name: str) -> Any:
        return getattr(self.of, name, MISSING)

    def __getitem__(self, name: str) -> Any:
        found = self.get(name)
        if found is MISSING:
            raise KeyError(name)
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        object.__setattr__(self.of, name, value)


class Attributes:
    """The attributes of an object that are plain values, its own or of its class, as a container."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __getitem__(self, name: str) -> Any:
        own = getattr(self.of, "__dict__", {})
        if name in own and not isinstance(self.of, type):
            return own[name]
        for kind in (self.of if isinstance(self.of, type) else type(self.of)).__mro__:
            if name in kind.__dict__:
                return kind.__dict__[name]
        raise KeyError(name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self.of, name, value)


class Defaults:
    """The default arguments of a function as a container."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __getitem__(self, i: int) -> Any:
        return (self.function.__defaults__ or ())[i]

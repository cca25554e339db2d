"""Guards: what must hold for a specialization to serve a call, as one list of data.

A `Guard` says of what (`ref`), in which respect (`aspect`) and what is expected. Three interpreters read the
list of a specialization:

    difference(guards, call)     in words: "argument 0: shape was (3, 4), is (5, 4)"
    GuardCheck(guards)           in Python: the guards sorted by kind, each kind checked as a whole
    native_guards(guards)        as the table that the native callable of a program looks at (runtime/invoke.py)

The guards on the arguments and the modes come first. They are what the key of a call says
(compiler/call_key.py), so that looking a specialization up by its key has checked them already, and
`GuardCheck` checks the others. The native callable checks those on tensors where it takes their addresses, and
the modes; what can change elsewhere (the default dtype, hooks of tensors) makes every compiled function forget
its native callable.
"""

from __future__ import annotations

import operator
import types
import weakref
from collections.abc import Sequence
from enum import Enum
from sys import getrefcount
from typing import Any, NamedTuple

from ..autograd import hooks
from ..capture.live_inputs import LiveInputs
from ..capture.locations import MISSING, PLAIN, Alike, AllValues, Cells, Length, Place, Snapshot, equal
from ..capture.references import (
    LAYOUT,
    Argument,
    At,
    Captured,
    GradOf,
    TensorRef,
    layout_difference,
    layout_of,
)
from ..codegen.llvm.native_call import LocationKind
from ..core.tensor import Tensor
from ..runtime.invoke import LocationGuards
from .call_key import CallKey, sharing_in_words
from .class_guards import ClassAttributes


class Aspect(Enum):
    """In which respect something is looked at."""

    STRUCTURE = "structure"  # of the arguments: how they are nested
    LAYOUT = "layout"  # of a tensor: as `layout_of` gives it
    TYPE = "type"  # of a number whose value is live
    VALUE = "value"  # type and value
    IDENTITY = "identity"  # the very object
    KIND = "kind"  # any tensor that looks like it (`Alike`)
    LENGTH = "length"  # of a container
    ATTRIBUTES = "attributes"  # of the arguments: names of which no tensor among them has an attribute
    PRESENCE = "presence"  # whether a gradient is there
    HOOKS = "hooks"  # of a tensor, the very objects
    SHARING = "sharing"  # of the arguments: which of them share memory, and how
    SHARING_CAPTURED = "sharing with captured tensors"  # which arguments share memory with which of these


class Arguments:
    """The arguments as a whole."""

    def __str__(self) -> str:
        return "the arguments"


class Modes:
    """The modes a call runs under."""

    def __str__(self) -> str:
        return "the modes (grad, inference, default dtype, autocast, determinism)"


class Number(NamedTuple):
    """A number that is computed of live ones, by its expression."""

    live: LiveInputs
    expression: str

    def __str__(self) -> str:
        return f"the number {self.live.in_words(self.expression)}"


ARGUMENTS, MODES_OF_CALL = Arguments(), Modes()
Ref = TensorRef | Arguments | Modes | Number


class Guard(NamedTuple):
    """What is expected of something that a call gives or finds."""

    ref: Ref
    aspect: Aspect
    expected: Any

    @property
    def line(self) -> str:
        """In parentheses, the line of the program that needs it, if that is known."""
        line = self.ref.live.lines.get(self.ref.expression) if isinstance(self.ref, Number) else None
        return f" ({line})" if line else ""

    def __str__(self) -> str:
        return f"{self.ref}: {self.aspect.value} {_text(self.aspect, self.expected)}{self.line}"


class Call(NamedTuple):
    """A call that asks for a specialization."""

    key: CallKey
    leaves: Sequence[Any]


# The list.


def guards_of_key(key: CallKey, leaves: Sequence[Any]) -> list[Guard]:
    """What the key of a call with these leaves says."""
    found = [Guard(ARGUMENTS, Aspect.STRUCTURE, key.structure)]
    for i, (leaf, described) in enumerate(zip(leaves, key.leaves, strict=True)):
        is_number = isinstance(described, type)
        aspect = Aspect.LAYOUT if isinstance(leaf, Tensor) else Aspect.TYPE if is_number else Aspect.VALUE
        found.append(Guard(Argument(i), aspect, described))
    return [
        *found,
        Guard(ARGUMENTS, Aspect.SHARING, key.sharing),
        Guard(MODES_OF_CALL, Aspect.VALUE, key.modes),
    ]


def guards_of_locations(places: Sequence[Place]) -> list[Guard]:
    return [
        Guard(At(container, key, name), _aspect(container, value), value)
        for container, key, value, name in places
    ]


def _aspect(container: Any, value: Any) -> Aspect:
    kind = type(value)
    if type(container) is Length:
        return Aspect.LENGTH
    if kind is Alike:
        return Aspect.KIND
    return Aspect.VALUE if kind in _BY_VALUE else Aspect.IDENTITY


_BY_VALUE = frozenset((*PLAIN, frozenset, Snapshot))


def guards_of_numbers(live: LiveInputs) -> list[Guard]:
    return [Guard(Number(live, expression), Aspect.VALUE, value) for expression, value in live.guards]


# In words.


def difference(guards: Sequence[Guard], call: Call) -> str | None:
    """The first guard that does not hold, in words; None if all do."""
    captured = _captured(guards)
    for guard in guards:
        found = _found(guard, call, captured)
        if not _holds(guard, found):
            return f"{guard.ref}: {_difference(guard, found)}{guard.line}"
    return None


def _found(guard: Guard, call: Call, captured: Sequence[Tensor]) -> Any:
    """What there is of what a guard is on, in the form of `expected`; MISSING if it is not there."""
    ref, aspect = guard.ref, guard.aspect
    if aspect is Aspect.STRUCTURE:
        return call.key.structure
    if aspect is Aspect.SHARING:
        return call.key.sharing
    if aspect is Aspect.SHARING_CAPTURED:
        return sharing_with(captured, call.leaves)
    if aspect is Aspect.ATTRIBUTES:
        return frozenset(name for name in guard.expected if not lack(call.leaves, (name,)))
    if isinstance(ref, Modes):
        return call.key.modes
    if isinstance(ref, Number):
        return ref.live.evaluated(ref.expression, call.leaves)
    if isinstance(ref, Argument) and aspect in (Aspect.LAYOUT, Aspect.TYPE, Aspect.VALUE):
        return call.key.leaves[ref.index]
    assert not isinstance(ref, Arguments)
    try:
        there = ref.find(call.leaves)
    except (KeyError, IndexError):
        return MISSING
    if aspect is Aspect.PRESENCE:
        return there is not None
    if aspect is Aspect.LAYOUT:
        return MISSING if there is None else layout_of(there)
    return tuple(hooks.hooks_of(there)) if aspect is Aspect.HOOKS else there


def _holds(guard: Guard, found: Any) -> bool:
    aspect, expected = guard.aspect, guard.expected
    if aspect is Aspect.ATTRIBUTES:
        return not found
    if aspect is Aspect.HOOKS:
        return _identical(found, expected)
    if isinstance(guard.ref, At) or aspect is Aspect.IDENTITY or isinstance(guard.ref, Number):
        if aspect is Aspect.LAYOUT:
            return bool(found == expected)
        return found is expected or equal(found, expected)
    return bool(found == expected)


def _difference(guard: Guard, found: Any) -> str:
    ref, aspect, expected = guard
    if found is MISSING:
        return "is gone"
    if isinstance(ref, Argument) and aspect in _OF_KEYS and _kind(expected) != _kind(found):
        return f"was {_in_words(expected)}, is {_in_words(found)}"
    if aspect is Aspect.LAYOUT:
        return layout_difference(expected, found)
    if aspect is Aspect.IDENTITY:
        return f"is another {type(expected).__name__}"
    if aspect is Aspect.KIND:
        return "is no tensor of the same class, shape, dtype and requires_grad"
    if aspect is Aspect.ATTRIBUTES:
        return f"a tensor has the attribute {min(found)}, which none had"
    if aspect is Aspect.PRESENCE:
        return "was there, is not" if expected else "was not there, is"
    if aspect is Aspect.SHARING:
        return sharing_in_words(expected, found)
    if aspect is Aspect.SHARING_CAPTURED:
        return "one shares memory with a captured tensor, or no longer does"
    if aspect is Aspect.HOOKS:
        return "has other hooks"
    return f"{aspect.value} was {_text(aspect, expected)}, is {_text(aspect, found)}"


_OF_KEYS = (Aspect.LAYOUT, Aspect.TYPE, Aspect.VALUE)


def _kind(described: Any) -> str:
    """What the key of a call describes like that (compiler/call_key.py)."""
    if isinstance(described, type):
        return "number"
    return "tensor" if isinstance(described, tuple) and len(described) > 2 else "value"


def _in_words(described: Any) -> str:
    kind = _kind(described)
    if kind == "number":
        return f"a number of type {described.__name__}"
    return "a tensor" if kind == "tensor" else _text(Aspect.VALUE, described)


def _text(aspect: Aspect, value: Any) -> str:
    if isinstance(value, type):
        return value.__name__
    pair = aspect is Aspect.VALUE and isinstance(value, tuple) and len(value) == 2
    if pair and isinstance(value[0], type):  # of a key: the type and the value
        return repr(value[1])
    if aspect is Aspect.LAYOUT and isinstance(value, tuple) and len(value) == len(LAYOUT):
        return _layout_in_words(value)
    if isinstance(value, Tensor):
        return f"a {type(value).__name__}, {str(value.dtype).removeprefix('rushlight.')} {tuple(value.shape)}"
    return repr(value)


def _layout_in_words(layout: tuple[Any, ...]) -> str:
    """What is expected of a tensor, without what is as usual: "float32 (4, 8), requires grad"."""
    shape, strides, dtype, requires_grad, offset, conj, neg, kind = layout
    words = [f"{str(dtype).removeprefix('rushlight.')} {shape}"]
    steps, dense = [], dtype.itemsize
    for length in reversed(shape):
        steps.append(dense)
        dense = dense * length if isinstance(length, int) else 0
    if tuple(reversed(steps)) != strides:
        known = all(type(step) is int for step in strides)
        words.append(f"strides {tuple(s // dtype.itemsize for s in strides) if known else strides}")
    words += ["requires grad"] * bool(requires_grad) + [f"offset {offset}"] * bool(offset)
    words += ["conj bit"] * bool(conj) + ["neg bit"] * bool(neg)
    words += [f"a {kind.__name__}"] * (kind is not Tensor)
    return ", ".join(words)


# In Python.


class GuardCheck:
    """The guards that the key of a call does not say, as Python checks them: kind by kind, quickest form
    first. `captured` are the tensors whose layout is looked at, in the order in which `passes` counts them."""

    def __init__(self, guards: Sequence[Guard]) -> None:
        self.captured: list[tuple[Tensor, Any]] = []
        self._hooked: list[tuple[Tensor, Any]] = []
        self._present: list[tuple[GradOf, bool]] = []
        self._laid_out: list[tuple[GradOf | At, Any]] = []
        self._pinned: list[tuple[int, Tensor]] = []
        self._sharing: list[Any] | None = None  # whether it matters, and how it is
        self.absent: tuple[str, ...] = ()  # names of attributes that no argument has
        self._locations = _Locations([g for g in guards if isinstance(g.ref, At)])
        for ref, aspect, expected in guards:
            if aspect is Aspect.SHARING_CAPTURED:
                self._sharing = expected
            elif aspect is Aspect.ATTRIBUTES:
                self.absent = tuple(expected)
            elif isinstance(ref, Captured):
                (self._hooked if aspect is Aspect.HOOKS else self.captured).append((ref.tensor, expected))
            elif aspect is Aspect.PRESENCE and isinstance(ref, GradOf):
                self._present.append((ref, expected))
            elif aspect is Aspect.LAYOUT and isinstance(ref, GradOf | At):
                self._laid_out.append((ref, expected))
            elif aspect is Aspect.IDENTITY and isinstance(ref, Argument):
                self._pinned.append((ref.index, expected))
        self._hook_changes = hooks.changes()  # how often leaves had got or lost any hooks by then
        # a tensor with the memory and the flag that it had when it looked right still does
        self._seen: list[tuple[Tensor, Any, Any]] = [(tensor, _nothing, None) for tensor, _ in self.captured]
        self.every = range(len(self._seen))
        self._tensors = [tensor for tensor, _ in self.captured]
        self._numbers = {id(tensor): j for j, tensor in enumerate(self._tensors)}

    def passes(self, leaves: Sequence[Any], captured: Sequence[int]) -> bool:
        """Whether the guards hold for a call whose key is right; of `captured` tensors these are looked at."""
        for i in captured:
            tensor, array, flag = self._seen[i]
            if tensor._array is not array() or tensor._requires_grad is not flag or tensor._node is not None:
                if layout_of(tensor) != self.captured[i][1] or tensor._array is None:
                    return False
                self._seen[i] = tensor, weakref.ref(tensor._array), tensor._requires_grad
        if not self._locations.hold() or not self._same_hooks():
            return False
        if self.absent and not lack(leaves, self.absent):
            return False
        for ref, expected in self._present:
            if (ref.find(leaves) is not None) != expected:
                return False
        for held, layout in self._laid_out:
            if layout_of(held.find(leaves)) != layout:
                return False
        for i, tensor in self._pinned:
            if leaves[i] is not tensor:
                return False
        return (
            self._sharing is None
            or not self.captured
            or sharing_with(self._tensors, leaves, self._numbers) == self._sharing
        )

    def locations_hold(self) -> bool:
        """Whether the locations of Python's hold what they did."""
        return self._locations.hold()

    def _same_hooks(self) -> bool:
        if self._hook_changes != hooks.changes():
            if not all(_identical(hooks.hooks_of(tensor), known) for tensor, known in self._hooked):
                return False
            self._hook_changes = hooks.changes()
        return True


class _Locations:
    """Guards on locations of Python's: those in its own containers are looked at all at once."""

    def __init__(self, guards: Sequence[Guard]) -> None:
        self._containers: list[Any] = []
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._sized: list[Any] = []
        self._sizes: list[int] = []
        self._others: list[tuple[Any, Any, Any]] = []
        self._of_classes = ClassAttributes()
        for ref, aspect, expected in guards:
            assert isinstance(ref, At)
            if aspect is Aspect.LENGTH:
                self._sized.append(ref.container.of)
                self._sizes.append(expected)
            elif aspect is Aspect.LAYOUT:
                continue  # of the tensor that is there, which another guard is on
            elif type(ref.container) in _QUICK and aspect is not Aspect.KIND:
                self._containers.append(ref.container)
                self._keys.append(ref.key)
                self._values.append(expected)
            elif aspect is Aspect.KIND or not self._of_classes.take(ref.container, ref.key, expected):
                self._others.append((ref.container, ref.key, expected))

    def hold(self) -> bool:
        try:
            found = map(operator.getitem, self._containers, self._keys)
            if not all(map(operator.is_, found, self._values)) and not self._equal():
                return False
            if list(map(len, self._sized)) != self._sizes or not self._of_classes.hold():
                return False
            for container, key, expected in self._others:
                found_there = container[key]
                if found_there is not expected and not equal(found_there, expected):
                    return False
        except (KeyError, IndexError):
            return False
        return True

    def _equal(self) -> bool:
        return all(
            found is expected or equal(found, expected)
            for found, expected in zip(
                map(operator.getitem, self._containers, self._keys), self._values, strict=True
            )
        )


_QUICK = (dict, list, tuple, types.MappingProxyType)  # containers that are looked at all at once


def _held() -> int:
    """What getrefcount says of an object that a tensor and a variable of the function hold."""
    local: object = object()
    return getrefcount(local) + 1


_HELD = _held()


def sharing_with(
    captured: Sequence[Tensor], leaves: Sequence[Any], numbers: dict[int, int] | None = None
) -> list[Any]:
    """Which leaves are, or share memory with, captured tensors: (leaf, captured tensor, how far apart).
    `numbers` are those of the captured tensors by identity."""
    found: list[Any] = []
    storages: dict[int, int] | None = None
    if numbers is None:
        numbers = {id(t): j for j, t in enumerate(captured)}
    for i, tensor in enumerate(leaves):
        if not isinstance(tensor, Tensor):
            continue
        storage = tensor._storage
        if storage is not None and getrefcount(storage) != _HELD:
            if storages is None:
                storages = {id(t._storage): j for j, t in enumerate(captured)}
            j = storages.get(id(storage))
            if j is not None:
                found.append((i, j, tensor._offset - captured[j]._offset))
        elif id(tensor) in numbers:
            found.append((i, numbers[id(tensor)], 0))
    return found


def _captured(guards: Sequence[Guard]) -> list[Tensor]:
    return [g.ref.tensor for g in guards if isinstance(g.ref, Captured) and g.aspect is Aspect.LAYOUT]


def _nothing() -> None:
    """In place of a reference to an array."""


def _identical(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


# As a native table.


def lack(leaves: Sequence[Any], names: Sequence[str]) -> bool:
    """Whether no tensor among the arguments has an attribute of one of these names."""
    return not any(
        isinstance(leaf, Tensor) and getattr(leaf, name, MISSING) is not MISSING
        for leaf in leaves
        for name in names
    )


def only_locations(guards: Sequence[Guard]) -> bool:
    """Whether all but the guards on locations are such that the native callable of a program checks them."""
    return not any(
        (aspect in (Aspect.LAYOUT, Aspect.PRESENCE) and isinstance(ref, GradOf | At))
        or (aspect is Aspect.IDENTITY and isinstance(ref, Argument))
        or (aspect is Aspect.SHARING_CAPTURED and bool(expected))
        for ref, aspect, expected in guards
    )


def native_guards(guards: Sequence[Guard]) -> LocationGuards | None:
    """The guards on locations as native code looks at them; None if there are some that it cannot look at."""
    found: list[tuple[LocationKind, Any, Any, Any]] = []
    sizes: list[tuple[Any, int]] = []
    for ref, aspect, expected in guards:
        if not isinstance(ref, At):
            continue
        container = ref.container
        kind = type(container)
        if aspect is Aspect.LENGTH:
            sizes.append((container.of, expected))
        elif kind is Cells:
            found.append((LocationKind.CELL, container.cells[ref.key], None, expected))
        elif kind is AllValues:
            found.append((LocationKind.VALUES, container.of, None, container.known))
        elif kind in _QUICK and aspect is not Aspect.KIND:
            found.append(
                (LocationKind.DICT if kind is dict else LocationKind.ITEMS, container, ref.key, expected)
            )
        else:
            return None
    return LocationGuards(found, sizes)

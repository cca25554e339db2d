"""Programs with effects as one native call.

A training step uses hundreds of tensors of the caller: parameters, what an optimizer keeps of each of them,
gradients. To look at each in Python takes as long as many programs do. A `Step` is the native callable
(runtime/invoke.py) of such a program. It looks whether the tensors are as they were and may be written to,
lets the gradients go that are replaced, has the program write the new ones to their memory, and sets them.
What it cannot do is left to its caller, and a call that it refuses goes the long way
(compiler/specialization.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from ..capture.locations import Cells, Environment, Values
from ..core.modes import MODES
from ..core.tensor import Tensor
from ..runtime.invoke import ALIGNED, Guards, Invoker, Source, Target, available
from ..runtime.invoke_code import CELL, DICT, ITEMS, VALUES


def _counted() -> int:
    """What getrefcount says of an object that a variable of the function holds."""
    local = np.empty(0)
    return getrefcount(local)


HELD = _counted() + 1  # and a tensor or an array holds, too


def guards_of(environment: Environment) -> Guards | None:
    """What native code looks at before a call; None if there are places that it cannot look at."""
    plain, sizes, others = environment.parts()
    places = [
        (DICT if type(container) is dict else ITEMS, container, key, value) for container, key, value in plain
    ]
    for container, key, value, _ in others:
        if type(container) is Cells:
            places.append((CELL, container.cells[key], None, value))
        elif type(container) is Values:
            places.append((VALUES, container.of, None, container.known))
        else:
            return None
    return Guards(places, sizes)


class Step:
    """The native callable of an entry, and what of a run is left to do in Python."""

    def __init__(self, entry: Any, sources: Sequence[Any]) -> None:
        call, executable = entry.call, entry.artifact.executable
        written = set(entry.updated.values())
        positions = [
            k for k in range(len(executable.output_slots) + len(entry.updated)) if k not in entry.updated
        ]
        numbers = {position: k for k, position in enumerate(positions)}  # places in output_slots
        slots = executable.output_slots
        homes: dict[int, int] = {}
        for source, output in entry._new:
            slot = slots[numbers[output]]
            if output in entry.taken and slot.nbytes < ALIGNED and _fits(sources[source], slot):
                homes[numbers[output]] = source
        owned = written | set(homes.values())
        self._owned, self._homes = owned, homes
        self.passed: list[tuple[int, bool]] = []  # sources that are arguments, and whether as tensors
        found: list[Source] = []
        self._constants: set[int] = set()  # sources that are tensors from elsewhere
        for i, (source, slot) in enumerate(zip(sources, executable.inputs, strict=True)):
            if entry.arguments[i] is None and isinstance(source, Tensor) and is_plain(source):
                found.append(Source(-1, source, source, slot, settled=True, owned=i in owned))
                self._constants.add(i)
            else:
                whole = i in owned
                example = source._array if isinstance(source, Tensor) and not whole else source
                found.append(Source(len(self.passed), None, example, slot, owned=whole))
                self.passed.append((i, whole))
        looked = {id(sources[i]) for i in self._constants}
        # captured tensors that are to be looked at in Python
        self.others = [j for j, (tensor, _) in enumerate(entry.captured) if id(tensor) not in looked]
        used = Counter(leaf.index for leaf in call.all_leaves() if leaf.kind in ("value", "view", "shared"))
        used.update(output for _, output in entry._new)
        dropped = {target_name(target) for target in entry._dropped}
        times = Counter(target_name(target) for target, _ in call.gradients)
        targets: dict[int, Target] = {}
        self.owners: list[int] = []  # arguments whose gradients are replaced
        self.gradients: list[tuple[int | Tensor, Any]] = []  # others to set
        for target, leaf in call.gradients:
            name = target_name(target)
            k = numbers.get(leaf.index) if leaf.kind == "value" and used[leaf.index] == 1 else None
            if k is None or name not in dropped or times[name] > 1 or not slots[k].nbytes:
                self.gradients.append((target, leaf))
            elif isinstance(target, Tensor):
                targets[k] = Target(-1, target)
            else:
                targets[k] = Target(len(self.passed) + len(self.owners), None)
                self.owners.append(target)
        rest = {target_name(target) for target, _ in self.gradients}
        self.dropped = [target for target in entry._dropped if target_name(target) in rest]
        self.writes = [(source, output) for source, output in entry._new if numbers[output] not in homes]
        self.listed = [p for k, p in enumerate(positions) if k not in homes and k not in targets]
        versions = [(place, count) for place, count in call.versions if isinstance(place, Tensor)]
        self.counts = [(place, count) for place, count in call.versions if not isinstance(place, Tensor)]
        self._targets, self._versions = targets, versions
        given = len(self.passed) + len(self.owners)
        self._more = () if given else (None,)  # without arguments it looks only
        self._call = executable.invoker(
            given or 1,
            found,
            tensors=True,
            single=False,
            targets=targets,
            homes=homes,
            versions=versions,
            look=True,
        ).call
        self._report = executable.report

    def direct(
        self, entry: Any, tensors: Sequence[Tensor], numbers: Sequence[np.ndarray], guards: Guards
    ) -> Invoker | None:
        """A callable that takes the arguments of the function and its numbers, and looks at all else itself."""
        if self.gradients or self.writes or self.counts or self.dropped or self.others:
            return None
        executable = entry.artifact.executable
        found: list[Source] = []
        for i, (argument, slot) in enumerate(zip(entry.arguments, executable.inputs, strict=True)):
            constant, owned = entry.call.sources[i], i in self._owned
            if isinstance(argument, int):
                found.append(Source(argument, None, tensors[argument], slot, settled=True, owned=owned))
            elif i in self._constants:
                found.append(Source(-1, constant, constant, slot, settled=True, owned=owned))
            elif i in entry._fills:
                k = entry._fills.index(i)
                found.append(Source(len(tensors) + k, None, numbers[k], slot))
            else:
                return None
        used = {source.which for source in found}
        found += [Source(i, None, t, None, settled=True) for i, t in enumerate(tensors) if i not in used]
        given = len(self.passed)
        targets = {
            k: t if t.which < 0 else Target(self.owners[t.which - given], None)
            for k, t in self._targets.items()
        }
        return executable.invoker(
            len(tensors) + len(numbers),
            found,
            tensors=True,
            single=entry.single and len(self.listed) == 1,
            targets=targets,
            homes=self._homes,
            versions=self._versions,
            look=True,
            whole=True,
            guards=guards,
        )

    def looks_right(self) -> bool:
        """Whether the captured tensors but the `others` look as they did."""
        return self._call() is None

    def run(self, tensors: Sequence[Tensor], sources: Sequence[Any]) -> dict[int, Tensor] | None:
        """The outputs that are left, by number; None if the call was refused, and nothing is done."""
        arguments = [
            sources[i]._array if isinstance(sources[i], Tensor) and not whole else sources[i]
            for i, whole in self.passed
        ]
        found = self._call(*arguments, *[tensors[i] for i in self.owners], *self._more)
        if found is NotImplemented:
            return None
        if type(found) is int:
            self._report(found)
        return dict(zip(self.listed, found, strict=True))


def make_step(entry: Any, sources: Sequence[Any]) -> Step | None:
    """The native callable of an entry with effects, if there can be one."""
    if not available() or not entry.artifact.executable.native or MODES.inference:
        return None
    if entry.backward is not None or entry.call.flags or not (entry.updated or entry._new or entry._dropped):
        return None
    if not all(is_plain(sources[i]) for i in entry.updated.values()):
        return None
    if any(isinstance(source, Tensor) and source._array is None for source in sources):
        return None
    return Step(entry, sources)


def is_plain(tensor: Tensor) -> bool:
    """Whether native code can tell what the tensor looks like."""
    return (
        tensor._array is not None
        and tensor._keys <= 1
        and tensor._base is None
        and tensor._node is None
        and tensor._offset == 0
    )


def _fits(tensor: Any, slot: Any) -> bool:
    """Whether an output is laid out like a tensor that native code can write to."""
    if not isinstance(tensor, Tensor) or not is_plain(tensor):
        return False
    array: Any = tensor._array
    if array.shape != slot.shape or array.dtype != slot.dtype or not array.size:
        return False
    return (
        bool(array.flags.c_contiguous)
        if slot.strides is None
        else bool(array.strides == slot.strides and array.nbytes == slot.nbytes)
    )


def target_name(target: int | Tensor) -> int | tuple[int]:
    """Tells targets of gradients apart: arguments by their numbers, tensors by what they are."""
    return (id(target),) if isinstance(target, Tensor) else target


def write_back(entry: Any, sources: list[Any], outputs: Any, writes: list[tuple[int, int]]) -> None:
    """What the program wrote to the caller's tensors.

    A tensor that nobody else shares memory with takes over the array that was computed; into others it is
    copied.
    """
    for source, output in writes:
        target = sources[source]
        new = outputs[output]._array
        assert new is not None
        if output in entry.taken and sole_owner(target) and new.strides == target._array.strides:
            target._array, target._storage = new, None
        else:
            np.copyto(_whole(target._array, new), new)


def _whole(array: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The memory that `new` is the contents of: of an array with gaps, all from its first element to its
    last.
    """
    if array.shape == new.shape:
        return array
    return np.lib.stride_tricks.as_strided(array, new.shape, new.strides)


def may_update(tensor: Tensor) -> bool:
    """Whether a program may write to the memory of `tensor` while it runs: no other input has a part in it."""
    return sole_owner(tensor) and tensor._array.flags.writeable  # type: ignore[union-attr]


def sole_owner(tensor: Tensor) -> bool:
    """Whether the memory of `tensor` can be reached through it alone.

    Every way to share memory holds a reference: views and detached tensors to the Storage, NumPy and DLPack
    to the array or to the array that owns its bytes.
    """
    storage, array = tensor._storage, tensor._array
    if tensor._base is not None or tensor._offset or type(array) is not np.ndarray:
        return False
    owner = array.base
    held = 0  # references by the storage
    if storage is not None:
        if getrefcount(storage) != HELD:
            return False
        buffer = storage.buffer
        base = array if owner is None else owner
        if buffer is None or getrefcount(buffer) != HELD or buffer.base is not base:
            return False
        del base
        held = 1
    if owner is None:
        return getrefcount(array) == HELD + held
    return (
        type(owner) is np.ndarray
        and owner.base is None
        and getrefcount(array) == HELD
        and getrefcount(owner) == HELD + held
    )

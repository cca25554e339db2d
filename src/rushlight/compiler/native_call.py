"""Programs with effects as one native call.

A training step uses hundreds of tensors of the caller: parameters, what an optimizer keeps of each of them,
gradients. To look at each in Python takes as long as many programs do. A `NativeCall` is the native callable
(runtime/invoke.py) of such a program. It looks whether the tensors are as they were and may be written to,
lets the gradients go that are replaced, has the program write the new ones to their memory, and sets them.
What it cannot do is left to its caller, and a call that it refuses takes the long path (compiler/run.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..capture.references import Argument, Captured, TensorRef
from ..core.modes import MODES
from ..core.tensor import Tensor
from ..runtime.invoke import (
    ALIGNED,
    NO_GUARDS,
    Effects,
    GradientTarget,
    Invoker,
    Source,
    available,
    may_write,
)

if TYPE_CHECKING:
    from .specialization import Specialization


class NativeCall:
    """The native callable of a specialization, and what of a run is left to do in Python."""

    def __init__(self, spec: Specialization, sources: Sequence[Any]) -> None:
        executable = spec.artifact.fixed
        self._report = executable.report
        positions = [
            k for k in range(len(executable.output_slots) + len(spec.updated)) if k not in spec.updated
        ]
        slot_of = {position: k for k, position in enumerate(positions)}  # places in output_slots
        self._homes = self._find_homes(spec, sources, slot_of)
        self._owned = set(spec.updated.values()) | set(self._homes.values())
        found = self._find_sources(spec, sources)
        looked_at = {id(sources[i]) for i in self._constants}
        # captured tensors that are to be looked at in Python
        self.others = [j for j, (t, _) in enumerate(spec.check.captured) if id(t) not in looked_at]
        self._targets = self._find_targets(spec, slot_of)
        left = {target for target, _ in self.gradients}
        self.dropped = [target for target in spec.dropped if target in left]
        self.writes = [(s, output) for s, output in spec.new_contents if slot_of[output] not in self._homes]
        self.listed = [p for k, p in enumerate(positions) if k not in self._homes and k not in self._targets]
        versions = spec.call.versions
        self._versions = [(ref.tensor, count) for ref, count in versions if isinstance(ref, Captured)]
        self.counts = [(ref, count) for ref, count in versions if not isinstance(ref, Captured)]
        given = len(self.passed) + len(self.owners)
        self._more = () if given else (None,)  # without arguments it looks only
        self._call = executable.invoker(
            given or 1,
            found,
            tensors=True,
            single=False,
            effects=Effects(self._targets, self._homes, self._versions, look=True),
        ).call

    def _find_homes(
        self, spec: Specialization, sources: Sequence[Any], slot_of: dict[int, int]
    ) -> dict[int, int]:
        """Small outputs that are copied to the input that they are the new contents of."""
        homes: dict[int, int] = {}
        for source, output in spec.new_contents:
            slot = spec.artifact.fixed.output_slots[slot_of[output]]
            if output in spec.taken and slot.nbytes < ALIGNED and _fits(sources[source], slot):
                homes[slot_of[output]] = source
        return homes

    def _find_sources(self, spec: Specialization, sources: Sequence[Any]) -> list[Source]:
        """The inputs: tensors from elsewhere, which the callable knows, and what is passed to it."""
        self.passed: list[tuple[int, bool]] = []  # sources that are arguments, and whether as tensors
        self._constants: set[int] = set()  # sources that are tensors from elsewhere
        found: list[Source] = []
        for i, (source, slot) in enumerate(zip(sources, spec.artifact.fixed.inputs, strict=True)):
            whole = i in self._owned
            if isinstance(spec.inputs[i], Captured) and is_plain(source):
                found.append(Source(-1, source, source, slot, settled=True, owned=whole))
                self._constants.add(i)
            else:
                example = source._array if isinstance(source, Tensor) and not whole else source
                found.append(Source(len(self.passed), None, example, slot, owned=whole))
                self.passed.append((i, whole))
        return found

    def _find_targets(self, spec: Specialization, slot_of: dict[int, int]) -> dict[int, GradientTarget]:
        """Outputs that become gradients, whose memory they take over."""
        call, slots = spec.call, spec.artifact.fixed.output_slots
        used = Counter(leaf.index for leaf in call.all_leaves() if leaf.kind in ("value", "view", "shared"))
        used.update(output for _, output in spec.new_contents)
        dropped = set(spec.dropped)
        times = Counter(target for target, _ in call.gradients)
        targets: dict[int, GradientTarget] = {}
        self.owners: list[int] = []  # arguments whose gradients are replaced
        self.gradients: list[tuple[TensorRef, Any]] = []  # others to set
        for target, leaf in call.gradients:
            k = slot_of.get(leaf.index) if leaf.kind == "value" and used[leaf.index] == 1 else None
            if k is None or target not in dropped or times[target] > 1 or not slots[k].nbytes:
                self.gradients.append((target, leaf))
            elif isinstance(target, Captured):
                targets[k] = GradientTarget(-1, target.tensor)
            else:
                targets[k] = GradientTarget(len(self.passed) + len(self.owners), None)
                self.owners.append(target.index)
        return targets

    def direct(
        self, spec: Specialization, tensors: Sequence[Tensor], numbers: Sequence[np.ndarray]
    ) -> Invoker | None:
        """A callable that takes the arguments of the function and its numbers, and looks at all else itself."""
        if self.gradients or self.writes or self.counts or self.dropped or self.others:
            return None
        executable = spec.artifact.fixed
        found: list[Source] = []
        for i, (ref, slot) in enumerate(zip(spec.inputs, executable.inputs, strict=True)):
            owned = i in self._owned
            if isinstance(ref, Argument):
                found.append(Source(ref.index, None, tensors[ref.index], slot, settled=owned, owned=owned))
            elif isinstance(ref, Captured) and i in self._constants:
                found.append(Source(-1, ref.tensor, ref.tensor, slot, settled=True, owned=owned))
            elif i in spec.filled:
                k = spec.filled.index(i)
                found.append(Source(len(tensors) + k, None, numbers[k], slot))
            else:
                return None
        used = {source.which for source in found}
        found += [Source(i, None, t, None) for i, t in enumerate(tensors) if i not in used]
        given = len(self.passed)
        targets = {
            k: t if t.which < 0 else GradientTarget(self.owners[t.which - given], None)
            for k, t in self._targets.items()
        }
        return executable.invoker(
            len(tensors) + len(numbers),
            found,
            tensors=True,
            single=spec.single and len(self.listed) == 1,
            effects=Effects(targets, self._homes, self._versions, look=True, whole=True),
            guards=spec.native_guards or NO_GUARDS,
        )

    def looks_right(self) -> bool:
        """Whether the captured tensors but the `others` look as they did."""
        return self._call() is None

    def run(self, leaves: Sequence[Any], sources: Sequence[Any]) -> dict[int, Tensor] | None:
        """The outputs that are left, by number; None if the call was refused, and nothing is done."""
        arguments = [
            sources[i]._array if isinstance(sources[i], Tensor) and not whole else sources[i]
            for i, whole in self.passed
        ]
        found = self._call(*arguments, *[leaves[i] for i in self.owners], *self._more)
        if found is NotImplemented:
            return None
        if type(found) is int:
            self._report(found)
        return dict(zip(self.listed, found, strict=True))


def make_native_call(spec: Specialization, sources: Sequence[Any]) -> NativeCall | None:
    """The native callable of a specialization with effects, if there can be one."""
    if not available() or not spec.artifact.executable.native or MODES.inference:
        return None
    if (
        spec.backward is not None
        or spec.call.flags
        or not (spec.updated or spec.new_contents or spec.dropped)
    ):
        return None
    if not all(is_plain(sources[i]) for i in spec.updated.values()):
        return None
    if any(isinstance(source, Tensor) and source._array is None for source in sources):
        return None
    return NativeCall(spec, sources)


def is_plain(tensor: Tensor) -> bool:
    """Whether native code can tell what the tensor looks like."""
    return (
        tensor._array is not None
        and tensor._keys <= 1
        and tensor._base is None
        and tensor._node is None
        and tensor._offset == 0
    )


def may_be_read(tensor: Tensor) -> bool:
    """Whether native code can tell what a tensor looks like that it does not write to: also a slice of data."""
    base = tensor._base
    return (
        tensor._array is not None
        and tensor._keys <= 1
        and not tensor._tangents
        and (base is None or (base._keys == 0 and not tensor.requires_grad))
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


def write_back(spec: Specialization, sources: list[Any], outputs: Any, writes: list[tuple[int, int]]) -> None:
    """What the program wrote to the caller's tensors.

    A tensor that nobody else shares memory with takes over the array that was computed; into others it is
    copied.
    """
    for source, output in writes:
        target = sources[source]
        new = outputs[output]._array
        assert new is not None
        if output in spec.taken and may_write(target) and new.strides == target._array.strides:
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

"""Functionalization: a write changes no memory.

Each storage has a current value in the graph and a count of writes. A write through a view puts the view's new
value into the value of its storage, and a tensor whose storage was written since is read anew from that value.
What the caller's storages hold at the end is what the compiled program writes back. In the same way the program
may give tensors another shape, other data, another flag or another gradient: what becomes of the caller's is
kept here and done by every run.
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch import AMBIENT, Arguments, run_name
from ..core.modes import MODES
from ..core.overlap import has_internal_overlap
from ..core.registry import REGISTRY
from ..core.shapes import Spec, extent, is_dense, numel
from ..core.tensor import LAZY, Tensor, install_before_flag
from .errors import CaptureError, Problem, user_line
from .memory import StorageState, spec_of, with_part
from .program_tensors import TensorsOfProgram, UsedGradient


class FunctionalizedWrites(TensorsOfProgram):
    """What a capture makes of writes."""

    def write(self, target: Tensor, result: Tensor) -> None:
        destination = self.abstract(target)
        state = self.states[id(destination.storage_object)]
        if state.source is not None and MODES.grad and (target.requires_grad or result.requires_grad):
            raise CaptureError(
                "an in-place write that gives a tensor of the caller a history", user_line(), Problem.HISTORY
            )
        if has_internal_overlap(target):
            raise CaptureError(
                "a write to a tensor of which several elements share one memory location",
                user_line(),
                Problem.OVERLAPPING_WRITE,
            )
        self._check_deferred(state)
        value = self.value_of(self.abstract(result))
        state.value = with_part(self.graph, state, spec_of(destination), value, user_line())
        state.writes += 1
        destination.version_counter.value += 1

    def keep_values(self, tensor: Tensor) -> None:
        value = self.value_of(tensor)
        spec = value.spec
        dense = is_dense(spec.known_shape(), spec.known_strides())
        own = Spec(spec.shape, spec.dtype, spec.known_strides() if dense else None)
        value = self.graph.call(REGISTRY["clone"], (value, None), own, user_line()).outputs[0]
        tensor._storage, tensor._strides, tensor._offset, tensor._spec = None, None, 0, value.spec
        tensor._conj = tensor._neg = False
        tensor._keys &= ~LAZY
        self._adopt(tensor, value, own_storage=True)

    def set_geometry(
        self, target: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
    ) -> bool:
        """Change the shape of a tensor; whether that could be done. A storage of the program grows, with
        zeros, if it must; one of the caller does not."""
        if target._trace is None:
            return self._set_callers_geometry(target, Spec(shape, target.dtype, strides, offset))
        state = self.states.get(id(target.storage_object))
        if target._trace is not self or state is None:
            return False
        self._check_deferred(state)
        held, needed = numel(state.spec.known_shape()), offset + extent(shape, strides)
        if state.source is not None and not state.covers(Spec(shape, target.dtype, strides, offset)):
            return False
        if state.source is not None:
            needed = held
        if needed > held:
            flat, grown = (Spec((size,), target.dtype, (1,), 0) for size in (held, needed))
            args: Arguments = (state.value, (held,), (1,), 0)
            value = self.graph.call(REGISTRY["as_strided"], args, flat, user_line()).outputs[0]
            args = (value, (0, needed - held), 0)
            state.value = self.graph.call(REGISTRY["constant_pad_nd"], args, grown, user_line()).outputs[0]
            state.spec = grown
            state.writes += 1
        target._spec = Spec(shape, target.dtype, strides, offset)
        target._strides, target._offset = strides, offset
        target._value_writes = -1  # type: ignore[attr-defined]
        return True

    def _set_callers_geometry(self, target: Tensor, spec: Spec) -> bool:
        if target._array is None or target.requires_grad or id(target) in self.replaced:
            return False
        spec = self.symbolic.pinned(target, spec)
        state = self.states[id(self.abstract(target).storage_object)]
        if not state.covers(spec):
            return False
        self._check_deferred(state)
        self.geometries.set(target, spec.known_shape(), spec.known_strides(), spec.offset)
        self._lift(target)
        return True

    def replace_data(self, target: Tensor, value: Tensor) -> bool:
        """`target.data = value`; whether that could be done. A tensor of the caller is `value` henceforth."""
        fits = (value.shape, value.dtype, value._parts) == (target.shape, target.dtype, target._parts)
        known = target._trace in (None, self) and value._trace in (None, self)
        if not fits or not known or target in self.geometries:
            self.refuse("it gives a tensor data of another kind", Problem.STATE)
            return False
        new = run_name("detach", value)
        if new._trace is not self:  # which has left the program
            return False
        self._check_deferred(self.states[id(self.abstract(target).storage_object)])
        if target._trace is None:
            new._versions = target.version_counter
            self._twins[id(target)] = new
            self.replaced[id(target)] = target, new
        else:
            for name in _PLACE:
                setattr(target, name, getattr(new, name))
            target._keys = (target._keys & ~LAZY) | (new._keys & LAZY)
        return True

    def sees_flag(self, tensor: Tensor) -> None:
        """The requires_grad flag of `tensor` is about to change."""
        if tensor._trace is None:
            self.flags.setdefault(id(tensor), (tensor, tensor._requires_grad))

    def sees_gradient(self, tensor: Tensor, replaces: bool = False) -> None:
        if tensor._trace is None and id(tensor) not in self.gradients:
            self.gradients[id(tensor)] = UsedGradient(tensor, tensor._grad, not replaces)

    def sees_backward(self, run: Any) -> None:
        """A backward pass begins. What was recorded before the program is another one in every call."""
        if any(node._sequence < self.beginning for node in run.called()):
            self.refuse("a backward pass through history from before the program", Problem.EARLIER_HISTORY)

    def _check_deferred(self, state: StorageState) -> None:
        """What deferred results are made of must stay as it is."""
        for call in self.deferred:
            for tensor in call.among(Tensor):
                if tensor._parts is not None:
                    continue
                if self.states.get(id(self.abstract(tensor).storage_object)) is state:
                    raise CaptureError(
                        f"it writes to what {call.name} takes, of which it needs the result as it was before",
                        user_line(),
                        Problem.WRITE_BEFORE_USE,
                    )


# Where a tensor of the program has its values.
_PLACE = ("_storage", "_strides", "_offset", "_spec", "_conj", "_neg", "_value", "_value_writes")


def _before_flag(tensor: Tensor) -> None:
    if AMBIENT.trace is not None:
        AMBIENT.trace.sees_flag(tensor)


install_before_flag(_before_flag)

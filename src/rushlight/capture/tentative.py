"""A capture that can be left in the middle: the program goes on eagerly from there, and nothing runs twice.

When a program reads a value, or does anything else that has no place in a graph, a `TentativeCapture`
computes what it has recorded so far, with the eager kernels, and gives every abstract tensor its data,
wherever it is referred to. From then on it records nothing: operators run as if there had never been a
capture. So the call in which it is found out that a program must be broken has the effects of an eager call,
Python's included.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.arrays import array_over
from ..core.construct import from_numpy
from ..core.dispatch import AMBIENT, Arguments, execute
from ..core.garbage import collect_again
from ..core.modes import MODES
from ..core.mutation import write as write_data
from ..core.registry import Kind, OpDef
from ..core.shapes import Spec, extent
from ..core.storage import Storage
from ..core.symbols import SymInt
from ..core.tensor import AUTOGRAD, TRACED, Tensor, shapeless
from ..graph.ir import Value, map_values
from .deferred import plain, returned_at_once
from .errors import CaptureError, Problem
from .memory import StorageState
from .numbers import LiveNumber
from .trace import Capture


class TentativeCapture(Capture):
    """A capture of a program that may have no graph."""

    def leave(self, reason: CaptureError) -> None:
        """Give every abstract tensor its data and record no more."""
        if self.reason is not None:
            return
        if self.joint:  # there is no data for gradients that are to come
            raise reason
        self.reason = reason
        collect_again()
        self.numbers.open = False
        if self.numbers.sizes or self.numbers.symbols.places:
            self._fix_sizes()
        for container, _, _ in self.numbers.states:
            container.update({key: plain(value) for key, value in container.items()})
        for container, key, _, _ in self.numbers.counters:
            if key in container:
                container[key] = plain(container[key])
        with _Outside():
            self._materialise()
            self._run_deferred()
            for tensor, value in self.replaced.values():
                tensor.data = value
        self.states, self.lifted, self.gradients, self._twins, self._keep = {}, {}, {}, {}, []
        self.regions = {}
        self.replaced, self.flags, self.deferred, self._abstract = {}, {}, [], []
        self.geometries.forget()

    # Every way in which a program meets the capture.

    def abstract(self, tensor: Tensor) -> Tensor:
        return super().abstract(tensor) if self.reason is None else tensor

    def process(self, op: OpDef, args: Arguments) -> Any:
        if self.reason is None:
            try:
                return super().process(op, args)
            except CaptureError as error:
                self.leave(error)
        with _Outside():
            return execute(op, tuple(_plain(a) for a in args))

    def process_rows(self, op: OpDef, rows: Sequence[Arguments]) -> list[Tensor] | None:
        try:
            return super().process_rows(op, rows) if self.reason is None else None
        except CaptureError:
            return None  # the row that is at fault comes again, by itself

    def write(self, target: Tensor, result: Tensor) -> None:
        if self.reason is None:
            try:
                return super().write(target, result)
            except CaptureError as error:
                self.leave(error)
        return write_data(target, result)

    def read(self, tensor: Tensor) -> np.ndarray:
        if self.reason is None:
            try:
                return super().read(tensor)
            except CaptureError as error:
                self.leave(error)
        return tensor.numpy_array()

    def item(self, tensor: Tensor) -> Any:
        if self.reason is None and returned_at_once(sys._getframe(2)):
            try:
                return super().item(tensor)
            except CaptureError as error:
                self.leave(error)
        return NotImplemented  # a number that waits would not be a float to those who meet it meanwhile

    def reveal(self, tensor: Tensor) -> None:
        try:
            super().reveal(tensor)
        except CaptureError as error:
            self.leave(error)

    def refuse(self, what: str, problem: Problem = Problem.EFFECT) -> None:
        if self.reason is None:
            try:
                super().refuse(what, problem)
            except CaptureError as error:
                self.leave(error)

    def set_geometry(
        self, target: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
    ) -> bool:
        if self.reason is None:
            try:
                return super().set_geometry(target, shape, strides, offset)
            except CaptureError as error:
                self.leave(error)
        return False

    def replace_data(self, target: Tensor, value: Tensor) -> bool:
        if self.reason is None:
            try:
                return super().replace_data(target, value)
            except CaptureError as error:
                self.leave(error)
        return False

    def sees_flag(self, tensor: Tensor) -> None:
        if self.reason is None:
            super().sees_flag(tensor)

    def meet(self, tensor: Tensor) -> None:
        if self.reason is None:
            try:
                super().meet(tensor)
            except CaptureError as error:
                self.leave(error)

    def copied(self, tensor: Tensor, copy: Tensor) -> None:
        if self.reason is None:
            super().copied(tensor, copy)

    def keep(self, tensor: Tensor) -> None:
        if self.reason is None:
            super().keep(tensor)

    def sees_gradient(self, tensor: Tensor, replaces: bool = False) -> None:
        if self.reason is None:
            super().sees_gradient(tensor, replaces)

    def generator_state(self, generator: Any) -> Tensor:
        if self.reason is None:
            return super().generator_state(generator)
        with _Outside():
            state: Tensor = generator.get_state()
            return state

    def seed_generator(self, generator: Any, seed: int) -> None:
        if self.reason is None:
            super().seed_generator(generator, seed)
        else:
            with _Outside():
                generator.manual_seed(seed)

    def set_generator_state(self, generator: Any, state: Any) -> None:
        if self.reason is None:
            super().set_generator_state(generator, state)
        if self.reason is not None:
            with _Outside():
                generator.set_state(state)

    # Data for what was recorded.

    def _fix_sizes(self) -> None:
        """From here on sizes that were symbols are numbers."""
        symbols = self.numbers.symbols
        symbols.capturing, symbols.left = False, True

        def fixed(argument: Any) -> Any:
            if type(argument) is SymInt:
                return argument.hint
            return tuple(map(fixed, argument)) if type(argument) is tuple else argument

        for value in self.graph.values():
            value.spec = value.spec.sized(symbols.hints)
        for node in self.graph.nodes:
            node.args = fixed(node.args)
        for state in self.states.values():
            state.spec = state.spec.sized(symbols.hints)
        for tensor in self.abstract_tensors():
            if tensor._spec is not None:
                tensor._spec = tensor._spec.sized(symbols.hints)
            tensor._strides, tensor._offset = fixed(tensor._strides), fixed(tensor._offset)
            if tensor._view_of is not None:
                op, args = tensor._view_of
                tensor._view_of = op, fixed(tuple(args))
        self.symbolic.restore()

    def _materialise(self) -> None:
        values = self._computed()
        storages = {id(kept): kept for kept in self._keep if isinstance(kept, Storage)}
        sources = {
            id(state): state.source.storage_object
            for state in self.states.values()
            if state.source is not None
        }
        for number, state in self.states.items():
            if state.source is None and number in storages and state.value in values:
                storages[number].buffer = _bytes_of(values[state.value], state.spec)
        twins = {
            id(twin): entry.tensor
            for entry in self.lifted.values()
            for twin in (self._twins[id(entry.tensor)],)
        }
        self._write_sources(values)
        for tensor in self.abstract_tensors():
            if "_point" in vars(tensor):
                tensor.storage_object.buffer = tensor._point.bytes_now()  # type: ignore[attr-defined]
            own = self.states.get(id(tensor._storage))
            if own is not None and id(own) in sources:
                tensor._storage = sources[id(own)]
            _give_data(tensor, twins)

    def _run_deferred(self) -> None:
        """Give tensors without a shape their data, and their history."""
        waiting = [tensor for tensor in self.abstract_tensors() if shapeless(tensor)]
        for call in self.deferred:
            results = call.run(call.args)
            for tensor in waiting:
                made_by, position = tensor._deferred  # type: ignore[attr-defined]
                if made_by is call:
                    _take_over(tensor, results if position is None else results[position])

    def _computed(self) -> dict[Value, Any]:
        """Every value of the graph, computed in order."""
        values: dict[Value, Any] = {}
        for state in self.states.values():
            if state.source is not None:
                values[state.input] = _laid_out(from_numpy(_over_source(state)), state.spec)
        for draws in self.draws.values():
            values[draws.value] = from_numpy(draws.fill())
        for kind, value in self.numbers.inputs.items():
            numbers = [n for (_, k), n in self.numbers.values.items() if k is kind]
            values[value] = from_numpy(np.array(numbers, value.dtype.numpy))
        grad, MODES.grad = MODES.grad, False
        unknown = {value for value in self.graph.inputs if value not in values}  # gradients that are to come
        try:
            for node in self.graph.nodes:
                if not unknown.isdisjoint(node.inputs()):
                    unknown.update(node.outputs)
                    continue
                args = map_values(node.args, lambda v: values[v] if v.number is None else values[v].item())
                result = execute(node.op, args)
                results = result if node.returns_list else (result,)
                if node.op.kind is not Kind.VIEW:  # views that follow rely on how it lies in memory
                    results = [_in_order(r, v.spec) for r, v in zip(results, node.outputs, strict=True)]
                values.update(zip(node.outputs, results, strict=True))
        finally:
            MODES.grad = grad
        return values

    def _write_sources(self, values: dict[Value, Any]) -> None:
        seen: set[int] = set()
        for state in self.states.values():
            if state.source is not None and state.writes and id(state) not in seen:
                seen.add(id(state))
                np.copyto(_over_source(state), values[state.value].numpy_array())


class _Outside:
    """Inside, operators run as if there were no capture."""

    def __enter__(self) -> None:
        self._saved = AMBIENT.keys, AMBIENT.trace
        AMBIENT.keys, AMBIENT.trace = AMBIENT.keys & ~TRACED, None

    def __exit__(self, *exception: object) -> None:
        AMBIENT.keys, AMBIENT.trace = self._saved


def _over_source(state: StorageState) -> np.ndarray:
    """The memory of the caller that a graph input stands for."""
    assert state.source is not None
    buffer = state.source.storage_object.buffer
    assert buffer is not None
    spec = state.spec
    return array_over(buffer, spec.known_shape(), spec.known_strides(), spec.offset, spec.dtype)


def _in_order(tensor: Tensor, spec: Spec) -> Tensor:
    """`tensor`, or a copy of it, with the strides of `spec`."""
    found, wanted = (
        [step for step, size in zip(strides, tensor.shape, strict=True) if size > 1]
        for strides in (tensor.strides(), spec.known_strides())
    )
    return tensor if found == wanted or not tensor.numel() else _laid_out(tensor, spec)


def _laid_out(tensor: Tensor, spec: Spec) -> Tensor:
    """A copy of `tensor` with the strides of `spec`, from the beginning of its memory."""
    shape, strides = spec.known_shape(), spec.known_strides()
    return from_numpy(array_over(_bytes_of(tensor, replace(spec, offset=0)), shape, strides, 0, spec.dtype))


def _bytes_of(tensor: Tensor, spec: Spec) -> np.ndarray:
    """Memory of its own with the values of `tensor`, laid out as `spec`."""
    shape, strides = spec.known_shape(), spec.known_strides()
    count = 0 if 0 in shape else spec.offset + extent(shape, strides)
    buffer = np.zeros(count * spec.dtype.itemsize, np.uint8)
    array_over(buffer, shape, strides, spec.offset, spec.dtype)[...] = tensor.numpy_array()
    return buffer


def _give_data(tensor: Tensor, twins: dict[int, Tensor]) -> None:
    storage = tensor._storage
    if storage is None or storage.buffer is None:
        return  # it has no shape yet
    shape, strides, offset = tuple(tensor.shape), tensor.strides(), tensor._offset
    tensor._array = array_over(storage.buffer, shape, strides, offset, tensor.dtype)
    tensor._strides, tensor._spec, tensor._trace = strides, None, None
    tensor._keys &= ~TRACED
    if tensor._base is not None:
        base = twins.get(id(tensor._base), tensor._base)
        tensor._base = base if base._base is None else base._base
        if tensor._view_of is not None:
            op, args = tensor._view_of
            tensor._view_of = op, tuple(twins.get(id(a), a) if isinstance(a, Tensor) else a for a in args)
        if tensor.dtype.is_differentiable:
            tensor._keys |= AUTOGRAD


def _take_over(tensor: Tensor, result: Tensor) -> None:
    """Make `tensor` what `result` is."""
    vars(tensor).clear()
    vars(tensor).update(vars(result))


def _plain(argument: Any) -> Any:
    return argument.value if type(argument) is LiveNumber else argument

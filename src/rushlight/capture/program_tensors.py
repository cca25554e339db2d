"""The tensors of a program that is captured: abstract ones, and those of the caller that they stand for.

The program runs on the caller's own tensors; the first time one takes part in an operator, it becomes an input
of the graph, and an abstract tensor, its twin, stands for it from then on: a Spec, a place in the graph, no
data. Tensors over one storage share the value of that storage.

Invariant: nothing of the caller is changed when the capture is over; `restore` undoes what autograd and the
program left on its tensors.
"""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from ..autograd.tape import sequence
from ..core.dispatch import Arguments
from ..core.interpreters import Interpreter, next_level
from ..core.modes import MODES
from ..core.registry import OpDef
from ..core.shapes import Spec, extent, surely_dense
from ..core.storage import Storage
from ..core.symbols import exact
from ..core.tensor import LAZY, TRACED, Tensor, shapeless
from ..graph.ir import Graph, Value
from .data_sizes import SizesOfData
from .deferred import DeferredCall, DeferredNumbers
from .errors import KEPT, CaptureError, Problem, user_line
from .geometry import Geometries
from .locations import NOTHING_KNOWN, Environment
from .memory import StorageState, overlaps, read_part, spec_of
from .numbers import Numbers
from .random import Draws
from .sizes import NOTHING_CHANGES, SymbolicArguments


@dataclass
class Lifted:
    """A tensor of the caller that the program uses."""

    tensor: Tensor
    value: Value
    version: int


@dataclass
class UsedGradient:
    """A tensor of the caller whose .grad the program uses, and what that was.

    `looked`: the program looked at it, or added to it, before it put another in its place; if not, nothing
    depends on what was there.
    """

    tensor: Tensor
    before: Any
    looked: bool


class TensorsOfProgram(Interpreter):
    """What an open capture knows of tensors."""

    lowest = True

    def __init__(self, graph: Graph | None = None, environment: Environment = NOTHING_KNOWN) -> None:
        self.number = next_level()
        self.graph = Graph() if graph is None else graph
        self.environment = environment  # what Python knows around the program
        self.states: dict[int, StorageState] = {}
        self.regions: dict[int, list[StorageState]] = {}  # by the storage of the caller they are parts of
        self.lifted: dict[int, Lifted] = {}
        self.draws: dict[int, Draws] = {}  # by the identity of the generator
        self.numbers = Numbers()
        self.numbers.symbols.line = user_line
        self.symbolic = SymbolicArguments(self.numbers, (), {}, NOTHING_CHANGES)
        self.gradients: dict[int, UsedGradient] = {}
        self.geometries = Geometries()
        self.replaced: dict[int, tuple[Tensor, Tensor]] = {}  # tensors of the caller whose .data was set
        self.arguments: set[int] = set()  # identities of the tensors among the arguments
        self.flags: dict[int, tuple[Tensor, bool]] = {}  # tensors whose requires_grad was set, what it was
        self.kept: list[Value] = []  # results that nobody may ask for but that must be computed
        self.deferred: list[DeferredCall] = []  # what runs after the graph
        self.deferred_numbers = DeferredNumbers()
        self.data_sizes: SizesOfData | None = None  # of a capture in which sizes may be data
        self.copies: set[int] = set()  # identities of tensors made here over memory of the caller
        self._abstract: list[weakref.ref[Tensor]] = []  # every tensor of this capture
        self._twins: dict[int, Tensor] = {}
        self._specs: dict[Spec, Spec] = {}  # of tensors of the caller whose sizes are numbers
        self._keep: list[Any] = []
        self.closed = False
        self._met: set[CodeType] = set()
        self.grad_mode = MODES.grad  # when the program began
        self.joint = False  # whether the gradients of what the program returns are being captured
        self.beginning = next(sequence)  # what is recorded from now on is the program's
        self._saved: tuple[int, Any, Any] = (0, None, ())

    # Opening and closing.

    def restore(self) -> None:
        """Undo what autograd left on the caller's tensors."""
        for used in self.gradients.values():
            used.tensor._grad = used.before
        self.geometries.restore()
        self.symbolic.restore()
        for tensor, before in self.flags.values():
            if id(tensor) in self.arguments:
                tensor.requires_grad_(before)
        for entry in reversed(self.lifted.values()):  # of those over one storage the first knows the version
            if entry.tensor._versions is not None:
                entry.tensor._versions.value = entry.version

    def close(self) -> None:
        """Let go of the caller's tensors. Abstract tensors that are still around cannot be used any more."""
        self.closed = True
        self.states, self.lifted, self.gradients, self._twins, self._keep = {}, {}, {}, {}, []
        self.regions, self._specs = {}, {}
        self.replaced, self.flags, self.deferred, self._abstract = {}, {}, [], []
        self.geometries.forget()
        self.numbers.close()
        if self.templates is not None:
            self.templates.forget()

    def new_input(self, spec: Spec, stem: str) -> Tensor:
        """An abstract tensor that is an input of the graph and no tensor of the caller."""
        tensor = self._fresh(spec)
        self._adopt(
            tensor,
            self.graph.input(Spec(spec.known_shape(), spec.dtype, spec.known_strides(), 0), stem),
            own_storage=True,
        )
        return tensor

    def stand_in(self, value: Value) -> Tensor:
        """An abstract tensor for a value that the graph has already."""
        spec = value.spec
        tensor = self._fresh(spec)
        tensor._storage, tensor._strides = Storage.of_size(0), spec.known_strides()
        tensor._offset, tensor._conj, tensor._neg = spec.offset, bool(spec.conj), bool(spec.neg)
        tensor._keys |= LAZY if spec.conj or spec.neg else 0
        self._adopt(tensor, value, own_storage=True)
        return tensor

    # Tensors and values.

    def abstract(self, tensor: Tensor) -> Tensor:
        """The abstract tensor that stands for `tensor`: itself, or the twin of a tensor of the caller."""
        if tensor._trace is self:
            if shapeless(tensor):
                self.reveal(tensor)
            if "_point" in vars(tensor):
                raise CaptureError(
                    "it uses the state of a random generator as data", user_line(), Problem.RANDOM_STATE
                )
            return tensor
        twin = self._twins.get(id(tensor))
        return self._lift(tensor) if twin is None else twin

    def _lift(self, tensor: Tensor) -> Tensor:
        """Make a tensor of the caller an input of the graph. Tensors over one storage share its value."""
        storage = tensor.storage_object
        spec = self._shared(spec_of(tensor))
        regions = self.regions.setdefault(id(storage), [])
        state = next((known for known in regions if known.covers(spec)), None)
        if state is None:
            if any(overlaps(spec, known.spec) for known in regions):
                raise CaptureError("inputs that overlap in memory", user_line(), Problem.SHARED_MEMORY)
            shape, strides = spec.known_shape(), spec.known_strides()
            dense = surely_dense(shape, strides)
            inside = self._shared(
                Spec(shape if dense else (extent(shape, strides),), spec.dtype, strides if dense else None)
            )
            whole = inside if exact(spec.offset) == 0 else replace(inside, offset=spec.offset)
            state = StorageState(self.graph.input(inside), whole, 0, tensor)
            regions.append(state)
        twin = self._fresh(spec)
        twin._storage, twin._strides = Storage.of_size(self.symbolic.room(tensor, spec)), spec.strides
        twin._offset = spec.offset
        self._keep.extend((twin._storage, storage, tensor))
        self.states[id(twin._storage)] = state
        twin._versions = tensor.version_counter
        twin._conj, twin._neg = tensor._conj, tensor._neg
        twin._keys = TRACED | (tensor._keys & LAZY)
        self.claim(twin)
        twin._node, twin._output_nr = tensor._node, tensor._output_nr  # views of it are views of no leaf
        twin._value_writes = -1  # type: ignore[attr-defined]
        self._twins[id(tensor)] = twin
        self.lifted.setdefault(id(tensor), Lifted(tensor, state.value, tensor.version_counter.value))
        return twin

    def _shared(self, spec: Spec) -> Spec:
        """The spec of tensors that look the same: one, so that what is known of it is found by identity."""
        for sizes in (spec.known_shape(), spec.known_strides(), (spec.offset,)):
            for size in sizes:
                if type(size) is not int:  # to compare symbols would be a guard
                    return spec
        return self._specs.setdefault(spec, spec)

    def claim(self, tensor: Tensor) -> None:
        super().claim(tensor)
        self._abstract.append(weakref.ref(tensor))

    def holds_alone(self, tensor: Tensor) -> bool:
        storage = tensor.storage_object
        state = self.states.get(id(storage))
        # the tensor has it, the capture keeps it, and it is looked at
        return state is not None and state.source is None and sys.getrefcount(storage) <= 4

    def abstract_tensors(self) -> list[Tensor]:
        """All there are, those that autograd has saved included."""
        found = {id(tensor): tensor for reference in self._abstract if (tensor := reference()) is not None}
        return [tensor for tensor in found.values() if tensor._trace is self]

    def meet(self, tensor: Tensor) -> None:
        """Something other than an operator is about to share the memory of `tensor`."""
        if tensor._trace is None and tensor._array is not None:
            self.abstract(tensor)

    def copied(self, tensor: Tensor, copy: Tensor) -> None:
        """`copy` was made, over the memory of `tensor`."""
        if tensor._trace is None and tensor._array is not None:
            self.copies.add(id(copy))
            self._keep.append(copy)

    def keep(self, tensor: Tensor) -> None:
        """Compute `tensor` whether somebody uses it or not."""
        self.kept.append(self.value_of(self.abstract(tensor)))

    def value_of(self, tensor: Tensor) -> Value:
        """The value of an abstract tensor now."""
        state = self.states[id(tensor.storage_object)]
        if tensor._value_writes != state.writes:  # type: ignore[attr-defined]
            tensor._value = read_part(  # type: ignore[attr-defined]
                self.graph, state, spec_of(tensor), user_line()
            )
            tensor._value_writes = state.writes  # type: ignore[attr-defined]
        return tensor._value  # type: ignore[attr-defined]

    def reveal(self, tensor: Tensor) -> None:
        """The program needs the shape or the data of a deferred result."""
        if self.closed:
            raise RuntimeError(KEPT)
        call, _ = tensor._deferred  # type: ignore[attr-defined]
        raise depends_on_data(call.name)

    def refuse(self, what: str, problem: Problem = Problem.EFFECT) -> None:
        raise CaptureError(f"not part of a graph: {what}", user_line(), problem)

    def _map(self, op: OpDef, args: Arguments, function: Any) -> Arguments:
        mapped = list(args)
        for i in op.tensor_positions:
            if args[i] is not None:
                mapped[i] = function(args[i])
        for i in op.list_positions:
            if args[i] is not None:
                mapped[i] = tuple(None if t is None else function(t) for t in args[i])
        return tuple(mapped)

    def _fresh(self, spec: Spec) -> Tensor:
        tensor = object.__new__(Tensor)
        tensor._array, tensor.dtype = None, spec.dtype
        tensor._spec = Spec(spec.known_shape(), spec.dtype, spec.known_strides(), 0)
        return tensor

    def _adopt(self, tensor: Tensor, value: Value, *, own_storage: bool) -> None:
        """Make `tensor` an abstract tensor of this capture that now has `value`."""
        tensor._keys |= TRACED
        self.claim(tensor)
        tensor._value = value  # type: ignore[attr-defined]
        storage = tensor.storage_object
        if own_storage:
            self._keep.append(storage)
            self.states[id(storage)] = StorageState(value, value.spec)
        tensor._value_writes = self.states[id(storage)].writes  # type: ignore[attr-defined]


def depends_on_data(name: str) -> CaptureError:
    what = f"the shape of the result of {name} depends on data"
    return CaptureError(what, user_line(), Problem.SHAPE_FROM_DATA)

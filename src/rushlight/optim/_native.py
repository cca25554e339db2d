"""Steps of optimizers by native code (docs/eager.md).

An update that is declared `by_elements` is compiled once for a row: a parameter, its gradient, its state,
whatever their shapes. A step runs that program for each parameter, which writes to its tensors directly. Until it
is there, and for rows that it does not serve, the update runs on lists of tensors, as it is written.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.determinism import DETERMINISM
from ..core.dispatch import AMBIENT
from ..core.giving_up import GivenUp
from ..core.lazy import LazyModule
from ..core.modes import MODES
from ..core.tensor import AUTOGRAD, Tensor
from ..eager import settings, worker
from ..eager.calls import stored_kernels_are_there
from ..logs import logger
from ._batch import Batch

if TYPE_CHECKING:
    from .optimizer import Optimizer

compiling = LazyModule("rushlight.eager.compiling")
row_programs = LazyModule("rushlight.eager.row_programs")

Key = tuple[Any, ...]
Numbers = Sequence[int | float]
Update = Callable[[Sequence[Tensor], Sequence[Any]], None]
# seconds of the list operators after which a program is worth compiling: about as long as that takes
WORTH = 0.05
MOST_KINDS = 32  # of rows, for which an optimizer has programs


class NativeUpdates:
    """The programs of one optimizer, by what a row and the hyperparameters look like."""

    def __init__(self) -> None:
        self._kinds: dict[Key, RowKind] = {}

    def update(self, optimizer: Optimizer, index: int, batch: Batch) -> None:
        """One step of a group."""
        found = _options(optimizer.param_groups[index])
        left, waiting = self._run(optimizer, index, batch, *found) if found is not None else (None, [])
        if left == []:
            return
        started = time.perf_counter()
        optimizer._update(batch if left is None else batch.part(left))
        seconds = time.perf_counter() - started
        for kind in waiting:
            kind.waited(seconds)

    def _run(
        self, optimizer: Optimizer, index: int, batch: Batch, options: Key, numbers: Numbers
    ) -> tuple[list[int] | None, list[RowKind]]:
        """Run what there is a program for: the numbers of the rows that are left, and their kinds."""
        rows = [_row(*row) for row in zip(batch.params, batch.grads, batch.states, strict=True)]
        if not _are_apart(rows):
            return None, []
        left: list[int] = []
        waiting: dict[int, RowKind] = {}
        for number, row in enumerate(rows):
            kind = None if row is None else self._kind(optimizer, index, batch, row, options, numbers)
            if row is None or kind is None or not kind.run(row, numbers):
                left.append(number)
                if kind is not None:
                    waiting[id(kind)] = kind
        return left, list(waiting.values())

    def _kind(
        self, optimizer: Optimizer, index: int, batch: Batch, row: Row, options: Key, numbers: Numbers
    ) -> RowKind | None:
        key = (index, options, row.names, row.dtypes, row.flat, row.arrays[0].size == 1)
        kind = self._kinds.get(key)
        if kind is None and len(self._kinds) < MOST_KINDS:
            group = optimizer.param_groups[index]
            update = _update_of_row(optimizer, batch, group, row.names)
            kind = self._kinds[key] = RowKind(update, _name(optimizer, batch, options, row), row, numbers)
        return kind


class Row:
    """What belongs to one parameter."""

    __slots__ = ("arrays", "dtypes", "flat", "names", "tensors")

    def __init__(self, tensors: list[Tensor], arrays: list[np.ndarray], names: tuple[str, ...]) -> None:
        self.tensors, self.arrays, self.names = tensors, arrays, names
        self.dtypes = tuple([t.dtype for t in tensors])
        self.flat = tuple([a.ndim > 0 for a in arrays])  # the others are counts


class RowKind:
    """Rows that one program serves."""

    def __init__(self, update: Update, name: Sequence[Any] | None, row: Row, numbers: Numbers) -> None:
        self._update, self._name = update, name
        self._layout = row.dtypes, row.flat, row.arrays[0].size == 1, numbers
        self._seconds, self._queued, self._generation = 0.0, False, worker.generation()
        self._refused = self._looked = False
        self._program: Any = None

    def run(self, row: Row, given: Numbers) -> bool:
        """Update a row; False: there is no program for it."""
        if self._program is None:
            if not self._looked and stored_kernels_are_there():
                self._look()
            if self._program is None and settings.get() == "native" and not self._refused:
                self._compile()
            if self._program is None:
                return False
        program, arrays = self._program, row.arrays
        numbers = program.numbers(given)
        if numbers is None or not program.serves(arrays[0].size):
            return False
        flat = [a.reshape(-1) if a.ndim > 1 else a for a in arrays]
        program.run(arrays[0].size, flat, numbers)
        for i, count in program.versions:
            row.tensors[i].version_counter.value += count
        return True

    def waited(self, seconds: float) -> None:
        """The list operators have taken so long in place of the program."""
        self._seconds += seconds
        queued = self._queued and self._generation == worker.generation()
        if self._seconds > WORTH and not queued and not self._refused and self._program is None:
            self._queued, self._generation = True, worker.generation()
            worker.submit(self._compile)

    def _look(self) -> None:
        """Take the program that an earlier process has left on disk."""
        self._looked = True
        layout = row_programs.RowLayout(*self._layout)
        key = None if self._name is None else row_programs.row_key(self._name, layout)
        if key is not None:
            self._program = row_programs.stored_row_program(key, layout)

    def _compile(self) -> None:
        layout = row_programs.RowLayout(*self._layout)
        key = None if self._name is None else row_programs.row_key(self._name, layout)
        try:
            self._program = compiling.compile_row(self._update, layout, key)
        except GivenUp as reason:
            if reason.again:
                raise
            self._refuse(reason)
        except Exception as error:
            self._refuse(error)

    def _refuse(self, error: Exception) -> None:
        logger("eager").info("a step has no native code: %s: %s", type(error).__name__, error)
        self._refused = True


def native_updates(optimizer: Optimizer) -> NativeUpdates:
    if optimizer._native is None:
        optimizer._native = NativeUpdates()
    return optimizer._native


def updates_natively(optimizer: Optimizer, batch: Batch) -> bool:
    """Whether a step may run by native code: nobody is to see the operators of the update."""
    return (
        getattr(type(optimizer)._update, "by_elements", False)
        and not _is_seen()
        and optimizer._is_by_rows(batch)
    )


def _is_seen() -> bool:
    return bool(
        settings.get() == "reference"
        or DETERMINISM.enabled
        or AMBIENT.keys
        or MODES.grad
        or MODES.dual_levels
        or MODES.traces
        or MODES.functions
        or MODES.inference
    )


def _options(group: dict[str, Any]) -> tuple[Key, Numbers] | None:
    """What of the hyperparameters a program is made for, all but the values of numbers; and these. None: tensors
    are among them."""
    found: list[Any] = []
    numbers: list[int | float] = []
    for name, value in group.items():
        if name == "params":
            continue
        parts = value if type(value) in (tuple, list) else (value,)
        for part in parts:
            if isinstance(part, Tensor):
                return None
            if type(part) in (float, int):
                numbers.append(part)
                found += [name, type(part)]
            else:
                found += [name, part]
    try:
        hash(key := tuple(found))
    except TypeError:
        return None
    return key, numbers


def _name(optimizer: Optimizer, batch: Batch, options: Key, row: Row) -> list[Any] | None:
    """What tells the update of a row from all others, in every process; None for optimizers of others."""
    kind = type(optimizer)
    if kind.__module__.split(".")[0] != __package__.split(".")[0]:
        return None
    texts = [part.__name__ if isinstance(part, type) else part for part in options]
    return [kind.__module__, kind.__qualname__, batch.real, *row.names, *texts]


def _row(param: Tensor, grad: Tensor, state: dict[str, Any]) -> Row | None:
    """A row of tensors that native code may read and write; None for others."""
    tensors, shape = [param, grad, *state.values()], param.shape
    arrays: list[np.ndarray] = []
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            return None
        array = tensor._array
        if array is None or tensor._keys & ~AUTOGRAD or tensor._base is not None or tensor._inference:
            return None
        if not array.flags.carray or (array.ndim and array.shape != shape):
            return None
        arrays.append(array)
    if not arrays[0].ndim or not arrays[1].ndim or not arrays[0].size:
        return None
    return Row(tensors, arrays, tuple(state))


def _are_apart(rows: Sequence[Row | None]) -> bool:
    """Whether no memory is in two places of the rows."""
    spans = sorted(
        [(a.__array_interface__["data"][0], a.nbytes) for row in rows if row is not None for a in row.arrays]
    )
    return all(a + n <= b for (a, n), (b, _) in itertools.pairwise(spans))


def _update_of_row(
    optimizer: Optimizer, batch: Batch, group: dict[str, Any], names: tuple[str, ...]
) -> Update:
    """The update as a function of the tensors of one row and the numbers among the hyperparameters."""
    own = {"leaves", "params", "grads", "states"}
    rest = {name: value for name, value in vars(batch).items() if name not in own}
    options = {name: value for name, value in group.items() if name != "params"}

    def of_row(row: Sequence[Tensor], numbers: Sequence[Any]) -> None:
        param, grad, *state = row
        left = iter(numbers)
        part: Batch = object.__new__(Batch)
        vars(part).update(rest)
        for name, value in options.items():
            parts = value if type(value) in (tuple, list) else (value,)
            live = [next(left) if type(p) in (float, int) else p for p in parts]
            setattr(part, name, tuple(live) if parts is value else live[0])
        part.leaves, part.params, part.grads = [param], [param], [grad]
        part.states = [dict(zip(names, state, strict=True))]
        optimizer._update(part)

    return of_row

"""A compiled program that can be called: native segments and library calls over one block of addresses.

`run(inputs)` takes the input arrays in order and returns the output arrays. The workspace belongs to the
executable and is used by one call at a time; a call that finds it taken (from another thread, or from
itself) uses a workspace of its own.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..core.dtypes import BY_NUMPY
from ..core.shapes import contiguous_strides
from . import profile, redzones
from .engine import Library
from .guarded_run import run_guarded
from .invoke import (
    ALIGNED,
    NO_EFFECTS,
    NO_GUARDS,
    Effects,
    Invoker,
    LocationGuards,
    NativeProgram,
    Output,
    Source,
    available,
    unseen,
)
from .threads import ThreadPool

LONG_WORK = 1 << 16  # bytes touched by a program above which other Python threads may run meanwhile


class Slot(NamedTuple):
    """A buffer of the block.

    `shape` and `strides` (in bytes) of the array an output or temporary is seen as.
    """

    number: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    offset: int = 0  # in the workspace, of a temporary

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


_abandoned: list[Any] = []  # memory that is neither used again nor freed


class SharedWorkspace:
    """Memory for temporaries, as large as was ever needed; one call at a time uses it. It grows to twice its
    size at least: new memory costs a page fault a page, and what is not used none."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._memory = aligned_bytes(0)
        self._native: tuple[np.ndarray, np.ndarray] | None = None

    def of_size(self, size: int) -> np.ndarray:
        """The memory, by whoever holds the lock."""
        if self._memory.size < size:
            self._memory = aligned_bytes(max(size, 2 * self._memory.size))
        return self._memory

    def renew(self) -> np.ndarray:
        """Use other memory from now on than what is returned. Native calls have their own word about theirs."""
        old, self._memory, self._native = self._memory, aligned_bytes(0), None
        return old

    def for_native_calls(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Memory for native calls, and a word that is not 0 while one of them uses it. Calls that were made for
        less keep what they have: sizes are doubled, so that all of it is not more than twice the last."""
        if self._native is None:
            self._native = aligned_bytes(size), np.zeros(1, np.int64)
        elif self._native[0].size < size:
            self._native = aligned_bytes(1 << (size - 1).bit_length()), np.zeros(1, np.int64)
        return self._native


class SizesInMemory(NamedTuple):
    """The sizes of a call to a program that takes them from memory."""

    slot: int | None  # of the block; None if no kernel needs a size
    table: np.ndarray
    workspace: SharedWorkspace


class BlockMemory(NamedTuple):
    """The block of addresses that segments take: how many, and which are in the workspace."""

    slots: int
    temporaries: Sequence[Slot]
    workspace_size: int  # in bytes
    sizes: SizesInMemory | None = None  # where they change from call to call
    calls: CallsInMemory | None = None


class Calls(Protocol):
    """What a program calls besides its own code, through a table."""

    @property
    def address(self) -> int:
        """Where the table is."""

    def settle(self) -> bool:
        """The program has ended with an error. False if its memory must be kept for ever."""

    def raise_error(self) -> None:
        """Raise what has gone wrong in a call."""


class CallsInMemory(NamedTuple):
    """The table of calls of a program."""

    slot: int  # of the block
    calls: Calls


class Executable:
    """Native code with its memory."""

    def __init__(
        self,
        library: Library,
        segments: Sequence[str | Callable[..., None]],
        inputs: Sequence[int | None],
        outputs: Sequence[Slot],
        memory: BlockMemory,
        pool: ThreadPool,
        reports: Sequence[tuple[type[Exception], str]] = (),
        updates: Mapping[int, int] | None = None,
    ) -> None:
        self._library = library
        self._pool = pool
        native = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self.segments: list[tuple[bool, Callable[..., Any]]] = [
            (True, native(library.addresses[s])) if isinstance(s, str) else (False, s) for s in segments
        ]
        self.entries = [library.addresses[s] for s in segments if isinstance(s, str)]
        self.slots = memory.slots
        self._calls = memory.calls
        self.loops = False  # whether it may run longer than the memory it touches tells
        self.inputs = list(inputs)
        self.output_slots = list(outputs)
        self.outputs = [(output.number, allocator(output)) for output in outputs]
        self.temporaries = list(memory.temporaries)
        self.workspace_size = memory.workspace_size
        self._block_type = ctypes.c_int64 * memory.slots
        self.reports = list(reports)
        # positions of outputs that are inputs, updated in place; `outputs` are the others
        self.updates = dict(sorted((updates or {}).items()))
        self.native = all(native for native, _ in self.segments)
        self.sizes = sizes = memory.sizes
        self._shared = SharedWorkspace() if sizes is None else sizes.workspace
        self._template: Any = None
        self._template_of: np.ndarray | None = None  # the workspace that the template has addresses in
        # the workspace of native calls, and a word that is not 0 while one of them uses it
        self._native_memory: tuple[np.ndarray, np.ndarray] | None = None
        # the native call, made at first use
        self._call: Any = None if self.native and available() and sizes is None else False

    @property
    def calls(self) -> Calls | None:
        return None if self._calls is None else self._calls.calls

    def run(self, inputs: Sequence[np.ndarray], sizes: Sequence[int] = ()) -> list[np.ndarray]:
        """The outputs; those in `updates` are the given arrays, with new contents."""
        found = self._run_on(inputs)
        for position, given in self.updates.items():
            found.insert(position, inputs[given])
        return found

    def call_natively(self) -> None:
        """Call a program for sizes that came again as one of fixed sizes is: it gets a native callable, too."""
        if self._call is False and self.native and available():
            self._call = None

    def _run_on(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        if redzones.enabled():
            return run_guarded(self, inputs)
        call = self._call
        if call is None:
            sources = [
                Source(i, None, array, slot)
                for i, (array, slot) in enumerate(zip(inputs, self.inputs, strict=True))
            ]
            call = self._call = self.invoker(len(inputs), sources, tensors=False, single=False).call
        if call is not False:
            found = call(*inputs)
            if type(found) is list:
                return found
            if found is not NotImplemented:
                self.report(found)
        own = self._shared.lock.acquire(blocking=False)
        try:
            return self._run(inputs, own=own)
        finally:
            if own:
                self._shared.lock.release()

    def invoker(
        self,
        arguments: int,
        sources: Sequence[Source],
        *,
        tensors: bool,
        single: bool,
        effects: Effects = NO_EFFECTS,
        guards: LocationGuards = NO_GUARDS,
    ) -> Invoker:
        """A native callable for this program, which must be native throughout; see Invoker."""
        targets, homes = effects.targets, effects.homes
        outputs = []
        program = self.native_program(sources)
        block = program.template
        copied = aligned_bytes(sum(-(-self.output_slots[k].nbytes // 64) * 64 for k in homes))
        address = copied.__array_interface__["data"][0]
        for k, o in enumerate(self.output_slots):
            strides = o.strides
            if strides is None and k in targets:
                strides = tuple(s * o.dtype.itemsize for s in contiguous_strides(o.shape))
            outputs.append(
                Output(o.number, BY_NUMPY[o.dtype], o.shape, strides, targets.get(k), homes.get(k, -1))
            )
            if k in homes:
                block[o.number] = address
                address += -(-o.nbytes // 64) * 64
        made = Invoker(
            arguments,
            sources,
            outputs,
            program._replace(shared=program.shared or bool(homes), keep=(program.keep, copied)),
            tensors=tensors,
            single=single,
            effects=effects,
            guards=guards,
        )
        if profile.enabled():
            made.call = unseen(made.call)
        return made

    def native_program(self, sources: Sequence[Source]) -> NativeProgram:
        """What a native callable for inputs like these runs."""
        if self._native_memory is None:
            self._native_memory = self._shared.for_native_calls(self.workspace_size)
        workspace, busy = self._native_memory
        return NativeProgram(
            self.entries,
            np.frombuffer(self._block_over(workspace), np.int64),
            busy,
            shared=bool(self.workspace_size),
            release=self.loops or self.calls is not None or self._touched(sources) > LONG_WORK,
            keep=(workspace, self._library, self._pool, self.sizes, self.calls),
        )

    def _touched(self, sources: Sequence[Source]) -> int:
        """How many bytes a call reads and writes."""
        touched = self.workspace_size + sum(o.nbytes for o in self.output_slots)
        for source in sources:
            example = source.example
            touched += (example if isinstance(example, np.ndarray) else example._array).nbytes
        return touched

    def report(self, number: int, memory: Any = None) -> None:
        """Raise the error with this number, which ended a call that used `memory` besides the workspace."""
        if self.calls is not None:
            if not self.calls.settle():
                self._abandon_memory(memory)
            if number > len(self.reports):
                self.calls.raise_error()
        kind, message = self.reports[number - 1]
        raise kind(message)

    def _abandon_memory(self, memory: Any) -> None:
        """Never use again, nor free, what messages that are still on their way may be written to."""
        if self._native_memory is not None:
            self._native_memory[1][0] = 1  # native calls find it taken
        _abandoned.append((memory, self._native_memory, self._shared.renew()))

    def _run(self, inputs: Sequence[np.ndarray], *, own: bool) -> list[np.ndarray]:
        """Fill in the block, run the segments in order, and give the outputs."""
        if own:
            workspace = self._shared.of_size(self.workspace_size)
            if self._template_of is not workspace:
                self._template, self._template_of = self._block_over(workspace), workspace
            template = self._template
        else:
            workspace = aligned_bytes(self.workspace_size)
            template = self._block_over(workspace)
        block = self._block_type.from_buffer_copy(template)
        error = ctypes.c_int64(0)
        block[1] = ctypes.addressof(error)
        for slot, array in zip(self.inputs, inputs, strict=True):
            if slot is not None:
                block[slot] = array.__array_interface__["data"][0]
        outputs = []
        for number, allocate in self.outputs:
            array = allocate()
            block[number] = array.__array_interface__["data"][0]
            outputs.append(array)
        arrays = None if self.native else self._arrays(inputs, outputs, workspace)
        address = ctypes.addressof(block)
        for native, segment in self.segments:
            segment(address if native else arrays)
            if error.value:
                self.report(error.value, workspace)
        return outputs

    def new_block(self) -> Any:
        """An empty block of addresses, the pool's filled in."""
        block = self._block_type()
        block[0] = self._pool.address
        if self.sizes is not None and self.sizes.slot is not None:
            block[self.sizes.slot] = self.sizes.table.__array_interface__["data"][0]
        if self._calls is not None:
            block[self._calls.slot] = self._calls.calls.address
        return block

    def _block_over(self, workspace: np.ndarray) -> Any:
        """A block with the addresses that are the same in every call that uses `workspace`."""
        block = self.new_block()
        base = workspace.__array_interface__["data"][0]
        for temporary in self.temporaries:
            block[temporary.number] = base + temporary.offset
        return block

    def _arrays(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], workspace: np.ndarray
    ) -> dict[int, np.ndarray]:
        """The buffers as arrays, for segments that are not native."""
        arrays = {slot: array for slot, array in zip(self.inputs, inputs, strict=True) if slot is not None}
        arrays.update((number, array) for (number, _), array in zip(self.outputs, outputs, strict=True))
        for t in self.temporaries:
            arrays[t.number] = np.ndarray(t.shape, t.dtype, workspace, t.offset, t.strides)
        return arrays


def aligned_bytes(size: int, alignment: int = 64) -> np.ndarray:
    """Uninitialised bytes at an aligned address."""
    memory = np.empty(size + alignment, np.uint8)
    start = -memory.__array_interface__["data"][0] % alignment
    return memory[start : start + size]


def allocator(slot: Slot) -> Callable[[], np.ndarray]:
    """A function that makes a new array for an output, in its memory order, aligned where that pays."""
    shape, dtype, strides = slot.shape, slot.dtype, slot.strides
    count = math.prod(shape)
    if count * dtype.itemsize < ALIGNED:
        if strides is None or count == 0:
            return lambda: np.empty(shape, dtype)
        return lambda: np.ndarray(shape, dtype, np.empty(count, dtype), 0, strides)
    size = count * dtype.itemsize
    return lambda: np.ndarray(shape, dtype, aligned_bytes(size), 0, strides)

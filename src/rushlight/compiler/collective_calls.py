"""The collectives of a program: a table of calls that its native code makes.

A place in the table has the address of a function and what it is given. A collective is begun at one place
and waited for at another; both are native code that calls MPI (transfers.py), on the program's own memory.
Reductions that are small begin together: those of one group and kind, as many as have `BUCKET` bytes, if
nobody waits for one of them before. All processes run the same program, so that they join the same ones; a
sum has the same bits alone and joined. The table is filled when the program first runs, and again if its
group has been replaced. Calls that native code cannot make (a group of one process, a result that another
program waits for) are made in Python.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..codegen.llvm.records import ERROR_SLOT
from ..codegen.llvm.transfers import FAILED
from ..comm import functional, rounds
from ..comm.group import ProcessGroup, debug_level
from ..comm.reductions import Reduction
from ..core.dtypes import DType
from ..core.index_data import evaluate_data, to_data
from ..core.shapes import contiguous_strides, numel
from ..core.symbols import SymInt
from ..graph.ir import Node, map_values
from ..kernels.collective import BEGIN
from .transfers import (
    MOST_TRANSFERS,
    Call,
    NativeTransfer,
    address_of,
    combiner,
    memory_at,
    transport,
    waiting_for,
)

GROUP_AT = {
    "all_gather_into_tensor": 2,
    "reduce_scatter_tensor": 3,
    "all_to_all_single": 3,
    "isend": 3,
    "irecv": 3,
}


def group_of_node(args: Sequence[Any], name: str) -> ProcessGroup:
    return functional.group_of(args[GROUP_AT.get(name, 2)])


@dataclass
class Entry:
    """A call: what is begun or waited for, in which buffers of the block."""

    name: str
    args: Sequence[Any]
    source: int
    target: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    result: tuple[int, ...]
    dtype: DType
    temporary: bool  # whether the result is in the workspace
    begun_by: int | None = None  # of a wait: the place of the call that begins
    waited_at: int | None = None
    group: ProcessGroup | None = field(default=None, repr=False)

    @property
    def waits(self) -> bool:
        return self.name == "wait_tensor"

    @property
    def size(self) -> int:
        """Bytes of the result."""
        return numel(self.result) * self.dtype.itemsize

    @property
    def whole(self) -> bool:
        """Whether the operand is contiguous."""
        return self.strides == contiguous_strides(self.shape) or 0 in self.shape


def entry_of(node: Node, call: dict[str, Any], sizes: Mapping[str, int]) -> Entry:
    (source,), (target,) = call["inputs"], call["outputs"]
    ((shape, strides),) = [
        tuple(tuple(evaluate_data(n, sizes) for n in part) for part in layout) for layout in call["layouts"]
    ]
    args, result = numbers_in(node.args, sizes), numbers_in(node.outputs[0].shape, sizes)
    dtype = next(value.dtype for value in node.inputs())
    return Entry(node.op.schema.name, args, source, target, shape, strides, result, dtype, call["temporary"])


def pair(entries: Sequence[Entry]) -> None:
    """Find which call waits for what which begins."""
    begun: dict[int, int] = {}  # by the slot of the result
    for i, entry in enumerate(entries):
        if not entry.waits:
            begun[entry.target] = i
        elif entry.source in begun and entry.whole:
            entry.begun_by = begun.pop(entry.source)
            entries[entry.begun_by].waited_at = i


class CollectiveCalls:
    """The table of calls of a program. Place 0 moves on what is under way."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = list(entries)
        pair(self.entries)
        self.table = np.zeros(2 * (1 + len(self.entries)), np.int64)
        self.transfers: list[NativeTransfer] = []
        self.error: BaseException | None = None
        self._kept: list[Any] = []
        this = weakref.ref(self)
        self._unlinked = Call(lambda number, block: _link_and_call(this, number or 0, block))
        self.unlink()

    @property
    def address(self) -> int:
        return int(self.table.__array_interface__["data"][0])

    def unlink(self) -> None:
        """Let the next run look for groups and transfers again."""
        self.table[:2] = 0
        for i in range(1, 1 + len(self.entries)):
            self.table[2 * i : 2 * i + 2] = address_of(self._unlinked), i
        self.transfers, self._kept = [], []

    def link(self) -> None:
        """Fill in the table."""
        table: dict[int, tuple[int, int]] = {}
        for entry in self.entries:
            entry.group = None if entry.waits else group_of_node(entry.args, entry.name)
        native = [
            i for i, entry in enumerate(self.entries) if entry.waited_at is not None and _is_native(entry)
        ][:MOST_TRANSFERS]
        for members in joined(self.entries, native):
            self._begin_natively(members, table)
        for i in range(len(self.entries)):
            if i not in table:
                table[i] = self._in_python(i)
        for i, (function, argument) in table.items():
            self.table[2 * i + 2 : 2 * i + 4] = function, argument
        if self.transfers:
            self.table[:2] = transport().progress, transport().exchange.address
        for group in {id(e.group): e.group for e in self.entries if e.group is not None}.values():
            group.users.add(self)

    def _begin_natively(self, members: Sequence[int], table: dict[int, tuple[int, int]]) -> None:
        """One transfer for some calls, the last of which begins it."""
        entries = [self.entries[i] for i in members]
        group = entries[0].group
        assert group is not None
        slots, found, kept = transfer_of(entries, group)
        if found.most()[2] > rounds.MOST_BYTES:
            return
        self._kept.append(kept)
        name = entries[0].name if len(entries) == 1 else f"{entries[0].name} of {len(entries)}"
        messages = entries[0].name in ("isend", "irecv")
        transfer = NativeTransfer(name, group, found, slots, messages=messages)
        self.transfers.append(transfer)
        for i in members[:-1]:  # others may use the operand's memory before the last one begins
            table[i] = self._copy_to_result(self.entries[i])
        table[members[-1]] = transport().begin, transfer.words.address
        waits = sorted(e.waited_at for e in entries if e.waited_at is not None)
        for number, i in enumerate(waits):
            entry = self.entries[i]
            waiting = waiting_for(None if number else transfer, entry.source, entry.target, entry.size)
            self._kept.append(waiting)
            table[i] = transport().wait, waiting.address

    def _copy_to_result(self, entry: Entry) -> tuple[int, int]:
        """The call that copies an operand to the memory of the result."""
        if entry.source == entry.target:
            return 0, 0
        copied = waiting_for(None, entry.source, entry.target, entry.size)
        self._kept.append(copied)
        return transport().wait, copied.address

    def _in_python(self, i: int) -> tuple[int, int]:
        run = python_call(self.entries[i])

        def call(_: int, block: int) -> None:
            try:
                run(block)
            except BaseException as error:
                self.fail(error, block)

        function = Call(call)
        self._kept.append(function)
        return address_of(function), 0

    def fail(self, error: BaseException, block: int) -> None:
        """Have the program end with an error."""
        self.error = self.error or error
        word = memory_at(block, 8 * (ERROR_SLOT + 1)).view(np.int64)[ERROR_SLOT]
        memory_at(int(word), 8).view(np.int64)[0] = FAILED

    def raise_error(self) -> None:
        """Raise what has ended the program."""
        error, self.error = self.error, None
        raise error if error is not None else transport().failure()

    def settle(self) -> bool:
        """The program has ended with an error: so do its collectives. False if messages may still arrive."""
        if not self.transfers or transport().settle(self.transfers):
            return True
        self.unlink()
        return False


def _link_and_call(this: weakref.ref[CollectiveCalls], number: int, block: int) -> None:
    calls = this()
    assert calls is not None
    try:
        calls.link()
        function, argument = calls.table[2 * number : 2 * number + 2].tolist()
        if function:
            Call(function)(argument, block)
    except BaseException as error:
        calls.fail(error, block)


def _is_native(entry: Entry) -> bool:
    """Messages go to the workspace, which is kept if they do not arrive; the debug mode checks in Python."""
    if entry.group is None or entry.group.comm is None or debug_level() == "DETAIL":
        return False
    return entry.whole and entry.temporary


def joined(entries: Sequence[Entry], native: Sequence[int]) -> list[list[int]]:
    """Calls that begin together, in the order in which they do."""
    found: list[list[int]] = []
    queues: dict[int, list[int]] = {}  # by group: reductions that wait for others

    def end(group: int) -> None:
        if group in queues:
            found.append(queues.pop(group))

    for i, entry in enumerate(entries):
        if entry.waits:
            if entry.begun_by is not None:
                for group in [g for g, queue in queues.items() if entry.begun_by in queue]:
                    end(group)
            continue
        group, queue = id(entry.group), queues.get(id(entry.group), [])
        joins = i in native and entry.name == "all_reduce" and entry.size < functional.BUCKET
        if not joins or (queue and _key(entries[queue[0]]) != _key(entry)):
            end(group)
        if joins:
            queues.setdefault(group, []).append(i)
            if sum(entries[j].size for j in queues[group]) >= functional.BUCKET:
                end(group)
        elif i in native:
            found.append([i])
    for group in list(queues):
        end(group)
    return found


def _key(entry: Entry) -> tuple[Any, ...]:
    return entry.args[1].upper(), entry.dtype


def transfer_of(entries: Sequence[Entry], group: ProcessGroup) -> tuple[list[int], rounds.Rounds, Any]:
    """The slots and rounds of a collective, or of several reductions, and what has to be kept for them."""
    entry, size, rank = entries[0], group.size(), group.rank()
    name, args, width = entry.name, entry.args, entry.dtype.itemsize
    slots = list(dict.fromkeys(slot for e in entries for slot in (e.source, e.target)))
    place = {slot: rounds.Place(1 + i) for i, slot in enumerate(slots)}
    source, target, function, kept = place[entry.source], place[entry.target], 0, None
    if name in ("all_reduce", "reduce_scatter_tensor"):
        function, kept = combiner(Reduction(args[1].upper()).kind, entry.dtype)
    if name == "all_reduce":
        count = sum(e.size for e in entries) // width
        values = rounds.Values(count, width, function)
        parts = [(place[e.target], place[e.target], e.size) for e in entries[:-1]]
        parts.append((place[entries[-1].source], place[entries[-1].target], entries[-1].size))
        return slots, rounds.joined_all_reduce(size, rank, values, parts), kept
    if name == "reduce_scatter_tensor":
        values = rounds.Values(numel(entry.result), width, function)
        return slots, rounds.reduce_scatter(size, rank, values, source, target), kept
    if name == "all_gather_into_tensor":
        return slots, rounds.all_gather(size, rank, source, target, entry.size // size), kept
    if name == "all_to_all_single":
        row = numel(entry.shape[1:]) * width
        received, sent = ([row * count for count in counts] for counts in args[1:3])
        return slots, rounds.all_to_all(rank, sent, received, source, target), kept
    peer = group.ranks.index(args[1])
    if name == "broadcast":
        return slots, rounds.broadcast(size, peer, source, target, entry.size), kept
    if name == "isend":
        return slots, rounds.send(source, target, entry.size, peer, args[2]), kept
    return slots, rounds.receive(target, entry.size, peer, args[2]), kept


# In Python.


def python_call(entry: Entry) -> Callable[[int], None]:
    """A function of the address of a block that makes a call."""

    def array(block: int, slot: int, count: int) -> np.ndarray:
        base = ctypes.c_int64.from_address(block + 8 * slot).value
        return memory_at(base, count * entry.dtype.itemsize).view(entry.dtype.numpy)

    def operand(block: int) -> np.ndarray:
        last = sum((n - 1) * step for n, step in zip(entry.shape, entry.strides, strict=True))
        return seen_as(
            array(block, entry.source, 0 if 0 in entry.shape else last + 1), entry.shape, entry.strides
        )

    def begin(block: int) -> None:
        values = np.ascontiguousarray(operand(block))
        given = map_values(entry.args, lambda _: values)
        BEGIN[entry.name](given, array(block, entry.target, numel(entry.result)).reshape(entry.result))

    def wait(block: int) -> None:
        values = operand(block)
        functional.wait(values)
        if entry.source != entry.target:
            array(block, entry.target, numel(entry.result)).reshape(entry.result)[...] = values

    return wait if entry.waits else begin


def numbers_in(argument: Any, sizes: Mapping[str, int]) -> Any:
    """An argument with numbers in place of sizes that change."""
    if type(argument) is SymInt:
        return evaluate_data(to_data(argument), sizes)
    return tuple(numbers_in(a, sizes) for a in argument) if type(argument) is tuple else argument


def seen_as(array: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """The memory of `array` under another shape and strides (in elements)."""
    if 0 in shape:
        return np.empty(shape, array.dtype)
    words = array.view(f"V{array.itemsize}")  # NumPy's interface has no name for every dtype
    seen = np.lib.stride_tricks.as_strided(words, shape, tuple(s * array.itemsize for s in strides))
    return seen.view(array.dtype)

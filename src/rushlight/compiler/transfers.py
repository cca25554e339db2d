"""Transfers: collectives that native code carries out, as memory that it reads, and what is asked of
Python.

In: rounds (comm/rounds.py) of a collective. Out: the memory of a `Transfer` (codegen/llvm/transfers.py).
Python is called when somebody has waited for long: to move on collectives that were begun in Python, to let
other programs have the core, and to give up when the group's time is over.
"""

from __future__ import annotations

import ctypes
import functools
import os
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..codegen.llvm.control_flow import c_routines
from ..codegen.llvm.routines import routine_address
from ..codegen.llvm.transfers import (
    IDLE,
    LOOKS,
    NATIVE_DTYPES,
    NATIVE_KINDS,
    RUNNING,
    Exchange,
    Transfer,
    Waiting,
)
from ..comm import pending
from ..comm.group import ProcessGroup
from ..comm.mpi import DistBackendError, load, told
from ..comm.reductions import Reduction, combine
from ..comm.rounds import SIZES_DIFFER, Rounds
from ..core.dtypes import DType
from ..runtime.engine import engine

MOST_TRANSFERS = 1 << 14  # of one program

Call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_Notice = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
_Combine = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def memory_at(address: int, size: int) -> np.ndarray:
    """Bytes of memory as an array."""
    if not size:
        return np.empty(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


class Words:
    """The memory of a struct all of whose fields have 64 bits."""

    def __init__(self, layout: Any, **values: int) -> None:
        self.layout = layout
        self.words = np.array([word % (1 << 64) for word in layout.words(**values)], np.uint64).view(np.int64)

    @property
    def address(self) -> int:
        return int(self.words.__array_interface__["data"][0])

    def get(self, name: str) -> int:
        return int(self.words[self.layout.offset_of(name) // 8])

    def put(self, name: str, value: int) -> None:
        self.words[self.layout.offset_of(name) // 8] = value


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


class Transport:
    """The exchange of this process: MPI's functions, and which transfers there are."""

    def __init__(self) -> None:
        MPI = load()
        library = ctypes.CDLL(MPI.__file__)
        names = ("Isend", "Irecv", "Testall", "Get_count", "Iallgather", "Ibcast")
        routines = {name.lower(): address_of(getattr(library, f"MPI_{name}")) for name in names}
        self.handle = MPI._sizeof(MPI.Comm)
        self.status_bytes = MPI._sizeof(MPI.Status)
        kind = np.int32 if self.handle == 4 else np.int64
        self.no_request = np.array(MPI._handleof(MPI.REQUEST_NULL)).astype(kind)
        self.target = engine().target
        self.active = np.zeros(MOST_TRANSFERS, np.int64)
        # by address: those that programs have
        self.transfers: weakref.WeakValueDictionary[int, NativeTransfer] = weakref.WeakValueDictionary()
        self.abandoned: list[NativeTransfer] = []  # of programs that failed: messages may still arrive
        self._notice = _Notice(self._waited)
        self._yield = ctypes.CDLL(None).sched_yield
        self.exchange = Words(
            Exchange,
            **routines,
            memcpy=c_routines()["memcpy"],
            sched_yield=address_of(self._yield),
            advance=routine_address(self.target, "transfer_advance", self.handle),
            notice=address_of(self._notice),
            byte=MPI._handleof(MPI.BYTE),
            in_place=int(MPI.IN_PLACE),
            status_bytes=self.status_bytes,
            active=_address(self.active),
            count=0,
            failed=0,
        )
        self.begin = routine_address(self.target, "transfer_begin", self.handle)
        self.wait = routine_address(self.target, "transfer_wait")
        self.progress = routine_address(self.target, "transfer_progress")
        self.error: BaseException | None = None
        self._since = 0.0  # when the program began to wait for the one that it waits for
        pending.native_progress.append(self.move_on)

    def move_on(self) -> None:
        """Move on what is under way."""
        if self.exchange.get("count") and not self.exchange.get("failed"):
            Call(self.progress)(self.exchange.address, None)

    def _waited(self, address: int, looks: int) -> int:
        """Somebody has waited for long for a transfer, and looked so often; 1 to give up."""
        try:
            transfer = self.transfers[address]
            now = time.monotonic()
            self._since = now if looks < LOOKS else self._since
            pending.python_progress()
            waited = now - self._since
            if waited > transfer.timeout:
                raise DistBackendError(
                    f"{transfer.name} timed out: not all processes took part in {transfer.timeout:g} s"
                )
            if waited > pending.PATIENCE:
                time.sleep(pending.NAP)
            return 0
        except BaseException as error:  # native code is no place for it: raised by `failure`
            self.error = error
            return 1

    def failure(self) -> BaseException:
        """What was wrong with the transfer that has failed; others can be begun again."""
        found, self.error = self.error, None
        for transfer in list(self.transfers.values()):
            said = transfer.said(self)
            found = found or said
            transfer.words.put("error", 0)
        self.exchange.put("failed", 0)
        return found or DistBackendError("a collective has failed")

    def settle(self, transfers: Sequence[NativeTransfer], timeout: float = 5.0) -> bool:
        """After an error in a program: end its transfers, which nobody waits for any more. Whether all have
        ended; MPI may write to the memory of the others as long as the process lives."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and not self.exchange.get("failed"):
            self.move_on()
            if not any(t.words.get("state") == RUNNING for t in transfers):
                break
            os.sched_yield()
        left = [t for t in transfers if t.requested]
        gone = {t.words.address for t in transfers}
        active = [at for at in self.active[: self.exchange.get("count")].tolist() if at not in gone]
        self.active[: len(active)] = active
        self.exchange.put("count", len(active))
        self.abandoned += left
        for transfer in transfers:
            transfer.words.put("state", IDLE)
        return not left


@functools.cache
def transport() -> Transport:
    return Transport()


class NativeTransfer:
    """One collective of one program, of which `slots` are the buffers."""

    def __init__(
        self, name: str, group: ProcessGroup, rounds: Rounds, slots: Sequence[int], *, messages: bool
    ) -> None:
        shared = transport()
        where = f"{name} of group {group.group_name} (rank {group.rank()} of {group.size()})"
        self.name, self.group, self.timeout = where, group, group.timeout.total_seconds()
        requests, parts, _ = rounds.most()
        self._rounds = np.array(rounds.words(), np.int64)
        self._requests = np.full(max(requests, 1), shared.no_request)
        self._statuses = np.zeros(max(requests, 1) * shared.status_bytes, np.uint8)
        self._scratch = np.empty(rounds.scratch + 64, np.uint8)
        self._bases = np.zeros(1 + len(slots), np.int64)
        self._bases[0] = -(-_address(self._scratch) // 64) * 64
        self._slots = np.array([*slots, 0], np.int64)
        self._pointers = np.zeros(max(parts, 1), np.int64)
        comm = group.messages if messages else group.comm
        self.words = Words(
            Transfer,
            exchange=shared.exchange.address,
            state=IDLE,
            rounds=_address(self._rounds),
            round_count=len(rounds.rounds),
            current=0,
            left=0,
            requests=_address(self._requests),
            statuses=_address(self._statuses),
            pending=0,
            comm=load()._handleof(comm),
            sequence=0 if messages else group.sequence_address,
            tag=0,
            bases=_address(self._bases),
            slots=_address(self._slots),
            slot_count=len(slots),
            pointers=_address(self._pointers),
            error=0,
            found=0,
            peer=0,
        )
        shared.transfers[self.words.address] = self

    def said(self, shared: Transport) -> BaseException | None:
        """What was wrong with it, if something was."""
        error = self.words.get("error")
        if not error:
            return None
        if error == SIZES_DIFFER:
            return DistBackendError(
                f"{self.name}: {self.words.get('found')} bytes came from rank "
                f"{self.group.ranks[self.words.get('peer')]} where others were expected: the processes call "
                "different collectives, or with tensors of different sizes"
            )
        return told(self.name, error, self._messages_statuses(shared))

    def _messages_statuses(self, shared: Transport) -> list[Any]:
        """What MPI has written about the messages of the current round."""
        MPI, found = load(), []
        for i in range(self.words.get("pending")):
            status = MPI.Status()
            place = _address(self._statuses) + i * shared.status_bytes
            ctypes.memmove(MPI._addressof(status), place, shared.status_bytes)
            found.append(status)
        return found

    @property
    def requested(self) -> bool:
        """Whether MPI has been asked for messages that have not arrived: a transfer that failed has some, too."""
        return bool((self._requests != transport().no_request).any())


def waiting_for(transfer: NativeTransfer | None, source: int, target: int, size: int) -> Words:
    """Where a program waits; nothing is copied if source and target are the same slot."""
    return Words(
        Waiting,
        exchange=transport().exchange.address,
        transfer=0 if transfer is None else transfer.words.address,
        source=source,
        target=target,
        size=0 if source == target else size,
    )


@functools.cache
def combiner(kind: str, dtype: DType) -> tuple[int, Any]:
    """The address of a function that combines what processes have, and what keeps it: native code, or the
    reductions of Python."""
    if kind in NATIVE_KINDS and dtype.name in NATIVE_DTYPES:
        return routine_address(engine().target, "combine", kind, NATIVE_DTYPES[dtype.name]), None

    def run(target: int, parts: int, part_count: int, count: int) -> None:
        places = memory_at(parts, 8 * part_count).view(np.int64).tolist()
        size = count * dtype.itemsize
        arrays = [memory_at(place, size).view(dtype.numpy) for place in places]
        own = places.index(target) if target in places else -1
        combine(arrays, memory_at(target, size).view(dtype.numpy), Reduction(kind), own=own)

    function = _Combine(_noted(run))
    return address_of(function), function


def _noted(run: Callable[..., None]) -> Callable[..., None]:
    """Errors of a function that native code calls are raised when the program has ended."""

    @functools.wraps(run)
    def guarded(*arguments: Any) -> None:
        shared = transport()
        try:
            run(*arguments)
        except BaseException as error:
            shared.error = error
            shared.exchange.put("failed", 1)

    return guarded

"""Collectives in native code: transfers, which MPI moves on while a program computes.

A transfer is a list of rounds (comm/rounds.py): messages, and what is done with them when all have arrived.
Native code begins one with non-blocking calls of MPI, looks between two stages whether a round is complete
and goes on with the next one, and waits where the result is read. The functions of MPI are called by
address. Two words of a round say where memory is: the number of one of the transfer's bases, of which the
first is its own scratch memory and the others are buffers of the program, and a distance in bytes.

A transfer that fails (MPI's error, a message of another size, a process that does not take part) leaves the
number `FAILED` where programs report errors; what was wrong is asked for in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...comm.exchange import TAGS
from ...comm.rounds import HEADER, LOCAL, MESSAGE, RECEIVE, SEND, SHARE, SIZES_DIFFER
from ...core.lazy import LazyModule
from .emitter import Emitter
from .records import ERROR_SLOT, Reader, RecordArgs
from .routines import routine
from .struct import I64, Ptr, Struct
from .types import Callee, vector

ir = LazyModule("llvmlite.ir")

FAILED = 1 << 30  # the number of an error that is no report of the program's
IDLE, RUNNING, DONE = range(3)
LOOKS = 512  # at arrivals, between two calls of `notice`


class Exchange(Struct):
    """What all transfers of a process share: MPI's functions, C's, and the transfers that are under way."""

    isend: Ptr
    irecv: Ptr
    testall: Ptr
    get_count: Ptr
    iallgather: Ptr
    ibcast: Ptr
    memcpy: Ptr
    sched_yield: Ptr
    advance: Ptr  # native code of this file
    notice: Ptr  # `i64 notice(transfer, looks)`: somebody has waited for long; whether to give up
    byte: I64  # MPI_BYTE
    in_place: Ptr  # MPI_IN_PLACE
    status_bytes: I64  # of an MPI_Status
    active: Ptr  # the addresses of transfers that are under way,
    count: I64  # and how many there are
    failed: I64  # whether one has failed: nothing is begun or waited for until Python has been told


class Transfer(Struct):
    """One collective of one program."""

    exchange: Ptr
    state: I64
    rounds: Ptr  # the words of all rounds
    round_count: I64
    current: Ptr  # the words of the round that is under way
    left: I64  # rounds, this one included
    requests: Ptr
    statuses: Ptr
    pending: I64  # how many requests there are
    comm: I64
    sequence: Ptr  # the number of the group's last collective
    tag: I64
    bases: Ptr  # where its memory is: scratch, then buffers of the program,
    slots: Ptr  # which have these slots in its block
    slot_count: I64
    pointers: Ptr  # room for the addresses of what is combined
    error: I64  # what MPI says, or SIZES_DIFFER
    found: I64  # the size of a message that should have another,
    peer: I64  # and where it came from


class Waiting(Struct):
    """Where a program waits for a transfer, and copies a result to the memory that readers expect it in."""

    exchange: Ptr
    transfer: Ptr  # null: another of its results was waited for before
    source: I64  # slots
    target: I64
    size: I64  # in bytes; 0: they are the same


class TransferArgs(Struct):
    transfer: Ptr  # or a `Waiting`, or an `Exchange`
    block: Ptr


class AdvanceArgs(Struct):
    transfer: Ptr


class _Mpi:
    """Calls of MPI, whose handles have `handle` bytes, in the code of a routine about a transfer."""

    def __init__(self, e: Emitter, pointer: Any, handle: int) -> None:
        self.e, self.pointer = e, pointer
        self.handle_type = e.i32 if handle == 4 else e.i64
        self.handle_bytes = handle
        self.transfer: Any = Transfer.at(e, pointer)
        self.exchange: Any = Exchange.at(e, self.transfer.exchange)

    def handle(self, word: Any) -> Any:
        return self.e.builder.trunc(word, self.e.i32) if self.handle_bytes == 4 else word

    def number(self, word: Any) -> Any:
        return self.e.builder.trunc(word, self.e.i32)

    def call(self, name: str, arguments: Sequence[Any]) -> Any:
        """What a function of C's returns, an i32."""
        kind = ir.FunctionType(self.e.i32, [argument.type for argument in arguments])
        return self.e.call(Callee(getattr(self.exchange, name), kind), arguments)

    def place(self, words: Any, at: int) -> Any:
        """The address that two words say."""
        e = self.e
        number, offset = load_word(e, words, at), load_word(e, words, at + 1)
        return e.address(e.load(e.address(self.transfer.bases, number, e.i64), e.pointer), offset, e.i8)

    def failed(self, error: Any) -> None:
        self.transfer.put(error=error, state=self.e.i64(DONE))
        self.exchange.put(failed=self.e.i64(1))


def load_word(e: Emitter, words: Any, at: Any) -> Any:
    return e.load(e.address(words, at, e.i64), e.i64)


# A round.


def _post(mpi: _Mpi) -> None:
    """Begin the messages of the current round."""
    e, transfer = mpi.e, mpi.transfer
    words = transfer.current
    count = load_word(e, words, 0)
    transfer.put(pending=count)
    byte, comm = mpi.handle(mpi.exchange.byte), mpi.handle(transfer.comm)
    with e.loop(0, count) as i:
        message = e.address(words, e.add(e.mul(i, MESSAGE), HEADER), e.i64)
        kind = load_word(e, message, 0)
        place, size = mpi.place(message, 1), mpi.number(load_word(e, message, 3))
        peer = mpi.number(load_word(e, message, 4))
        tag = mpi.number(e.add(load_word(e, message, 5), transfer.tag))
        request = e.address(transfer.requests, e.mul(i, mpi.handle_bytes), e.i8)
        between = [place, size, byte, peer, tag, comm, request]
        from_root = [place, size, byte, peer, comm, request]
        shared = [mpi.exchange.in_place, e.i32(0), byte, place, size, byte, comm, request]
        calls = ((SHARE, "iallgather", shared), (SEND, "isend", between), (RECEIVE, "irecv", between))
        begin = _called(mpi, "ibcast", from_root)
        for number, name, arguments in calls:
            begin = _either(e, e.compare("==", kind, number), _called(mpi, name, arguments), begin)
        (result,) = begin()
        with e.when(e.compare("!=", result, 0)):
            mpi.failed(e.builder.sext(result, e.i64))


def _called(mpi: _Mpi, name: str, arguments: Sequence[Any]) -> Callable[[], Sequence[Any]]:
    return lambda: [mpi.call(name, arguments)]


def _either(
    e: Emitter, condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]
) -> Callable[[], Any]:
    return lambda: e.branch(condition, then, otherwise)


def _check_sizes(mpi: _Mpi) -> None:
    """Whether messages that have arrived have the size that was expected."""
    e, transfer = mpi.e, mpi.transfer
    words = transfer.current
    found = e.local(e.i32)
    with e.loop(0, load_word(e, words, 1)) as i:
        message = e.address(words, e.add(e.mul(i, MESSAGE), HEADER), e.i64)
        status = e.address(transfer.statuses, e.mul(i, mpi.exchange.status_bytes), e.i8)
        mpi.call("get_count", [status, mpi.handle(mpi.exchange.byte), found])
        size = e.builder.sext(e.load(found, e.i32), e.i64)
        with e.when(e.compare("!=", size, load_word(e, message, 3))):
            transfer.put(found=size, peer=load_word(e, message, 4))
            mpi.failed(e.i64(SIZES_DIFFER))


def _finish(mpi: _Mpi) -> None:
    """Do what follows the messages of the current round, and begin the next one."""
    e, transfer = mpi.e, mpi.transfer
    words = transfer.current
    first = e.address(words, e.add(e.mul(load_word(e, words, 0), MESSAGE), HEADER), e.i64)

    def local(_: Any, at: Any) -> Sequence[Any]:
        function, target = e.load(at, e.pointer), mpi.place(at, 1)
        count, parts = load_word(e, at, 3), load_word(e, at, 4)
        with e.loop(0, parts) as i:
            source = e.address(at, e.add(e.mul(i, 2), LOCAL), e.i64)
            e.store(mpi.place(source, 0), e.address(transfer.pointers, i, e.i64))
        is_copy = e.compare("==", load_word(e, at, 0), 0)

        def copy() -> Sequence[Any]:
            kind = ir.FunctionType(e.pointer, [e.pointer, e.pointer, e.i64])
            e.call(Callee(mpi.exchange.memcpy, kind), [target, e.load(transfer.pointers, e.pointer), count])
            return ()

        def combine() -> Sequence[Any]:
            kind = CombineArgs.function_type()
            e.call(Callee(function, kind), [target, transfer.pointers, parts, count])
            return ()

        e.branch(is_copy, copy, combine)
        return (e.address(at, e.add(e.mul(parts, 2), LOCAL), e.i64),)

    (behind,) = e.fold(0, load_word(e, words, 2), 1, (first,), local)
    left = e.sub(transfer.left, 1)
    transfer.put(left=left, current=behind)

    def end() -> Sequence[Any]:
        transfer.put(state=e.i64(DONE))
        return ()

    def go_on() -> Sequence[Any]:
        _post(mpi)
        return ()

    e.branch(e.compare("==", left, 0), end, go_on)


@routine("transfer_advance", AdvanceArgs)
def advance(e: Emitter, args: AdvanceArgs, handle: int) -> None:
    """Go on with a transfer that is under way, as far as that is possible without waiting."""
    mpi = _Mpi(e, args.transfer, handle)
    transfer, flag = mpi.transfer, e.local(e.i32)

    def look() -> tuple[Any, Sequence[Any]]:
        e.store(e.i32(1), flag)
        with e.when(e.compare("!=", transfer.pending, 0)):
            counted = mpi.number(transfer.pending)
            result = mpi.call("testall", [counted, transfer.requests, flag, transfer.statuses])
            with e.when(e.compare("!=", result, 0)):
                mpi.failed(e.builder.sext(result, e.i64))
        arrived = e.compare("!=", e.load(flag, e.i32), 0)
        with e.when(e.and_(arrived, e.compare("==", transfer.state, RUNNING))):
            _check_sizes(mpi)
            with e.when(e.compare("==", transfer.state, RUNNING)):
                _finish(mpi)
        return e.and_(arrived, e.compare("==", transfer.state, RUNNING)), ()

    e.repeat((), look)


@routine("transfer_begin", TransferArgs)
def begin(e: Emitter, args: TransferArgs, handle: int) -> None:
    """Begin a transfer."""
    mpi = _Mpi(e, args.transfer, handle)
    transfer, exchange = mpi.transfer, mpi.exchange
    with e.when(e.compare("==", exchange.failed, 0)):
        with e.loop(0, transfer.slot_count) as i:
            slot = load_word(e, transfer.slots, i)
            e.store(load_word(e, args.block, slot), e.address(transfer.bases, e.add(i, 1), e.i64))
        transfer.put(tag=e.i64(0), error=e.i64(0), state=e.i64(RUNNING))
        transfer.put(current=transfer.rounds, left=transfer.round_count)
        numbered = e.compare("!=", e.builder.ptrtoint(transfer.sequence, e.i64), 0)
        with e.when(numbered):
            number = e.add(e.load(transfer.sequence, e.i64), 1)
            e.store(number, transfer.sequence)
            transfer.put(tag=e.mul(e.builder.urem(number, e.i64(TAGS)), 2))
        _post(mpi)
        with e.when(e.compare("==", transfer.state, RUNNING)):
            e.call(Callee(exchange.advance, AdvanceArgs.function_type()), [args.transfer])
        with e.when(e.compare("==", transfer.state, RUNNING)):
            count = exchange.count
            e.store(args.transfer, e.address(exchange.active, count, e.i64))
            exchange.put(count=e.add(count, 1))


def _progress(e: Emitter, exchange: Any) -> None:
    """Move on all transfers that are under way."""

    def look(at: Any) -> tuple[Any, Sequence[Any]]:
        place = e.address(exchange.active, at, e.i64)
        pointer = e.load(place, e.pointer)
        e.call(Callee(exchange.advance, AdvanceArgs.function_type()), [pointer])
        done = e.compare("==", Transfer.at(e, pointer).state, DONE)

        def remove() -> Sequence[Any]:
            left = e.sub(exchange.count, 1)
            e.store(load_word(e, exchange.active, left), place)
            exchange.put(count=left)
            return (at,)

        (following,) = e.branch(done, remove, lambda: (e.add(at, 1),))
        return e.compare("<", following, exchange.count), (following,)

    with e.when(e.compare("!=", exchange.count, 0)):
        e.repeat((e.i64(0),), look)


@routine("transfer_progress", TransferArgs)
def progress(e: Emitter, args: TransferArgs) -> None:
    """Move on all transfers of the exchange that is given as the first argument."""
    _progress(e, Exchange.at(e, args.transfer))


@routine("transfer_wait", TransferArgs)
def wait(e: Emitter, args: TransferArgs) -> None:
    """Wait for the end of a transfer."""
    waiting: Any = Waiting.at(e, args.transfer)
    exchange: Any = Exchange.at(e, waiting.exchange)
    pointer = waiting.transfer
    with e.when(e.compare("!=", e.builder.ptrtoint(pointer, e.i64), 0)):
        _wait(e, exchange, pointer)
    size = waiting.size
    with e.when(e.compare("!=", size, 0)):
        source, target = (
            e.load(e.address(args.block, slot, e.i64), e.pointer) for slot in (waiting.source, waiting.target)
        )
        kind = ir.FunctionType(e.pointer, [e.pointer, e.pointer, e.i64])
        e.call(Callee(exchange.memcpy, kind), [target, source, size])
    with e.when(e.compare("!=", exchange.failed, 0)):
        e.store(e.i64(FAILED), e.load(e.address(args.block, ERROR_SLOT, e.i64), e.pointer))


def _wait(e: Emitter, exchange: Any, pointer: Any) -> None:
    transfer: Any = Transfer.at(e, pointer)

    def look(count: Any) -> tuple[Any, Sequence[Any]]:
        _progress(e, exchange)
        with e.when(e.compare("==", transfer.state, RUNNING)):
            e.call(Callee(exchange.sched_yield, ir.FunctionType(e.i32, [])), [])
            with e.when(e.compare("==", e.and_(count, e.i64(LOOKS - 1)), e.i64(LOOKS - 1))):
                kind = ir.FunctionType(e.i64, [e.pointer, e.i64])
                gives_up = e.call(Callee(exchange.notice, kind), [pointer, count])
                with e.when(e.compare("!=", gives_up, 0)):
                    exchange.put(failed=e.i64(1))
        running = e.compare("==", transfer.state, RUNNING)
        return e.and_(running, e.compare("==", exchange.failed, 0)), (e.add(count, 1),)

    e.repeat((e.i64(0),), look)
    with e.when(e.compare("==", transfer.state, DONE)):
        transfer.put(state=e.i64(IDLE))


@routine("external", RecordArgs, quick=True)
def run_external(e: Emitter, args: RecordArgs, sized: int) -> None:
    """Call what a table in the block says: the record has the table's slot and the place in it, which has the
    address of a function, or 0, and what it is given."""
    given = Reader(e, args.block, args.record, sized=bool(sized))
    place = e.address(given.buffer(0), e.mul(given.word(1), 2), e.i64)
    function = e.load(place, e.pointer)
    with e.when(e.compare("!=", load_word(e, place, 0), 0)):
        argument = e.load(e.address(place, 1, e.i64), e.pointer)
        e.call(Callee(function, TransferArgs.function_type()), [argument, args.block])


# Combining what processes have.


class CombineArgs(Struct):
    """`target[i]` becomes the combination of `parts[0][i]`, `parts[1][i]`, ..., in this order."""

    target: Ptr
    parts: Ptr
    part_count: I64
    count: I64


NATIVE_KINDS = ("SUM", "AVG")
NATIVE_DTYPES = {"float32": "float", "float64": "double", "bfloat16": "bfloat16"}


@routine("combine", CombineArgs)
def combine(e: Emitter, args: CombineArgs, kind: str, name: str) -> None:
    """A sum in the order of the parts, rounded once; divided by their number for AVG. The target may be one of
    the parts: an element is written when all parts of it have been read."""
    element = ir.DoubleType() if name == "double" else ir.FloatType()
    stored = e.i16 if name == "bfloat16" else element
    lanes = 4 * e.target.vector_bytes // (8 if name == "double" else 4)
    bulk = e.builder.and_(args.count, e.i64(-lanes))

    def elements(at: Any, width: int) -> None:
        def part(number: Any) -> Any:
            base = e.load(e.address(args.parts, number, e.i64), e.pointer)
            found = e.load(e.address(base, at, stored), vector(stored, width))
            return e.from_bfloat16(found) if name == "bfloat16" else found

        (total,) = e.fold(
            1, args.part_count, 1, (part(e.i64(0)),), lambda number, so_far: (e.add(so_far, part(number)),)
        )
        if kind == "AVG":
            count = e.builder.sitofp(args.part_count, element)
            total = e.div(total, e.splat(count, width))
        if name == "bfloat16":
            total = e.to_bfloat16(total)
        e.store(total, e.address(args.target, at, stored))

    with e.loop(0, bulk, lanes) as at:
        elements(at, lanes)
    with e.loop(bulk, args.count) as at:
        elements(at, 1)

"""The messages of collectives: what `comm/rounds.py` sends, and what MPI makes of its own collectives.

A collective is a list of rounds. In a round a process sends and receives messages, all at once; when all have
arrived it copies or combines what came and begins the next one. That happens in calls of MPI, which a program
makes between its stages and where it waits. MPI's own collectives (`SHARE`, `BROADCAST`) are rounds as well, in
the algorithms of MPICH: recursive doubling or Bruck's for little data, a ring for much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..comm.rounds import BROADCAST, RECEIVE, SEND, SHARE, Local, Message, Rounds

# MPICH's limits, in bytes (MPIR_CVAR_ALLGATHER_SHORT_MSG_SIZE and so on).
GATHER_SHORT, GATHER_LONG = 81_920, 524_288
BROADCAST_SHORT, BROADCAST_LONG, BROADCAST_FEW = 12_288, 524_288, 8


@dataclass(frozen=True)
class Round:
    """What a process does in one round."""

    messages: int = 0  # sent and received
    bytes: int = 0  # sent, or received, whichever is more
    touched: int = 0  # bytes that are read and written when copying and combining


@dataclass(frozen=True)
class Cost:
    """A collective."""

    rounds: tuple[Round, ...]
    scratch: int  # bytes of memory that it takes besides its result

    @property
    def bytes(self) -> int:
        """What a process sends, or receives, whichever is more."""
        return sum(each.bytes for each in self.rounds)

    @property
    def messages(self) -> int:
        return sum(each.messages for each in self.rounds)


def cost_of(rounds: Rounds, size: int, itemsize: int) -> Cost:
    """The cost of a collective of `size` processes on elements of `itemsize` bytes."""
    found: list[Round] = []
    for messages, locals in rounds.rounds:
        parts = _expanded(messages, size)
        touched = sum(_touched(local, itemsize) for local in locals)
        if parts:
            *first, last = parts
            found += [*first, Round(last.messages, last.bytes, touched)]
        else:
            found.append(Round(touched=touched))
    return Cost(tuple(found), rounds.scratch)


def _touched(local: Local, itemsize: int) -> int:
    """A copy reads and writes bytes; a combination reads elements of all parts and writes one."""
    return 2 * local.length if not local.function else (len(local.parts) + 1) * local.length * itemsize


def _expanded(messages: Sequence[Message], size: int) -> list[Round]:
    """The rounds that the messages of one round take."""
    between = [m for m in messages if m.kind in (SEND, RECEIVE)]
    found = []
    if between:
        sent, received = (sum(m.size for m in between if m.kind == kind) for kind in (SEND, RECEIVE))
        found.append(Round(len(between), max(sent, received)))
    for message in messages:
        if message.kind == SHARE:
            found += all_gather_rounds(size, message.size)
        elif message.kind == BROADCAST:
            found += broadcast_rounds(size, message.size)
    return found


def all_gather_rounds(size: int, part: int) -> list[Round]:
    """Of `part` bytes of each of `size` processes."""
    total = size * part
    if size == 1:
        return []
    power = size & (size - 1) == 0
    if (power and total < GATHER_LONG) or total < GATHER_SHORT:
        found, have = [], 1
        while have < size:
            found.append(Round(2, part * min(have, size - have)))
            have *= 2
        return found
    return [Round(2, part)] * (size - 1)


def broadcast_rounds(size: int, whole: int) -> list[Round]:
    """Of `whole` bytes; those of the process that gets them last."""
    if size == 1:
        return []
    depth = (size - 1).bit_length()
    if whole < BROADCAST_SHORT or size < BROADCAST_FEW:
        return [Round(2, whole)] * depth
    halves = [Round(2, -(-whole // (1 << k))) for k in range(1, depth + 1)]  # a tree scatters pieces,
    return halves + all_gather_rounds(size, -(-whole // size))  # which are gathered

"""Collectives as data: rounds of messages, and what is done with them once they are there.

A compiled program's collectives are carried out by native code (codegen/llvm/transfers.py), which goes
through the words made here. They are the steps of `exchange`, with the same messages and the same order of
combination, so that results have the same bits. A place in memory is (base, distance): the number of a
buffer, or `SCRATCH` for memory of the collective's own, and a number of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .exchange import SMALL, shares

SCRATCH = 0
RECEIVE, SEND, SHARE, BROADCAST = range(4)  # kinds of messages
# Words of a round's header, of a message, and of what is done, without its parts.
HEADER, MESSAGE, LOCAL = 3, 6, 5
SIZES_DIFFER = -1  # in place of an error number of MPI's: what came has another size than what was expected
MOST_BYTES = (1 << 31) - 1  # of a message: MPI counts in 32 bits


class Place(NamedTuple):
    """Where bytes are."""

    base: int
    offset: int = 0

    def at(self, distance: int) -> Place:
        return Place(self.base, self.offset + distance)


class Message(NamedTuple):
    kind: int
    place: Place
    size: int  # in bytes
    peer: int = 0
    tag: int = 0  # counted from the tag of the collective


class Local(NamedTuple):
    """What is done: a copy of `length` bytes, or `length` elements combined by the function at an address."""

    target: Place
    length: int
    parts: Sequence[Place]
    function: int = 0


@dataclass
class Rounds:
    """A collective: its rounds, and the bytes of scratch memory that they use."""

    rounds: list[tuple[list[Message], list[Local]]] = field(default_factory=list)
    scratch: int = 0

    def take(self, size: int) -> Place:
        """Scratch memory."""
        place = Place(SCRATCH, self.scratch)
        self.scratch += -(-size // 64) * 64
        return place

    def add(self, messages: Sequence[Message] = (), locals: Sequence[Local] = ()) -> None:
        """A round; messages without bytes are not sent. Those that are received come first."""
        sent = sorted((m for m in messages if m.size), key=lambda m: m.kind != RECEIVE)
        done = [x for x in locals if x.length and (x.function or x.target != x.parts[0])]
        if sent or done:
            self.rounds.append((sent, done))

    def words(self) -> list[int]:
        found: list[int] = []
        for messages, locals in self.rounds:
            found += [len(messages), sum(m.kind == RECEIVE for m in messages), len(locals)]
            for m in messages:
                found += [m.kind, *m.place, m.size, m.peer, m.tag]
            for x in locals:
                found += [x.function, *x.target, x.length, len(x.parts)]
                found += [word for part in x.parts for word in part]
        return found

    def most(self) -> tuple[int, int, int]:
        """Of all rounds: the most messages, the most parts, and the largest message in bytes."""
        every = [m.size for messages, _ in self.rounds for m in messages]
        parts = [len(x.parts) for _, locals in self.rounds for x in locals]
        return max((len(m) for m, _ in self.rounds), default=0), max(parts, default=0), max(every, default=0)


class Values(NamedTuple):
    """What a reduction is of: `elements` values of `itemsize` bytes, combined by the function at an address."""

    elements: int
    itemsize: int
    function: int


def all_reduce(size: int, rank: int, values: Values, place: Place, rounds: Rounds | None = None) -> Rounds:
    """In place, among `size` processes, of which this is number `rank`."""
    found = Rounds() if rounds is None else rounds
    count, width, function = values
    whole = count * width
    if size == 1:
        found.add([], [Local(place, count, [place], function)])
        return found
    if whole * size <= SMALL:
        everything = found.take(whole * size)
        parts = [everything.at(i * whole) for i in range(size)]
        found.add([], [Local(parts[rank], whole, [place])])
        found.add([Message(SHARE, everything, whole)], [Local(place, count, parts, function)])
        return found
    bounds = [n * width for n in shares(count, size)]
    own = bounds[rank + 1] - bounds[rank]
    arrived = found.take(own * size)
    peers = [i for i in range(size) if i != rank]
    share = place.at(bounds[rank])
    messages = [Message(RECEIVE, arrived.at(i * own), own, i) for i in peers]
    messages += [Message(SEND, place.at(bounds[i]), bounds[i + 1] - bounds[i], i) for i in peers]
    parts = [share if i == rank else arrived.at(i * own) for i in range(size)]
    found.add(messages, [Local(share, own // width, parts, function)])
    messages = [Message(RECEIVE, place.at(bounds[i]), bounds[i + 1] - bounds[i], i, 1) for i in peers]
    found.add([*messages, *(Message(SEND, share, own, i, 1) for i in peers)])
    return found


def joined_all_reduce(
    size: int, rank: int, values: Values, parts: Sequence[tuple[Place, Place, int]]
) -> Rounds:
    """Several reductions as one; of each, where the operand is, where the result is to be, and their bytes."""
    found = Rounds()
    if len(parts) == 1:
        ((source, target, count),) = parts
        found.add([], [Local(target, count, [source])])
        return all_reduce(size, rank, values, target, found)
    together = found.take(sum(count for _, _, count in parts))
    at = [together.at(sum(count for _, _, count in parts[:i])) for i in range(len(parts))]
    found.add([], [Local(own, n, [source]) for own, (source, _, n) in zip(at, parts, strict=True)])
    all_reduce(size, rank, values, together, found)
    found.add([], [Local(target, n, [own]) for own, (_, target, n) in zip(at, parts, strict=True)])
    return found


def all_gather(size: int, rank: int, source: Place, target: Place, part: int) -> Rounds:
    """`part` bytes of each process, one behind the other."""
    found = Rounds()
    found.add([], [Local(target.at(rank * part), part, [source])])
    if size > 1:
        found.add([Message(SHARE, target, part)])
    return found


def reduce_scatter(size: int, rank: int, values: Values, source: Place, target: Place) -> Rounds:
    """Process i gets the combination of everybody's part i, which has `values.elements` values."""
    found = Rounds()
    part = values.elements * values.itemsize
    kept = found.take(part * size)  # the caller may write to the source before all of it has been sent
    arrived = found.take(part * size)
    found.add([], [Local(kept, part * size, [source])])
    peers = [i for i in range(size) if i != rank]
    messages = [Message(RECEIVE, arrived.at(i * part), part, i) for i in peers]
    messages += [Message(SEND, kept.at(i * part), part, i) for i in peers]
    parts = [(kept if i == rank else arrived).at(i * part) for i in range(size)]
    found.add(messages, [Local(target, values.elements, parts, values.function)])
    return found


def all_to_all(
    rank: int, sent: Sequence[int], received: Sequence[int], source: Place, target: Place
) -> Rounds:
    """`sent` and `received` are the bytes for and from each process."""
    found = Rounds()
    kept = found.take(sum(sent))
    starts, ends = ([sum(sizes[:i]) for i in range(len(sizes))] for sizes in (sent, received))
    mine = Local(target.at(ends[rank]), sent[rank], [kept.at(starts[rank])])
    found.add([], [Local(kept, sum(sent), [source]), mine])
    peers = [i for i in range(len(sent)) if i != rank]
    messages = [Message(RECEIVE, target.at(ends[i]), received[i], i) for i in peers]
    found.add([*messages, *(Message(SEND, kept.at(starts[i]), sent[i], i) for i in peers)])
    return found


def broadcast(size: int, root: int, source: Place, target: Place, whole: int) -> Rounds:
    found = Rounds()
    found.add([], [Local(target, whole, [source])])
    if size > 1:
        found.add([Message(BROADCAST, target, whole, root)])
    return found


def send(source: Place, target: Place, whole: int, peer: int, tag: int) -> Rounds:
    found = Rounds()
    found.add([], [Local(target, whole, [source])])
    found.add([Message(SEND, target, whole, peer, tag)])
    return found


def receive(target: Place, whole: int, peer: int, tag: int) -> Rounds:
    found = Rounds()
    found.add([Message(RECEIVE, target, whole, peer, tag)])
    return found

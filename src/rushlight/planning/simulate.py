"""A step of one process on a network: kernels take the times that were measured, messages those of the network.

All processes do the same at the same time. A collective begins where the program begins it. Its messages share
one link with those of others, in the order in which they were sent. A round that is complete is noticed at the
next call of MPI: behind every stage while collectives are under way, and where the program waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .costs import Cost
from .network import Network


@dataclass(frozen=True)
class Compute:
    """The program computes. `work` are the operations and bytes of each kernel, for telling equal launches."""

    seconds: float
    work: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Progress:
    """The program looks after messages."""


@dataclass(frozen=True)
class Begin:
    """A collective begins."""

    cost: Cost


@dataclass(frozen=True)
class Wait:
    """The program waits for the collective that the `begun`-th `Begin` began, counted from 0."""

    begun: int


@dataclass(frozen=True)
class Copy:
    """Operands or results of collectives are copied: `touched` bytes are read or written."""

    touched: int


Item = Compute | Progress | Begin | Wait | Copy


@dataclass
class _Transfer:
    """A collective that is under way."""

    cost: Cost
    at: int = -1  # the round
    arrives: float = 0.0  # when its messages are there
    done: bool = False


@dataclass
class _Rank:
    """The process, and the clock."""

    network: Network
    memory: float  # bytes that a thread reads and writes in a second
    now: float = 0.0
    link: float = 0.0  # when the link is free
    transfers: list[_Transfer] = field(default_factory=list)
    active: list[_Transfer] = field(default_factory=list)

    def begin(self, cost: Cost) -> None:
        transfer = _Transfer(cost)
        self.transfers.append(transfer)
        self.active.append(transfer)
        self._next_round(transfer)
        self._advance(transfer)

    def _next_round(self, transfer: _Transfer) -> None:
        """Send the messages of the next round."""
        transfer.at += 1
        if transfer.at == len(transfer.cost.rounds):
            transfer.done = True
            return
        each = transfer.cost.rounds[transfer.at]
        network = self.network
        self.now += each.messages * network.overhead
        if not each.messages:
            transfer.arrives = self.now
        elif network.offload:
            self.link = max(self.link, self.now) + each.bytes / network.bandwidth
            transfer.arrives = self.link + network.latency
        else:
            transfer.arrives = self.now + network.latency

    def _advance(self, transfer: _Transfer) -> None:
        """Go on with a collective as far as what has arrived allows."""
        while not transfer.done and transfer.arrives <= self.now:
            each = transfer.cost.rounds[transfer.at]
            if not self.network.offload:
                self.now += each.bytes / self.network.bandwidth
            self.now += each.touched / self.memory
            self._next_round(transfer)

    def progress(self) -> None:
        for transfer in self.active:
            self._advance(transfer)
        self.active = [transfer for transfer in self.active if not transfer.done]

    def wait(self, number: int) -> None:
        self.progress()
        while not self.transfers[number].done:
            self.now = max(self.now, min(transfer.arrives for transfer in self.active))
            self.progress()


def simulate(items: Sequence[Item], network: Network, memory: float) -> float:
    """How long the items take, in seconds, on a machine whose thread reads and writes `memory` bytes a second."""
    rank = _Rank(network, memory)
    for item in items:
        match item:
            case Compute(seconds):
                rank.now += seconds
            case Progress():
                rank.progress()
            case Begin(cost):
                rank.begin(cost)
            case Wait(begun):
                rank.wait(begun)
            case Copy(touched):
                rank.now += touched / memory
    return rank.now

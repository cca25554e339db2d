"""Collectives as rounds: carried out by a model of MPI in one process, for any number of ranks."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from rushlight.comm import rounds
from rushlight.comm.rounds import BROADCAST, HEADER, LOCAL, MESSAGE, RECEIVE, SEND, Place, Rounds, Values

ADD = 1  # stands for the address of a function that adds


class Machine:
    """The memory of ranks: scratch, an operand and a result each, in bytes."""

    def __init__(self, plans: list[Rounds], operands: list[np.ndarray], results: list[int]) -> None:
        self.plans = plans
        self.memory = [
            [np.full(plan.scratch, 0xAB, np.uint8), operand.view(np.uint8).copy(), np.full(n, 0xCD, np.uint8)]
            for plan, operand, n in zip(plans, operands, results, strict=True)
        ]

    def part(self, rank: int, place: Place, size: int) -> np.ndarray:
        memory = self.memory[rank][place.base]
        assert place.offset >= 0 and place.offset + size <= memory.size
        return memory[place.offset : place.offset + size]

    def run(self) -> None:
        count = len(self.plans[0].rounds)
        assert all(len(plan.rounds) == count for plan in self.plans)
        for number in range(count):
            self._messages(number)
            for rank, plan in enumerate(self.plans):
                for x in plan.rounds[number][1]:
                    width = 4 if x.function else 1
                    parts = [self.part(rank, p, x.length * width).copy() for p in x.parts]
                    done = parts[0]
                    for other in parts[1:]:
                        done = (done.view(np.float32) + other.view(np.float32)).view(np.uint8)
                    self.part(rank, x.target, x.length * width)[...] = done

    def _messages(self, number: int) -> None:
        sent: dict[tuple[int, int, int], np.ndarray] = {}
        shared = [
            (rank, m)
            for rank, plan in enumerate(self.plans)
            for m in plan.rounds[number][0]
            if m.kind not in (SEND, RECEIVE)
        ]
        for rank, m in shared:
            whole = self.part(rank, m.place, m.size if m.kind == BROADCAST else m.size * len(self.plans))
            for other in range(len(self.plans)):
                if m.kind == BROADCAST:
                    whole[...] = self.part(m.peer, m.place, m.size)
                else:
                    own = slice(other * m.size, (other + 1) * m.size)
                    whole[own] = self.part(other, m.place, m.size * len(self.plans))[own]
        for rank, plan in enumerate(self.plans):
            for m in plan.rounds[number][0]:
                if m.kind == SEND:
                    assert (rank, m.peer, m.tag) not in sent
                    sent[rank, m.peer, m.tag] = self.part(rank, m.place, m.size).copy()
        for rank, plan in enumerate(self.plans):
            for m in plan.rounds[number][0]:
                if m.kind == RECEIVE:
                    self.part(rank, m.place, m.size)[...] = sent.pop((m.peer, rank, m.tag))
        assert not sent


def carried_out(
    plan: Callable[[int], Rounds], operands: list[np.ndarray], results: list[int]
) -> list[np.ndarray]:
    machine = Machine([plan(rank) for rank in range(len(operands))], operands, [4 * n for n in results])
    machine.run()
    return [memory[2].view(np.float32) for memory in machine.memory]


def values(size: int, count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(size * 1000 + count)
    return [generator.standard_normal(count).astype(np.float32) for _ in range(size)]


def in_order(parts: list[np.ndarray]) -> np.ndarray:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("count", [1, 5, 1000, 20000])
def test_all_reduce_has_the_bits_of_the_order_of_ranks(size: int, count: int) -> None:
    given = values(size, count)
    parts = [(Place(1), Place(2), 4 * count)]
    found = carried_out(
        lambda rank: rounds.joined_all_reduce(size, rank, Values(count, 4, ADD), parts), given, [count] * size
    )
    assert all(np.array_equal(one, in_order(given)) for one in found)


@pytest.mark.parametrize("size", [2, 3])
def test_joined_reductions_have_the_bits_of_single_ones(size: int) -> None:
    given = values(size, 30000)
    cuts = [0, 3, 3, 17000, 30000]
    parts = [(Place(1, 4 * a), Place(2, 4 * a), 4 * (b - a)) for a, b in itertools.pairwise(cuts)]
    found = carried_out(
        lambda rank: rounds.joined_all_reduce(size, rank, Values(30000, 4, ADD), parts), given, [30000] * size
    )
    assert all(np.array_equal(one, in_order(given)) for one in found)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_gather_scatter_and_broadcast(size: int) -> None:
    given = values(size, 6 * size)
    found = carried_out(
        lambda rank: rounds.all_gather(size, rank, Place(1), Place(2), 24 * size), given, [6 * size**2] * size
    )
    assert all(np.array_equal(one, np.concatenate(given)) for one in found)
    found = carried_out(
        lambda rank: rounds.reduce_scatter(size, rank, Values(6, 4, ADD), Place(1), Place(2)),
        given,
        [6] * size,
    )
    for rank, one in enumerate(found):
        assert np.array_equal(one, in_order([g[6 * rank : 6 * rank + 6] for g in given]))
    last = size - 1
    found = carried_out(
        lambda rank: rounds.broadcast(size, last, Place(1), Place(2), 24 * size), given, [6 * size] * size
    )
    assert all(np.array_equal(one, given[last]) for one in found)


def test_all_to_all_of_uneven_parts() -> None:
    counts = [[1, 0, 4], [2, 3, 0], [5, 1, 1]]  # of rank i for rank j
    given = [values(3, sum(row))[0] + i for i, row in enumerate(counts)]
    received = [[row[j] for row in counts] for j in range(3)]
    found = carried_out(
        lambda rank: rounds.all_to_all(
            rank, [4 * n for n in counts[rank]], [4 * n for n in received[rank]], Place(1), Place(2)
        ),
        given,
        [sum(r) for r in received],
    )
    for j, one in enumerate(found):
        parts = [given[i][sum(counts[i][:j]) : sum(counts[i][: j + 1])] for i in range(3)]
        assert np.array_equal(one, np.concatenate(parts))


def test_words_have_the_length_that_their_header_says() -> None:
    plan = rounds.joined_all_reduce(3, 1, Values(50000, 4, ADD), [(Place(1), Place(2), 200000)])
    words, at = plan.words(), 0
    for messages, locals in plan.rounds:
        assert words[at : at + HEADER] == [
            len(messages),
            sum(m.kind == RECEIVE for m in messages),
            len(locals),
        ]
        at += HEADER + MESSAGE * len(messages)
        for x in locals:
            assert words[at + 4] == len(x.parts)
            at += LOCAL + 2 * len(x.parts)
    assert at == len(words)

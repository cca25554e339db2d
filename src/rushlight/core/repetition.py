"""Parts of a sequence that repeat: equal layers of a model, found by structure.

Items have a label, and use symbols: values of a graph, or buffers of a program. A symbol is at home where it is
used or made first. In a `Run`, turns of as many items follow each other, with the same labels, and what they use
follows from the number of the turn: the same symbol in each, or one at home in a turn of a run whose number goes
up, or down, by one from turn to turn. `Repetition` also numbers the turns of all runs as layers: turns of two
runs that use each other are about the same layer, also where one run goes through the layers backwards.

A sequence that is made so says how it would be with more layers, or fewer (`resized`): by laws alone, if nothing
outside of the runs refers to the layers in which it grows or shrinks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

WINDOW = 4  # items that are looked at together to find how far apart equal parts are
MOST_PERIODS = 16  # distances that are tried
FEWEST = 3  # turns of a run: what they have in common is seen twice
MOST_ROWS = 4  # runs that may follow each other as one
MOSTLY = 0.5  # of the turns of a run, which are alike but for those at its ends
SLOTS = 1 << 20  # more than an item has uses

PLAIN = -1  # the run of what is not part of one


class Item(NamedTuple):
    """One of a sequence: equal ones have the same label and as many uses. It makes symbols that others use."""

    label: Hashable
    uses: Sequence[Any]
    makes: Sequence[Any] = ()


class Place(NamedTuple):
    """Where a symbol is at home: in a turn of a run, in which it has a slot; else the slot is its number."""

    run: int
    turn: int
    slot: int


@dataclass(frozen=True)
class Run:
    """`count` turns of `period` items each, from item `start` on.

    At its ends are `before` and `after` more such turns that use something else; their numbers are below 0, and
    from `count` on.
    """

    start: int
    period: int
    count: int
    before: int = 0
    after: int = 0

    @property
    def end(self) -> int:
        return self.start + self.period * self.count


@dataclass(frozen=True)
class Layers:
    """Turn t of a run is layer `first` + `sign` * t."""

    first: int
    sign: int
    count: int

    def at(self, turn: int) -> int:
        return self.first + self.sign * turn

    @property
    def low(self) -> int:
        return min(self.at(0), self.at(self.count - 1))

    @property
    def high(self) -> int:
        return max(self.at(0), self.at(self.count - 1))


class Instance(NamedTuple):
    """An item of a resized sequence: the item that it is like, where what it uses and makes is at home, and
    whether it is one of the layers that are new."""

    item: int
    uses: list[Place]
    makes: list[Place]
    new: bool = False


_Turn = list[tuple[int, list[tuple[Place, int]], list[Place]]]


class Repetition:
    """The runs of a sequence, and where its symbols are at home.

    `given` are the homes of symbols in runs of another sequence, with `layers`; these have the numbers after
    those of this one.
    """

    def __init__(
        self, items: Sequence[Item], given: Mapping[Any, Place] | None = None, layers: Sequence[Layers] = ()
    ) -> None:
        self.items, self.runs, self._others = items, list[Run](), list(layers)
        self.symbols: dict[Any, int] = {}  # and their numbers, in the order in which they come
        known: dict[Any, int] = {}  # labels, and theirs
        symbols = self.symbols
        labels = [known.setdefault(label, len(known)) for label, _, _ in items]
        numbers = [
            symbols.setdefault(symbol, len(symbols))
            for _, used, makes in items
            for symbol in ((*makes, *used) if makes else used)
        ]
        made = np.array([len(makes) for _, _, makes in items], np.int64)
        count = made + np.array([len(used) for _, used, _ in items], np.int64)
        self.labels = np.array(labels, np.int64)  # a number for the label of each item
        found = np.array(numbers, np.int64)
        item = np.repeat(np.arange(len(items)), count)  # of each symbol that comes: in which item,
        slot = np.arange(len(found)) - np.repeat(np.cumsum(count) - count, count)  # and at which place of it
        most = np.maximum.accumulate(found) if len(found) else found
        new = np.flatnonzero(np.diff(most, prepend=-1))
        self._home, self._slot = item[new], slot[new]
        self.uses = found[slot >= np.repeat(made, count)]
        self.first = np.concatenate(([0], np.cumsum(count - made)))  # by item: where its uses begin
        self._turns: dict[tuple[int, int, int], _Turn] = {}  # by run, turn and layers more
        self._given = {symbols[s]: place for s, place in (given or {}).items() if s in symbols}

    # Finding.

    def settle(self, runs: Sequence[Run]) -> bool:
        """Shorten runs until what every turn uses follows from its number; whether there are layers to add to."""
        self.runs = list(runs)
        while self.runs:
            self._place()
            parts = [part for run in self.runs for part in self._regular(run)]
            if parts == self.runs:
                self._steps: list[np.ndarray] = [self._step(run) for run in self.runs]
                linked = self._align()
                if linked is None:
                    return False
                if linked == self.runs:
                    if self._find_gap():
                        self._homes = [of.tolist() for of in (self._run, self._turn, self._spot)]
                        return True
                    fewest = min(run.count for run in self.runs)
                    linked = [run for run in self.runs if run.count > fewest]
                parts = linked
            self.runs = parts
        return False

    def _place(self) -> None:
        """Where every symbol is at home, by its number: run, turn and slot."""
        runs, turns, parts = (np.full(len(self.items), fill, np.int64) for fill in (PLAIN, 0, 0))
        for number, run in enumerate(self.runs):
            at = np.arange(-run.before * run.period, (run.count + run.after) * run.period)
            runs[run.start + at] = number
            turns[run.start + at], parts[run.start + at] = at // run.period, at % run.period
        self._run, self._turn = runs[self._home], turns[self._home]
        own = np.arange(len(self._home))
        self._spot = np.where(self._run == PLAIN, own, parts[self._home] * SLOTS + self._slot)
        for number, place in self._given.items():
            self._run[number] = PLAIN if place.run == PLAIN else place.run + len(self.runs)
            self._turn[number], self._spot[number] = place.turn, number if place.run == PLAIN else place.slot

    def _table(self, run: Run, of: np.ndarray) -> np.ndarray:
        """Of what a run uses, a row for each turn."""
        return of[self.uses[self.first[run.start] : self.first[run.end]]].reshape(run.count, -1)

    def _regular(self, run: Run) -> list[Run]:
        """The parts of a run whose turns use what follows from their number."""
        home, turn, spot = (self._table(run, of) for of in (self._run, self._turn, self._spot))
        step = turn[1:] - turn[:-1]
        alike = ((home[1:] == home[:-1]) & (spot[1:] == spot[:-1]) & (np.abs(step) <= 1)).all(1)
        steady = (step[1:] == step[:-1]).all(1)
        cuts = [0]  # where a part begins
        for t in range(1, run.count):
            if not alike[t - 1]:
                cuts.append(t)
            elif cuts[-1] < t - 1 and not steady[t - 2]:
                cuts.append(t - 1)
        parts = [(begin, end) for begin, end in pairwise((*cuts, run.count)) if end - begin >= FEWEST]
        if not parts:
            return []
        ends = [-run.before, *(begin for begin, _ in parts[1:])]
        limits = [*(begin for begin, _ in parts[1:]), run.count + run.after]
        return [
            Run(run.start + begin * run.period, run.period, end - begin, begin - left, right - end)
            for (begin, end), left, right in zip(parts, ends, limits, strict=True)
        ]

    def _step(self, run: Run) -> np.ndarray:
        """For what each turn uses: by how much its turn grows from turn to turn."""
        turn = self._table(run, self._turn)
        return turn[1] - turn[0]

    def grouped(self, run: Run) -> Run:
        """The run in turns that use the same of each layer of what is given: several of its own, if turn after
        turn it goes through what belongs to one layer."""
        known = np.zeros(len(self._home), np.int64)
        for number, place in self._given.items():
            known[number] = 0 if place.run == PLAIN else hash((place.run, place.slot))
        rows = self._table(run, known)
        for times in range(1, run.count // FEWEST + 1):
            if (rows[times:] == rows[:-times]).all(1).mean() >= MOSTLY:
                return Run(run.start, run.period * times, run.count // times)
        return run

    # Layers.

    def _align(self) -> list[Run] | None:
        """Number the turns of all runs that use each other as layers; gives these runs, or None if two use each
        other in both directions."""
        laws: dict[tuple[int, int], Counter[tuple[int, int]]] = {}
        for number, (run, steps) in enumerate(zip(self.runs, self._steps, strict=True)):
            home, turn = self._table(run, self._run)[0], self._table(run, self._turn)[0]
            for other, step, start in zip(home.tolist(), steps.tolist(), turn.tolist(), strict=True):
                if step and other != PLAIN:
                    laws.setdefault((number, other), Counter())[step, start] += 1
        if any(len({step for step, _ in found}) > 1 for found in laws.values()):
            return None
        known: dict[int, Layers] = dict(enumerate(self._others, len(self.runs)))
        if not known:
            longest = max(range(len(self.runs)), key=lambda n: self.runs[n].end - self.runs[n].start)
            known[longest] = Layers(0, 1, self.runs[longest].count)
        grown = True
        while grown:
            grown = False
            for (one, other), found in laws.items():
                (step, start), _ = found.most_common(1)[0]
                if one in known and other not in known:
                    sign = known[one].sign * step
                    known[other] = Layers(known[one].first - sign * start, sign, self.runs[other].count)
                    grown = True
                elif other in known and one not in known:
                    sign = known[other].sign * step
                    known[one] = Layers(known[other].at(start), sign, self.runs[one].count)
                    grown = True
        self.layers = [known[number] for number in range(len(self.runs)) if number in known]
        if len(self.layers) == len(self.runs):
            self.layers += self._others
            if any(one == other and next(iter(found))[0] < 0 for (one, other), found in laws.items()):
                return None
            self._reach = max(self._span(one, laws) for one in range(len(self.runs)))
        return [run for number, run in enumerate(self.runs) if number in known]

    def _span(self, run: int, laws: Mapping[tuple[int, int], Iterable[tuple[int, int]]]) -> int:
        """How far apart the layers are of what a turn of a run uses by laws."""
        used = [
            self.layers[other].at(start)
            for (one, other), found in laws.items()
            for _, start in found
            if one == run
        ]
        return max(used) - min(used) if used else 0

    def _find_gap(self) -> bool:
        """Find the longest part of the layers, all of them in every run, that nothing refers to by its number."""
        fixed = np.ones(len(self.uses), bool)
        for run, step in zip(self.runs, self._steps, strict=True):
            fixed[self.first[run.start] : self.first[run.end]] = np.tile(step == 0, run.count)
        named = np.zeros(len(self._home), bool)
        named[self.uses[fixed]] = True
        symbols = np.flatnonzero(named & (self._run != PLAIN))
        first = np.array([of.first for of in self.layers], np.int64)
        sign = np.array([of.sign for of in self.layers], np.int64)
        home = self._run[symbols]
        taken = set((first[home] + sign[home] * self._turn[symbols]).tolist())
        low, high = max(of.low for of in self.layers), min(of.high for of in self.layers)
        best = begin = low
        self.gap = 0
        for layer in range(low, high + 2):
            if layer in taken or layer > high:
                if layer - begin > self.gap:
                    best, self.gap = begin, layer - begin
                begin = layer + 1
        self._begin = best
        return self.gap >= self.fewest

    @property
    def fewest(self) -> int:
        """Layers of the gap that a resized sequence is to have at least: what uses something of layers nearby,
        without a law, is at one end of the runs, and does not reach those at the other end."""
        return max(1, self._reach - 1)

    def place(self, symbol: Any) -> Place:
        """Where a symbol is at home."""
        return self._place_of(self.symbols[symbol])

    def _place_of(self, number: int) -> Place:
        run, turn, spot = self._homes
        return Place(run[number], turn[number], spot[number])

    # Going on.

    def resized(self, by: int) -> Iterator[Instance]:
        """The sequence with `by` layers more, or less, in the gap."""
        at = 0
        for number, run in enumerate(self.runs):
            for plain in range(at, run.start):
                yield self._plain(plain, by)
            for turn in range(run.count + by):
                yield from self._turn_of(number, turn, by)
            at = run.end
        for plain in range(at, len(self.items)):
            yield self._plain(plain, by)

    def origin(self, place: Place, by: int) -> tuple[Place, bool]:
        """The place in this sequence that a place in the resized one is like, and whether the latter is in one of
        the layers that were added."""
        if place.run == PLAIN:
            return place, False
        turn, new = self._like(place.run, place.turn, by)
        return Place(place.run, turn, place.slot), new

    def _like(self, run: int, turn: int, by: int) -> tuple[int, bool]:
        """The turn of a run that a turn of the resized one is like, and whether it is new."""
        layers = self.layers[run]
        layer = layers.at(turn) + (by if layers.sign < 0 else 0)
        cut, new = self._cut(by), False
        if by < 0:
            layer -= by if layer >= cut else 0
        elif layer > cut + by:
            layer -= by
        elif layer > cut:
            layer, new = cut, True
        return layers.sign * (layer - layers.first), new

    def _cut(self, by: int) -> int:
        """The last layer that stays where it is, if layers are added, or the first that is taken away."""
        return self._begin + (self.gap - 1) // 2 if by >= 0 else self._begin + (self.gap + by + 1) // 2

    def _fixed(self, place: Place, by: int) -> Place:
        """A place that something refers to by its number, in the resized sequence."""
        if place.run == PLAIN:
            return place
        layers = self.layers[place.run]
        moves = (layers.at(place.turn) >= self._cut(by)) == (layers.sign > 0)
        return Place(place.run, place.turn + by, place.slot) if moves else place

    def _plain(self, at: int, by: int) -> Instance:
        uses, makes = (
            [self._fixed(self._place_of(n), by) for n in numbers]
            for numbers in (
                self.uses[self.first[at] : self.first[at + 1]].tolist(),
                [self.symbols[symbol] for symbol in self.items[at].makes],
            )
        )
        return Instance(at, uses, makes)

    def _turn_of(self, number: int, turn: int, by: int) -> Iterator[Instance]:
        like, new = self._like(number, turn, by)
        further, back = turn - like, like + by - turn
        for at, uses, makes in self._parts_of(number, like, by):
            yield Instance(
                at,
                [
                    Place(p.run, p.turn + (further if step > 0 else back), p.slot) if step else p
                    for p, step in uses
                ],
                [Place(p.run, p.turn + further, p.slot) for p in makes],
                new,
            )

    def _parts_of(self, number: int, turn: int, by: int) -> _Turn:
        """Of each item of a turn: what it uses, with the step from turn to turn, and what it makes; places that
        it refers to by their number are those of the resized sequence."""
        known = self._turns.get((number, turn, by))
        if known is None:
            run = self.runs[number]
            begin = run.start + turn * run.period
            first = self.first[begin : begin + run.period + 1].tolist()
            uses = self.uses[first[0] : first[-1]].tolist()
            places = [
                (self._place_of(use) if step else self._fixed(self._place_of(use), by), step)
                for use, step in zip(uses, self._steps[number].tolist(), strict=True)
            ]
            known = self._turns[number, turn, by] = [
                (at, places[low - first[0] : high - first[0]], [self.place(s) for s in self.items[at].makes])
                for at, (low, high) in enumerate(pairwise(first), begin)
            ]
        return known


def find_repetition(
    items: Sequence[Item], given: Mapping[Any, Place] | None = None, layers: Sequence[Layers] = ()
) -> Repetition | None:
    """The runs of a sequence; None if it does not say how it would go on."""
    found = Repetition(items, given, layers)
    runs = _runs(found.labels)
    if not runs:
        return None
    runs = list(map(found.grouped, runs))
    longest = max(runs, key=lambda run: run.end - run.start)
    periods = {run.period for run in runs}
    runs = [_grouped(run, longest.count, periods) for run in runs]
    return found if found.settle(sorted(runs, key=lambda run: run.start)) else None


def _grouped(run: Run, count: int, periods: Iterable[int]) -> Run:
    """The run in turns of one of the periods, each several turns of its own, so that there are about `count` of
    them, or a few times as many: rows of an optimizer for example, one for each state."""
    length = run.end - run.start
    rows = [(p, times) for p in periods if p % run.period == 0 for times in range(1, MOST_ROWS + 1)]
    period, _ = min(rows, key=lambda row: (abs(length // row[0] // row[1] - count), row[1]))
    return Run(run.start, period, length // period)


def _runs(labels: np.ndarray) -> list[Run]:
    """Runs of equal labels, long ones first; none touches another."""
    found: list[tuple[int, int, int]] = []
    for period in _periods(labels):
        same = np.concatenate(([False], labels[period:] == labels[:-period], [False]))
        edges = np.flatnonzero(same[1:] != same[:-1])
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if end - begin >= period * (FEWEST - 1):
                found.append((end - begin + period, period, begin))
    taken = np.zeros(len(labels), bool)
    runs: list[Run] = []
    for length, period, begin in sorted(found, key=lambda each: (-each[0], each[1])):
        free = np.flatnonzero(~taken[begin : begin + length])
        if not free.size:
            continue
        part = max(np.split(free, np.flatnonzero(np.diff(free) > 1) + 1), key=len)
        if len(part) >= period * FEWEST:
            run = Run(begin + int(part[0]), period, len(part) // period)
            runs.append(run)
            taken[run.start : run.end] = True
    return runs


def _periods(labels: np.ndarray) -> list[int]:
    """Distances at which equal windows of items follow each other, most frequent ones first."""
    if len(labels) < WINDOW * FEWEST:
        return []
    windows = np.zeros(len(labels) - WINDOW + 1, np.int64)
    for n in range(WINDOW):
        windows = windows * 1_000_003 + labels[n : len(windows) + n]
    order = np.argsort(windows, kind="stable")
    same = windows[order[1:]] == windows[order[:-1]]
    distances = Counter((order[1:] - order[:-1])[same].tolist())
    return [d for d, _ in distances.most_common(MOST_PERIODS) if d * FEWEST <= len(labels)]

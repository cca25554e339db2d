"""A sequence whose layers repeat says how it goes on: resized, it is the one made with so many layers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rushlight.core.repetition import PLAIN, Item, Place, find_repetition

Named = tuple[str, list[str]]  # a label and what is used


def network(layers: int, choices: random.Random) -> list[tuple[str, list[str], list[str]]]:
    """Items of a head, layers forwards, a middle, layers backwards, updates and a tail: labels, uses, makes."""
    wide = choices.randrange(2, 5)
    found = [("head", ["in"], ["x0"])]
    for n in range(layers):
        for k in range(wide):
            before = f"x{n}" if k == 0 else f"f{n}.{k - 1}"
            made = f"x{n + 1}" if k == wide - 1 else f"f{n}.{k}"
            found.append((f"forward {k}", [before, f"w{n}.{k}", f"x{n}"], [made]))
    found.append(("middle", [f"x{layers}", "x0"], [f"g{layers}"]))
    for n in reversed(range(layers)):
        found.append(("gradient", [f"g{n + 1}", f"x{n}", f"w{n}.0"], [f"d{n}"]))
        found.append(("backward", [f"g{n + 1}", *(f"w{n}.{k}" for k in range(wide))], [f"g{n}"]))
    found += [("update", [f"d{n}", f"w{n}.0", "rate"], [f"u{n}"]) for n in range(layers)]
    found.append(("tail", ["g0", f"u{layers - 1}", "u0"], ["out"]))
    return found


def items_of(rows: list[tuple[str, list[str], list[str]]]) -> list[Item]:
    return [Item(label, uses, makes) for label, uses, makes in rows]


def spelled(rows: Any) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Rows with symbols by the order of their first occurrence."""
    numbers: dict[Any, int] = {}

    def spell(symbols: Any) -> tuple[int, ...]:
        return tuple(numbers.setdefault(symbol, len(numbers)) for symbol in symbols)

    return [(label, spell(uses), spell(makes)) for label, uses, makes in rows]


@pytest.mark.parametrize("seed", range(40))
def test_a_resized_sequence_is_the_one_with_so_many_layers(seed: int) -> None:
    layers = random.Random(seed).randrange(8, 20)
    items = items_of(network(layers, random.Random(seed)))
    found = find_repetition(items)
    assert found is not None
    for by in (-2, -1, 1, 3, 17):
        resized = [(items[i.item].label, i.uses, i.makes) for i in found.resized(by)]
        assert spelled(resized) == spelled(network(layers + by, random.Random(seed)))


@pytest.mark.parametrize("seed", range(10))
def test_what_is_kept_is_what_was_there(seed: int) -> None:
    items = items_of(network(12, random.Random(seed)))
    found = find_repetition(items)
    assert found is not None
    places = {symbol: found.place(symbol) for item in items for symbol in (*item.uses, *item.makes)}
    for instance in found.resized(5):
        if not instance.new:
            old = [places[symbol] for symbol in items[instance.item].makes]
            assert [found.origin(place, 5)[0] for place in instance.makes] == old


def test_something_in_between_that_is_looked_at() -> None:
    rows = network(12, random.Random(0))
    rows.insert(-1, ("look", ["x6"], []))
    found = find_repetition(items_of(rows))
    assert found is not None  # layers are added on one side of it: it is as far from the other end as before
    resized = [(rows[i.item][0], i.uses, i.makes) for i in found.resized(1)]
    (look,) = [uses for label, uses, _ in resized if label == "look"]
    maker = next(n for n, (_, _, makes) in enumerate(resized) if look[0] in makes)
    assert sum(label == "forward 0" for label, _, _ in resized[: maker + 1]) in (6, 7)


def test_all_that_is_looked_at() -> None:
    rows = network(12, random.Random(1))
    rows.insert(-1, ("look", [f"x{n}" for n in range(12)], []))
    assert find_repetition(items_of(rows)) is None


def test_layers_that_differ() -> None:
    rows = [
        (f"{label} {n}", uses, makes) for n, (label, uses, makes) in enumerate(network(12, random.Random(2)))
    ]
    assert find_repetition(items_of(rows)) is None
    assert find_repetition([]) is None


def test_symbols_that_are_at_home_elsewhere() -> None:
    """Places that are given are those of another sequence; what is PLAIN there is a single symbol here, too."""
    first = items_of(network(12, random.Random(3)))
    found = find_repetition(first)
    assert found is not None
    assert found.place("in").run == PLAIN
    given = {f"w{n}.0": found.place(f"w{n}.0") for n in range(12)} | {"in": found.place("in")}
    second = [Item("kernel", [f"w{n}.0", "in"], [f"k{n}"]) for n in range(12)]
    other = find_repetition(second, given, found.layers)
    assert other is not None
    uses = [instance.uses[0] for instance in other.resized(2)]
    assert len(uses) == len(set(uses)) == 14
    assert {type(place) for place in uses} == {Place}

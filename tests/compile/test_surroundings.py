"""Every way in which a compiled program can read, or change, something of Python's: it agrees with eager
runs.

`PLACES` (places.py) are kinds of places that hold a number; each says how to read it, how to change it between
two calls, and, if a program may, how to change it inside. `WAYS` (ways.py) are ways in which a program comes to
run the function that reads or changes it, those of `WRAPPED` (wrapped_ways.py) inside of functions of Rushlight.
Each place is tested in one way and each way with a few places, all pairs with `-m slow`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl

from .places import (
    PLACES,
    Place,
    a_list,
    an_attribute,
    an_iterator,
    numpys_global_random_numbers,
    numpys_random_numbers,
    pythons_random_numbers,
)
from .ways import WAYS, Way, directly
from .wrapped_ways import WITHOUT_WRITES, WRAPPED


def shown(place: Callable[[], Place], way: Way, compiled: Any, inside: bool) -> list[Any]:
    """What a program shows in several calls, with changes between them; and what the place holds then."""
    read, put, change = place()

    def reading(x: rl.Tensor) -> rl.Tensor:
        return x * read()

    def changing(x: rl.Tensor) -> rl.Tensor:
        change()  # type: ignore[misc]
        return x * 2

    show = way(changing if inside else reading, compiled)
    found: list[Any] = []
    for value in (2.0, 2.0, 3.0, 3.0, 2.0):
        put(value)
        found.append(show())
        if inside:
            found.append(show())
            found.append(read())
    return found


def agree(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


FEW = [a_list, an_attribute, an_iterator]  # of the last one programs have no graph
CHANGED_BY_READING = [
    pythons_random_numbers,
    numpys_random_numbers,
    numpys_global_random_numbers,
    an_iterator,
]


def is_allowed(place: Callable[[], Place], way: Way) -> bool:
    return place not in CHANGED_BY_READING or way not in WITHOUT_WRITES


PAIRS = [
    *((place, directly) for place in PLACES),
    *((place, way) for place in FEW for way in (*WAYS[1:], *WRAPPED, *WITHOUT_WRITES)),
]
PAIRS = [pair for pair in PAIRS if is_allowed(*pair)]
OTHERS = [
    pair
    for pair in itertools.product(PLACES, (*WAYS, *WRAPPED, *WITHOUT_WRITES))
    if pair not in PAIRS and is_allowed(*pair)
]


def cases(pairs: Any) -> Any:
    return pytest.mark.parametrize(("place", "way"), pairs, ids=lambda f: f.__name__)


@cases(PAIRS)
def test_what_is_read(place: Callable[[], Place], way: Way) -> None:
    agree(shown(place, way, rl.compile, False), shown(place, way, lambda f: f, False))


def changed_inside(pairs: Any) -> list[Any]:
    return [(place, way) for place, way in pairs if place().inside is not None and way not in WITHOUT_WRITES]


@cases(changed_inside(PAIRS))
def test_what_is_changed(place: Callable[[], Place], way: Way) -> None:
    agree(shown(place, way, rl.compile, True), shown(place, way, lambda f: f, True))


@pytest.mark.slow
@cases(OTHERS)
def test_what_is_read_in_all_ways(place: Callable[[], Place], way: Way) -> None:
    test_what_is_read(place, way)


@pytest.mark.slow
@cases(changed_inside(OTHERS))
def test_what_is_changed_in_all_ways(place: Callable[[], Place], way: Way) -> None:
    test_what_is_changed(place, way)


def test_a_clock() -> None:
    f = rl.compile(lambda x: x * time.perf_counter())
    assert f(rl.ones(1).double()).item() < f(rl.ones(1).double()).item()
    assert "clock" in next(iter(f.eager.values()))


shadowed = rl.ones(3)  # a global with the name of variables of functions below


def has_local(q):
    shadowed = q * 2
    return shadowed.clone()


def has_argument(shadowed):
    double = lambda: shadowed * 2  # noqa: E731
    return double()


def has_loop(q):
    return sum([shadowed * 1 for shadowed in (q, q)])


def has_inner(q):
    def inner(shadowed):
        return shadowed * 2

    return inner(q)


def has_cell(q):
    shadowed = q * 2

    def inner():
        return shadowed * 1

    return inner()


@pytest.mark.parametrize("function", [has_local, has_argument, has_loop, has_inner, has_cell])
def test_only_names_that_are_read_as_globals_are_globals(function):
    compiled = rl.compile(function)
    for x in (shadowed, rl.zeros(3), shadowed, rl.full((3,), 4.0)):
        assert rl.equal(compiled(x), x * 2)
    assert len(compiled.reasons) == 1, compiled.reasons


def test_a_global_that_is_read_beside_an_argument_is_one():
    compiled = rl.compile(lambda q: q * 2 + shadowed)
    assert rl.equal(compiled(shadowed), shadowed * 3)
    assert rl.equal(compiled(rl.zeros(3)), shadowed)

"""Slots that a compiled function reads: those of a class, and names in whose place a class has something else."""

from __future__ import annotations

from typing import Any

import rushlight as rl


class Number:
    __slots__ = ("__hidden", "_parts")

    def __init__(self, value: float) -> None:
        self._parts = (value, 1.0)
        self.__hidden = value

    def value(self) -> float:
        return self._parts[0] * self._parts[1]

    def hidden(self) -> float:
        return self.__hidden

    def hide(self, value: float) -> None:
        self.__hidden = value


class Constant(Number):
    """Makes its parts whenever they are asked for, as a constant of any precision does."""

    __slots__ = ("scale",)

    def __init__(self) -> None:
        self.scale = 3.0

    @property
    def _parts(self) -> tuple[float, float]:  # type: ignore[override]
        return (self.scale + 0.5, 1.0)


def test_a_property_in_the_place_of_a_slot() -> None:
    constant = Constant()
    compiled = rl.compile(lambda x: x * constant.value(), fullgraph=True)
    x = rl.arange(3.0, requires_grad=True)
    for scale in (3.0, 3.0, 4.0, 4.0):
        constant.scale = scale
        y = compiled(x)
        (gradient,) = rl.autograd.grad(y.sum(), x)
        assert y.tolist() == [0.0, scale + 0.5, 2 * scale + 1]
        assert gradient.tolist() == [scale + 0.5] * 3


def test_a_private_slot_that_changes() -> None:
    number = Number(2.0)
    compiled = rl.compile(lambda x: x * number.hidden(), fullgraph=True)
    for value in (2.0, 2.0, 5.0):
        number.hide(value)
        assert compiled(rl.ones(2)).tolist() == [value] * 2


def test_an_object_that_is_returned_with_a_property_in_the_place_of_a_slot() -> None:
    @rl.compile
    def made(x: Any) -> Any:
        found = Constant()
        found.scale = x * 2
        return found

    for _ in range(2):
        assert made(rl.ones(2))._parts[0].tolist() == [2.5, 2.5]

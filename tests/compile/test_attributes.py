"""Attributes that programs give to tensors, which a function asks for by name."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight.compiler.specialization import CallPath


def asks_with_default(x: Any) -> Any:
    mask = getattr(x, "mask", None)
    return x * 2 if mask is None else x * mask


def asks_whether(x: Any) -> Any:
    return x + 1 if hasattr(x, "mask") else x - 1


def asks_in_a_helper(x: Any) -> Any:
    return asks_whether(x) * 2


def asks_and_writes(x: Any) -> Any:
    x += 1
    return x.sum() if getattr(x, "mask", 1.0) == 1.0 else x.prod()


PROGRAMS = [asks_with_default, asks_whether, asks_in_a_helper, asks_and_writes]


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_attribute_that_comes_later(program: Any) -> None:
    compiled = rl.compile(program)
    x, y = rl.full((3,), 2.0), rl.full((3,), 2.0)
    for turn in range(6):
        if turn == 3:
            x.mask = y.mask = 5.0
        if turn == 5:
            del x.mask, y.mask
        assert rl.equal(compiled(x), program(y)) and rl.equal(x, y), turn


@pytest.mark.parametrize("program", PROGRAMS)
def test_another_tensor_has_it(program: Any) -> None:
    compiled = rl.compile(program)
    for masks in (None, None, 3.0, None, 4.0):
        x, y = rl.full((3,), 2.0), rl.full((3,), 2.0)
        if masks is not None:
            x.mask = y.mask = masks
        assert rl.equal(compiled(x), program(y))


def test_it_says_why() -> None:
    compiled = rl.compile(asks_with_default)
    x = rl.ones(3)
    for _ in range(3):
        compiled(x)
    ((form,),) = compiled.specializations.values()
    assert form.path is CallPath.NATIVE_AFTER_CHECK and form.native_entry
    assert "mask" in str([guard for guard in form.guards if guard.aspect.value == "attributes"])
    x.mask = 2.0
    assert compiled._reason([x]).endswith("a tensor has the attribute mask, which none had")

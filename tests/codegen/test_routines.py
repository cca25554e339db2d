"""Routines that programs share: written, compiled and given up in the background."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rushlight.codegen.llvm import module, routines  # noqa: F401  the module has kinds of routines registered
from rushlight.eager.worker import wait
from rushlight.runtime.engine import engine


def names_of(*kinds: str) -> list[str]:
    return [routines._named(engine().target, *kind.split(".")) for kind in kinds]


def test_texts_are_those_of_one_thread() -> None:
    names, target = names_of("tile.float.3.1.0.nothing", "move", "nest.7.1"), engine().target
    texts = routines._emit_ahead(names, target)
    assert [texts[name]() for name in names] == [routines.emitted(name, target) for name in names]


def test_a_text_that_cannot_be_written_is_an_error_where_it_is_asked_for() -> None:
    good, bad = names_of("move", "nothing_of_the_kind")
    texts = routines._emit_ahead([bad, good], engine().target)
    assert texts[good]() == routines.emitted(good, engine().target)
    with pytest.raises(KeyError):
        texts[bad]()


def test_what_is_likely_is_left_when_it_is_known_what_is_called() -> None:
    (called,), (likely,) = names_of("nest.11.1"), names_of("nest.12.1")
    routines._likely.add(likely)
    assert routines.begin_routines(SimpleNamespace(globals=[called, "main"]), engine().target) == [called]
    routines._compile_likely(likely, engine().target)
    assert wait(60) and called in routines._addresses and likely not in routines._addresses

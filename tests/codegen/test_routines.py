"""Routines that programs share: written, compiled and given up in the background."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from rushlight.codegen.llvm import module, routines  # noqa: F401  the module has kinds of routines registered
from rushlight.eager.worker import wait
from rushlight.runtime.engine import engine
from rushlight.runtime.target import Target


def names_of(*kinds: str) -> list[str]:
    return [routines._named(engine().target, *kind.split(".")) for kind in kinds]


def test_threads_share_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    names, target = names_of("nest.21.0", "nest.22.0", "nest.23.0", "nest.24.0"), engine().target
    made: list[str] = []
    emitted = routines.emitted

    def noted(name: str, target: Target) -> str:
        made.append(name)
        return emitted(name, target)

    monkeypatch.setattr(routines, "emitted", noted)
    monkeypatch.setattr(engine(), "known", lambda name: None)  # on disk there may be some
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(routines.routine_imports, names[i:] + names[:i], target) for i in range(4)]
        first, *others = (job.result() for job in jobs)
    assert sorted(made) == sorted(names)
    assert set(first) == set(names) and all(found == first for found in others)


def test_a_text_that_cannot_be_written_is_an_error_for_all_who_ask() -> None:
    good, bad = names_of("move", "nothing_of_the_kind")
    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(routines.routine_imports, [bad, good], engine().target) for _ in range(3)]
        errors = [job.exception() for job in jobs]
    assert [type(error) for error in errors] == [KeyError] * 3
    assert not routines._compiling
    assert good in routines.routine_imports([good], engine().target)


def test_what_is_likely_is_left_when_it_is_known_what_is_called() -> None:
    (called,), (likely,) = names_of("nest.11.1"), names_of("nest.12.1")
    routines._likely.add(likely)
    assert routines.begin_routines(SimpleNamespace(globals=[called, "main"]), engine().target) == [called]
    routines._compile_likely(likely, engine().target)
    assert wait(60) and called in routines._addresses and likely not in routines._addresses

"""What a process has one of."""

from __future__ import annotations

import threading
import time

import pytest

from rushlight.core.once import Once


def test_threads_that_ask_at_the_same_time_get_the_same() -> None:
    made: list[object] = []

    @Once
    def thing() -> object:
        time.sleep(0.05)
        made.append(object())
        return made[-1]

    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(thing())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert found == made * 8
    thing.forget()
    assert thing() is made[1]


def test_one_that_fails_is_tried_again() -> None:
    calls: list[int] = []

    @Once
    def thing() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("not yet")
        return len(calls)

    with pytest.raises(ValueError, match="not yet"):
        thing()
    assert (thing(), thing()) == (2, 2)

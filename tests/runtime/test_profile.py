"""Programs that tell where their time goes."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import rushlight
from rushlight.runtime import profile

from ..compile.test_programs import SHORT, check, short_program


@pytest.fixture
def profiling() -> Iterator[None]:
    profile.start()
    yield
    profile.stop()


@pytest.mark.usefixtures("profiling")
def test_launches_and_kernels_are_timed() -> None:
    before = len(profile._programs)
    function = rushlight.compile(lambda a, b: (a @ b).softmax(-1) + 1, fullgraph=True)
    a, b = (
        rushlight.tensor(np.random.default_rng(s).standard_normal((200, 200)).astype(np.float32))
        for s in range(2)
    )
    result = function(a, b)
    profile.reset()
    for _ in range(3):
        assert (function(a, b).numpy() == result.numpy()).all()
    (program,) = profile._programs[before:]
    calls, times = program.milliseconds()
    assert calls == 3
    assert all(time > 0 for time in times)
    timers = program.timers
    assert any(t.launch for t in timers)
    assert any(t.operations == 2 * 200**3 for t in timers)
    text = profile.report()
    assert "3 calls of" in text
    assert "Gflop/s" in text
    assert "1x200x200x200 float32" in text


@pytest.mark.usefixtures("profiling")
def test_programs_of_changing_sizes_are_timed() -> None:
    before = len(profile._programs)
    function = rushlight.compile(lambda a: (a @ a).softmax(-1), dynamic=True, fullgraph=True)
    for size in (40, 50, 40, 50):
        function(rushlight.ones(size, size))
    (program,) = profile._programs[before:]
    assert program.milliseconds()[0] == 4
    assert any(t.operations == 2 * 40**3 for t in program.timers)  # of the call that was captured


def test_programs_are_plain_without_it() -> None:
    before = len(profile._programs)
    rushlight.compile(lambda x: x.exp() + 3, fullgraph=True)(rushlight.ones(5))
    assert len(profile._programs) == before


def test_the_environment_turns_it_on_and_a_report_is_printed() -> None:
    code = (
        "import rushlight as rl\nf = rl.compile(lambda x: (x * 2).softmax(1))\n"
        "f(rl.ones(40, 50)); f(rl.ones(40, 50))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"RUSHLIGHT_PROFILE": "1"},
    )
    assert re.search(r"2 calls of [\d.]+ ms in 1 launches", done.stdout)


@pytest.mark.usefixtures("profiling")
def test_programs_that_are_listed_stay_loaded() -> None:
    before = len(profile._programs)
    rushlight.compile(lambda a: a * 3 + 1, fullgraph=True)(rushlight.ones(7))
    gc.collect()  # nobody else has the code any more
    (program,) = profile._programs[before:]
    assert set(program.code.addresses) >= {profile.TIMES, profile.LOG}
    profile.reset()  # writes to the memory of the program
    assert program.milliseconds()[0] == 0


@pytest.mark.usefixtures("profiling")
@pytest.mark.parametrize("kind", ("tensors", "gradients"))
def test_clocks_do_not_change_what_programs_compute(kind: str) -> None:
    """Random programs, unloaded one after the other while their times are kept and their events written down."""
    before = len(profile._programs)
    log = profile.EventLog()
    log.open()
    try:
        for number in range(300_000, 300_030):
            check(short_program(number, **SHORT[kind]))
            gc.collect()
        events = log.events()
    finally:
        log.close()
    listed = profile._programs[before:]
    assert len(listed) > 15 and not log.dropped
    known = {
        id(timer) for program in profile._programs for timer in program.timers
    }  # some are of earlier tests
    assert events and not [event for event in events if id(event.timer) not in known]
    assert not [event for event in events if event.start > event.end]
    for program in listed:
        calls, times = program.milliseconds()
        assert calls >= 0 and all(time >= 0 for time in times)
    profile.reset()
    assert all(program.milliseconds()[0] == 0 for program in listed)

"""Memory of results that are no longer needed serves the next ones."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rushlight.core import heap

glibc = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"),
    reason="settings of glibc, which is not the C library here",
)

FAULTS = """
import resource
import rushlight
x = rushlight.ones(1 << 21)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    y = (x * 2 + 1).relu()
before = faults()
for _ in range(10):
    y = (x * 2 + 1).relu()
print((faults() - before) / 10)
"""


def faults(**environment: str) -> float:
    """Of a chain of three results of 8 MiB, 6,144 small pages, in a process of its own."""
    known = {k: v for k, v in os.environ.items() if k not in heap.SETTINGS}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], env=known | environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


@glibc
@pytest.mark.parametrize("mode", ["reference", "native"])  # in "auto" kernels may arrive meanwhile
def test_results_of_some_megabytes_cost_no_page_faults(mode: str) -> None:
    assert faults(RUSHLIGHT_EAGER=mode) < 50
    assert faults(RUSHLIGHT_EAGER=mode, MALLOC_TRIM_THRESHOLD_="131072") > 50


@glibc
@pytest.mark.parametrize("name", heap.SETTINGS)
def test_settings_of_the_user_count(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in heap.SETTINGS:
        monkeypatch.delenv(other, raising=False)
    assert heap.keep_freed_memory()
    monkeypatch.setenv(name, "131072")
    assert not heap.keep_freed_memory()


AHEAD = """
import resource
import numpy as np
from rushlight.core import heap
start, end = heap.grow(24 << 20)
made = heap.make_pages(start, end)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for part in range(3):
    np.ones(1 << 20)
print(end - start >= 16 << 20, made,  # less what was free at its end before
    resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@glibc
@pytest.mark.skipif(sys.platform != "linux", reason="advice to Linux")
def test_pages_are_made_ahead() -> None:
    known = {k: v for k, v in os.environ.items() if k not in heap.SETTINGS}
    done = subprocess.run(
        [sys.executable, "-c", "import rushlight\n" + AHEAD],
        env=known,
        capture_output=True,
        text=True,
        check=True,
    )
    grown, made, faults = done.stdout.split()
    assert grown == "True"
    if made == "True":  # a kernel that knows of it
        assert int(faults) < 200  # of 2,048 pages


def test_the_heap_grows_by_what_is_kept_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_keeps", False)
    assert heap.grow(1 << 20) == (0, 0)
    assert heap.make_pages(0, 0)


def collected(before: str = "") -> list[int]:
    """Objects of the youngest generations, and frozen ones, after an import."""
    program = f"""
import gc
{before}
import rushlight
print(len(gc.get_objects(0)) + len(gc.get_objects(1)), gc.get_freeze_count())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


def test_what_an_import_makes_is_old_at_once() -> None:
    """The collector looked at all of it with the next young objects: a tenth of the time of the import."""
    young, frozen = collected()
    assert young < 5000
    assert frozen == 0


def test_what_somebody_has_frozen_stays_frozen() -> None:
    assert collected("gc.freeze()")[1] > 1000


def test_the_collector_stays_off_where_it_was() -> None:
    gc.disable()
    try:
        with heap.collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


COLLECTING = """
import gc
print(gc.get_threshold()[0], gc.get_freeze_count() > 0, gc.isenabled())
class Cycle:
    pass
for _ in range(5 * gc.get_threshold()[0]):
    Cycle().itself = [Cycle()]
    cycle = Cycle()
    cycle.itself = cycle
print(sum(type(each) is Cycle for each in gc.get_objects()) <= 2 * gc.get_threshold()[0])
"""


def test_a_program_collects_by_operators(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(COLLECTING)
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "run", "program.py"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{heap.OBJECTS * gc.get_threshold()[0]} True True\nTrue\n"

"""Memory of results that are no longer needed serves the next ones."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

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
def test_results_of_some_megabytes_cost_no_page_faults() -> None:
    assert faults() < 50 < faults(MALLOC_TRIM_THRESHOLD_="131072")


@glibc
@pytest.mark.parametrize("name", heap.SETTINGS)
def test_settings_of_the_user_count(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in heap.SETTINGS:
        monkeypatch.delenv(other, raising=False)
    assert heap.keep_freed_memory()
    monkeypatch.setenv(name, "131072")
    assert not heap.keep_freed_memory()

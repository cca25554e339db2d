"""Memory of results that are no longer needed serves the next ones."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from rushlight.core import heap

glibc = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"),
                           reason="settings of glibc, which is not the C library here")

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


def run(code: str, **environment: str) -> str:
    known = {k: v for k, v in os.environ.items() if k not in heap.SETTINGS}
    done = subprocess.run([sys.executable, "-c", code], env=known | environment, capture_output=True,
                          text=True, check=True)
    return done.stdout.strip()


@glibc
def test_results_of_some_megabytes_cost_no_page_faults() -> None:
    assert float(run(FAULTS)) < 50  # three results of 8 MiB take 6,144 pages


@glibc
@pytest.mark.parametrize("name", heap.SETTINGS)
def test_settings_of_the_user_count(name: str) -> None:
    value = "glibc.malloc.trim_threshold=131072" if name == "GLIBC_TUNABLES" else "131072"
    code = "from rushlight.core.heap import keep_freed_memory; print(keep_freed_memory())"
    assert run(code) == "True"
    assert run(code, **{name: value}) == "False"

"""Native calls of operators, which a process turns on for good: tested in another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = [Path(__file__).with_name(f"native_{name}_checks.py") for name in ("dispatch", "names")]


def test_native_calls() -> None:
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *options, *map(str, CHECKS)]
    environment = {**os.environ, "RUSHLIGHT_DISPATCH": "native"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("value", ["fast", "Native"])
def test_other_ways_to_call_are_refused(value: str) -> None:
    environment = {**os.environ, "RUSHLIGHT_DISPATCH": value}
    command = [sys.executable, "-c", "import rushlight"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode
    assert "RUSHLIGHT_DISPATCH must be python or native" in done.stderr

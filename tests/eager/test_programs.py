"""Random programs natively and on the reference; 3,000 with `pytest -m slow tests/eager/test_programs.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("programs_program.py")


def agree(first: int, count: int) -> None:
    command = [sys.executable, str(PROGRAM), str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert done.stdout == f"{count} programs agree\n"


def test_programs() -> None:
    agree(0, 200)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(6))
def test_many_programs(shard: int) -> None:
    agree(1000 + 500 * shard, 500)

"""How a process ended is written down before the process that mpiexec watches ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rushlight.cli.supervisor import first_failed

CHILD = """
import os, sys
from pathlib import Path
from rushlight.cli.supervisor import supervise
supervise(Path(sys.argv[1]))
os.write(1, b"%d\\n" % os.getpid())
if sys.argv[2:]:
    os._exit(int(sys.argv[2]))
sys.stdin.read()
"""


def started(directory: Path, *args: str) -> tuple[subprocess.Popen[bytes], int]:
    """A supervisor, and the process that it watches."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(directory), *args], stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("first", [0, 1, 2])
def test_the_first_is_found(first: int, tmp_path: Path) -> None:
    processes = [started(tmp_path) for _ in range(3)]
    for at, number in (
        (first, signal.SIGKILL),
        ((first + 1) % 3, signal.SIGTERM),
        ((first + 2) % 3, signal.SIGKILL),
    ):
        supervisor, child = processes[at]
        os.kill(child, number)
        supervisor.communicate(timeout=60)
        assert supervisor.returncode == -number
    assert first_failed(tmp_path) == (processes[first][1], -signal.SIGKILL)


def test_an_exit_status_is_passed_on(tmp_path: Path) -> None:
    supervisor, child = started(tmp_path, "7")
    supervisor.communicate(timeout=60)
    assert supervisor.returncode == 7 and first_failed(tmp_path) == (child, 7)


def test_processes_that_came_to_their_end_are_not_meant(tmp_path: Path) -> None:
    supervisor, _ = started(tmp_path)
    supervisor.communicate(timeout=60)
    assert supervisor.returncode == 0 and first_failed(tmp_path) is None


def test_signals_are_left_to_the_program(tmp_path: Path) -> None:
    supervisor, child = started(tmp_path)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        supervisor.send_signal(number)
    time.sleep(0.1)
    assert supervisor.poll() is None and is_alive(child)
    supervisor.communicate(timeout=60)
    assert supervisor.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's end")
def test_the_program_ends_with_its_supervisor(tmp_path: Path) -> None:
    supervisor, child = started(tmp_path)
    supervisor.kill()
    supervisor.communicate(timeout=60)
    deadline = time.monotonic() + 60
    while is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(child)
    assert first_failed(tmp_path) is None


def test_nothing_is_written_where_the_launcher_is_not(tmp_path: Path) -> None:
    supervisor, child = started(tmp_path / "elsewhere")
    os.kill(child, signal.SIGKILL)
    supervisor.communicate(timeout=60)
    assert supervisor.returncode == -signal.SIGKILL and not (tmp_path / "elsewhere").exists()

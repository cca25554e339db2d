"""Which process of several ended first, however late somebody looks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rushlight.cli.deaths import Deaths

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="needs descriptors of processes (Linux)"
)


def started(directory: Path, count: int) -> list[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(count)]
    for rank, process in enumerate(processes):
        (directory / f"{rank}.pid").write_text(str(process.pid))
    return processes


def met(deaths: Deaths, count: int) -> None:
    deadline = time.monotonic() + 30
    while len(deaths._known) < count and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.parametrize("order", [[2, 0, 1, 3], [1, 3, 2, 0], [0, 1, 2, 3]])
def test_the_first_is_found(order: list[int], tmp_path: Path) -> None:
    processes = started(tmp_path, 4)
    deaths = Deaths(tmp_path)
    deaths.start()
    met(deaths, 4)
    processes[order[0]].send_signal(signal.SIGSEGV)
    while not Path(f"/proc/{processes[order[0]].pid}/stat").read_text().rpartition(")")[2].startswith(" Z"):
        time.sleep(0.001)
    for rank in order[1:]:  # as mpiexec does with the others
        processes[rank].kill()
        os.waitid(os.P_PID, processes[rank].pid, os.WEXITED | os.WNOWAIT)
    deaths.stop()
    for process in processes:
        process.communicate()
    assert deaths.first() == order[0]
    assert deaths.order == order
    assert deaths.signals[order[0]] == signal.SIGSEGV and deaths.signals[order[1]] == signal.SIGKILL


def test_processes_that_came_to_their_end_are_not_meant(tmp_path: Path) -> None:
    processes = started(tmp_path, 2)
    deaths = Deaths(tmp_path)
    deaths.start()
    met(deaths, 2)
    (tmp_path / "0.done").touch()
    processes[0].communicate()
    processes[1].kill()
    processes[1].communicate()
    deaths.stop()
    assert deaths.first() == 1


def test_nothing_is_known_of_processes_elsewhere(tmp_path: Path) -> None:
    deaths = Deaths(tmp_path)
    deaths.start()
    deaths.stop()
    assert deaths.first() is None

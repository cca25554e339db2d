"""Which process of several ended first, however late somebody looks."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rushlight.cli.deaths import Deaths

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="needs epoll (Linux)")

CHILD = """
import os, sys
from pathlib import Path
from rushlight.cli.deaths import be_watched
be_watched(Path(sys.argv[1]), int(sys.argv[2]))
if sys.argv[3:]:
    read, _ = os.pipe()
    if os.fork() == 0:
        os.write(1, b"%d\\n" % os.getpid())
        os.read(read, 1)
        os._exit(0)
os.write(1, b"watched\\n")
sys.stdin.read()
"""


def started(directory: Path, count: int, *args: str) -> list[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    ranks = [[sys.executable, "-c", CHILD, str(directory), str(rank), *args] for rank in range(count)]
    return [subprocess.Popen(command, stdin=pipe, stdout=pipe) for command in ranks]


def said(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("order", [[2, 0, 1, 3], [1, 3, 2, 0], [0, 1, 2, 3]])
def test_the_first_is_found(order: list[int], tmp_path: Path) -> None:
    deaths = Deaths(tmp_path, 4)
    deaths.start()
    processes = started(tmp_path, 4)
    assert [said(process) for process in processes] == [b"watched"] * 4
    for rank in order:
        processes[rank].send_signal(signal.SIGSEGV if rank == order[0] else signal.SIGKILL)
        os.waitid(os.P_PID, processes[rank].pid, os.WEXITED | os.WNOWAIT)
    deaths.stop()
    for process in processes:
        process.communicate()
    assert deaths.first() == order[0]
    assert deaths.order == order
    assert deaths.signals[order[0]] == signal.SIGSEGV and deaths.signals[order[1]] == signal.SIGKILL


def test_processes_that_came_to_their_end_are_not_meant(tmp_path: Path) -> None:
    deaths = Deaths(tmp_path, 2)
    processes = started(tmp_path, 2)
    deaths.start()
    assert [said(process) for process in processes] == [b"watched"] * 2
    (tmp_path / "0.done").touch()
    processes[0].communicate()
    processes[1].kill()
    processes[1].communicate()
    deaths.stop()
    assert deaths.first() == 1


def test_processes_that_were_forked_do_not_hide_an_end(tmp_path: Path) -> None:
    deaths = Deaths(tmp_path, 2)
    processes = started(tmp_path, 2, "fork")
    deaths.start()
    forked = [min(said(process) for _ in range(2)) for process in processes]
    for process in reversed(processes):
        process.kill()
        process.wait()
    deaths.stop()
    for number in forked:
        os.kill(int(number), signal.SIGKILL)
    for process in processes:
        process.communicate()
    assert deaths.order == [1, 0]


def test_nothing_is_known_of_processes_elsewhere(tmp_path: Path) -> None:
    deaths = Deaths(tmp_path, 2)
    deaths.start()
    deaths.stop()
    assert deaths.first() is None

"""Which process of a job ended first. mpiexec ends the others at once, and its own report may name any of them.

A process holds the writing ends of two pipes with names, which the system closes when the process ends, in
whatever way. It closes descriptors by their numbers, up or down as it likes; that through which mpiexec
learns of the end lies between the two, so that no other process was ended when the first of them is closed.
An epoll gives pipes in the order in which they were closed, however late somebody looks. Where there is no
epoll, and of processes on other machines, nothing is known.
"""

from __future__ import annotations

import fcntl
import functools
import os
import select
import threading
import time
from pathlib import Path

POLL = 0.02  # seconds between two looks for the end of the job
LATE = 0.5  # seconds after which a process whose pipe was closed is no longer waited for
ABOVE = 512  # what mpiexec listens to is moved to a descriptor from here on
PIPES = ("low", "high")
MPI_LISTENS = "PMI_FD"  # the variable with the descriptor through which MPICH's mpiexec hears from a process
EXIT_CODE = 49  # the place of a process's exit code in /proc/PID/stat, behind its name


class Deaths:
    """Watches the processes that call `be_watched` with a directory. One that ends as it should writes
    `RANK.done` before."""

    def __init__(self, directory: Path, size: int) -> None:
        self.directory = directory
        self.order: list[int] = []  # ranks that have ended
        self.signals: dict[int, int] = {}  # which signal has ended them, where that was seen
        self._ranks: dict[int, int] = {}  # of each pipe
        self._over = threading.Event()
        self._watch: threading.Thread | None = None
        self._poll: select.epoll | None = None
        if hasattr(select, "epoll"):
            self._poll = self._opened(size)

    def _opened(self, size: int) -> select.epoll:
        poll = select.epoll()
        for rank in range(size):
            for name in PIPES:
                path = self.directory / f"{rank}.{name}"
                os.mkfifo(path)
                pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                self._ranks[pipe] = rank
                poll.register(pipe, select.EPOLLHUP | select.EPOLLONESHOT)
        return poll

    def start(self) -> None:
        if self._poll is not None:
            self._watch = threading.Thread(target=self._run, daemon=True)
            self._watch.start()

    def stop(self) -> None:
        """The job has ended: look a last time."""
        self._over.set()
        if self._watch is not None:
            self._watch.join(5)

    def first(self) -> int | None:
        """The rank that ended first without having come to its end; None if that is not known."""
        return next((rank for rank in self.order if not (self.directory / f"{rank}.done").exists()), None)

    def _run(self) -> None:
        assert self._poll is not None
        with self._poll as poll:
            while not self._over.is_set():
                self._note(poll.poll(POLL))
            self._note(poll.poll(0))
        for pipe in self._ranks:
            os.close(pipe)

    def _note(self, events: list[tuple[int, int]]) -> None:
        ended = [
            rank for rank in dict.fromkeys(self._ranks[pipe] for pipe, _ in events) if rank not in self.order
        ]
        self.order += ended
        for rank in ended:
            code = _exit_code((self.directory / f"{rank}.pid").read_text())
            if code is not None:
                self.signals[rank] = code & 0x7F


def be_watched(directory: Path, rank: int) -> None:
    """Let the launcher that watches a directory know when this process ends."""
    (directory / f"{rank}.pid").write_text(str(os.getpid()))
    try:
        low, high = [os.open(directory / f"{rank}.{name}", os.O_WRONLY | os.O_NONBLOCK) for name in PIPES]
    except OSError:  # there is no epoll, or the launcher has ended
        return
    listened, least = os.environ.get(MPI_LISTENS, ""), ABOVE
    if listened.isdigit():
        moved = fcntl.fcntl(int(listened), fcntl.F_DUPFD, least)
        os.close(int(listened))
        os.environ[MPI_LISTENS], least = str(moved), moved
    last = fcntl.fcntl(high, fcntl.F_DUPFD_CLOEXEC, least)
    os.close(high)
    for descriptor in (low, last):
        os.register_at_fork(after_in_child=functools.partial(os.close, descriptor))


def _exit_code(pid: str) -> int | None:
    """As `wait` gives it, of a process that is ending; None if it was waited for meanwhile."""
    deadline = time.monotonic() + LATE
    while time.monotonic() < deadline:
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        if words[0] == "Z":
            return int(words[EXIT_CODE])
        time.sleep(0.001)
    return None

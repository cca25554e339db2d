"""Which process of a job ended first. mpiexec ends the others at once, and its own report may name any of them.

Linux tells through an epoll of process descriptors, which is ready in the order in which processes ended, however
late somebody looks. Elsewhere, and for processes on other machines, nothing is known.
"""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path

POLL = 0.02  # seconds between two looks for processes that have begun
EXIT_CODE = 49  # the place of a process's exit code in /proc/PID/stat, behind its name


class Deaths:
    """Watches the processes that write their numbers to `RANK.pid` in a directory. One that ends as it should
    writes `RANK.done` before."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.order: list[int] = []  # ranks that have ended
        self.signals: dict[int, int] = {}  # which signal has ended them, where that was seen
        self._descriptors: dict[int, int] = {}  # the rank of each
        self._known: set[str] = set()
        self._over = threading.Event()
        self._watch: threading.Thread | None = None

    def start(self) -> None:
        if hasattr(os, "pidfd_open") and hasattr(select, "epoll"):
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
        with select.epoll() as poll:
            while not self._over.is_set():
                self._meet(poll)
                self._note(poll.poll(POLL))
            self._meet(poll)
            self._note(poll.poll(0))
        for descriptor in self._descriptors:
            os.close(descriptor)

    def _meet(self, poll: select.epoll) -> None:
        for path in self.directory.glob("*.pid"):
            text = path.read_text()
            if path.stem in self._known or not text.isdigit():
                continue
            self._known.add(path.stem)
            try:
                descriptor = os.pidfd_open(int(text))
            except OSError:  # it has ended, and been waited for
                self.order.append(int(path.stem))
                continue
            self._descriptors[descriptor] = int(path.stem)
            poll.register(descriptor, select.EPOLLIN | select.EPOLLONESHOT)

    def _note(self, events: list[tuple[int, int]]) -> None:
        for descriptor, _ in events:
            rank = self._descriptors[descriptor]
            self.order.append(rank)
            code = _exit_code((self.directory / f"{rank}.pid").read_text())
            if code is not None:
                self.signals[rank] = code & 0x7F


def _exit_code(pid: str) -> int | None:
    """As `wait` gives it, of a process that has ended and was not waited for yet."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(words[EXIT_CODE]) if words[0] == "Z" else None

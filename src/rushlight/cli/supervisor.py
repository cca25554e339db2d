"""The process of `rushlight launch` that mpiexec starts for each rank: it watches the one that runs the program.

mpiexec ends all processes when one has ended, and may name any of them. What it watches is this process, and the
connection that this one holds open as well; so how the program ended is written down before any other rank is
ended for it. This file is run by its path and forks before anything of the package is imported: no thread, no
library.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from pathlib import Path

FIRST = "first"  # the file that says which process has failed first, and how: "PID STATUS"
SENT_TO_BOTH = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)  # by mpiexec
_PR_SET_PDEATHSIG = 1


def supervise(reports: Path) -> None:
    """Fork; comes back in the child. The parent ends as the child does."""
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _end_with(parent)
        return
    for number in SENT_TO_BOTH:
        signal.signal(number, signal.SIG_IGN)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status and reports.is_dir():  # on the machine of the launcher
        ended = reports / f"{child}.ended"
        ended.write_text(f"{child} {status}")
        with contextlib.suppress(FileExistsError):  # another one was the first
            os.link(ended, reports / FIRST)
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program's own is enough
        if -status in SENT_TO_BOTH:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(parent, -status)
    os._exit(status if status >= 0 else 128 - status)


def first_failed(reports: Path) -> tuple[int, int] | None:
    """The process that failed first and its exit status, negative for a signal; None if that is not known."""
    try:
        process, status = (reports / FIRST).read_text().split()
    except FileNotFoundError:
        return None
    return int(process), int(status)


def _end_with(parent: int) -> None:
    """Whatever ends the parent ends this process, where the system can do that (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def main(arguments: list[str]) -> int:
    supervise(Path(os.environ["RUSHLIGHT_LAUNCH_REPORTS"]))
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()  # as for a module; it was the directory of this file
    from rushlight.cli import rank

    return rank.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

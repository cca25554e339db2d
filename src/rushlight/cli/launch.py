"""`rushlight launch`: a program in several processes that MPI starts, ended and started again together."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from rushlight.cli import supervisor
from rushlight.cli.main import UsageError
from rushlight.comm.mpi import INSTALL, is_installed

# Of hydra, MPICH's mpiexec, about one of the processes that have ended.
_STATUS = re.compile(r"^=\s+EXIT CODE: (\d+)", re.M)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--nproc", type=int, required=True, metavar="N", help="how many processes")
    parser.add_argument(
        "--restarts",
        type=int,
        default=0,
        metavar="N",
        help="start the program again, up to N times, when a process fails; it resumes from its last checkpoint",
    )
    parser.add_argument(
        "--mpiexec",
        metavar="COMMAND",
        help="the command that starts processes, with options of its own ('mpiexec -hosts a,b'); the default is "
        "the mpiexec beside this Python, or the first of PATH",
    )
    parser.add_argument(
        "--torch", action="store_true", help="a PyTorch program: `import torch` finds Rushlight, as in `run`"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module, as in python -m")
    parser.add_argument("program", metavar="PROGRAM", help="a Python file, or with -m the name of a module")
    parser.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="arguments of the program")


def run(options: argparse.Namespace) -> int:
    if options.nproc < 1 or options.restarts < 0:
        raise UsageError("-n is at least 1, and --restarts is not negative")
    if not options.module and not os.path.exists(options.program):
        raise UsageError(f"can't open file {options.program!r}: there is no such file")
    if not is_installed():
        raise UsageError(f"mpi4py is not installed: {INSTALL}")
    command = [*_mpiexec(options.mpiexec), "-n", str(options.nproc), sys.executable, supervisor.__file__]
    command += ["--torch"] * options.torch + ["-m"] * options.module + [options.program, *options.arguments]
    for attempt in range(options.restarts + 1):
        status, why = _run_once(command, options.nproc, attempt)
        if status == 0:
            return 0
        again = attempt < options.restarts
        left = f"; starting it again ({attempt + 1} of {options.restarts})" if again else ""
        print(f"rushlight launch: {why}{left}", file=sys.stderr, flush=True)
    return status


def _mpiexec(asked: str | None) -> list[str]:
    if asked:
        return shlex.split(asked)
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise UsageError(f"there is no mpiexec: {INSTALL}")
    return [found]


def _environment(size: int, attempt: int, reports: str) -> dict[str, str]:
    """What the processes find: which start this is, and as many threads each as there are cores for them.
    Open MPI is told that it may run as root, and more processes than cores, as MPICH does unasked."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = str(max(1, cores // size))
    names = ("RUSHLIGHT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    given = {name: threads for name in names if name not in os.environ}
    given |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    given |= {"OMPI_MCA_rmaps_base_oversubscribe": "1"}
    given |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    given |= {"RUSHLIGHT_LAUNCH_REPORTS": reports, "RUSHLIGHT_RESTART": str(attempt)}
    return {**os.environ, **given, "TORCHELASTIC_RESTART_COUNT": str(attempt)}


def _run_once(command: list[str], size: int, attempt: int) -> tuple[int, str]:
    """The exit status of the job, and in words why it failed."""
    with tempfile.TemporaryDirectory(prefix="rushlight-launch-") as reports:
        environment = _environment(size, attempt, reports)
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe)
        said: list[bytes] = []
        pairs = ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
        echoes = [threading.Thread(target=_echo, args=(*pair, said), daemon=True) for pair in pairs]
        for echo in echoes:
            echo.start()
        try:
            status = _waited(process)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            _end(process)
            raise
        for echo in echoes:
            echo.join(5)
        if status == 0:
            return 0, ""
        heard = b"".join(said).decode(errors="replace")
        raised = sorted(Path(reports).glob("*.error"), key=lambda path: path.stat().st_mtime_ns)
        if (
            raised and (text := raised[0].read_text()) not in heard
        ):  # mpiexec has ended before it passed it on
            sys.stderr.write(text)
        return abs(status), _why(status, heard, raised, Path(reports))


def _waited(process: subprocess.Popen[bytes]) -> int:
    """Wait; who ends the launcher ends the job."""
    before = signal.signal(signal.SIGTERM, lambda *_: _end(process))
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    deadline = time.monotonic() + 5
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    if process.poll() is None:
        process.kill()


def _echo(stream: Any, to: Any, said: list[bytes]) -> None:
    """Pass on what the processes and mpiexec say, and keep the last of it."""
    while data := stream.read1(1 << 16):
        to.buffer.write(data)
        to.flush()
        said.append(data)
        del said[:-200]


def _why(status: int, said: str, raised: list[Path], reports: Path) -> str:
    """Which rank ended the job, and how."""
    if raised:
        last = raised[0].read_text().rstrip().splitlines()[-1]
        return f"rank {raised[0].stem} failed: {last}"
    first, code = supervisor.first_failed(reports), _STATUS.search(said)
    who, number = "the job", int(code[1]) if code else status
    if first is not None:
        process, number = first
        ranks = {path.read_text(): path.stem for path in reports.glob("*.pid")}
        who = f"rank {ranks[str(process)]}" if str(process) in ranks else f"a process (pid {process})"
    name = _signal(abs(number))
    return f"{who} was killed by {name}" if name else f"{who} ended with exit status {number}"


def _signal(number: int) -> str | None:
    """The name of the signal that ended a process; mpiexec gives signals as they are, or 128 more."""
    number = number - 128 if number > 128 else number
    fatal = ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM", "SIGBUS", "SIGFPE", "SIGILL")
    return next((name for name in fatal if getattr(signal, name) == number), None)

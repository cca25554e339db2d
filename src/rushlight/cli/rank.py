"""One process of `rushlight launch`: runs the program, and ends all processes when it fails.

torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, ...) are set from MPI's, for programs that read them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from rushlight.comm import mpi
from rushlight.programs.start import run_module, run_script


def main(arguments: list[str]) -> int:
    place = mpi.launched()
    for name, value in place.items():
        os.environ.setdefault(name, str(value))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    rank = place.get("RANK", 0)
    named = os.environ.get("RUSHLIGHT_LAUNCH_REPORTS")
    reports = Path(named) if named and Path(named).is_dir() else None  # on the machine of the launcher
    if reports is not None:
        (reports / f"{rank}.pid").write_text(str(os.getpid()))
        mpi.report_to(str(reports / f"{rank}.error"))
    start: Callable[[str, list[str]], int] = run_script
    while arguments and arguments[0] in ("--torch", "-m"):
        option = arguments.pop(0)
        if option == "-m":
            start = run_module
        else:
            from rushlight.programs.redirect import as_torch

            as_torch()
    sys.stdout.reconfigure(line_buffering=True, write_through=False)  # type: ignore[union-attr]
    mpi.load()  # so that a process that fails at once can end the others
    mpi.abort_on_error()
    try:
        status = start(arguments[0], arguments[1:])
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    if status:
        mpi.abort(f"the program ended with exit status {status}", status)
    return status

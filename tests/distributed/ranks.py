"""Programs of several MPI processes, one thread each: how tests start them, and how these run their checks.

A program defines functions `check_...` and ends with `run_checks(globals())`. All checks of a program run in one
launch; the first that fails ends it with its traceback.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"

needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None,
    reason="mpi4py is not installed: pip install 'rushlight[distributed]'",
)


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    threads = {"RUSHLIGHT_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {**os.environ, **threads, "PYTHONPATH": path, **more}


def mpiexec() -> str:
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    assert found is not None, "mpi4py is installed, but there is no mpiexec"
    return found


def launch(
    size: int, program: Path, *args: str, timeout: float = 600, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run `program` in `size` processes under plain mpiexec."""
    command = [mpiexec(), "-n", str(size), sys.executable, str(program), *args]
    return subprocess.run(
        command, env=environment(**more), capture_output=True, text=True, timeout=timeout, check=False
    )


def checks_of(program: Path) -> list[str]:
    lines = program.read_text().splitlines()
    return [line[4:].split("(")[0] for line in lines if line.startswith("def check_")]


def run_all(name: str, size: int, **more: str) -> None:
    """Run the checks of the program `name` in `size` processes: all of them must pass."""
    program = HERE / f"{name}.py"
    run = launch(size, program, **more)
    passed = [line.split()[1] for line in run.stdout.splitlines() if line.startswith("passed ")]
    assert run.returncode == 0, f"{run.stdout[-2000:]}\n{run.stderr[-6000:]}"
    assert sorted(passed) == sorted(checks_of(program)), run.stdout[-2000:]


def run_checks(namespace: dict[str, Any]) -> None:
    """In a rank: run every check, in order; rank 0 tells which have passed in all ranks."""
    import rushlight.distributed as dist

    if not dist.is_initialized():
        dist.init_process_group("mpi", timeout=timedelta(seconds=300))
    for name, check in list(namespace.items()):
        if name.startswith("check_"):
            check()
            dist.barrier()
            if dist.get_rank() == 0:
                print("passed", name, flush=True)
    dist.destroy_process_group()

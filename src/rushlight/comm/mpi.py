"""The MPI library, through mpi4py, and what the environment says about the processes that were started.

MPI is loaded when a group of more than one process is made, never before: a program of one process needs none.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Any

INSTALL = "pip install 'rushlight[distributed]' (mpi4py and MPICH), or mpi4py built for this site's MPI"

# What mpiexec gives each process: (rank, number of processes, rank on its machine, processes there). The
# names are those of MPICH and Intel MPI, Open MPI, MVAPICH, and Slurm's srun.
_LAUNCHERS = (
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)


class DistError(RuntimeError):
    """Processes could not do together what they were to do."""


class DistBackendError(DistError):
    """MPI failed, or a process did not take part in time."""


class DistNetworkError(DistError):
    """The processes could not be reached."""


class DistStoreError(DistError):
    """A store of keys and values failed."""


def is_installed() -> bool:
    """Whether mpi4py can be imported, without importing it."""
    return "mpi4py" in sys.modules or _is_found(tuple(sys.path))


@functools.lru_cache(maxsize=1)  # programs ask in every step
def _is_found(path: tuple[str, ...]) -> bool:
    """Whether mpi4py is in one of these directories, those that are searched."""
    return importlib.util.find_spec("mpi4py") is not None


@functools.cache
def load() -> Any:
    """`mpi4py.MPI`; the first call initializes MPI."""
    try:
        return importlib.import_module("mpi4py.MPI")
    except ImportError as error:
        raise DistError(f"processes talk through MPI, which is not there ({error}): {INSTALL}") from error


def told(name: str, error: int, statuses: Sequence[Any]) -> DistBackendError:
    """What an error number of MPI's means for the collective `name`, with the statuses of its messages. A message
    that is longer than what was expected is an error of MPI's; a shorter one is found by whoever receives it."""
    MPI = load()
    kinds = [error] if error != MPI.ERR_IN_STATUS else [status.Get_error() for status in statuses]
    if any(MPI.Get_error_class(kind) == MPI.ERR_TRUNCATE for kind in kinds):
        return DistBackendError(
            f"{name}: more bytes came than were expected: the processes call different collectives, or with "
            "tensors of different sizes"
        )
    return DistBackendError(f"{name}: MPI says: {MPI.Get_error_string(error)}")


def launched() -> dict[str, int]:
    """RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE as mpiexec gave them; empty if it did not start us."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    for launcher in _LAUNCHERS:
        if all(os.environ.get(name, "").isdigit() for name in launcher[:2]):
            given = [os.environ.get(name, "") for name in launcher]
            return {name: int(value) for name, value in zip(names, given, strict=True) if value.isdigit()}
    return {}


_reports: list[str] = []  # the file that `rushlight launch` reads, if it started this process


def report_to(path: str) -> None:
    """Write the traceback of an error that ends this process to `path`, too."""
    _reports[:] = [path]


def abort_on_error() -> None:
    """From now on an exception that ends this process ends all of them: the others wait for it."""
    if getattr(sys.excepthook, "ends_all_processes", False):
        return
    before = sys.excepthook

    def end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            before(kind, error, trace)
        abort("".join(traceback.format_exception(kind, error, trace)))

    end.ends_all_processes = True  # type: ignore[attr-defined]
    sys.excepthook = end


def abort(why: str, status: int = 1) -> None:
    """End all processes, saying which one ended them and why. mpiexec ends the others, too, when a process ends
    with an error before it has initialized MPI."""
    place, world = launched(), None
    if "mpi4py.MPI" in sys.modules and load().Is_initialized() and not load().Is_finalized():
        world = load().COMM_WORLD
        place = {"RANK": world.rank, "WORLD_SIZE": world.size}
    who = f"rank {place.get('RANK', 0)} of {place.get('WORLD_SIZE', 1)}"
    text = f"{who} ended the job:\n{why.rstrip()}\n"
    if _reports:
        with open(_reports[0], "w") as report:
            report.write(text)
    sys.stdout.flush()
    sys.stderr.write(text)
    sys.stderr.flush()
    if world is None:
        os._exit(status)
    try:
        world.Abort(status)
    finally:
        os._exit(status)  # where MPI has come back

"""Python's multiprocessing, with PyTorch's additions: tensors that are sent to another process are not
copied, both see one memory (`reductions.py`)."""

from __future__ import annotations

import multiprocessing as _multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from typing import Any

from ..core.storage import _STRATEGY
from ..nn.parameter import Parameter
from . import reductions

__all__ = [  # noqa: PLE0604  the standard library's own list first
    *_multiprocessing.__all__,
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "reductions",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

_STRATEGIES = {"file_descriptor", "file_system"}


def get_all_sharing_strategies() -> set[str]:
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    return _STRATEGY[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """How another process reaches shared memory: by a file descriptor, or by a name in the file system, which
    lasts as long as the process that shared it keeps it."""
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"the strategies are {sorted(_STRATEGIES)}, not {new_strategy!r}")
    _STRATEGY[0] = new_strategy


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """`fn(i, *args)` in `nprocs` processes; with `join` waits for them, and fails if one of them does."""
    context: Any = _multiprocessing.get_context(start_method)
    processes = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    for process in processes:
        process.join()
    failed = [i for i, process in enumerate(processes) if process.exitcode]
    if failed:
        codes = [processes[i].exitcode for i in failed]
        raise RuntimeError(f"processes {failed} ended with the codes {codes}")
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    return start_processes(fn, args, nprocs, join, daemon, start_method)


reductions.init_reductions()
reductions.register_class(Parameter)

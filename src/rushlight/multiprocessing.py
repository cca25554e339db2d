"""Python's multiprocessing, with PyTorch's additions. Tensors are sent as copies."""

from __future__ import annotations

import multiprocessing as _multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from typing import Any

__all__ = [*_multiprocessing.__all__, "get_all_sharing_strategies", "get_sharing_strategy",  # noqa: PLE0604
           "set_sharing_strategy", "spawn", "start_processes"]

_STRATEGIES = {"file_descriptor", "file_system"}
_chosen = ["file_descriptor"]


def get_all_sharing_strategies() -> set[str]:
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    return _chosen[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Which way memory would be shared; here tensors are copied, whatever is chosen."""
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"the strategies are {sorted(_STRATEGIES)}, not {new_strategy!r}")
    _chosen[0] = new_strategy


def start_processes(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
                    daemon: bool = False, start_method: str = "spawn") -> Any:
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


def spawn(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
          daemon: bool = False, start_method: str = "spawn") -> Any:
    return start_processes(fn, args, nprocs, join, daemon, start_method)

"""What a worker process of a loader does: fetch what it is told to, and send it back.

Tasks are (number, indices) and come through a queue of the worker's own; results are (number, batch or
`Failure`) through one queue for all. None ends the worker. A worker of an iterable dataset sends `Exhausted`
when its copy has no more.
"""

from __future__ import annotations

import os
import queue
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ... import random as rl_random
from ..._api import compile as _compile_api

ASK_EVERY = 5.0  # seconds between looks at whether the parent still lives


@dataclass(frozen=True)
class WorkerInfo:
    """Inside a worker: which one it is, of how many, its seed and its copy of the dataset.

    >>> rl.utils.data.get_worker_info() is None
    True
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


@dataclass(frozen=True)
class Failure:
    """An exception of a worker, as text, with its type to raise it again."""

    kind: type[BaseException]
    text: str

    def raise_again(self) -> None:
        message = f"Caught {self.kind.__name__} in DataLoader worker process.\nOriginal {self.text}"
        try:
            error = self.kind(message)
        except Exception:  # a type that is not made from one message
            raise RuntimeError(message) from None
        raise error


@dataclass(frozen=True)
class Exhausted:
    """The dataset of this worker has no more examples."""

    worker: int


@dataclass(frozen=True)
class Restart:
    """A new epoch begins, with this seed."""

    seed: int


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Which worker this process is; None outside of workers.

    >>> rl.utils.data.get_worker_info() is None
    True
    """
    return _info


@dataclass(frozen=True)
class Job:
    """What a worker process is started with."""

    make_fetcher: Callable[[Any], Callable[[Any], Any]]
    dataset: Any
    init: Callable[[int], Any] | None
    count: int  # of workers
    seed: int
    parent: int  # process


def run_worker(job: Job, number: int, tasks: Any, results: Any) -> None:
    """The main function of a worker process."""
    _compile_api.set_num_threads(1)
    _begin(job, number, job.seed)
    failure: Failure | None = None
    fetch: Callable[[Any], Any] | None = None
    try:
        if job.init is not None:
            job.init(number)
        fetch = job.make_fetcher(job.dataset)
    except Exception as error:
        failure = _failure(error)
    while True:
        task = _next_task(tasks, job.parent)
        if task is None:
            return
        if isinstance(task, Restart):
            _begin(job, number, task.seed)
            fetch = job.make_fetcher(job.dataset)
            continue
        position, indices = task
        results.put((position, failure or _attempt(fetch, indices, number)))
        failure = None


def _begin(job: Job, number: int, seed: int) -> None:
    """An epoch of this worker."""
    global _info
    _seed_everything(seed + number)
    _info = WorkerInfo(number, job.count, seed + number, job.dataset)


def _attempt(fetch: Callable[[Any], Any] | None, indices: Any, number: int) -> Any:
    assert fetch is not None
    try:
        return fetch(indices)
    except StopIteration:
        return Exhausted(number)
    except Exception as error:
        return _failure(error)


def _failure(error: Exception) -> Failure:
    return Failure(type(error), "".join(traceback.format_exception(error)))


def _next_task(tasks: Any, parent: int) -> Any:
    """The next task; None once the parent is gone, so that no worker outlives it."""
    while True:
        try:
            return tasks.get(timeout=ASK_EVERY)
        except queue.Empty:
            if os.getppid() != parent:
                return None


def _seed_everything(seed: int) -> None:
    import random

    import numpy as np

    random.seed(seed)
    np.random.seed(seed % 2**32)
    rl_random.manual_seed(seed)

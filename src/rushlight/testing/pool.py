"""A small process pool for tasks that may hang or crash.

Each worker is a process with a pipe. A task that takes longer than its limit costs its worker, which is
replaced; so does a crash. Every task given is answered exactly once, by its results or by the message of what
went wrong.

Workers are forked where the system can, after the oracle is imported, so that they start at once. Nothing in
the parent may start threads before that.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

TaskT = TypeVar("TaskT")

Answer = tuple[bool, Any]  # (True, results) or (False, message)


def run_all(
    work: Callable[[TaskT], Any], tasks: Sequence[TaskT], *, jobs: int, limit: Callable[[TaskT], float]
) -> Iterator[tuple[TaskT, Answer]]:
    """Yield (task, answer) in the order of completion. `limit` gives the seconds a task may take."""
    waiting = deque(tasks)
    workers = [_Worker(work) for _ in range(min(max(jobs, 1), len(tasks)))]
    try:
        for worker in workers:
            worker.start(waiting.popleft(), limit)
        while busy := [worker for worker in workers if worker.task is not None]:
            yield from _collect(busy, waiting, limit)
    finally:
        for worker in workers:
            worker.stop()


def _collect(
    busy: list[_Worker], waiting: deque[Any], limit: Callable[[Any], float]
) -> Iterator[tuple[Any, Answer]]:
    """Wait for the first answer, end or time-out among busy workers, and give the free ones new tasks."""
    patience = max(0.0, min(worker.deadline for worker in busy) - time.monotonic())
    multiprocessing.connection.wait([worker.pipe for worker in busy], timeout=patience)
    for worker in busy:
        answer = worker.answer()
        if answer is None:
            continue
        task, worker.task = worker.task, None
        if waiting:
            worker.start(waiting.popleft(), limit)
        yield task, answer


class _Worker(Generic[TaskT]):
    """One process and what it is doing. `task` is None when idle."""

    def __init__(self, work: Callable[[TaskT], Any]) -> None:
        self.work = work
        self.task: TaskT | None = None
        self.deadline = 0.0
        self.seconds = 0.0
        self._open()

    def _open(self) -> None:
        context: Any = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, self.work), daemon=True)
        self.process.start()
        theirs.close()

    def start(self, task: TaskT, limit: Callable[[TaskT], float]) -> None:
        self.task, self.seconds = task, limit(task)
        self.deadline = time.monotonic() + self.seconds
        self.pipe.send(task)

    def answer(self) -> Answer | None:
        """The answer to the current task if there is one by now; a dead or late process is replaced."""
        if self.pipe.poll():
            try:
                answer: Answer = self.pipe.recv()
                return answer
            except (EOFError, OSError):
                self._replace()
                return False, f"the process crashed (exit code {self.exit_code})"
        if time.monotonic() < self.deadline:
            return None
        self._replace()
        return False, f"timed out after {self.seconds:g} s"

    def _replace(self) -> None:
        self.stop()
        self._open()

    def stop(self) -> None:
        """End the process, if it still runs, and take its exit code."""
        self.pipe.close()
        self.process.join(timeout=0.2)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.exit_code = self.process.exitcode


def _serve(pipe: Any, work: Callable[[Any], Any]) -> None:
    """A worker's life: take a task, answer, until the pipe closes."""
    with contextlib.suppress(EOFError, KeyboardInterrupt, BrokenPipeError):
        while True:
            task = pipe.recv()
            try:
                answer: Answer = (True, work(task))
            except Exception as error:
                answer = (False, f"{type(error).__name__}: {error}")
            pipe.send(answer)

"""The thread that makes kernels while the program goes on with NumPy's.

One daemon thread takes jobs in order. While it works, threads of the program that want Python's lock wait for
`TURN` at most, not for the 5 ms that are usual: their operators would take many times as long. `_at_work` is held
while a job runs: a fork waits for it, so that a child finds no lock taken and no half-made state, and starts a
thread of its own when it has a job; the end of the interpreter waits for it, so that native code is not running
when its libraries are taken down. Neither waits long: the job is given up, and begun anew after a fork.
"""

from __future__ import annotations

import atexit
import functools
import os
import queue
import sys
import threading
import time
from collections.abc import Callable

from ..core.giving_up import GivenUp, giving_up

TURN = 0.0002  # seconds
LONGEST = 60.0  # seconds of the processor's after which a job is given up for good
PATIENCE = 0.2  # seconds that a fork waits for the end of a job before it is given up

Job = Callable[[], object]

_at_work = threading.Lock()
_lock = threading.Lock()
_jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
_thread: threading.Thread | None = None
_stopped = False
_forking = False  # a fork waits for the job that is running
_forks = 0  # of which this process is the last


def submit(job: Job) -> None:
    """Run `job` in the background. What it raises is told as of any thread, and the next job runs."""
    global _thread
    with _lock:
        if _stopped:
            return
        _jobs.put(job)
        if _thread is None:
            _watch_forks()
            _thread = threading.Thread(target=_work, args=(_jobs,), name="rushlight-kernels", daemon=True)
            _thread.start()


def generation() -> int:
    """Which process of a line of forks this is: jobs of another one are not run here."""
    return _forks


def _work(jobs: queue.SimpleQueue[Job]) -> None:
    while True:
        job = jobs.get()
        while _forking:
            time.sleep(0.001)
        with _at_work:
            if _stopped:
                return
            _run(job, jobs)
        del job


def _run(job: Job, jobs: queue.SimpleQueue[Job]) -> None:
    began = time.thread_time()

    def reason() -> GivenUp | None:
        if _stopped or _forking:
            return GivenUp("the process ends, or forks", again=True)
        if time.thread_time() - began > LONGEST:
            return GivenUp("it takes too long to make", again=False)
        return None

    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, TURN))
    kept = sys.getswitchinterval()
    try:
        with giving_up(reason):
            job()
    except GivenUp as given_up:
        if given_up.again:
            jobs.put(job)
    except Exception:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
    finally:
        if sys.getswitchinterval() == kept:  # else somebody has set it meanwhile
            sys.setswitchinterval(usual)


def wait(timeout: float | None = None) -> bool:
    """Wait until all jobs that were submitted have run; False if that took longer."""
    done = threading.Event()
    submit(done.set)
    return _stopped or done.wait(timeout)


def _stop() -> None:
    """Let the job that is running end, and begin no other."""
    global _stopped
    _stopped = True
    _at_work.acquire()


def _before_fork() -> None:
    global _forking
    if not _at_work.acquire(timeout=PATIENCE):
        _forking = True
        _at_work.acquire()
    _lock.acquire()  # after that: the job may submit others


def _after_fork_in_parent() -> None:
    global _forking
    _forking = False
    _lock.release()
    _at_work.release()


def _after_fork_in_child() -> None:
    global _thread, _jobs, _forks
    _thread, _jobs = None, queue.SimpleQueue()
    _forks += 1
    _after_fork_in_parent()


@functools.cache
def _watch_forks() -> None:
    """Before a fork, hooks are called from the last one that was registered to the first: logging, which holds
    its lock from its own hook on, has to come after the wait for a job, which may log."""
    import logging  # noqa: F401

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
        )


atexit.register(_stop)

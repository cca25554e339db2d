"""The pool answers every task once, whatever the work does."""

from __future__ import annotations

import os
import time

from rushlight.testing import pool


def work(task):
    if task == "crash":
        os._exit(3)
    if task == "hang":
        time.sleep(60)
    if task == "raise":
        raise ValueError("no")
    return f"did {task}"


def run(tasks, jobs=2, limit=30.0):
    return dict(pool.run_all(work, tasks, jobs=jobs, limit=lambda task: 0.5 if task == "hang" else limit))


def test_every_task_is_answered():
    tasks = [str(i) for i in range(20)]
    assert run(tasks) == {task: (True, f"did {task}") for task in tasks}


def test_crash_hang_and_exception_cost_only_their_own_task():
    answers = run(["crash", "a", "hang", "b", "raise", "c"], jobs=1)
    assert answers["crash"] == (False, "the process crashed (exit code 3)")
    assert answers["hang"] == (False, "timed out after 0.5 s")
    assert answers["raise"] == (False, "ValueError: no")
    assert all(answers[task] == (True, f"did {task}") for task in "abc")


def test_no_tasks_no_workers():
    assert run([]) == {}

"""A crash or hang costs only its own result: the rest of the entry is run again, piece by piece."""

from __future__ import annotations

import argparse
import os

from rushlight.cli import conformance as command
from rushlight.testing.conformance import Task
from rushlight.testing.record import FAIL, PASS, Result


def work(task):
    if "out" in task.variants:
        os._exit(7)
    return [Result(task.name, "reduction", variant, dtype, PASS) for variant, dtype in task.wanted()]


def test_the_other_variants_still_have_results():
    options = argparse.Namespace(jobs=1, timeout=60.0)
    tasks = [Task("cumsum", ("float32", "float64"), ("fwd", "out"))]
    results = [result for _, done in command._answers(work, tasks, options) for result in done]
    status = {(result.variant, result.dtype): result.status for result in results}
    assert status.pop(("fwd", "float32")) == status.pop(("fwd", "float64")) == PASS
    assert status == {("out", "float32"): FAIL, ("out", "float64"): FAIL}
    assert all("crashed (exit code 7)" in r.line() for r in results if r.status == FAIL)

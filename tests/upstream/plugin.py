"""Pytest plugin of a child process: which tests run, how long each may take, and what became of it, a line
of JSON at a time."""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import json
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from . import inductor_common, older_helpers, redirect
from .driver import Job

INDUCTOR = "inductor/"
MESSAGE = 700  # characters of an error that are kept


class Late(BaseException):
    """A test took too long. No `except Exception` of a test swallows it."""


class Plugin:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.substituted = job.library == "rushlight"
        self.inductor = job.file.startswith(INDUCTOR)
        if self.substituted:
            redirect.install(job.tree)
            # what a test may import while it runs, when a module that is not there is no longer a stub
            importlib.import_module("torch.testing._internal.common_device_type")
        else:
            older_helpers.install(job.tree, importlib.machinery.PathFinder.find_spec)
            if self.inductor:
                inductor_common.capture_only()
            files = {job.file} | ({"inductor/test_torchinductor.py"} if self.inductor else set())
            for file in files:
                older_helpers.placeholders(os.path.join(job.tree, "test", file))

    def write(self, **row: Any) -> None:
        with open(self.job.out, "a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.inductor:
            for module in {item.module for item in items}:
                inductor_common.adapt(module)
            if "inductor.test_torchinductor" in sys.modules:
                inductor_common.adapt(sys.modules["inductor.test_torchinductor"])
        if self.job.file == "test_linalg.py":
            _drop_endless_set_up(items)
        chosen = self._choose({ident(item): item for item in items})
        missing = sorted(set(self.job.wanted or ()) - {ident(item) for item in items})
        self.write(collected=len(items), selected=list(chosen), missing=missing)
        done = set(self.job.done)
        items[:] = [item for name, item in chosen.items() if name not in done]

    def _choose(self, found: dict[str, pytest.Item]) -> dict[str, pytest.Item]:
        """The tests asked for: those wanted, without Inductor's ahead-of-time code for C++, sampled by a
        hash of the name."""
        wanted = None if self.job.wanted is None else set(self.job.wanted)
        names = [n for n in found if wanted is None or n in wanted]
        if self.inductor:
            names = [n for n in names if "aoti" not in n]
        if self.job.sample and len(names) > self.job.sample:
            ranked = sorted(names, key=lambda n: hashlib.md5(n.encode()).hexdigest())
            kept = set(ranked[: self.job.sample])
            names = [n for n in names if n in kept]
        return {n: found[n] for n in names}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        item.upstream_row = {}  # type: ignore[attr-defined]
        self.write(start=ident(item))
        began = time.time()
        redirect.set_running(self.substituted)
        signal.signal(signal.SIGALRM, self._late)
        signal.setitimer(signal.ITIMER_REAL, self.job.timeout)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            redirect.set_running(False)
            row = item.upstream_row or {"outcome": "error", "type": "none", "message": "no report"}  # type: ignore[attr-defined]
            self.write(id=ident(item), seconds=round(time.time() - began, 3), **row)

    def _late(self, number: int, frame: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 5)  # again, in case something swallows it
        raise Late(f"over {self.job.timeout:g} seconds")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        outcome = yield
        report = outcome.get_result()  # type: ignore[attr-defined]
        row = item.upstream_row  # type: ignore[attr-defined]
        if call.when != "call" and (report.outcome == "passed" or row.get("outcome") == "failed"):
            return
        row["outcome"] = report.outcome
        if hasattr(report, "wasxfail"):
            row["outcome"] = "skipped" if report.skipped else "xpassed"
        if report.outcome == "failed":
            if call.excinfo is not None:
                row.update(brief(call.excinfo))
            else:
                row.update(type="Report", message=str(report.longrepr)[:MESSAGE])
        elif report.outcome == "skipped" and call.excinfo is not None:
            row["message"] = str(call.excinfo.value)[:160]

    def pytest_exception_interact(self, node: Any, call: pytest.CallInfo[None], report: Any) -> None:
        """Errors of collecting: the file's tests cannot run."""
        if getattr(report, "when", "collect") == "collect" and call.excinfo is not None:
            self.write(collect_error=str(getattr(node, "name", "")), **brief(call.excinfo))


def ident(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[2] or item.nodeid


def brief(info: pytest.ExceptionInfo[BaseException]) -> dict[str, str]:
    """Type, message and the frames that tell where: the last of all, the last of Rushlight and the last in
    a test file."""
    frames = traceback.extract_tb(info.tb)
    test = [f for f in frames if "/test/" in f.filename]
    own = [f for f in frames if redirect.is_ours(f.filename)]
    return {
        "type": info.type.__name__,
        "message": str(info.value)[:MESSAGE],
        "last": _place(frames[-1]) if frames else "",
        "own": _place(own[-1]) if own else "",
        "test": _place(test[-1]) if test else "",
        "line": (test[-1].line or "")[:200] if test else "",
    }


def _place(frame: traceback.FrameSummary) -> str:
    return f"{re.sub(r'.*/(site-packages|src|test)/', '', frame.filename)}:{frame.lineno} {frame.name}"


def _drop_endless_set_up(items: list[pytest.Item]) -> None:
    """test_linalg's setUp and tearDown call super(self.__class__, self), which never ends in the classes
    made per device; what they set only CUDA reads."""
    for item in items:
        for cls in item.cls.__mro__ if item.cls else ():  # type: ignore[attr-defined]
            if cls.__module__ == item.module.__name__:  # type: ignore[attr-defined]
                for name in "setUp", "tearDown":
                    if name in vars(cls):
                        delattr(cls, name)

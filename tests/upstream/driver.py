"""Runs the tests of a file in child processes, past crashes and hangs, and keeps what became of each.

Outcomes are lines of JSON in `<cache>/outcomes/<library>/<file>.jsonl`: what was selected, the start of a
test, its outcome. A test that started and has no outcome when its process ended has crashed it. A run
resumes: what has an outcome is not run again.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .suite import TestFile, counts

TIMEOUT = 60.0  # seconds a test may take
STARTUP = 400.0  # seconds to collect a file
CHILD = Path(__file__).with_name("child.py")


@dataclass(frozen=True)
class Job:
    """What one child process does."""

    library: str  # "torch" or "rushlight"
    file: str  # relative to the tree's test folder
    tree: str
    out: str  # where the lines of outcomes go
    wanted: Sequence[str] | None = None  # only these tests; None: every one
    done: Sequence[str] = ()  # tests that have run already
    sample: int = 0
    timeout: float = TIMEOUT

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @staticmethod
    def read(path: Path) -> Job:
        return Job(**json.loads(path.read_text(encoding="utf-8")))


@dataclass
class Outcomes:
    """What is known of a file's tests."""

    selected: list[str] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)  # tests that were asked for and are not there
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)  # by test
    import_error: dict[str, Any] | None = None
    pending: str | None = None  # started, without an outcome

    @staticmethod
    def read(path: Path) -> Outcomes:
        out = Outcomes()
        for row in _lines(path):
            if "selected" in row and (row["selected"] or out.import_error is None):
                out.selected, out.missing = row["selected"], set(row["missing"])
            elif "collect_error" in row:
                out.import_error = row
            elif "start" in row:
                out.pending = row["start"]
            elif "id" in row:
                out.rows[row["id"]] = row
                out.pending = None
        return out

    @property
    def collected(self) -> bool:
        return bool(self.selected)

    def summary(self, wanted: Sequence[str]) -> Counter[str]:
        """How many of the tests had which outcome."""
        count: Counter[str] = Counter(counted=len(wanted))
        for test in wanted:
            row = self.rows.get(test)
            if row is not None:
                count[
                    row["outcome"] if row["outcome"] in ("passed", "skipped", "crash", "hang") else "failed"
                ] += 1
            elif self.import_error is not None and not self.collected:
                count["failed"] += 1
            else:
                count["failed" if test in self.missing else "unrun"] += 1
        return count


@dataclass
class Driver:
    tree: Path
    results: Path

    def path(self, library: str, file: TestFile) -> Path:
        return self.results / library / f"{file.key}.jsonl"

    def known(self, library: str, file: TestFile) -> Outcomes:
        return Outcomes.read(self.path(library, file))

    def counted(self, file: TestFile) -> list[str]:
        """The tests that count, those that pass on torch, as far as torch has run."""
        rows = self.known("torch", file).rows
        return sorted(test for test, row in rows.items() if row["outcome"] == "passed" and counts(test))

    def forget(self, library: str, file: TestFile, everything: bool) -> None:
        """Have tests run again: all, or those that did not pass."""
        path = self.path(library, file)
        if not path.exists():
            return
        keep = [r for r in _lines(path) if "selected" in r or r.get("outcome") == "passed"]
        path.write_text(
            "" if everything else "".join(json.dumps(row) + "\n" for row in keep), encoding="utf-8"
        )

    def run(self, library: str, file: TestFile, wanted: Sequence[str] | None, budget: float) -> Outcomes:
        """Run what has not run, for at most `budget` seconds."""
        path = self.path(library, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        ends = time.monotonic() + budget
        with _alone(path), tempfile.TemporaryDirectory() as scratch:
            while ends - time.monotonic() > 10:
                before = Outcomes.read(path)
                goal = set(before.selected if wanted is None else wanted)
                finished = (before.collected or wanted == []) and not goal - set(before.rows) - before.missing
                if finished or (before.import_error is not None and not before.collected):
                    break
                job = Job(
                    library, file.name, str(self.tree), str(path), wanted, list(before.rows), file.sample
                )
                ended = _run_child(job, Path(scratch), lambda: time.monotonic() > ends)
                after = Outcomes.read(path)
                if ended.reason == "budget":
                    break
                _note(path, ended, after)
                if len(after.rows) == len(before.rows) and after.pending is None and after.collected:
                    break  # nothing more that can run
        return Outcomes.read(path)


@dataclass(frozen=True)
class Ended:
    reason: str  # "ended", "hang" or "budget"
    status: int
    output: str


def _run_child(job: Job, scratch: Path, over: Callable[[], bool]) -> Ended:
    """Run a child process until it ends, hangs or the time is over."""
    job.write(scratch / "job.json")
    environment = dict(
        os.environ, PYTHONDONTWRITEBYTECODE="1", PYTORCH_TESTING_DEVICE_ONLY_FOR="cpu", OMP_NUM_THREADS="2",
        PYTORCH_TEST_WITH_SLOW="0",
    )  # fmt: skip
    with open(scratch / "log", "w+", encoding="utf-8", errors="replace") as log:
        child = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", str(CHILD), str(scratch / "job.json")],
            cwd=scratch, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        reason, size, moved = "ended", -1, time.monotonic()
        try:
            while child.poll() is None:
                time.sleep(0.5)
                now = os.path.getsize(job.out) if os.path.exists(job.out) else 0
                if now != size:
                    size, moved = now, time.monotonic()
                if time.monotonic() - moved > (job.timeout + 60 if size > 0 else STARTUP):
                    reason = "hang"
                elif over():
                    reason = "budget"
                if reason != "ended":
                    break
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        log.seek(0)
        return Ended(reason, child.returncode, log.read())


def _note(path: Path, ended: Ended, after: Outcomes) -> None:
    """Write down what a child process could not: that a test ended it, or that the file could not be
    collected."""
    row: dict[str, Any] | None = None
    if after.pending is not None:
        stack = [line.strip() for line in ended.output.splitlines() if line.strip().startswith("File ")][:6]
        outcome = "hang" if ended.reason == "hang" else "crash"
        row = {
            "id": after.pending,
            "outcome": outcome,
            "type": f"signal {-ended.status}",
            "message": " | ".join(stack),
        }
    elif not after.collected and after.import_error is None:
        row = {"collect_error": path.stem, "type": f"status {ended.status}", "message": ended.output[-1500:]}
    if row is not None:
        with open(path, "a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One run of a file at a time."""
    with open(path.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]

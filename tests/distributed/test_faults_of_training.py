"""A process that is killed in the middle of a step: the run begins again at the last complete checkpoint and
ends as an undisturbed one."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any


def _ranks() -> Any:
    spec = importlib.util.spec_from_file_location("ranks", Path(__file__).with_name("ranks.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ranks = _ranks()
pytestmark = ranks.needs_mpi


def _run(directory: Path, how: str) -> tuple[list[str], str]:
    """At which steps it began, and what it ended with."""
    directory.mkdir()
    program = str(ranks.HERE / "fault_program.py")
    command = [
        sys.executable,
        "-m",
        "rushlight",
        "launch",
        "-n",
        "2",
        "--restarts",
        "2",
        program,
        str(directory),
        how,
    ]
    run = subprocess.run(
        command, env=ranks.environment(), capture_output=True, text=True, timeout=600, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr[-6000:]
    return re.findall(r"begins at step (\d+)", run.stdout), re.findall(r"ends with (.*)", run.stdout)[-1]


def test_a_killed_run_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    began, expected = _run(tmp_path / "undisturbed", "run")
    assert began == ["0"]
    began, found = _run(tmp_path / "killed", "kill")
    assert began == ["0", "6"] and (tmp_path / "killed" / "note").exists()
    assert found == expected

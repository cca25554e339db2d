"""`rushlight launch`, and jobs in which a process fails: all end, and it is said which one failed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest


def _ranks() -> Any:
    spec = importlib.util.spec_from_file_location("ranks", Path(__file__).with_name("ranks.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ranks = _ranks()
pytestmark = ranks.needs_mpi
PROGRAM = Path(__file__).with_name("faults_program.py")


MOST_SECONDS = 10  # from a fault to the end of all processes


def launched(
    *args: str, size: int = 2, options: tuple[str, ...] = (), **more: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rushlight", "launch", "-n", str(size), *options, str(PROGRAM), *args]
    return subprocess.run(
        command, env=ranks.environment(**more), capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            "raise",
            ["rank 1 of 2 ended the job:", "ValueError: of the second rank", "in main", "rank 1 failed: Val"],
        ),
        ("early", ["ImportError: before MPI is there", "rank 1 failed: ImportError"]),
        ("kill", ["rank 1 was killed by SIGKILL"]),
        ("exit", ["rank 1 failed: the program ended with exit status 7"]),
        (
            "compiled_timeout",
            [
                "DistBackendError: all_reduce of group 0 (rank 0 of 2) timed out: not all processes took part in"
            ],
        ),
        ("compiled_kill", ["rank 1 was killed by SIGKILL"]),
        ("compiled_sizes_less", ["call different collectives, or with tensors of different sizes"]),
        ("compiled_sizes_more", ["call different collectives, or with tensors of different sizes"]),
        ("sizes_less", ["call different collectives, or with tensors of different sizes"]),
        ("sizes_more", ["call different collectives, or with tensors of different sizes"]),
        ("timeout", ["all_reduce of group 0 (rank 0 of 2) timed out: not all processes took part in 3 s"]),
    ],
)
def test_one_process_fails(what: str, said: list[str], tmp_path: Path) -> None:
    fails(what, said, 2, tmp_path)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("raise", ["rank 1 of 4 ended the job:", "ValueError: of the second rank", "rank 1 failed: Val"]),
        ("kill", ["rank 1 was killed by SIGKILL"]),
        ("compiled_kill", ["rank 1 was killed by SIGKILL"]),
    ],
)
def test_one_process_of_four_fails(what: str, said: list[str], tmp_path: Path) -> None:
    fails(what, said, 4, tmp_path)


def fails(what: str, said: list[str], size: int, tmp_path: Path) -> None:
    note = tmp_path / "note"
    run = launched(what, size=size, FAULT_NOTE=str(note))
    ended = time.time()
    assert run.returncode != 0
    for text in said:
        assert text in run.stderr, run.stderr
    waited = 3 if what.endswith("timeout") else 0  # as the program says
    assert ended - float(note.read_text()) < waited + MOST_SECONDS


def test_a_program_under_plain_mpiexec_ends_when_a_rank_raises() -> None:
    run = ranks.launch(2, PROGRAM, "raise", timeout=300)
    assert run.returncode != 0 and "rank 1 of 2 ended the job:" in run.stderr
    assert "ValueError: of the second rank" in run.stderr


def test_torchruns_variables_are_set() -> None:
    run = launched("torchrun")
    assert run.returncode == 0 and run.stdout.split() == ["fine", "fine"], run.stderr


def test_a_job_is_started_again_and_ends_with_the_same_bits(tmp_path: Path) -> None:
    values = []
    for name, die_at, options in (("whole", "-1", ()), ("killed", "3", ("--restarts", "1"))):
        (tmp_path / name).mkdir()
        run = launched("train", str(tmp_path / name), die_at, options=options)
        assert run.returncode == 0, run.stderr
        values.append([line for line in run.stdout.splitlines() if line.startswith("value ")])
    assert "starting it again (1 of 1)" in run.stderr and "rank 1 was killed by SIGKILL" in run.stderr
    assert values[0] == values[1] and len(values[0]) == 1


def test_a_program_goes_on_after_a_collective_that_timed_out(tmp_path: Path) -> None:
    run = launched("late_timeout", str(tmp_path))
    assert run.returncode == 0 and run.stdout.split("\n")[:2] == ["timed out"] * 2, run.stdout + run.stderr

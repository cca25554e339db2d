"""Training in several processes, distributed tensors, checkpoints."""

from __future__ import annotations

import importlib.util
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
BOTH = [2, 4]


@pytest.mark.parametrize("size", BOTH)
def test_steps_equal_those_of_one_process(size: int) -> None:
    ranks.run_all("training_program", size, timeout=600)


@pytest.mark.parametrize("size", BOTH)
def test_data_parallel(size: int) -> None:
    ranks.run_all("ddp_program", size, timeout=600)


@pytest.mark.parametrize("size", BOTH)
def test_names_beside_collectives(size: int) -> None:
    ranks.run_all("names_program", size, timeout=600)


@pytest.mark.parametrize("size", BOTH)
def test_fully_shard(size: int) -> None:
    ranks.run_all("fsdp_program", size, timeout=600)


@pytest.mark.parametrize("size", BOTH)
def test_distributed_tensors(size: int) -> None:
    ranks.run_all("dtensor_program", size, timeout=600)


def _checkpoint(size: int, what: str, directory: Path) -> None:
    run = ranks.launch(size, ranks.HERE / "checkpoint_program.py", what, str(directory), timeout=600)
    assert run.returncode == 0 and run.stdout.count("done") == size, run.stdout + run.stderr[-6000:]


@pytest.mark.parametrize(("written", "read"), [(2, 3), (4, 1)])
def test_checkpoints_are_read_by_another_number(written: int, read: int, tmp_path: Path) -> None:
    _checkpoint(written, "save", tmp_path)
    _checkpoint(read, "load", tmp_path)


def test_failing_checkpoints_leave_the_former(tmp_path: Path) -> None:
    _checkpoint(2, "check", tmp_path)

"""Collectives in 2 and 4 processes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import rushlight.distributed as dist


def _ranks() -> Any:
    spec = importlib.util.spec_from_file_location("ranks", Path(__file__).with_name("ranks.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ranks = _ranks()
pytestmark = ranks.needs_mpi


@pytest.mark.parametrize("size", [2, 4])
def test_collectives(size: int) -> None:
    ranks.run_all("collectives_program", size)


@pytest.mark.parametrize("size", [2, 4])
def test_functional_collectives(size: int) -> None:
    ranks.run_all("functional_program", size)


def test_functional_collectives_one_by_one() -> None:
    ranks.run_all("functional_program", 2, RUSHLIGHT_DISTRIBUTED_BUCKET="0")


@pytest.mark.parametrize("size", [2, 4])
def test_groups_and_errors(size: int) -> None:
    ranks.run_all("groups_program", size, RUSHLIGHT_DISTRIBUTED_DEBUG="DETAIL")


def test_names_of_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without mpiexec the group is of one process."""
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("mpi", "gloo", None, "cpu:gloo,cuda:nccl"):
        dist.init_process_group(name)
        assert (dist.get_world_size(), dist.get_rank()) == (1, 0)
        assert dist.get_backend() == ("gloo" if name is not None and "gloo" in name else "mpi")
        dist.destroy_process_group()
    for error, name in ((RuntimeError, "nccl"), (RuntimeError, "cuda:nccl"), (ValueError, "ucc")):
        with pytest.raises(error, match="backend"):
            dist.init_process_group(name)
    with pytest.raises(ValueError, match="rushlight launch -n 2"):
        dist.init_process_group("mpi", world_size=2, rank=0)
    assert not dist.is_initialized()

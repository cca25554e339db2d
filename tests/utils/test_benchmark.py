"""Timing statements."""

from __future__ import annotations

import multiprocessing
import re

import pytest

import rushlight
from rushlight.utils import benchmark


def test_measurements() -> None:
    seen: list[int] = []
    timer = benchmark.Timer(
        "f(x)",
        "seen.append(0)",
        globals={"f": len, "x": [1, 2], "seen": seen},
        label="len",
        sub_label="short",
        description="plain",
    )
    one = timer.timeit(200)
    assert (
        one.number_per_run == 200 and len(one.raw_times) == 1 and one.mean == one.median > 0 and one.iqr == 0
    )
    many = timer.blocked_autorange(min_run_time=0.02)
    assert (
        sum(many.raw_times) >= 0.02
        and len(many.times) > 1
        and min(many.times) <= many.median <= max(many.times)
    )
    assert timer.adaptive_autorange(min_run_time=0.001, max_run_time=0.02).mean > 0 and seen
    assert "len: short" in repr(many) and re.search(r"Median: [\d.]+ (ns|us|ms)", repr(many))
    table = str(benchmark.Compare([one, many]))
    assert "[ len ]" in table and "plain" in table and "short" in table


def test_threads_are_restored_and_errors_pass() -> None:
    before = rushlight.get_num_threads()
    with pytest.raises(ZeroDivisionError):
        benchmark.Timer("1 / 0").timeit(1)
    assert rushlight.get_num_threads() == before


def test_processes() -> None:
    mp = rushlight.multiprocessing
    assert (
        mp.Process is multiprocessing.Process and mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    )
    with pytest.raises(AssertionError):
        mp.set_sharing_strategy("smoke signals")
    assert mp.spawn(print, args=("",), nprocs=1) is None
    with pytest.raises(RuntimeError, match="ended"):
        mp.start_processes(exit, nprocs=1, args=(), start_method="fork", join=True) or mp.spawn(
            _fails, nprocs=1
        )


def _fails(index: int) -> None:
    raise SystemExit(3)

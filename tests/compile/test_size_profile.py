"""A process that starts again knows which sizes changed before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import rushlight, sys

def total(x, n):
    return (x * {factor}).softmax(-1).sum(0)[:n]

f = rushlight.compile(total, dynamic={dynamic})
x = rushlight.randn(7, 9)
{before}
for rows, columns, n in {calls}:
    given = rushlight.randn(rows, columns)
    assert rushlight.allclose(f(given, n), total(given, n), atol=1e-6)
print(len(f.reasons), *sorted({{d for dims in f.sizes._sizes.values() for part in dims.values() for d in part}}))
"""
ROWS = [(5, 9, 4), (6, 9, 4), (8, 9, 4)]


def compilations(folder: Path, calls: list[tuple[int, int, int]] = ROWS, **options: object) -> list[int]:
    """How many times a fresh process compiles, and the dimensions that are symbols at the end."""
    script = folder / "program.py"
    environment = {str(k): str(v) for k, v in options.items() if str(k).isupper()}
    given = {"factor": 2, "dynamic": None, "before": "", "calls": calls}
    given |= {k: v for k, v in options.items() if not k.isupper()}
    script.write_text(PROGRAM.format(**given))
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "RUSHLIGHT_CACHE_DIR": str(folder / "cache"), **environment},
    )
    return [int(word) for word in done.stdout.split()]


def test_what_changed_is_a_symbol_after_a_restart(tmp_path: Path) -> None:
    assert compilations(tmp_path) == [2, 0]
    assert compilations(tmp_path) == [1, 0]
    assert compilations(tmp_path, [(5, 9, 4), (5, 11, 4)]) == [2, 0, 1]  # the other dimension: not yet
    assert compilations(tmp_path, [(5, 9, 4), (6, 11, 4)]) == [1, 0, 1]


def test_a_slice_of_changing_length_after_a_restart(tmp_path: Path) -> None:
    calls = [(5, 9, 4), (5, 9, 5), (5, 9, 6)]
    first, *_ = compilations(tmp_path, calls)
    second, *_ = compilations(tmp_path, calls)
    assert second < first


@pytest.mark.parametrize("turned_off", [{"RUSHLIGHT_SIZE_PROFILE": "0"}, {"RUSHLIGHT_CACHE_DIR": ""}])
def test_it_can_be_turned_off(tmp_path: Path, turned_off: dict[str, str]) -> None:
    assert compilations(tmp_path, **turned_off) == [2, 0]
    assert compilations(tmp_path, **turned_off) == [2, 0]


def test_an_edited_function_begins_anew(tmp_path: Path) -> None:
    assert compilations(tmp_path, factor="2") == [2, 0]
    assert compilations(tmp_path, factor="2 + x") == [2, 0]


def test_dynamic_false_stays_static(tmp_path: Path) -> None:
    assert compilations(tmp_path) == [2, 0]
    assert compilations(tmp_path, dynamic=False) == [3]


def test_a_mark_of_one_process_is_not_remembered(tmp_path: Path) -> None:
    mark = "rushlight._dynamo.mark_dynamic(x, 1); f(x, 4)"
    assert compilations(tmp_path, [(5, 9, 4)], before=mark)[0] == 2
    assert compilations(tmp_path, [(5, 9, 4), (5, 9, 4)])[:1] == [1]

"""Programs in the manner of others print under `rushlight run` what they print under PyTorch."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest

from .running import PROGRAMS, python, run, write

NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py") if path.stem != "reproducible")
MARK = "-- end of "
ALL = f"""
import runpy, sys
sys.path[0] = {str(PROGRAMS)!r}
for name in {NAMES!r}:
    runpy.run_path(f"{PROGRAMS}/{{name}}.py", run_name="__main__")
    print({MARK!r} + name)
"""


@functools.cache
def printed_by_torch() -> dict[str, str]:
    done = python("-c", ALL)
    assert done.returncode == 0, done.stderr
    texts = re.split(f"{MARK}(.*)\n", done.stdout)
    return dict(zip(texts[1::2], texts[::2], strict=False))


def check_same(found: str, wanted: str) -> None:
    """The same words, and numbers that differ in the last digit that is printed at most."""
    for line, other in zip_longest(found.splitlines(), wanted.splitlines(), fillvalue=""):
        assert re.sub(r"\d", "0", line) == re.sub(r"\d", "0", other)
        for one, two in zip(_numbers(line), _numbers(other), strict=True):
            assert one == pytest.approx(two, rel=1e-3, abs=2e-4), (line, other)


def _numbers(line: str) -> Iterator[float]:
    return map(float, re.findall(r"-?\d+\.\d+|\d+", line))


@pytest.mark.parametrize("name", NAMES)
def test_a_program_prints_what_it_prints_under_torch(name: str) -> None:
    done = run("--report", PROGRAMS / f"{name}.py")
    assert done.returncode == 0, done.stderr
    check_same(done.stdout, printed_by_torch()[name])
    assert re.search(r"compiled, \d+ compilations?, [\d.]+ s:", done.stderr)
    assert "ran eagerly" not in done.stderr


def test_a_program_that_compiles_itself(tmp_path: Path) -> None:
    done = run("--compile", "off", PROGRAMS / "gpt.py", "--compile", "--steps", "12")
    assert done.returncode == 0, done.stderr
    check_same(done.stdout, printed_by_torch()["gpt"])


BREAKS = """
import torch, sys
from torch import nn

class Loud(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    def forward(self, x):
        y = self.inner(x)
        if y.sum() > 100:
            y = -y
        return y

model = Loud()
for _ in range(30):
    model(torch.ones(2, 3))
sys.exit(5)
"""


def test_the_report_tells_what_broke(tmp_path: Path) -> None:
    done = run("--report", write(tmp_path, "program.py", BREAKS))
    assert done.returncode == 5
    assert "Sequential.forward\n    first call" in done.stderr
    assert re.search(r"ran eagerly:\n  Loud.forward: .*program.py:11: .*reads a value", done.stderr)
    assert re.search(r"Sequential.forward: [\d.]+ ms eager \(\d+ calls\), [\d.]+ ms compiled", done.stderr)


def test_the_report_comes_after_an_error(tmp_path: Path) -> None:
    done = run("--report", "--compile", "off", write(tmp_path, "program.py", "import torch; 1 / 0"))
    assert done.returncode == 1
    assert done.stderr.index("ZeroDivisionError") < done.stderr.index("nothing was compiled")

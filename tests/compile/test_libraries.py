"""Code of libraries: what it mentions and does not do is no reason to run eagerly."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.capture.errors import CaptureError

log = logging.getLogger(__name__)
log.addHandler(logging.StreamHandler(sys.stderr))


class Maker(OrderedDict):
    """A dictionary that makes what it gives."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key)()


TABLE = Maker(relu=rl.nn.ReLU, tanh=rl.nn.Tanh)


class Settings:
    factor = 2.0


class Other(Settings):
    pass


def compiled(function: Any) -> Any:
    return rl.compile(function, fullgraph=True)


def test_streams_and_clocks_that_are_mentioned() -> None:
    def f(x: Any, tell: bool) -> Any:
        if tell:
            sys.stderr.write(f"{time.perf_counter()}")
            log.info("told")
        return x * 2

    assert compiled(f)(rl.ones(2), False).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "act", [lambda: sys.stderr.write(""), lambda: time.perf_counter(), lambda: print("", end="")]
)
def test_streams_and_clocks_that_are_used(act: Any) -> None:
    def f(x: Any) -> Any:
        act()
        return x * 2

    with pytest.raises(CaptureError):
        compiled(f)(rl.ones(2))
    assert type(sys.stderr).__name__ != "_Stream" and time.time.__module__ == "time"
    assert rl.compile(f)(rl.ones(2)).tolist() == [2.0, 2.0]


WARNS = """
import warnings
import rushlight as rl
import rushlight.nn.functional as F
from rushlight.capture.errors import CaptureError

def broadcast(x):
    return F.mse_loss(x, x[:, :1])

def own(x):
    warnings.warn("the program's own")
    return x + 1

x = rl.arange(4.0).reshape(2, 2)
for _ in range(2):
    print(rl.compile(broadcast, fullgraph=True)(x).item())
try:
    rl.compile(own, fullgraph=True)(x)
except CaptureError as error:
    print("refused" if "writes to a stream" in str(error) else error)
"""


def test_warnings_of_the_package_while_it_captures(tmp_path: Path) -> None:
    """They went to the standard error stream, as nothing does while pytest records warnings, and the program
    was refused because it wrote there."""
    program = tmp_path / "program.py"
    program.write_text(WARNS, encoding="utf-8")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0.5", "0.5", "refused"]
    assert done.stderr.count("Using a target size") == 1


def test_dictionaries_that_make_what_they_give() -> None:
    def f(x: Any) -> Any:
        return TABLE["relu"](x)

    call = compiled(f)
    assert call(rl.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
    TABLE["relu"] = rl.nn.Tanh
    try:
        assert call(rl.tensor([-1.0, 0.0])).tolist() == pytest.approx([-0.7615942, 0.0])
    finally:
        TABLE["relu"] = rl.nn.ReLU


def test_attributes_of_classes() -> None:
    settings = Other()

    def f(x: Any) -> Any:
        return x * settings.factor

    call, x = compiled(f), rl.ones(2)
    assert call(x).tolist() == [2.0, 2.0]
    Settings.factor = float("2")  # equal, and another object
    assert call(x).tolist() == [2.0, 2.0]
    Other.factor = 3.0
    assert call(x).tolist() == [3.0, 3.0]
    settings.factor = 4.0
    assert call(x).tolist() == [4.0, 4.0]
    del settings.factor, Other.factor
    assert call(x).tolist() == [2.0, 2.0]

"""The first call of a program in a fresh process, with kernels on disk that earlier processes have left there."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from timing import OURS, Row, seconds_of
from training import OURS_EAGER, TRAINING

LATER = "its later calls"
BAR = 1.3
LATER_CALLS = 30


def first_use_row(case: str, name: str, quick: bool) -> Row:
    """The first call of an eager training step against the best of its later ones, in processes that find what
    others have left on disk."""
    environment = _environment()
    _times(case, environment, "warm")
    later: list[float] = []

    def first() -> float:
        found = _times(case, environment, "measure")
        later.append(min(found[1:]))
        return found[0]

    return Row(name, {OURS: first, LATER: lambda: later[-1]}, {LATER: BAR}, 3 if quick else 10)


@functools.cache
def _environment() -> dict[str, str]:
    """An object cache and a bytecode cache of our own, as an installed package has them."""
    found = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "RUSHLIGHT_EAGER")}
    directory = Path(tempfile.mkdtemp(prefix="rushlight-bench-"))
    places = {"PYTHONPYCACHEPREFIX": directory / "bytecode", "RUSHLIGHT_CACHE_DIR": directory / "objects"}
    return found | {name: str(place) for name, place in places.items()}


def _times(case: str, environment: dict[str, str], what: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, __file__, case, what],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=Path(__file__).parent,
    )
    return [float(word) for word in done.stdout.split()]


FIRST_USE: dict[str, Callable[[str, bool], Row]] = {
    "first call of the eager GPT step": functools.partial(first_use_row, "GPT training step")
}


def _main(case: str, what: str) -> None:
    step: Any = TRAINING[case]()(OURS_EAGER)
    if what == "warm":
        from eager import settle

        settle(step)
    else:
        print(*[seconds_of(step) for _ in range(1 + LATER_CALLS)])


if __name__ == "__main__":
    _main(*sys.argv[1:])

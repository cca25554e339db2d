"""Programs that use libraries of others, under PyTorch and under `rushlight run --compile auto`, side by side.

    python benchmarks/programs.py [NAME...]

Each driver of tests/run/libraries runs in a process of either kind. Values of the first steps are compared, then
the two are timed in turn; a line tells how they compare and how many steps a second each makes. Libraries have to
be installed.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from statistics import geometric_mean, median

DRIVERS = Path(__file__).parents[1] / "tests" / "run" / "libraries"
MARK = "@@ "
ROUNDS, SECONDS = 5, 0.5
TOLERANCE = 1e-3  # of values, relative; rounding grows with steps of training


class Driver:
    """One program in a process of its own."""

    def __init__(self, name: str, *command: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *command, str(DRIVERS / f"{name}.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self) -> dict[str, list[list[float]] | float]:
        """The next line that is for us; RuntimeError if the program has ended."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(MARK):
                found: dict[str, list[list[float]] | float] = json.loads(line.removeprefix(MARK))
                return found
        raise RuntimeError(f"ended with {self._process.wait()}")

    def values(self) -> list[list[float]]:
        found = self.read()["values"]
        assert isinstance(found, list)
        return found

    def rate(self, seconds: float) -> float:
        assert self._process.stdin is not None
        print(seconds, file=self._process.stdin, flush=True)
        found = self.read()["rate"]
        assert isinstance(found, float)
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def difference(found: list[list[float]], wanted: list[list[float]]) -> float:
    """The largest difference, relative to a value or a hundredth of the largest of its step."""
    worst = 0.0
    for ours, theirs in zip(found, wanted, strict=True):
        small = 0.01 * max(map(abs, theirs))
        for one, two in zip(ours, theirs, strict=True):
            if math.isfinite(one) != math.isfinite(two):
                return math.inf
            worst = max(worst, abs(one - two) / (abs(two) + small or 1.0))
    return worst


def compare(name: str) -> float | None:
    """Print how one program compares; the ratio of the rates, if values agree."""
    drivers = [Driver(name), Driver(name, "-m", "rushlight", "run")]
    try:
        torch, ours = drivers
        differs = difference(ours.values(), torch.values())
        for driver in drivers:
            driver.rate(SECONDS)
        rates = [(torch.rate(SECONDS), ours.rate(SECONDS)) for _ in range(ROUNDS)]
    except (RuntimeError, ValueError) as error:
        print(f"{name}: does not run: {error}", flush=True)
        return None
    finally:
        for driver in drivers:
            driver.close()
    ratio = median(second / first for first, second in rates)
    first, second = (median(column) for column in zip(*rates, strict=True))
    said = f"differs by {differs:.1e}" if differs <= TOLERANCE else f"DIFFERS by {differs:.1e}"
    print(f"{name}: {said}; {first:.1f} steps/s under PyTorch, {second:.1f} here: {ratio:.2f}", flush=True)
    return ratio if differs <= TOLERANCE else None


def main() -> None:
    names = sys.argv[1:] or sorted(path.stem for path in DRIVERS.glob("*.py") if path.stem != "driver")
    ratios = [ratio for name in names if (ratio := compare(name)) is not None]
    print(f"{len(ratios)} of {len(names)} run with equal results", end="")
    print(f"; geometric mean of the speed {geometric_mean(ratios):.2f}" if ratios else "")


if __name__ == "__main__":
    main()

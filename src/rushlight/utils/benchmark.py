"""How long a statement takes: `Timer`, its measurements, and tables of them."""

from __future__ import annotations

import statistics
import time
import timeit as _timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._api.compile import get_num_threads, set_num_threads

__all__ = ["Compare", "Measurement", "Timer"]


@dataclass
class Measurement:
    """Times of blocks of `number_per_run` runs of a statement, in seconds.

    >>> type(rl.utils.benchmark.Timer("1 + 1").timeit(10)).__name__
    'Measurement'
    """

    number_per_run: int
    raw_times: list[float]
    stmt: str = ""
    setup: str = "pass"
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def times(self) -> list[float]:
        """Seconds of one run, as each block says."""
        return [seconds / self.number_per_run for seconds in self.raw_times]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles."""
        if len(self.raw_times) < 2:
            return 0.0
        quartiles = statistics.quantiles(self.times, n=4, method="inclusive")
        return quartiles[2] - quartiles[0]

    @property
    def title(self) -> str:
        return ": ".join(filter(None, (self.label or self.stmt.strip(), self.sub_label)))

    @property
    def has_warnings(self) -> bool:
        """Whether the times scatter too much to be trusted."""
        return self.iqr > 0.1 * self.median

    def __repr__(self) -> str:
        lines = [f"<{type(self).__module__}.{type(self).__name__} object at {hex(id(self))}>", self.title]
        if self.description:
            lines.append(self.description)
        kind = "Median" if len(self.raw_times) > 1 else "Time"
        lines.append(f"  {kind}: {in_words(self.median)}")
        if len(self.raw_times) > 1:
            lines.append(f"  IQR: {in_words(self.iqr)}")
        lines.append(
            f"  {len(self.raw_times)} measurement{'s' * (len(self.raw_times) > 1)} of "
            f"{self.number_per_run} runs, {self.num_threads} thread{'s' * (self.num_threads > 1)}"
        )
        return "\n".join(lines)


def in_words(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds / 1e-9:.2f} ns"


class Timer:
    """Times a statement, with a number of threads (one, unless told) and after a warm-up run.

    >>> timer = rl.utils.benchmark.Timer("x + x", globals={"x": rl.ones(2)})
    >>> timer.timeit(10).median > 0
    True
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = time.perf_counter,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = None,
    ) -> None:
        self._names = {
            "stmt": stmt,
            "setup": setup,
            "label": label,
            "sub_label": sub_label,
            "description": description,
            "env": env,
            "num_threads": num_threads,
        }
        space = dict(globals or {})
        if global_setup:
            exec(global_setup, space)
        self._timer = _timeit.Timer(stmt, setup, timer, globals=space)
        self._threads = num_threads

    def _measured(self, number: int, blocks: Callable[[], list[float]]) -> Measurement:
        before = get_num_threads()
        set_num_threads(self._threads)
        try:
            self._timer.timeit(1)
            return Measurement(number, blocks(), **self._names)  # type: ignore[arg-type]
        finally:
            set_num_threads(before)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One block of `number` runs."""
        return self._measured(number, lambda: [self._timer.timeit(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        raise NotImplementedError("see Timer.blocked_autorange, which chooses both")

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Blocks of as many runs as make looking at the clock negligible, for at least `min_run_time`."""
        number = self._number(min_run_time)

        def blocks() -> list[float]:
            times: list[float] = []
            while sum(times) < min_run_time:
                times.append(self._timer.timeit(number))
                if callback is not None:
                    callback(number, times[-1])
            return times

        return self._measured(number, blocks)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Blocks until the quartiles are within `threshold` of the median, or time is up."""
        number = self._number(min_run_time)

        def blocks() -> list[float]:
            times: list[float] = []
            while sum(times) < max_run_time:
                times.append(self._timer.timeit(number))
                if callback is not None:
                    callback(number, times[-1])
                seen = Measurement(number, times)
                if sum(times) >= min_run_time and len(times) > 3 and seen.iqr / seen.median < threshold:
                    break
            return times

        return self._measured(number, blocks)

    def _number(self, min_run_time: float) -> int:
        """The runs of a block, which takes at least a thousandth of the whole time."""
        number = 1
        while self._timer.timeit(number) < min_run_time / 1000 and number < 10**9:
            number *= 10
        return number


class Compare:
    """A table of measurements: rows by sub_label, columns by description.

    >>> type(rl.utils.benchmark.Compare([rl.utils.benchmark.Timer("1 + 1").timeit(10)])).__name__
    'Compare'
    """

    def __init__(self, results: Sequence[Measurement]) -> None:
        self._results = list(results)
        self._trimmed = False

    def extend_results(self, results: Sequence[Measurement]) -> None:
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        self._trimmed = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colours are for terminals; the table has none."""

    def print(self) -> None:
        print(str(self))

    def __str__(self) -> str:
        tables: dict[str, list[Measurement]] = {}
        for result in self._results:
            tables.setdefault(result.label or result.stmt.strip(), []).append(result)
        return "\n".join(self._table(label, results) for label, results in tables.items())

    def _table(self, label: str, results: list[Measurement]) -> str:
        columns = list(dict.fromkeys(r.description or "" for r in results))
        rows: dict[tuple[int, str], dict[str, float]] = {}
        for r in results:
            key = r.num_threads, r.sub_label or r.stmt.strip()
            rows.setdefault(key, {})[r.description or ""] = r.median
        unit, size = next(
            (
                (u, s)
                for u, s in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6))
                if max(r.median for r in results) >= s
            ),
            ("ns", 1e-9),
        )
        digits = 0 if self._trimmed else 1
        width = max([len(name) for _, name in rows] + [len("threads: 1")])
        wide = [max(len(column), 12) for column in columns]
        heads = [f" | {c:>{w}}" for c, w in zip(columns, wide, strict=True)]
        lines = [f"[ {label} ]", " " * width + "".join(heads)]
        for (threads, name), cells in rows.items():
            values = [f"{cells[c] / size:.{digits}f}" if c in cells else "" for c in columns]
            lines.append(
                f"{name:<{width}}"
                + "".join(f" | {v:>{w}}" for v, w in zip(values, wide, strict=True))
                + f"   ({threads} threads)"
            )
        return "\n".join([*lines, f"\nTimes are in {unit}."])

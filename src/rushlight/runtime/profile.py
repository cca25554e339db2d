"""Where the time of compiled programs goes.

With RUSHLIGHT_PROFILE=1 in the environment, or from `start()` on, programs are compiled with a clock around
every launch (from its start to the end of its last task, on the calling thread) and around every task of
every kernel (added up over all threads). `report()` tells both, per call of the program; under the
environment variable that is printed when the process ends. Programs compiled before know no times.

While an `EventLog` is open, such programs also write down when each launch and task began and ended, and on which
thread.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

CLOCK = "clock_gettime"
THREAD = "pthread_self"  # the number of a thread, as `threading.get_ident` has it
TIMES = "times"  # the array of a module: how often it ran, then nanoseconds
LOG = "event_log"  # the pointer of a module: where events are written, or null
LOG_HEAD = 2  # words: how many events were met, and how many there is room for
EVENT_WORDS = 4  # the address of a place in TIMES, nanoseconds at the beginning and the end, the thread

_enabled = bool(os.environ.get("RUSHLIGHT_PROFILE"))


class Timer(NamedTuple):
    """A place of the array: a launch, or one of its kernels, with the work that a call of it does."""

    name: str
    launch: bool
    operations: int = 0  # floating-point operations
    moved: int = 0  # bytes, counting every buffer once
    kernel: str = ""  # the name of the kernel in the plan
    call: int = -1  # of a launch that makes a call: its place in the program's table of calls

    def to_words(self) -> list[str | int | bool]:
        return [self.name, self.launch, self.operations, self.moved, self.kernel, self.call]


class _Program(NamedTuple):
    timers: Sequence[Timer]
    address: int
    log: int  # the address of the pointer to the log of events
    code: object  # keeps the program loaded: these addresses are read and written for as long as it is listed

    def milliseconds(self) -> tuple[int, list[float]]:
        """How often the program ran, and the time of each timer per call."""
        words = (ctypes.c_int64 * (1 + len(self.timers))).from_address(self.address)
        calls = words[0]
        return calls, [1e-6 * word / max(1, calls) for word in words[1:]]

    def reset(self) -> None:
        ctypes.memset(self.address, 0, 8 * (1 + len(self.timers)))


class TimedEvent(NamedTuple):
    """A launch or a task that ran, in nanoseconds of the monotonic clock."""

    timer: Timer
    start: int
    end: int
    thread: int


class EventLog:
    """What programs with clocks write down while it is open; `dropped` tells what there was no room for."""

    def __init__(self, room: int = 1 << 20) -> None:
        self._words = np.zeros(LOG_HEAD + room * EVENT_WORDS, np.int64)
        self._words[1] = room
        self._timers: dict[int, Timer] = {}

    def open(self) -> None:
        global _log
        if _log is not None:
            raise RuntimeError("another log of events is open")
        _log = self
        for program in _programs:
            self.attach(program)

    def close(self) -> None:
        global _log
        _log = None
        for program in _programs:
            ctypes.c_int64.from_address(program.log).value = 0

    def attach(self, program: _Program) -> None:
        self._timers.update(
            (program.address + 8 * number, timer) for number, timer in enumerate(program.timers, 1)
        )
        ctypes.c_int64.from_address(program.log).value = self._words.ctypes.data

    @property
    def dropped(self) -> int:
        return max(0, int(self._words[0] - self._words[1]))

    def clear(self) -> None:
        """Forget what happened so far, of a warm-up for example."""
        self._words[0] = 0

    def events(self) -> list[TimedEvent]:
        """What happened, in order of the beginnings."""
        count = min(int(self._words[0]), int(self._words[1]))
        rows = self._words[LOG_HEAD : LOG_HEAD + count * EVENT_WORDS].reshape(count, EVENT_WORDS)
        rows = rows[np.argsort(rows[:, 1], kind="stable")]
        return [TimedEvent(self._timers[row[0]], *row[1:]) for row in rows.tolist()]


_programs: list[_Program] = []
_log: EventLog | None = None


class _Local(threading.local):
    plain = False


_local = _Local()


def enabled() -> bool:
    """Whether programs that are compiled now, on this thread, are to keep times."""
    return _enabled and not _local.plain


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Compile without clocks inside, unless the environment asks for them."""
    before, _local.plain = _local.plain, not os.environ.get("RUSHLIGHT_PROFILE")
    try:
        yield
    finally:
        _local.plain = before


_listeners: list[Callable[[], None]] = []


def on_change(listener: Callable[[], None]) -> None:
    """Have `listener` called when `start` or `stop` was."""
    _listeners.append(listener)


def start() -> None:
    """Have programs that are compiled from now on keep times."""
    _set(True)


def stop() -> None:
    """Compile without clocks again; programs that have them keep them."""
    _set(False)


def _set(value: bool) -> None:
    global _enabled
    changed, _enabled = value != _enabled, value
    if changed:
        for listener in _listeners:
            listener()


def reset() -> None:
    """Forget the times so far, of a warm-up for example."""
    for program in _programs:
        program.reset()


def programs() -> Sequence[_Program]:
    """All programs with clocks that were linked."""
    return tuple(_programs)


def add_program(timers: Sequence[Timer], address: int, log: int, code: object) -> None:
    """List a linked program with the addresses of its array and of its pointer to a log, and keep its code."""
    program = _Program(timers, address, log, code)
    _programs.append(program)
    if _log is not None:
        _log.attach(program)


@functools.cache
def imports() -> dict[str, int]:
    """The addresses of what programs with clocks call."""
    library = ctypes.CDLL(None)
    return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in (CLOCK, THREAD)}


def report() -> str:
    """A table for every program that ran: its launches in order, then its kernels, the longest first."""
    return "\n\n".join(text for program in _programs if (text := _described(program)))


def _described(program: _Program) -> str:
    calls, times = program.milliseconds()
    if not calls:
        return ""
    rows = list(zip(program.timers, times, strict=True))
    launches = [(timer, time) for timer, time in rows if timer.launch]
    kernels = sorted(((timer, time) for timer, time in rows if not timer.launch), key=lambda row: -row[1])
    total = sum(time for _, time in launches)
    busy = sum(time for _, time in kernels)
    lines = [
        f"{calls} calls of {total:.3f} ms in {len(launches)} launches; all threads together work for "
        f"{busy:.3f} ms"
    ]
    lines += [f"  {time:9.4f} ms  {timer.name}" for timer, time in launches]
    lines += ["kernels, all threads together"]
    for timer, time in kernels:
        rate = timer.operations / time / 1e6 if timer.operations and time else 0.0
        flops = f"{rate:7.1f} Gflop/s" if rate else " " * 15
        speed = timer.moved / time / 1e6 if time else 0.0
        lines.append(f"  {time:9.4f} ms  {flops}  {speed:7.1f} GB/s  {timer.moved:12,} bytes  {timer.name}")
    return "\n".join(lines)


if _enabled:
    atexit.register(lambda: print(report()))

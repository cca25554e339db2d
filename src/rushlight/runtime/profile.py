"""Where the time of compiled programs goes.

With RUSHLIGHT_PROFILE=1 in the environment, or from `start()` on, programs are compiled with a clock around
every launch (from its start to the end of its last task, on the calling thread) and around every task of
every kernel (added up over all threads). `report()` tells both, per call of the program; under the
environment variable that is printed when the process ends. Programs compiled before know no times.
"""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass

CLOCK = "clock_gettime"
TIMES = "times"  # the array of a module: how often it ran, then nanoseconds

_enabled = bool(os.environ.get("RUSHLIGHT_PROFILE"))


@dataclass(frozen=True)
class Timer:
    """A place of the array: a launch, or one of its kernels, with the work that a call of it does."""

    name: str
    launch: bool
    operations: int = 0  # floating-point operations, of a matrix product
    moved: int = 0  # bytes, counting every buffer once

    def to_words(self) -> list[str | int | bool]:
        return [self.name, self.launch, self.operations, self.moved]


@dataclass(frozen=True)
class _Program:
    timers: Sequence[Timer]
    address: int

    def milliseconds(self) -> tuple[int, list[float]]:
        """How often the program ran, and the time of each timer per call."""
        words = (ctypes.c_int64 * (1 + len(self.timers))).from_address(self.address)
        calls = words[0]
        return calls, [1e-6 * word / max(1, calls) for word in words[1:]]

    def reset(self) -> None:
        ctypes.memset(self.address, 0, 8 * (1 + len(self.timers)))


_programs: list[_Program] = []


def enabled() -> bool:
    return _enabled


def start() -> None:
    """Have programs that are compiled from now on keep times."""
    global _enabled
    _enabled = True


def stop() -> None:
    """Compile without clocks again; programs that have them keep them."""
    global _enabled
    _enabled = False


def reset() -> None:
    """Forget the times so far, of a warm-up for example."""
    for program in _programs:
        program.reset()


def add_program(timers: Sequence[Timer], address: int) -> None:
    """A linked program with the address of its array; its code is never unloaded while it is listed."""
    _programs.append(_Program(timers, address))


def clock_address() -> int:
    return ctypes.cast(getattr(ctypes.CDLL(None), CLOCK), ctypes.c_void_p).value or 0


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

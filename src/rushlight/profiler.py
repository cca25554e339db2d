"""How long operators take, by the names of `torch.profiler`; `autograd.profiler` measures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from .autograd import profiler as _profiler
from .autograd.profiler import record_function

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "tensorboard_trace_handler",
]


class ProfilerActivity(Enum):
    """What is measured: the processor."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3


class ProfilerAction(Enum):
    """What the profiler does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerAction]:
    """In each cycle `wait` steps nothing, `warmup` steps as if, `active` steps measured, `repeat` times."""
    if min(wait, warmup, active, repeat, skip_first) < 0 or active == 0:
        raise AssertionError("Invalid profiler schedule arguments")

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        cycle, place = divmod(step - skip_first, wait + warmup + active)
        if (repeat and cycle >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        last = place == wait + warmup + active - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """What writes the trace of each cycle to a file of its own in a directory."""

    def write(prof: profile) -> None:
        Path(dir_name).mkdir(parents=True, exist_ok=True)
        name = f"{worker_name or 'worker'}.{prof.step_num}.pt.trace.json"
        prof.export_chrome_trace(str(Path(dir_name) / name))

    return write


class profile:
    """Measures what runs inside of it: all of it, or the steps that a `schedule` chooses."""

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        **options: Any,
    ) -> None:
        self._schedule, self._ready, self._shapes = schedule, on_trace_ready, record_shapes
        self.step_num = 0
        self._open: Any = None  # what measures now
        self._last: Any = None  # what has measured last

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self._schedule is None else self._schedule(self.step_num)

    def start(self) -> None:
        self._begin()

    def stop(self) -> None:
        self._end(save=True)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def step(self) -> None:
        """A step has ended."""
        before = self._action()
        self.step_num += 1
        after = self._action()
        records = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if before is ProfilerAction.RECORD_AND_SAVE or after not in records:
            self._end(save=before is ProfilerAction.RECORD_AND_SAVE)
        self._begin()

    def _begin(self) -> None:
        if self._open is None and self._action() in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self._open = _profiler.profile(record_shapes=self._shapes)
            self._open.__enter__()

    def _end(self, save: bool) -> None:
        if self._open is None:
            return
        self._open.__exit__(None, None, None)
        self._last, self._open = self._open, None
        if save and self._ready is not None:
            self._ready(self)

    def _measured(self) -> Any:
        if self._last is None:
            raise AssertionError(
                "the profiler has measured nothing yet: it is still open, or no step was active"
            )
        return self._last

    def key_averages(self, *args: Any, **kwargs: Any) -> Any:
        return self._measured().key_averages(*args, **kwargs)

    def events(self) -> Any:
        return self._measured().function_events

    def export_chrome_trace(self, path: str) -> None:
        self._measured().export_chrome_trace(path)

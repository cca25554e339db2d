"""Where time goes, by the names of `torch.profiler`.

    with rushlight.profiler.profile(record_shapes=True) as prof:
        step(x)
    print(prof.key_averages().table(sort_by="self_cpu_time_total"))
    prof.export_chrome_trace("trace.json")  # for Perfetto

Events are operators that run eagerly, on the thread that opened the profiler, the ranges of `record_function`,
what is compiled, pass by pass, and the launches and kernels of compiled programs, on every thread, with the
operations and bytes of each. Compiled functions have forms with clocks for that, which are made when they are
first called with a profiler open (in the warm-up of a schedule, for example) and left when it closes, so that
nothing is paid for it otherwise.
"""

from __future__ import annotations

import bisect
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from .autograd import profiler as _profiler
from .autograd.profiler import kineto_available, record_function
from .autograd.profiler_util import EventList, write_trace
from .core.errors import check
from .runtime import profile as _clocks

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

GAP = 2e3  # nanoseconds between tasks of one kernel that are one event


class ProfilerActivity(Enum):
    """What is measured: the processor.

    >>> from rushlight.profiler import ProfilerActivity, profile
    >>> with profile(activities=[ProfilerActivity.CPU]) as prof:
    ...     _ = rl.ones(3).exp()
    >>> [event.key for event in prof.key_averages()]
    ['aten::ones', 'aten::exp']
    """

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3


class ProfilerAction(Enum):
    """What the profiler does in a step.

    >>> from rushlight.profiler import ProfilerAction, schedule
    >>> schedule(wait=1, warmup=1, active=1)(0) is ProfilerAction.NONE
    True
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """What can be measured here.

    >>> import rushlight
    >>> rushlight.profiler.supported_activities()
    {<ProfilerActivity.CPU: 0>}
    """
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """In each cycle `wait` steps nothing, `warmup` steps as if, `active` steps measured, `repeat` times.

    `skip_first` steps come before the first cycle, which does not wait if `skip_first_wait` is not 0.

    >>> chosen = rl.profiler.schedule(wait=1, warmup=1, active=2)
    >>> [chosen(step).name for step in range(4)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE']
    """
    if min(wait, warmup, active, repeat, skip_first) < 0 or active == 0:
        raise AssertionError("Invalid profiler schedule arguments")
    if not warmup:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle, place = divmod(step, wait + warmup + active)
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
    """What writes the trace of each cycle to a file of its own in a directory, for `on_trace_ready`.

    >>> import pathlib, tempfile
    >>> from rushlight.profiler import profile, tensorboard_trace_handler
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with profile(on_trace_ready=tensorboard_trace_handler(directory, "first")):
    ...         _ = rl.ones(3) + 1
    ...     [path.suffixes[-2:] for path in pathlib.Path(directory).iterdir()]
    [['.trace', '.json']]
    """

    def write(prof: profile) -> None:
        Path(dir_name).mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' * use_gzip}"
        prof.export_chrome_trace(str(Path(dir_name) / name))

    return write


class profile:
    """Measures what runs inside of it: all of it, or the steps that a `schedule` chooses.

    `record_shapes`, `profile_memory`, `with_stack` and `with_flops` add to events what they say; `acc_events`
    keeps the events of all cycles of a schedule.

    >>> from rushlight.profiler import profile
    >>> with profile(record_shapes=True) as prof:
    ...     _ = rl.ones(3, 4) @ rl.ones(4, 2)
    >>> [(event.key, event.input_shapes) for event in prof.key_averages(group_by_input_shape=True)][-1]
    ('aten::mm', [[3, 4], [4, 2]])
    >>> table = prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10)
    >>> "Self CPU %" in table and "aten::mm" in table
    True
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        for name, value in {
            "with_modules": with_modules,
            "experimental_config": experimental_config,
            "execution_trace_observer": execution_trace_observer,
        }.items():
            check(not value, f"profile(): {name} is not available", NotImplementedError)
        self.activities = set(activities) if activities is not None else supported_activities()
        check(bool(self.activities), "No valid profiler activities found", AssertionError)
        if use_cuda or not self.activities <= supported_activities():
            warnings.warn("only the CPU is measured: there is no other device", stacklevel=2)
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.acc_events = with_stack, with_flops, acc_events
        self._schedule, self._ready = schedule, on_trace_ready
        self._trace_id, self._metadata = custom_trace_id_callback, dict[str, Any]()
        self.step_num = 0
        self._running = False
        self._clocks = False  # whether programs have them because of this profiler
        self._log: Any = None
        self._open: Any = None  # what measures now
        self._last: EventList | None = None  # what was measured last
        self._step: record_function | None = None

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self._schedule is None else self._schedule(self.step_num)

    def start(self) -> None:
        """Begin, as `with` does."""
        self._running = True
        self._begin()

    def stop(self) -> None:
        """End, as `with` does; `on_trace_ready` is called if anything was measured."""
        self._running = False
        self._end(save=True)
        self._set_clocks(False)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def step(self) -> None:
        """A step has ended."""
        before = self._action()
        self._end_step()
        self.step_num += 1
        after = self._action()
        if before is ProfilerAction.RECORD_AND_SAVE or after not in RECORDS:
            self._end(save=before is ProfilerAction.RECORD_AND_SAVE)
        self._begin()

    def _set_clocks(self, wanted: bool) -> None:
        """Let compiled functions have clocks, or not."""
        if wanted and not self._clocks and not _clocks.enabled():
            self._clocks = True
            _clocks.start()
        elif not wanted and self._clocks:
            self._clocks = False
            _clocks.stop()

    def _begin(self) -> None:
        action = self._action()
        self._set_clocks(action is not ProfilerAction.NONE)
        if action not in RECORDS:
            return
        if self._open is None:
            self._open = _profiler.profile(
                record_shapes=self.record_shapes,
                with_flops=self.with_flops,
                profile_memory=self.profile_memory,
                with_stack=self.with_stack,
            )
            self._open.__enter__()
            self._log = _clocks.EventLog()
            self._log.open()
        if self._schedule is not None:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__()
            self._step = None

    def _end(self, save: bool) -> None:
        if self._open is None:
            return
        self._end_step()
        self._log.close()
        _add_kernels(self._open, self._log.events(), self.with_flops)
        if self._log.dropped:
            warnings.warn(
                f"the profiler had no room for {self._log.dropped} kernels: profile fewer steps", stacklevel=3
            )
        self._open.__exit__(None, None, None)
        earlier = self._last if self.acc_events and self._last is not None else []
        events = self._open.function_events
        self._last, self._open, self._log = EventList([*earlier, *events]), None, None
        if save and self._ready is not None:
            self._ready(self)

    def _measured(self) -> EventList:
        if self._last is None:
            raise AssertionError(
                "the profiler has measured nothing yet: it is still open, or no step was active"
            )
        return self._last

    def events(self) -> EventList:
        """All events, in the order in which they began."""
        return self._measured()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The sums over events of one name; `.table(sort_by=...)` prints them."""
        return self._measured().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str) -> None:
        """Write what Perfetto and chrome://tracing open; compressed if the name ends in .gz."""
        about: dict[str, Any] = {
            "record_shapes": int(self.record_shapes),
            "profile_memory": int(self.profile_memory),
            "with_stack": int(self.with_stack),
            "with_flops": int(self.with_flops),
            "host_name": socket.gethostname(),
            **self._metadata,
        }
        if self._trace_id is not None:
            about["trace_id"] = self._trace_id()
        write_trace(path, self._measured(), about)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write a line for each stack with its share of a metric, for flame graphs; needs `with_stack`."""
        check(self.with_stack, "export_stacks() requires with_stack=True", AssertionError)
        self._measured().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """A text that the trace has under a key."""
        self._metadata[key] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """As `add_metadata`, of a value that is JSON."""
        self._metadata[key] = json.loads(value)


def _add_kernels(to: Any, events: Sequence[Any], with_flops: bool) -> None:
    """What compiled programs wrote down. Tasks of a kernel that follow each other on a thread are one event; the
    first one of a launch has the operations and bytes of all of it."""
    launches = [event for event in events if event.timer.launch]
    starts = [launch.start for launch in launches]
    counted: set[tuple[int, int]] = set()
    last: dict[int, list[Any]] = {}  # of each thread: timer, start, end, facts
    spans: list[tuple[int, list[Any]]] = []
    for launch in launches:
        to.add(launch.timer.name, launch.thread, launch.start / 1e3, launch.end / 1e3, category="launch")
    for event in events:
        timer = event.timer
        if timer.launch:
            continue
        key = bisect.bisect_right(starts, event.start), id(timer)
        facts = (
            {} if key in counted else {"flops": timer.operations if with_flops else 0, "moved": timer.moved}
        )
        known = last.get(event.thread)
        if known is not None and known[0] is timer and not facts and event.start - known[2] < GAP:
            known[2] = event.end
        else:
            last[event.thread] = [timer, event.start, event.end, facts]
            spans.append((event.thread, last[event.thread]))
        counted.add(key)
    for thread, (timer, start, end, facts) in spans:
        to.add(timer.name.partition(" [")[0], thread, start / 1e3, end / 1e3, category="kernel", **facts)

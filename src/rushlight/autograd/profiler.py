"""A small profiler: how long operators took, and ranges that `record_function` marks.

While a profiler is open on a thread, every call of an operator on it is an event, those inside of composites
and of backward passes included; compiled programs call no operators and are not looked into. Without one,
`record_function` does nothing.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

from ..core.dispatch import AMBIENT, Arguments, below_profiler, install_layer
from ..core.errors import check
from ..core.modes import MODES
from ..core.registry import OpDef
from ..core.tensor import PROFILED, Tensor
from .profiler_util import EventList, FunctionEvent, FunctionEventAvg

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]


def kineto_available() -> bool:
    """Whether PyTorch's tracing library is there: it is not.

    >>> isinstance(rl.autograd.kineto_available(), bool)
    True
    """
    return False


def _profiler_enabled() -> bool:
    return MODES.profiler is not None


class profile:
    """Records inside what operators run and how long they take; see `function_events`, `key_averages`,
    `table` and `export_chrome_trace`. With `record_shapes` events have the shapes of the tensors."""

    def __init__(
        self, enabled: bool = True, *, record_shapes: bool = False, use_kineto: bool = False
    ) -> None:
        check(not use_kineto, "there is no Kineto here; leave use_kineto out", NotImplementedError)
        self.enabled = enabled
        self.record_shapes = record_shapes
        self._events: list[FunctionEvent] = []
        self._done: EventList | None = None

    def __enter__(self) -> profile:
        if self.enabled:
            check(MODES.profiler is None, "Profiler is already enabled on this thread")
            MODES.profiler = self
            AMBIENT.keys |= PROFILED
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.enabled:
            MODES.profiler = None
            AMBIENT.keys &= ~PROFILED
            self._done = EventList(self._events)
            self._done._populate_cpu_children()

    def begin(self, name: str, shapes: Any = None) -> FunctionEvent:
        now = time.perf_counter_ns() / 1e3
        event = FunctionEvent(len(self._events), name, threading.get_ident(), now, now, input_shapes=shapes)
        self._events.append(event)
        return event

    @staticmethod
    def finish(event: FunctionEvent) -> None:
        event.time_range.end = time.perf_counter_ns() / 1e3

    @property
    def function_events(self) -> EventList:
        check(self._done is not None, "Profiler didn't finish running")
        assert self._done is not None
        return self._done

    @property
    def self_cpu_time_total(self) -> float:
        return self.function_events.self_cpu_time_total

    def key_averages(self, group_by_input_shape: bool = False) -> EventList:
        return self.function_events.key_averages(group_by_input_shape)

    def total_average(self) -> FunctionEventAvg:
        return self.function_events.total_average()

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        return self.function_events.table(
            sort_by, row_limit, max_src_column_width, max_name_column_width, header, top_level_events_only
        )

    def export_chrome_trace(self, path: str) -> None:
        self.function_events.export_chrome_trace(path)

    def __str__(self) -> str:
        return "<unfinished rushlight.autograd.profile>" if self._done is None else str(self._done)

    __repr__ = __str__


class record_function:
    """A named range, as a context or on a function; it is an event if a profiler is open."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._open: list[tuple[profile, FunctionEvent]] = []

    def __enter__(self) -> record_function:
        profiler = MODES.profiler
        if profiler is not None:
            self._open.append((profiler, profiler.begin(self.name, self.args)))
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._open:
            profiler, event = self._open.pop()
            profiler.finish(event)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return inside


def _shapes(args: Arguments) -> list[Any]:
    return [
        list(value.shape)
        if isinstance(value, Tensor)
        else [list(v.shape) for v in value if isinstance(v, Tensor)]
        if type(value) is tuple
        else []
        for value in args
    ]


def _profiled(op: OpDef, args: Arguments, keys: int) -> Any:
    profiler = MODES.profiler
    if profiler is None:
        return below_profiler(op, args, keys)
    event = profiler.begin(
        f"{op.schema.namespace or 'aten'}::{op.schema.name}",
        _shapes(args) if profiler.record_shapes else None,
    )
    try:
        return below_profiler(op, args, keys)
    finally:
        profiler.finish(event)


install_layer("profiled", _profiled)

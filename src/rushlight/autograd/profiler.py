"""A small profiler: how long operators took, and ranges that `record_function` marks.

While a profiler is open on a thread, every call of an operator on it is an event, those inside of composites
and of backward passes included; compiled programs call no operators (`rushlight.profiler` looks into them, too).
Without one, `record_function` does nothing.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..core.dispatch import AMBIENT, Arguments, below_profiler, install_layer
from ..core.errors import check
from ..core.missing import missing_class
from ..core.modes import MODES
from ..core.registry import Kind, OpDef
from ..core.tensor import META, PROFILED, TRACED, Tensor
from .profiler_util import EventList, FunctionEvent, FunctionEventAvg

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]

_WHY = "ranges are for profilers of other devices; profile() records what runs"
emit_itt, emit_nvtx = (missing_class("autograd.profiler", name, _WHY) for name in ("emit_itt", "emit_nvtx"))


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
    `table` and `export_chrome_trace`. With `record_shapes` events have the shapes of the tensors, `with_flops`
    the operations of products, sums and multiplications, `profile_memory` the bytes of tensors that they made,
    `with_stack` the lines of the program."""

    def __init__(
        self,
        enabled: bool = True,
        *,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        use_kineto: bool = False,
    ) -> None:
        check(not use_kineto, "there is no Kineto here; leave use_kineto out", NotImplementedError)
        self.enabled = enabled
        self.record_shapes, self.with_flops = record_shapes, with_flops
        self.profile_memory, self.with_stack = profile_memory, with_stack
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
        if self.with_stack:
            event.stack = _stack()
        self._events.append(event)
        return event

    def add(self, name: str, thread: int, start_us: float, end_us: float, **facts: Any) -> None:
        """Something that has happened: a kernel, a pass of the compiler; `facts` are attributes of the event."""
        event = FunctionEvent(len(self._events), name, thread, start_us, end_us)
        for key, value in facts.items():
            setattr(event, key, value)
        self._events.append(event)

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

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n)

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

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        self.function_events.export_stacks(path, metric)

    def __str__(self) -> str:
        return "<unfinished rushlight.autograd.profile>" if self._done is None else str(self._done)

    __repr__ = __str__


@contextlib.contextmanager
def compiling(name: str) -> Iterator[None]:
    """Something is compiled inside: an event, if a profiler is open, in which passes are events and operators,
    which do not run, are none."""
    profiler = MODES.profiler
    if profiler is None:
        yield
        return
    event = profiler.begin(name)
    event.category = "compiler"
    seen = AMBIENT.keys & PROFILED
    AMBIENT.keys &= ~PROFILED
    try:
        yield
    finally:
        AMBIENT.keys |= seen
        profiler.finish(event)


class record_function:
    """A named range, as a context or on a function; it is an event if a profiler is open.

    >>> from rushlight.profiler import profile, record_function
    >>> with profile() as prof:
    ...     with record_function("forward"):
    ...         _ = rl.ones(3) + 1
    >>> [event.key for event in prof.key_averages()]
    ['forward', 'aten::ones', 'aten::add']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._open: list[tuple[profile, FunctionEvent]] = []

    def __enter__(self) -> record_function:
        profiler = MODES.profiler
        if profiler is not None:
            event = profiler.begin(self.name, self.args)
            event.category = "user_annotation"
            self._open.append((profiler, event))
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
    shapes = _shapes(args) if profiler.record_shapes else None
    event = profiler.begin(f"{op.schema.namespace or 'aten'}::{op.schema.name}", shapes)
    try:
        result = below_profiler(op, args, keys)
        if profiler.profile_memory and op.kind is not Kind.COMPOSITE:
            event.self_cpu_memory_usage = _made(args, result)
        if profiler.with_flops:
            event.flops = _operations(op, args)
        return result
    finally:
        profiler.finish(event)


def _made(args: Arguments, result: Any) -> int:
    """Bytes of the storages of a result that are not those of the arguments."""
    given = {id(t.storage_object) for t in _tensors(args)}
    new = {id(t.storage_object): t.storage_object.nbytes() for t in _tensors((result,))}
    return sum(size for key, size in new.items() if key not in given)


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            if not value._keys & (META | TRACED):
                yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)


def _operations(op: OpDef, args: Arguments) -> int:
    """Floating-point operations, of the operators of which PyTorch counts them as well."""
    shapes = [tuple(value.shape) for value in args if isinstance(value, Tensor)]
    name = op.schema.name
    if name in ("mm", "bmm") and len(shapes) == 2:
        return 2 * math.prod(shapes[0]) * shapes[1][-1]
    if name in ("addmm", "baddbmm") and len(shapes) == 3:
        return 2 * math.prod(shapes[1]) * shapes[2][-1]
    if name in ("add", "mul") and shapes:
        return math.prod(max(shapes, key=math.prod))
    return 0


def _stack() -> list[str]:
    """The lines of the user's program, the innermost first."""
    found: list[str] = []
    frame: Any = sys._getframe(2)
    package = __name__.partition(".")[0]
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] != package:
            code = frame.f_code
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return found


install_layer("profiled", _profiled)

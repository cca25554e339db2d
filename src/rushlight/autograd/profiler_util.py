"""Events that a profiler recorded, and their sums.

Times are in microseconds. An event knows the events that ran inside of it on the same thread, so that the
time it took itself can be told from theirs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..core.lazy import LazyModule

json = LazyModule("json")
gzip = LazyModule("gzip")


def _format_time(time_us: float) -> str:
    if time_us >= 1e6:
        return f"{time_us / 1e6:.3f}s"
    return f"{time_us / 1e3:.3f}ms" if time_us >= 1e3 else f"{time_us:.3f}us"


def _format_memory(count: int) -> str:
    for unit, size in (("GB", 2**30), ("MB", 2**20), ("KB", 2**10)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


class Interval:
    """When an event began and ended."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        return self.end - self.start


class FunctionEvent:
    """One call of an operator, or one range that `record_function` marked."""

    count = 1
    device_time_total = self_device_time_total = 0  # there is no other device than the CPU

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        *,
        node_id: int = -1,
        input_shapes: Any = None,
        sequence_nr: int = -1,
    ) -> None:
        self.id, self.name, self.key, self.thread, self.node_id = id, name, name, thread, node_id
        self.time_range = Interval(start_us, end_us)
        self.input_shapes = input_shapes
        self.sequence_nr = sequence_nr
        self.stack: list[str] = []  # lines of the user's program, the innermost first
        self.category = "cpu_op"  # what kind of event it is, in a trace
        self.flops = self.moved = 0  # operations, and bytes that a kernel reads and writes
        self.self_cpu_memory_usage = 0  # bytes of the tensors that it made itself
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    @property
    def cpu_time_total(self) -> float:
        return self.time_range.elapsed_us()

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes of the tensors that were made inside of it."""
        return self.self_cpu_memory_usage + sum(child.cpu_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} thread={self.thread} "
            f"cpu_time={_format_time(self.cpu_time)} input_shapes={self.input_shapes}>"
        )


SUMMED = (
    "count",
    "cpu_time_total",
    "self_cpu_time_total",
    "cpu_memory_usage",
    "self_cpu_memory_usage",
    "flops",
    "moved",
)


class FunctionEventAvg:
    """Events of one name together."""

    device_time_total = self_device_time_total = 0

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.input_shapes: Any = None
        self.stack: list[str] = []
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = self.flops = self.moved = 0

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        if self.key is None:
            self.key, self.input_shapes, self.stack = other.key, other.input_shapes, other.stack
        for name in SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} count={self.count} cpu_time={_format_time(self.cpu_time)} "
            f"self_cpu_time={_format_time(self.self_cpu_time_total)}>"
        )


class EventList(list[Any]):
    """Events in the order in which they began."""

    def __init__(self, events: Iterable[Any] = (), shown: Sequence[str] = ()) -> None:
        super().__init__(events)
        self._shown = shown  # columns of a table that events are told apart by

    @property
    def self_cpu_time_total(self) -> float:
        return sum(event.self_cpu_time_total for event in self)

    def _populate_cpu_children(self) -> None:
        """Tell each event which others ran inside of it."""
        for thread in {event.thread for event in self}:
            inside: list[FunctionEvent] = []
            events = [event for event in self if event.thread == thread]
            for event in sorted(events, key=lambda e: (e.time_range.start, -e.time_range.end)):
                while inside and (
                    event.time_range.start >= inside[-1].time_range.end
                    or event.time_range.end > inside[-1].time_range.end
                ):
                    inside.pop()
                if inside:
                    inside[-1].cpu_children.append(event)
                    event.cpu_parent = inside[-1]
                inside.append(event)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The sums over all events of one name, or of one name and the same shapes or innermost lines."""
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = str(event.input_shapes) if group_by_input_shape else None
            key = (event.key, shapes, *event.stack[:group_by_stack_n])
            found.setdefault(key, FunctionEventAvg()).add(event)
        shown = [*(["shapes"] if group_by_input_shape else []), *(["stack"] if group_by_stack_n else [])]
        return EventList(found.values(), shown)

    def total_average(self) -> FunctionEventAvg:
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
        total.key = "Total"
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """The events as a table: name, times and counts."""
        events = [
            event
            for event in self
            if not (top_level_events_only and getattr(event, "cpu_parent", None) is not None)
        ]
        if sort_by is not None:
            events.sort(key=lambda event: getattr(event, sort_by), reverse=True)
        total = self.self_cpu_time_total
        columns = self._columns(total, max_name_column_width, max_src_column_width)
        rows = [tuple(columns)]
        for event in events if row_limit < 0 else events[:row_limit]:
            rows.append(tuple(cell(event) for cell in columns.values()))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        line = "  ".join("-" * width for width in widths)
        body = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        lines = [
            *([] if header is None else [header]),
            line,
            body[0],
            line,
            *body[1:],
            line,
            f"Self CPU time total: {_format_time(total)}",
        ]
        return "\n".join(lines) + "\n"

    def _columns(self, total: float, name_width: int, source_width: int) -> dict[str, Callable[[Any], str]]:
        """The columns of a table: those of shapes, memory, operations and lines only where there are any."""
        columns: dict[str, Callable[[Any], str]] = {
            "Name": lambda e: str(e.key)[:name_width],
            "Self CPU %": lambda e: f"{100 * e.self_cpu_time_total / total if total else 0.0:.2f}%",
            "Self CPU": lambda e: _format_time(e.self_cpu_time_total),
            "CPU total": lambda e: _format_time(e.cpu_time_total),
            "CPU time avg": lambda e: _format_time(e.cpu_time),
        }
        if any(event.cpu_memory_usage for event in self):
            columns["CPU Mem"] = lambda e: _format_memory(e.cpu_memory_usage)
            columns["Self CPU Mem"] = lambda e: _format_memory(e.self_cpu_memory_usage)
        columns["# of Calls"] = lambda e: str(e.count)
        if "shapes" in self._shown:
            columns["Input Shapes"] = lambda e: str(e.input_shapes)
        if any(event.flops for event in self):
            columns["Total MFLOPs"] = lambda e: f"{e.flops / 1e6:.3f}" if e.flops else "--"
        if any(event.moved for event in self):
            columns["GB/s"] = lambda e: (
                f"{e.moved / e.cpu_time_total / 1e3:.2f}" if e.moved and e.cpu_time_total else "--"
            )
        if "stack" in self._shown:
            columns["Source Location"] = lambda e: (e.stack[0] if e.stack else "")[-source_width:]
        return columns

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as a file that chrome://tracing and Perfetto show."""
        write_trace(path, self, {})

    def export_stacks(self, path: str, metric: str) -> None:
        """Write what flame graphs are made from: a line for each stack, with its share of the metric."""
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                value = int(getattr(event, metric))
                if event.stack and value > 0:
                    frames = (frame.replace(";", ",").replace(" ", "_") for frame in reversed(event.stack))
                    file.write(f"{';'.join(frames)} {value}\n")


def write_trace(path: Any, events: Sequence[FunctionEvent], about: Mapping[str, Any]) -> None:
    """Write events in the format of Chrome's traces, compressed if the name ends in .gz."""
    process = os.getpid()
    threads = {event.thread: None for event in events}
    rows = [_trace_row(event, process) for event in events]
    rows += [
        {
            "ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "s": "t", "pid": process,
            "tid": event.thread, "ts": event.time_range.end, "args": {"Bytes": event.self_cpu_memory_usage},
        }
        for event in events
        if event.self_cpu_memory_usage
    ]  # fmt: skip
    main = threading.main_thread().ident
    for number, thread in enumerate(threads):
        name = "main thread" if thread == main else f"thread {number}"
        rows.append({"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}})
    trace = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        **about,
        "traceEvents": rows,
        "traceName": str(path),
    }
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "wt", encoding="utf-8") as file:
        json.dump(trace, file)


def _trace_row(event: FunctionEvent, process: int) -> dict[str, Any]:
    args: dict[str, Any] = {"External id": event.id}
    if event.input_shapes:
        args["Input Dims"] = event.input_shapes
    if event.flops:
        args["flops"] = event.flops
    if event.moved:
        args["bytes"] = event.moved
    if event.stack:
        args["Call stack"] = ";".join(event.stack)
    return {
        "ph": "X",
        "cat": event.category,
        "name": event.name,
        "pid": process,
        "tid": event.thread,
        "ts": event.time_range.start,
        "dur": event.time_range.elapsed_us(),
        "args": args,
    }

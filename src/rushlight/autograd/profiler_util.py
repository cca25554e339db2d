"""Events that a profiler recorded, and their sums.

Times are in microseconds. An event knows the events that ran inside of it on the same thread, so that the
time it took itself can be told from theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.lazy import LazyModule

json = LazyModule("json")


def _format_time(time_us: float) -> str:
    if time_us >= 1e6:
        return f"{time_us / 1e6:.3f}s"
    return f"{time_us / 1e3:.3f}ms" if time_us >= 1e3 else f"{time_us:.3f}us"


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

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} thread={self.thread} "
            f"cpu_time={_format_time(self.cpu_time)} input_shapes={self.input_shapes}>"
        )


class FunctionEventAvg:
    """Events of one name together."""

    device_time_total = self_device_time_total = 0

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.input_shapes: Any = None
        self.cpu_time_total = self.self_cpu_time_total = 0.0

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        if self.key is None:
            self.key, self.input_shapes = other.key, other.input_shapes
        self.count, self.cpu_time_total, self.self_cpu_time_total = (
            self.count + other.count,
            self.cpu_time_total + other.cpu_time_total,
            self.self_cpu_time_total + other.self_cpu_time_total,
        )
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} count={self.count} cpu_time={_format_time(self.cpu_time)} "
            f"self_cpu_time={_format_time(self.self_cpu_time_total)}>"
        )


class EventList(list[Any]):
    """Events in the order in which they began."""

    def __init__(self, events: Iterable[Any] = ()) -> None:
        super().__init__(events)

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

    def key_averages(self, group_by_input_shape: bool = False) -> EventList:
        """The sums over all events of one name, or of one name and the same shapes."""
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key = (event.key, str(event.input_shapes) if group_by_input_shape else None)
            found.setdefault(key, FunctionEventAvg()).add(event)
        return EventList(found.values())

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
        rows = [("Name", "Self CPU %", "Self CPU", "CPU total", "CPU time avg", "# of Calls")]
        for event in events if row_limit < 0 else events[:row_limit]:
            share = 100 * event.self_cpu_time_total / total if total else 0.0
            rows.append(
                (
                    str(event.key)[:max_name_column_width],
                    f"{share:.2f}%",
                    _format_time(event.self_cpu_time_total),
                    _format_time(event.cpu_time_total),
                    _format_time(event.cpu_time),
                    str(event.count),
                )
            )
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

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as a file that chrome://tracing and Perfetto show."""
        events = [
            {
                "name": event.name,
                "ph": "X",
                "ts": event.time_range.start,
                "dur": event.cpu_time_total,
                "tid": event.thread,
                "pid": "CPU functions",
                "args": {"Input Dims": event.input_shapes} if event.input_shapes else {},
            }
            for event in self
        ]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)

"""The profiler: events of operators and of marked ranges."""

from __future__ import annotations

import json

import pytest

import rushlight as rl
from rushlight.autograd.profiler import profile, record_function


def test_events_of_operators_and_ranges():
    x = rl.randn(4, 4, requires_grad=True)
    with profile(record_shapes=True) as p:
        assert rl.autograd._profiler_enabled()
        with record_function("outer"):
            y = x * 2 + 4
            with record_function("inner"):
                y = y - 1
        y.sum().backward()
    assert not rl.autograd._profiler_enabled()
    names = [event.name for event in p.function_events]
    assert names[:5] == ["outer", "aten::mul", "aten::add", "inner", "aten::sub"]
    outer, mul = p.function_events[:2]
    assert mul in outer.cpu_children
    assert mul.input_shapes[0] == [4, 4]
    assert outer.self_cpu_time_total < outer.cpu_time_total
    assert [a.count for a in p.key_averages() if a.key == "aten::mul"] == [names.count("aten::mul")]
    assert "inner" in p.table(sort_by="cpu_time_total", row_limit=-1)


def test_without_a_profiler_nothing_is_recorded(tmp_path):
    @record_function("mine")
    def add(a, b):
        return a + b

    assert add(1, 2) == 3
    with profile() as p:
        add(1, 2)
        with pytest.raises(RuntimeError, match="already enabled"), profile():
            pass
    assert [event.name for event in p.function_events] == ["mine"]
    p.export_chrome_trace(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"][0]["name"] == "mine"
    with profile(enabled=False) as off:
        rl.ones(2) + 1
    with pytest.raises(RuntimeError, match="didn't finish"):
        _ = off.function_events

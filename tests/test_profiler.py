"""rushlight.profiler: eager operators, compiled kernels by thread, compile events, and what is written."""

from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import rushlight as rl
from rushlight.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler
from rushlight.runtime import executable
from rushlight.runtime import profile as clocks
from rushlight.runtime.invoke import unseen


def program(x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
    return (x @ w).softmax(1).sum()


@pytest.fixture(scope="module")
def large() -> tuple[Any, Any, Any]:
    step = rl.compile(program, fullgraph=True)
    x, w = rl.randn(600, 600), rl.randn(600, 600)
    for _ in range(3):
        step(x, w)
    return step, x, w


@pytest.mark.skipif(
    bool(os.environ.get("RUSHLIGHT_PROFILE")), reason="RUSHLIGHT_PROFILE: all programs have clocks"
)
def test_kernels_account_for_the_time_and_clocks_are_taken_out_again(large: Any) -> None:
    step, x, w = large
    plain = clocks.programs()
    with profile(schedule=schedule(wait=0, warmup=2, active=3)) as prof:
        for _ in range(5):
            step(x, w)
            prof.step()
    assert len(clocks.programs()) > len(plain)  # it was compiled with clocks
    steps = [event for event in prof.events() if event.name.startswith("ProfilerStep")]
    assert [event.name for event in steps] == [f"ProfilerStep#{n}" for n in (2, 3, 4)]
    launches = [event for event in prof.events() if event.category == "launch"]
    kernels = [event for event in prof.events() if event.category == "kernel"]
    wall = sum(event.cpu_time_total for event in steps)
    assert 0.8 * wall < sum(event.cpu_time_total for event in launches) <= wall
    main = steps[0].thread
    own = sum(event.cpu_time_total for event in kernels if event.thread == main)
    assert own <= 1.001 * sum(event.cpu_time_total for event in launches)
    assert not any(event.category == "compiler" for event in prof.events())  # the warm-up took that
    assert not clocks.enabled()
    (form,) = next(iter(step.specializations.values()))
    assert all("timed" not in name for name in dir(form.artifact.executable))
    before = len(clocks.programs())
    counts = [program.milliseconds()[0] for program in clocks.programs()]
    assert step(x, w).item() > 0
    assert [program.milliseconds()[0] for program in clocks.programs()] == counts  # the plain form ran
    assert len(clocks.programs()) == before


def test_native_callables_serve_calls_under_a_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """They refuse under modes, and the long way took 5 % of a training step; a profiler is no reason for it."""
    served: list[bool] = []

    def spied(native: Any) -> Any:
        def call(*args: Any) -> Any:
            found = unseen(native)(*args)
            served.append(found is not NotImplemented)
            return found

        return call

    monkeypatch.setattr(executable, "unseen", spied)
    weights = rl.ones(50, requires_grad=True)
    optimizer = rl.optim.SGD([weights], lr=0.1)

    @rl.compile(fullgraph=True)
    def step(x: rl.Tensor) -> rl.Tensor:
        loss = (weights * x).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    batch = rl.linspace(0, 0.1, 50)
    with profile() as prof:
        losses = [step(batch).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True) and len(set(losses)) == 5
    assert served[-3:] == [True] * 3
    assert sum(event.category == "launch" for event in prof.events()) >= 5
    with profile() as prof:  # what is seen of eager operators is as before
        step(batch)
        rl.ones(3) + 1
    assert any(event.name == "aten::add" for event in prof.events())


def test_flops_and_bytes_of_kernels(large: Any) -> None:
    step, x, w = large
    with profile(with_flops=True) as prof:
        step(x, w)
    product = [event for event in prof.key_averages() if event.key.startswith("matmul") and event.flops]
    assert [event.flops for event in product] == [2 * 600**3]
    assert product[0].moved == 3 * 4 * 600 * 600
    table = prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10)
    assert "Total MFLOPs" in table and "432.000" in table and "GB/s" in table


def test_compiling_is_an_event_with_passes() -> None:
    with profile() as prof:
        rl.compile(lambda x: x.sin() + 3, fullgraph=True)(rl.ones(5))
    events = prof.events()
    (compile_event,) = [event for event in events if event.name.startswith("compile <lambda>")]
    assert "first call" in compile_event.name
    inside = [event.name for event in compile_event.cpu_children]
    assert "capture" in inside
    assert not any(event.name == "aten::sin" for event in events)  # it was captured, it did not run


def test_the_trace_is_read_back(large: Any, tmp_path: Path) -> None:
    step, x, w = large
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        with record_function("eager part"):
            y = x + w
        step(y, w)
    for name in ("trace.json", "trace.json.gz"):
        prof.add_metadata("run", "seven")
        prof.export_chrome_trace(str(tmp_path / name))
        data = (tmp_path / name).read_bytes()
        trace = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)
        assert trace["run"] == "seven" and trace["schemaVersion"] == 1
        rows = [row for row in trace["traceEvents"] if row["ph"] == "X"]
        assert len(rows) == len(prof.events())
        assert all(row["dur"] >= 0 and row["ts"] > 0 and isinstance(row["tid"], int) for row in rows)
        add = next(row for row in rows if row["name"] == "aten::add")
        assert add["args"]["Input Dims"][:2] == [[600, 600], [600, 600]]
        assert "test_profiler.py" in add["args"]["Call stack"]
        assert {"cpu_op", "user_annotation", "launch", "kernel"} <= {row["cat"] for row in rows}
        memory = [row for row in trace["traceEvents"] if row["name"] == "[memory]"]
        assert memory[0]["args"]["Bytes"] == 4 * 600 * 600
        named = {row["tid"] for row in trace["traceEvents"] if row["name"] == "thread_name"}
        assert named == {row["tid"] for row in rows}
    prof.export_stacks(str(tmp_path / "stacks.txt"))
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert lines
    assert all(line.rpartition(" ")[2].isdigit() and "test_profiler.py" in line for line in lines)


def test_operators_that_run_natively_are_seen() -> None:
    x = rl.ones(8)
    for _ in range(200):
        x = x * 1.0
    time.sleep(0.05)
    with profile() as prof:
        for _ in range(50):
            x = x * 1.0
    assert [a.count for a in prof.key_averages() if a.key == "aten::mul"] == [50]


def test_memory_shapes_and_operations_of_operators() -> None:
    with profile(record_shapes=True, profile_memory=True, with_flops=True) as prof:
        a = rl.ones(100, 100)
        b = a @ a
        b.t()
    product = next(event for event in prof.events() if event.name == "aten::mm")
    assert product.flops == 2_000_000
    assert product.cpu_memory_usage == 40_000
    matmul = next(event for event in prof.events() if event.name == "aten::matmul")
    assert matmul.cpu_memory_usage == 40_000 and matmul.self_cpu_memory_usage == 0
    view = next(event for event in prof.events() if event.name == "aten::t")
    assert view.self_cpu_memory_usage == 0
    table = prof.key_averages(group_by_input_shape=True).table()
    assert "CPU Mem" in table and "[[100, 100], [100, 100]]" in table
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_flops=True) as theirs:
        a = torch.ones(100, 100)
        b = a @ a
    (same,) = [event for event in theirs.key_averages() if event.key == "aten::mm"]
    assert (same.flops, same.cpu_memory_usage) == (product.flops, product.cpu_memory_usage)


def test_cycles_of_a_schedule_and_files_of_tensorboard(tmp_path: Path) -> None:
    plan = schedule(wait=0, warmup=1, active=1, repeat=2)
    with profile(schedule=plan, on_trace_ready=tensorboard_trace_handler(str(tmp_path), "me", True)) as prof:
        for _ in range(6):
            rl.ones(2) + 1
            prof.step()
    assert len(list(tmp_path.glob("me.*.pt.trace.json.gz"))) == 2
    with profile(schedule=plan, acc_events=True) as every:
        for _ in range(6):
            rl.ones(2) + 1
            every.step()
    assert [a.count for a in every.key_averages() if a.key == "aten::add"] == [2]
    actions = [
        [library.profiler.schedule(wait=2, warmup=1, active=1, skip_first=1, skip_first_wait=1)(n).name
         for n in range(9)]
        for library in (rl, torch)
    ]  # fmt: skip
    assert actions[0] == actions[1]


def test_what_is_not_there_is_refused() -> None:
    assert rl.profiler.supported_activities() == {ProfilerActivity.CPU}
    for option in ("with_modules", "experimental_config", "execution_trace_observer"):
        with pytest.raises(NotImplementedError, match=option):
            profile(**{option: True})
    with pytest.warns(UserWarning, match="only the CPU"):
        profile(activities=[ProfilerActivity.CUDA])
    with pytest.raises(AssertionError, match="measured nothing"):
        profile().events()

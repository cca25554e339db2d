"""compiler/pipeline.py names every pass in the order in which it runs, and nothing runs outside of it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

import rushlight as rl
from rushlight.compiler import pipeline
from rushlight.core.errors import InternalError
from rushlight.core.passes import Pass, PassLog, verifying
from rushlight.logs import set_logs

NAMES = [step.name for step in pipeline.PIPELINE]
ONCE = [pipeline.CAPTURE.name, *(step.name for step in pipeline.CALL_PASSES)]
STAGES = ("graph", "lowering", "schedule", "plan", "codegen")


def _walk() -> ModuleType:
    spec = importlib.util.spec_from_file_location("walk", Path(__file__).with_name("walk.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WALK = _walk()


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_explain_shows_exactly_the_pipeline() -> None:
    """A training step is one program: every pass runs once, in the order of the list."""
    step, arguments = WALK.training_step_and_arguments()
    told = rl.explain(step, *arguments)
    assert [stage.name for stage in told.stages] == NAMES
    assert all(stage.seconds >= 0 for stage in told.stages)
    assert all(stage.text for stage in told.stages if stage.name != "link")


def test_forward_and_backward_are_two_programs() -> None:
    told = rl.explain(lambda x: x.sin().exp(), rl.ones(4, requires_grad=True))
    program = NAMES[len(ONCE) :]
    assert [stage.name for stage in told.stages] == [*ONCE, *program, *program]
    assert {stage.program for stage in told.stages} == {"", "forward ", "backward "}


def test_nothing_runs_outside_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a training step is compiled, functions of the stages are called by passes of the pipeline alone."""
    active: list[str] = []
    run = PassLog.run

    def counted(self: PassLog, step: Pass, value: Any) -> Any:
        active.append(step.name)
        try:
            return run(self, step, value)
        finally:
            active.pop()

    monkeypatch.setattr(PassLog, "run", counted)
    compile_step = WALK.training_step()
    outside, ran = set(), set()

    def follow(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            stage = WALK.stage_of(frame.f_code.co_filename)
            if stage in STAGES and not active:
                outside.add(f"{stage}: {frame.f_code.co_qualname}")
            ran.update(active)

    sys.setprofile(follow)
    try:
        compile_step()
    finally:
        sys.setprofile(None)
    assert not outside
    assert ran <= set(NAMES)
    assert {"capture", "lower", "emit"} <= ran


def test_a_compilation_walks_through_the_stages() -> None:
    """From `rushlight.compile` to the native call a training step comes back to few stages that it has left."""
    rl.compile(lambda x: x + 1)(rl.ones(3))  # loads the compiler
    visited = WALK.walk(WALK.training_step())
    # "compose updates" comes before the graph passes, which have less to look at then, and is of lowering
    order = ["capture", "lowering", "graph", "schedule", "plan", "codegen", "linking", "build", "run"]
    assert [stage for stage in dict.fromkeys(visited) if stage in order] == order
    # two of the returns: the row of an optimizer is composed once, before it is recorded for all parameters
    assert len(WALK.returns(visited)) <= 7, " > ".join(visited)


def test_verification_runs_after_every_pass() -> None:
    seen: list[int] = []

    def verify(value: int) -> None:
        seen.append(value)
        if value > 1:
            raise InternalError("too large")

    step = Pass("increase", lambda value: value + 1, verify)
    with verifying():
        assert PassLog().run(step, 0) == 1
        with pytest.raises(InternalError, match="too large"):
            PassLog().run(step, 1)
    with verifying(False):
        assert PassLog().run(step, 1) == 2
    assert seen == [1, 2]


def test_every_pass_can_be_logged(capsys: pytest.CaptureFixture[str]) -> None:
    set_logs("passes")
    try:
        rl.compile(lambda x: x.sin() * 3, options={"use_cache": False})(rl.ones(3))
    finally:
        set_logs()
    printed = capsys.readouterr().err
    for name in NAMES:
        assert f"after {name}\n" in printed or name == "link", name

"""Which stages of the compiler a call visits, in order: run as a script, it prints the walk of a training step.

A stage is a floor of the compiler (capture, graph, lowering, schedule, ...) or one of the modules of compiler/
beside the pipeline, which drives them. A visit is a call of a function of the stage by the driver or another
module of compiler/, or by a lower floor, which would be a hidden edge upwards. That a stage uses functions of the
floors below it is what floors are for, and no step of the walk; nor is reading what the stages hand on and
settings (`DATA`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import rushlight as rl
from rushlight import nn

PACKAGE = Path(rl.__file__).parent
# in the order in which data flows, which is that of the floors
FLOORS = ("graph", "capture", "lowering", "schedule", "plan", "codegen", "runtime")
DATA = (
    "graph/ir.py",
    "graph/subgraph.py",
    "codegen/llvm/struct.py",
    "capture/references.py",
    "runtime/target.py",
    "runtime/redzones.py",
    "runtime/profile.py",
)
DRIVER = ("pipeline", "__init__")


def stage_of(file: str) -> str | None:
    """The stage that a source file belongs to; None if it is none of the compiler's."""
    if not file.startswith(str(PACKAGE)):
        return None
    path = Path(file).relative_to(PACKAGE)
    if path.as_posix() in DATA:
        return None
    if path.parts[0] == "compiler":
        return None if path.stem in DRIVER else path.stem
    return path.parts[0] if path.parts[0] in FLOORS else None


def walk(run: Callable[[], Any]) -> list[str]:
    """The stages that `run` visits, in order, without repetitions of the one that is there."""
    visited: list[str] = []

    def follow(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or _is_method(frame):
            return
        stage = stage_of(frame.f_code.co_filename)
        if stage is not None and _enters(_caller(frame), stage) and (not visited or visited[-1] != stage):
            visited.append(stage)

    sys.setprofile(follow)
    try:
        run()
    finally:
        sys.setprofile(None)
    return visited


def _is_method(frame: FrameType) -> bool:
    """Methods belong to the data that the stages hand on; comprehensions to the function around them."""
    code = frame.f_code
    return code.co_name.startswith("<") or "." in code.co_qualname.rpartition("<locals>.")[2]


def _caller(frame: FrameType) -> str | None:
    """The stage that a call comes from; None for the program's own code, which `compile` was called by."""
    above = frame.f_back
    while above is not None:
        stage = stage_of(above.f_code.co_filename)
        if stage is not None:
            return stage
        above = above.f_back
    return None


def _enters(caller: str | None, stage: str) -> bool:
    if caller == stage:
        return False
    if caller in FLOORS:
        return stage not in FLOORS or FLOORS.index(stage) > FLOORS.index(caller)
    return True


def returns(visited: list[str]) -> list[str]:
    """Stages that a walk enters after it has left them."""
    seen: set[str] = set()
    again = []
    for stage in visited:
        if stage in seen:
            again.append(stage)
        seen.add(stage)
    return again


def training_step_and_arguments() -> tuple[Callable[..., Any], tuple[rl.Tensor, ...]]:
    rl.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
    optimizer = rl.optim.AdamW(model.parameters(), lr=1e-2)

    def step(x: rl.Tensor, target: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (rl.randn(5, 8), rl.tensor([0, 1, 2, 3, 0]))


def training_step() -> Callable[[], Any]:
    """The first call of a compiled training step, from `rushlight.compile` to the native call."""
    step, arguments = training_step_and_arguments()
    return lambda: rl.compile(step, fullgraph=True, options={"use_cache": False})(*arguments)


if __name__ == "__main__":
    rl.compile(lambda x: x + 1)(rl.ones(3))  # loads the compiler
    steps = walk(training_step())
    print(" > ".join(steps))
    print(f"returns: {len(returns(steps))}")

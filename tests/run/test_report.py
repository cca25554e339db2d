"""`--report` counts a call as compiled if it ran compiled code, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.logs import logger
from rushlight.programs import automatic
from rushlight.programs.report import TOPICS, Report

AFTER = 4  # calls beyond the first ones, which are eager


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.layer(x).tanh()


class Looks(Plain):
    """Looks at a value: there is no graph of it."""

    def forward(self, x: Any) -> Any:
        y = super().forward(x)
        return y if y.sum() > 0 else -y


class Keeps(Plain):
    """Keeps what no graph can: it is tried several times."""

    kept: Any = None

    def forward(self, x: Any) -> Any:
        self.kept = object()
        return super().forward(x)


@pytest.fixture
def report() -> Iterator[Report]:
    found = Report()
    automatic.enable(found)
    yield found
    automatic.disable()
    for topic in TOPICS:
        logger(topic).removeHandler(found)
        logger(topic).propagate = True


@pytest.mark.parametrize("kind", [Looks, Keeps])
def test_calls_that_have_no_graph_are_eager(report: Report, kind: type[Plain]) -> None:
    model = kind()
    for _ in range(automatic.WARM + AFTER):
        model(rl.ones(2, 3))
    timing = report.timings[f"{kind.__name__}.forward"]
    assert timing.calls == automatic.WARM + AFTER
    assert not timing.compiled
    tried = 3 if kind is Keeps else 1  # captures, whose time is that of compilations
    assert len(timing.eager) == timing.calls - 1 - tried
    assert report.seconds > 0


def test_calls_that_have_one_are_compiled(report: Report) -> None:
    model = Plain()
    for _ in range(automatic.WARM + AFTER):
        model(rl.ones(2, 3))
    timing = report.timings["Plain.forward"]
    # the first of the calls beyond is met for the first time, and the second compiled
    assert (len(timing.eager), len(timing.compiled)) == (automatic.WARM, AFTER - 2)

"""Parts of a tensor that is only rearranged are written where they end up: results, and how many kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.loops.plans import LoopPlan

Program = Callable[..., Any]


def _parts() -> list[Any]:
    return [rl.arange(2 * 3 * 8 * 10, dtype=rl.float32).reshape(2, 3, 8, 10) + 1000 * n for n in range(3)]


def _both(x: Any, more: Program) -> tuple[Any, Any]:
    return x.permute(3, 1, 2, 0).contiguous(), more(x)


REARRANGED: dict[str, Program] = {
    "permuted": lambda *parts: rl.stack(parts).permute(1, 3, 0, 2, 4).contiguous(),
    "heads": lambda *parts: rl.stack(parts).permute(1, 3, 0, 2, 4).reshape(16, 90),
    "cat, transposed": lambda *parts: rl.cat(parts, 2).transpose(1, 3).contiguous(),
    "one part transposed": lambda a, b, c: (
        rl.cat([a, b.mT.reshape(2, 3, 8, 10), c]).permute(3, 0, 1, 2).contiguous()
    ),
    "a single dimension": lambda *parts: rl.cat(parts, 1).unsqueeze(0).permute(4, 0, 3, 2, 1).contiguous(),
    "unequal parts": lambda a, b, c: rl.cat([a[:, :1], b, c[:, 1:]], 1).permute(2, 0, 3, 1).contiguous(),
}
# The copy reads some elements only, or some twice, or it is not the only reader.
OTHERWISE: dict[str, Program] = {
    "sliced": lambda *parts: rl.stack(parts)[:, :, 1:].permute(1, 3, 0, 2, 4).contiguous(),
    "expanded": lambda *parts: (
        rl.cat(parts)[:, None].expand(6, 2, 3, 8, 10).permute(1, 0, 4, 3, 2).contiguous()
    ),
    "flipped": lambda *parts: rl.cat(parts).flip(0).transpose(0, 3).contiguous(),
    "read twice": lambda *parts: _both(rl.cat(parts), lambda x: x.sum(0)),
    "returned": lambda *parts: _both(rl.cat(parts), lambda x: x),
}


@pytest.mark.parametrize("name", [*REARRANGED, *OTHERWISE])
def test_values(name: str) -> None:
    program = REARRANGED.get(name) or OTHERWISE[name]
    parts = _parts()
    found, expected = rl.compile(program, fullgraph=True)(*parts), program(*parts)
    for ours, eager in zip(
        found if isinstance(found, tuple) else [found],
        expected if isinstance(expected, tuple) else [expected],
        strict=True,
    ):
        assert ours.shape == eager.shape and ours.stride() == eager.stride()
        assert rl.equal(ours, eager)


@pytest.mark.parametrize("name", [*REARRANGED, *OTHERWISE])
def test_which_copies_are_left_out(name: str) -> None:
    run = rl.compile(REARRANGED.get(name) or OTHERWISE[name], fullgraph=True)
    run(*_parts())
    ((entry,),) = run.specializations.values()
    steps = entry.artifact.schedule.steps
    parts = [step for step in steps if isinstance(step, LoopPlan) and step.part]
    assert len(parts) == 3
    assert (len(steps) == 3) == (name in REARRANGED)

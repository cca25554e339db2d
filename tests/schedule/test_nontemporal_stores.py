"""Results of epilogues that go past the caches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight
import rushlight.nn.functional as F
from rushlight.loops.kernels import Product
from rushlight.schedule import nontemporal_stores


def gradients(x: Any, weight: Any, last: Any) -> Any:
    """The slopes of gelu are kept from the forward half to the backward one."""
    leaves = [t.detach().requires_grad_() for t in (x, weight, last)]
    y = F.gelu(leaves[0] @ leaves[1]) @ leaves[2]
    return rushlight.autograd.grad(y.softmax(-1).square().sum(), leaves)


def ran(rows: int, columns: int) -> list[Product]:
    """Products with streamed results; the gradients are compared with the eager ones."""
    numbers = np.random.default_rng(0)
    given = [
        rushlight.tensor(numbers.uniform(-1, 1, shape).astype(np.float32))
        for shape in ((rows, 24), (24, columns), (columns, 16))
    ]
    run = rushlight.compile(gradients, fullgraph=True)
    for result, wanted in zip(run(*given), gradients(*given), strict=True):
        np.testing.assert_allclose(result.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
    ((entry,),) = run.specializations.values()
    return [step for step in entry.artifact.schedule.steps if isinstance(step, Product) and step.nontemporal]


@pytest.mark.parametrize("rows", [64, 101])
@pytest.mark.parametrize("columns", [64, 96, 67])  # those of 67 do not begin where vectors of memory do
def test_slopes(rows: int, columns: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path))
    assert not ran(rows, columns)
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path / "other"))
    monkeypatch.setattr(nontemporal_stores, "LONG_WAIT", 1)
    monkeypatch.setattr(nontemporal_stores, "LARGE_RESULT", 1)
    assert len(ran(rows, columns)) == 1

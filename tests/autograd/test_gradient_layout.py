"""A gradient lies in memory as its leaf does, whatever the operators that made it left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import rushlight as rl

LEAVES: dict[str, Callable[[Any], Any]] = {
    "in order": lambda k: (k.arange(24.0) / 24).reshape(4, 6),
    "transposed": lambda k: (k.arange(24.0) / 24).reshape(6, 4).t(),
    "with gaps": lambda k: (k.arange(48.0) / 24).reshape(4, 12)[:, ::2],
    "transposed with gaps": lambda k: (k.arange(48.0) / 24).reshape(12, 4)[::2].t(),
    "expanded": lambda k: (k.arange(6.0) / 24).expand(4, 6),
    "one row": lambda k: (k.arange(6.0) / 24).reshape(6, 1).t(),
}
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "unfold": lambda x: x.unfold(0, min(2, x.shape[0]), 1).sigmoid(),
    "product": lambda x: x * 2,
    "transpose": lambda x: (x.t() @ x).sin(),
    "several": lambda x: x.sum() + x.flatten().cos().sum() + x.t().contiguous().exp().sum(),
    "view": lambda x: x[:, 1:],
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("make", LEAVES.values(), ids=LEAVES)
def test_as_in_pytorch(make: Callable[[Any], Any], program: Callable[[Any], Any]) -> None:
    leaves = []
    for library, run in ((torch, program), (rl, program), (rl, rl.compile(program, fullgraph=True))):
        leaf = make(library).detach().requires_grad_()
        run(leaf).sum().backward()
        leaves.append(leaf)
    theirs, *ours = [
        [s for s, n in zip(leaf.grad.stride(), leaf.shape, strict=True) if n > 1] for leaf in leaves
    ]
    assert ours == [theirs, theirs]
    for leaf in leaves[1:]:
        np.testing.assert_allclose(leaf.grad.numpy(), leaves[0].grad.numpy(), rtol=1e-5, atol=1e-5)

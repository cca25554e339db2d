"""Libraries of others find Rushlight under the name torch; `pip install 'rushlight[programs]'` has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .running import run, write

EINOPS = """
import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from torch import nn

x = torch.arange(24.0).reshape(2, 3, 4)
print(tuple(rearrange(x, "b h w -> b (h w)").shape), reduce(x, "b (h k) w -> b w", "mean", h=3)[0].tolist())
print(tuple(repeat(x, "b h w -> b h w c", c=2).shape), einsum(x, x, "b h w, b k w -> b h k").sum().item())
packed, shapes = pack([x, x[:, 0]], "b * w")
print(tuple(packed.shape), [tuple(part.shape) for part in unpack(packed, shapes, "b * w")])
mix = EinMix("b (c d) -> b c e", weight_shape="d e", bias_shape="e", c=4, d=2, e=3)
model = nn.Sequential(Rearrange("b h w -> b (h w)"), nn.Linear(12, 8), mix, Reduce("b c e -> b e", "max"))
for _ in range(8):
    model(x).square().sum().backward()
print(tuple(model(x).shape))
"""


def test_einops(tmp_path: Path) -> None:
    pytest.importorskip("einops", reason="a library of the extra `programs`")
    done = run("--report", write(tmp_path, "program.py", EINOPS))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "(2, 12) [4.0, 5.0, 6.0, 7.0]",
        "(2, 3, 4, 2) 12204.0",
        "(2, 4, 4) [(2, 3, 4), (2, 4)]",
        "(2, 3)",
    ]
    assert "Sequential.forward\n    first call" in done.stderr

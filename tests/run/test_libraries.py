"""Libraries of others find Rushlight under the name torch; `pip install 'rushlight[programs]'` has them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .running import python, run, write

DRIVERS = Path(__file__).parent / "libraries"
SLOW = pytest.mark.slow
# drivers, and what has to be installed for them; benchmarks/programs.py times them
EQUAL = [
    ("einops_layers", "einops"),
    ("safetensors_files", "safetensors"),
    *(
        pytest.param(name, library, marks=SLOW)
        for name, library in (
            ("accelerate_training", "accelerate"),
            ("botorch_acquisition", "botorch"),
            ("captum_attributions", "captum"),
            ("denoising_diffusion", "denoising_diffusion_pytorch"),
            ("e3nn_network", "e3nn"),
            ("ema_of_model", "ema_pytorch"),
            ("geometric_gcn", "torch_geometric"),
            ("gpytorch_regression", "gpytorch"),
            ("higher_maml", "higher"),
            ("kornia_images", "kornia"),
            ("lightning_fabric", "lightning"),
            ("linear_attention_lm", "linear_attention_transformer"),
            ("linear_operators", "linear_operator"),
            ("opacus_private", "opacus"),
            ("peft_lora", "peft"),
            ("pyro_inference", "pyro"),
            ("pytorch_optimizer_steps", "pytorch_optimizer"),
            ("skorch_classifier", "skorch"),
            ("timm_models", "timm"),
            ("torchdiffeq_ode", "torchdiffeq"),
            ("torchmetrics_metrics", "torchmetrics"),
            ("vit_pytorch_models", "vit_pytorch"),
            ("x_transformers_decoder", "x_transformers"),
        )
    ),
]

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


def values(done: subprocess.CompletedProcess[str]) -> Any:
    """What the steps of a driver gave."""
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("@@ "))
    return json.loads(line.removeprefix("@@ "))["values"]


@pytest.mark.parametrize(("name", "library"), EQUAL)
def test_a_library_gives_what_it_gives_under_torch(name: str, library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    wanted, found = values(python(DRIVERS / f"{name}.py")), values(run(DRIVERS / f"{name}.py"))
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-5 * max(map(abs, theirs)))

"""What the drivers of libraries share: each builds something typical and gives the function that does a step.

    python NAME.py                     # under PyTorch: values of the first steps, then rates on demand
    rushlight run NAME.py

Weights and inputs come from NumPy by name, so that both have the same. Values of the first steps are printed as
JSON; then each line on standard input is a number of seconds, for which steps are run and their rate printed.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

CHECKED = 12  # steps whose values are printed; under `rushlight run` the last ones are compiled
WARM = 30  # steps before any is timed
MARK = "@@ "  # in front of the lines that are for the one who started the driver

warnings.simplefilter("ignore")


def numbers(name: str, *shape: int) -> torch.Tensor:
    """Normal numbers that depend on `name` only."""
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    return torch.from_numpy(np.asarray(draw.standard_normal(shape), np.float32))


def integers(name: str, high: int, *shape: int) -> torch.Tensor:
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    return torch.from_numpy(draw.integers(0, high, shape))


def same_weights(*modules: Any, scale: float = 1.0) -> None:
    """Give parameters that a module has drawn numbers that depend on their names only."""
    for module in modules:
        with torch.no_grad():
            for name, tensor in module.named_parameters():
                if tensor.numel() != 1 and bool((tensor == tensor.flatten()[:1]).all()):
                    continue  # constants stay as they are; of a single number nobody knows
                fan = tensor[0].numel() if tensor.dim() > 1 else tensor.numel()
                tensor.copy_(numbers(name, *tensor.shape) * (scale / fan**0.5))


def flat(value: Any) -> list[float]:
    """The numbers in what a step gives: of a large tensor, its sum, its norm and its first ones."""
    if isinstance(value, torch.Tensor):
        value = value.detach().to(torch.float64).flatten()
        if value.numel() > 64:
            return [value.sum().item(), value.norm().item(), *value[:32].tolist()]
        return value.tolist()
    if isinstance(value, bool | int | float | np.number):
        return [float(value)]
    if isinstance(value, np.ndarray):
        return flat(torch.from_numpy(value))
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, Iterable):
        return [number for part in value for number in flat(part)]
    raise TypeError(f"a step gives numbers, not {type(value).__name__}")


def training(
    model: Any, loss: Callable[[], Any], lr: float = 1e-3, optimizer: Any = None
) -> Callable[[], list[float]]:
    """A step of training, as most programs have it."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=lr)

    def step() -> list[float]:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return [value.item()]

    return step


def tell(**what: Any) -> None:
    print(MARK + json.dumps(what), flush=True)


def serve(step: Callable[[], Any]) -> None:
    """Print what the first steps give, then the rate whenever a time to run for is read."""
    tell(values=[flat(step()) for _ in range(CHECKED)])
    warm = False
    for line in sys.stdin:
        for _ in range(0 if warm else WARM - CHECKED):
            step()
        warm = True
        tell(rate=rate(step, float(line)))


def rate(step: Callable[[], Any], seconds: float) -> float:
    """Steps per second, over about that many seconds."""
    steps, began = 0, time.perf_counter()
    while True:
        step()
        steps += 1
        elapsed = time.perf_counter() - began
        if elapsed >= seconds:
            return steps / elapsed


def declare_vision() -> None:
    """Have torchvision imported where its operators cannot be loaded: a PyTorch without CUDA, whose wheel on PyPI
    needs it. Rushlight needs no help."""
    if "rushlight" in torch.__version__:
        return
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou) -> Tensor")

"""PyTorch as an oracle that is asked hundreds of thousands of times in one process."""

from __future__ import annotations

from typing import Any

import torch


def seed_the_cpu_alone() -> None:
    """Let torch.manual_seed do nothing for devices that are not there: for each of three kinds it would keep
    the seed for later, and the text of the whole stack with it, which takes longer than most samples."""
    for device in (torch.cuda, torch.xpu, torch.mtia):
        if not device.is_available():
            device.manual_seed_all = _nothing


def know_no_test(*makers: Any) -> None:
    """Let torch's modules that make samples not look in every frame for the unittest that they are made for, by
    whose name they would be seeded: here is none."""
    for module in makers:
        module.extract_test_fn = lambda: None


def _nothing(seed: int) -> None:
    pass
